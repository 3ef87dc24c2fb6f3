//! Datagrams from one host to another: how long they take, how many get there, how many a second. They are
//! handed to the kernel many at a time, so that it is the wire that is measured.

use std::io::{self, ErrorKind, IoSliceMut};
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use rustix::process::setpriority_process;

use super::NoCheck;
use crate::wan::namespaces::Namespaces;
use crate::wan::plan::Plan;
use crate::wan::units::Rate;

/// What became of probes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delays {
    pub(super) arrived: usize,
    pub(super) median_ms: f64,
}

/// Datagrams that were sent, and that were received.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    pub(super) sent: u64,
    pub(super) arrived: u64,
    /// Bits per second of packets, of one window of time after the other.
    windows: Vec<f64>,
}

/// Probes of a delay.
const PROBES: u32 = 41;

const BETWEEN_PROBES: Duration = Duration::from_millis(3);

/// A receiver hears nothing for so long when all is over.
const SILENCE: Duration = Duration::from_millis(700);

/// Headers of IP and UDP.
const HEADERS: usize = 28;

/// A small datagram, with its headers, for a loss that does not depend on size.
const SMALL: usize = 100;

/// Small datagrams per second.
const PER_SECOND: f64 = 250_000.0;

/// Sends and receives so long to find a rate.
const RATE_SPAN: Duration = Duration::from_secs(4);

/// A rate is looked at in so much time.
const WINDOW: Duration = Duration::from_millis(200);

/// A priority that goes before those of usual threads, and after that of the wire.
const EARLY: i32 = -10;

/// Bytes that a kernel takes at once, of many datagrams.
const DATAGRAMS_BYTES: usize = 60_000;

/// What one burst of a paced sender lasts.
const TICK: Duration = Duration::from_millis(1);

/// What a receiver's socket keeps while its thread waits for a core.
const RECEIVE_BUFFER: usize = 8 << 20;

/// One socket in each of two hosts; the first one sends to the second one.
fn sockets(hosts: &Namespaces, from: usize, to: usize) -> Result<[UdpSocket; 2], NoCheck> {
    let bind = |host: usize| hosts.within(host, || UdpSocket::bind((Plan::address(host), 0)));
    let (sender, receiver) = (bind(from)??, bind(to)??);
    sender.connect(receiver.local_addr()?)?;
    receiver.set_read_timeout(Some(SILENCE))?;
    // As much as the system allows.
    socket2::SockRef::from(&receiver).set_recv_buffer_size(RECEIVE_BUFFER)?;
    Ok([sender, receiver])
}

/// The median of the times that datagrams take.
pub(super) fn delay(
    hosts: &Namespaces,
    from: usize,
    to: usize,
    loss: f64,
) -> Result<Delays, NoCheck> {
    let [sender, receiver] = sockets(hosts, from, to)?;
    let begun = Instant::now();
    let micros = || u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
    let probes = (f64::from(PROBES) / (1.0 - loss).max(0.1)) as u32;
    let delays = thread::scope(|scope| {
        let receive = scope.spawn(|| {
            let mut delays = Vec::new();
            let mut probe = [0; 8];
            while receiver.recv(&mut probe).is_ok_and(|bytes| bytes == 8) {
                delays.push(micros().saturating_sub(u64::from_be_bytes(probe)));
            }
            delays
        });
        for _ in 0..probes {
            sender.send(&micros().to_be_bytes())?;
            thread::sleep(BETWEEN_PROBES);
        }
        Ok::<_, io::Error>(receive.join().unwrap_or_default())
    });
    let mut delays = delays?;
    delays.sort_unstable();
    let median = delays.get(delays.len() / 2).copied();
    Ok(Delays {
        arrived: delays.len(),
        median_ms: median.map_or(f64::NAN, |micros| micros as f64 / 1000.0),
    })
}

/// Sends so many small datagrams, no faster than two thirds of the rate.
pub(super) fn loss(
    hosts: &Namespaces,
    from: usize,
    to: usize,
    packets: u64,
    rate: Option<Rate>,
) -> Result<Arrivals, NoCheck> {
    let rate = rate.map_or(f64::INFINITY, |rate| {
        rate.0 as f64 / 1.5 / 8.0 / SMALL as f64
    });
    let per_second = rate.min(PER_SECOND);
    let span = Duration::from_secs_f64(packets as f64 / per_second);
    stream(hosts, (from, to), SMALL, per_second, span)
}

