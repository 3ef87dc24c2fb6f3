//! The connections of a rank for the floor: one to every other rank, and one from each, so that either
//! direction can block by itself.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use rustix::event::{PollFd, PollFlags, poll};
use socket2::SockRef;

/// The connection to the next rank, and the one from the previous.
pub(crate) const NEIGHBOUR: usize = 0;

/// Connections to the others, the next rank first, and from them, the previous first. Sending never
/// blocks.
#[derive(Debug)]
pub(crate) struct Edges {
    to: Vec<TcpStream>,
    from: Vec<TcpStream>,
    receives_block: bool,
}

impl Edges {
    /// Connects to all other ranks and accepts them, who do the same; `addresses` are those of all ranks.
    /// Blocks until all are there.
    pub(crate) fn join(
        listener: &TcpListener,
        rank: usize,
        addresses: &[SocketAddr],
        congestion: Option<&str>,
    ) -> io::Result<Self> {
        let others = addresses.len() - 1;
        let mut to = Vec::new();
        for address in addresses.iter().cycle().skip(rank + 1).take(others) {
            let mut stream = TcpStream::connect(address)?;
            stream.write_all(&(rank as u64).to_le_bytes())?;
            to.push(stream);
        }
        let from = accept(listener, rank, addresses.len())?;
        for stream in to.iter().chain(&from) {
            stream.set_nodelay(true)?;
            if let Some(congestion) = congestion {
                set_congestion(stream, congestion)?;
            }
            stream.set_nonblocking(true)?;
        }
        Ok(Self {
            to,
            from,
            receives_block: false,
        })
    }

    /// Shall [`receive`](Self::receive) wait until something is there?
    pub(crate) fn block_receives(&mut self, block: bool) -> io::Result<()> {
        if self.receives_block != block {
            for stream in &self.from {
                stream.set_nonblocking(!block)?;
            }
            self.receives_block = block;
        }
        Ok(())
    }

    /// Sends as much as fits; `None`: nothing does.
    pub(crate) fn send(&mut self, at: usize, bytes: &[u8]) -> io::Result<Option<usize>> {
        moved(self.to[at].write(bytes))
    }

    /// Receives what is there; `None`: nothing is. `into` is not empty.
    pub(crate) fn receive(&mut self, at: usize, into: &mut [u8]) -> io::Result<Option<usize>> {
        match moved(self.from[at].read(into))? {
            Some(0) => Err(ErrorKind::UnexpectedEof.into()),
            other => Ok(other),
        }
    }

    /// Blocks until one of the directions to the neighbours that are asked for can move. Can anything be
    /// received?
    pub(crate) fn wait(&self, to_send: bool, to_receive: bool) -> io::Result<bool> {
        let mut fds = [
            PollFd::new(&self.from[NEIGHBOUR], when(to_receive, PollFlags::IN)),
            PollFd::new(&self.to[NEIGHBOUR], when(to_send, PollFlags::OUT)),
        ];
        poll(&mut fds, None)?;
        Ok(to_receive && !fds[0].revents().is_empty())
    }

    /// Blocks until one of the directions that are asked for can move; those that can be received from.
    pub(crate) fn wait_for_any(
        &self,
        to_send: impl Fn(usize) -> bool,
        to_receive: impl Fn(usize) -> bool,
    ) -> io::Result<Vec<usize>> {
        let from = self.from.iter().enumerate();
        let from =
            from.map(|(at, stream)| PollFd::new(stream, when(to_receive(at), PollFlags::IN)));
        let to = self.to.iter().enumerate();
        let to = to.map(|(at, stream)| PollFd::new(stream, when(to_send(at), PollFlags::OUT)));
        let mut fds: Vec<PollFd<'_>> = from.chain(to).collect();
        poll(&mut fds, None)?;
        let from = fds.iter().take(self.from.len()).enumerate();
        let ready = from.filter(|(at, fd)| to_receive(*at) && !fd.revents().is_empty());
        Ok(ready.map(|(at, _)| at).collect())
    }
}

/// Accepts all other ranks, each of which says who it is; the previous rank comes first.
fn accept(listener: &TcpListener, rank: usize, peers: usize) -> io::Result<Vec<TcpStream>> {
    let mut by_distance = BTreeMap::new();
    for _ in 1..peers {
        let (mut stream, _) = listener.accept()?;
        let mut who = [0; 8];
        stream.read_exact(&mut who)?;
        let who = u64::from_le_bytes(who) as usize;
        let is_other = who < peers && who != rank;
        if !is_other || by_distance.contains_key(&((rank + peers - who) % peers)) {
            return Err(ErrorKind::InvalidData.into());
        }
        by_distance.insert((rank + peers - who) % peers, stream);
    }
    Ok(by_distance.into_values().collect())
}

fn when(wanted: bool, flags: PollFlags) -> PollFlags {
    if wanted { flags } else { PollFlags::empty() }
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
