//! TCP connections from one host to another that send as much as they can.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use super::NoCheck;
use crate::wan::namespaces::Namespaces;
use crate::wan::plan::Plan;

/// How a connection finds its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Congestion {
    /// By loss.
    Cubic,
    /// By the rate that gets through.
    Bbr,
}

impl Congestion {
    /// As the kernel has it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
        }
    }
}

/// Connections find their rate meanwhile. On a path without loss CUBIC takes (window / 0.4)^(1/3) seconds, which
/// is twelve for a thousand packets.
const BEGINNING: Duration = Duration::from_secs(12);

/// Bytes written and read at a time.
const PIECE: usize = 256 << 10;

/// Bits of payload per second of all flows together, when their beginning is over.
pub(super) fn goodput(
    hosts: &Namespaces,
    ends: (usize, usize),
    congestion: Congestion,
    flows: usize,
    lasting: Duration,
) -> Result<f64, NoCheck> {
    let (from, to) = ends;
    let listener = hosts.within(to, || TcpListener::bind((Plan::address(to), 0)))??;
    let address = listener.local_addr()?;
    let received = AtomicU64::new(0);
    let mut streams = Vec::new();
    for _ in 0..flows {
        let sender = hosts.within(from, || connect(address, congestion))??;
        streams.push((sender, listener.accept()?.0));
    }
    thread::scope(|scope| {
        for (sender, receiver) in &streams {
            scope.spawn(|| send(sender));
            scope.spawn(|| receive(receiver, &received));
        }
        thread::sleep(BEGINNING);
        let (before, begun) = (received.load(Ordering::Relaxed), Instant::now());
        thread::sleep(lasting);
        let bytes = received.load(Ordering::Relaxed) - before;
        let span = begun.elapsed();
        for (sender, receiver) in &streams {
            // Either may have failed already, which the figure shows.
            let _ = sender.shutdown(Shutdown::Both);
            let _ = receiver.shutdown(Shutdown::Both);
        }
        Ok(bytes as f64 * 8.0 / span.as_secs_f64())
    })
}

fn connect(to: SocketAddr, congestion: Congestion) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_tcp_congestion(congestion.name().as_bytes())?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

fn send(mut to: &TcpStream) {
    let piece = vec![0; PIECE];
    while to.write_all(&piece).is_ok() {}
}

fn receive(mut from: &TcpStream, received: &AtomicU64) {
    let mut piece = vec![0; PIECE];
    while let Ok(bytes @ 1..) = from.read(&mut piece) {
        received.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