/// Bits per second, where more than a rate was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    pub(super) sent: f64,
    /// In the median of so many windows: a machine that does something else for a moment delays packets, and
    /// then they come all at once.
    pub(super) arrived: f64,
    pub(super) windows: usize,
}

/// Sends more than the rate.
pub(super) fn rate(
    hosts: &Namespaces,
    from: usize,
    to: usize,
    rate: Rate,
    mtu: u16,
) -> Result<Rates, NoCheck> {
    let bytes = usize::from(mtu);
    let per_second = rate.0 as f64 * 1.2 / 8.0 / bytes as f64;
    let arrivals = stream(hosts, (from, to), bytes, per_second, RATE_SPAN)?;
    let mut windows = arrivals.windows;
    windows.sort_by(f64::total_cmp);
    let median = windows.get(windows.len() / 2).copied();
    Ok(Rates {
        sent: arrivals.sent as f64 * bytes as f64 * 8.0 / RATE_SPAN.as_secs_f64(),
        arrived: median.unwrap_or(f64::NAN),
        windows: windows.len(),
    })
}

/// Sends packets of so many bytes, so many a second, for so long.
fn stream(
    hosts: &Namespaces,
    (from, to): (usize, usize),
    bytes: usize,
    per_second: f64,
    lasting: Duration,
) -> Result<Arrivals, NoCheck> {
    let [sender, receiver] = sockets(hosts, from, to)?;
    let datagram = vec![0; bytes.saturating_sub(HEADERS)];
    let (received, sent) = thread::scope(|scope| {
        let receive = scope.spawn(|| receive(&receiver));
        let sent = send(&sender, &datagram, per_second, lasting);
        let panicked = |_| Err(io::Error::other("a receiver has panicked"));
        (receive.join().unwrap_or_else(panicked), sent)
    });
    Ok(Arrivals {
        sent: sent?,
        ..received?
    })
}

fn send(
    sender: &UdpSocket,
    datagram: &[u8],
    per_second: f64,
    lasting: Duration,
) -> io::Result<u64> {
    let state = UdpSocketState::new(sender.into())?;
    sender.set_nonblocking(false)?;
    let most = (DATAGRAMS_BYTES / datagram.len()).min(state.max_gso_segments());
    let contents = datagram.repeat(most);
    let destination = sender.peer_addr()?;
    let begun = Instant::now();
    let mut sent: u64 = 0;
    loop {
        let now = begun.elapsed();
        let until = (now.min(lasting).as_secs_f64() * per_second) as u64;
        while sent < until {
            let count = most.min(usize::try_from(until - sent).unwrap_or(most));
            let transmit = Transmit {
                destination,
                ecn: None,
                contents: &contents[..count * datagram.len()],
                segment_size: Some(datagram.len()),
                src_ip: None,
            };
            match state.try_send(sender.into(), &transmit) {
                Ok(()) => sent += count as u64,
                // The queue of the device is full; what is left comes a tick later.
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if now >= lasting {
            return Ok(sent);
        }
        thread::sleep(TICK);
    }
}

/// Counts what comes until nothing comes any more.
fn receive(receiver: &UdpSocket) -> io::Result<Arrivals> {
    let state = UdpSocketState::new(receiver.into())?;
    // What a socket drops while this thread waits for a core would look like loss.
    let _ = setpriority_process(None, EARLY);
    receiver.set_nonblocking(false)?;
    let mut arrivals = Arrivals::default();
    let mut buffer = vec![0; 1 << 16];
    let (mut begun, mut in_window) = (None, 0);
    loop {
        let mut meta = [RecvMeta::default()];
        let mut buffers = [IoSliceMut::new(&mut buffer)];
        match state.recv(receiver.into(), &mut buffers, &mut meta) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(arrivals),
            Err(error) => return Err(error),
        }
        let [RecvMeta { len, stride, .. }] = meta;
        let datagrams = len.div_ceil(stride.max(1));
        arrivals.arrived += datagrams as u64;
        let now = Instant::now();
        let since: Instant = *begun.get_or_insert(now);
        let span = now - since;
        if span >= WINDOW {
            let bits = in_window as f64 * 8.0;
            arrivals.windows.push(bits / span.as_secs_f64());
            (begun, in_window) = (Some(now), 0);
        }
        // What the first ones brought had arrived when the clock began.
        if now > since {
            in_window += len + datagrams * HEADERS;
        }
    }
}
