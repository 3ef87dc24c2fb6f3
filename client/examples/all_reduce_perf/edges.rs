//! The two connections of a rank in the floor's ring: one to the next rank, one from the previous.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use rustix::event::{PollFd, PollFlags, poll};
use socket2::SockRef;

/// Non-blocking connections to both neighbours.
#[derive(Debug)]
pub(crate) struct Edges {
    to_next: TcpStream,
    from_previous: TcpStream,
}

impl Edges {
    /// Connects to the next rank and accepts the previous one, which does the same. Blocks until both
    /// are there.
    pub(crate) fn join(
        listener: &TcpListener,
        next: SocketAddr,
        congestion: Option<&str>,
    ) -> io::Result<Self> {
        let to_next = TcpStream::connect(next)?;
        let (from_previous, _) = listener.accept()?;
        for stream in [&to_next, &from_previous] {
            stream.set_nodelay(true)?;
            if let Some(congestion) = congestion {
                set_congestion(stream, congestion)?;
            }
            stream.set_nonblocking(true)?;
        }
        Ok(Self {
            to_next,
            from_previous,
        })
    }

    /// Sends as much as fits; `None`: nothing does.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        moved(self.to_next.write(bytes))
    }

    /// Receives what is there; `None`: nothing is. `into` is not empty.
    pub(crate) fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match moved(self.from_previous.read(into))? {
            Some(0) => Err(ErrorKind::UnexpectedEof.into()),
            other => Ok(other),
        }
    }

    /// Blocks until one of the directions asked for can move.
    pub(crate) fn wait(&self, to_send: bool, to_receive: bool) -> io::Result<()> {
        let when = |wanted: bool, flags| if wanted { flags } else { PollFlags::empty() };
        let mut fds = [
            PollFd::new(&self.from_previous, when(to_receive, PollFlags::IN)),
            PollFd::new(&self.to_next, when(to_send, PollFlags::OUT)),
        ];
        poll(&mut fds, None)?;
        Ok(())
    }
}

fn moved(outcome: io::Result<usize>) -> io::Result<Option<usize>> {
    match outcome {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(target_os = "linux")]
fn set_congestion(stream: &TcpStream, name: &str) -> io::Result<()> {
    SockRef::from(stream).set_tcp_congestion(name.as_bytes())
}

/// Elsewhere the lanes go without it, too.
#[cfg(not(target_os = "linux"))]
fn set_congestion(_stream: &TcpStream, _name: &str) -> io::Result<()> {
    Ok(())
}
