//! An attack on a master: many connections that send random bytes, valid streams, and valid streams
//! with faults in them, and read or do not read what comes back.
//!
//! What is sent depends on the seed alone; when it arrives does not.
//!
//! A victim that encrypts is attacked before its handshakes, with bytes on its bare port, and after them: by
//! strangers who have a key, as everybody may, and no invitation.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pccl_core::id::Identity;
use pccl_core::messages::ToMaster;
use pccl_core::transport::{Endpoint, Lane, Transport, recv_some, send_all};
use pccl_core::wire::{Preamble, encode_control};
use pccl_transport_tcp::Tcp;
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::messages::{self, announcing};

/// How long one connection waits for its victim in one direction before it goes on.
const PATIENCE: Duration = Duration::from_millis(50);

/// What to send, how much of it, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attack {
    /// Where the bytes come from.
    pub(crate) seed: u64,
    /// How many connections at once.
    pub(crate) connections: u64,
    /// How long to go on.
    pub(crate) lasting: Duration,
}

/// What the attack did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Connections that were opened.
    pub(crate) opened: u64,
    /// Connections that the victim ended or did not accept.
    pub(crate) ended: u64,
    /// Bytes that the victim's machine took.
    pub(crate) sent: u64,
    /// Bytes that came back.
    pub(crate) received: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.opened += other.opened;
        self.ended += other.ended;
        self.sent += other.sent;
        self.received += other.received;
    }
}

/// What a connection sends, drawn from the seed.
pub(crate) type Stream = fn(&mut StdRng) -> Vec<u8>;

/// Whom to attack, and over what.
#[derive(Clone)]
pub(crate) struct Victim {
    pub(crate) at: SocketAddr,
    pub(crate) bare: Bare,
    /// What leads behind the handshake, and who has to be there.
    pub(crate) behind: Option<(Stranger, Identity)>,
}

/// Makes the transport of one stranger.
pub(crate) type Stranger = fn() -> Arc<dyn Transport>;

/// What carries bytes to the bare port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bare {
    Tcp,
    #[allow(dead_code, reason = "not every user of this file attacks QUIC")]
    Udp,
}

impl From<SocketAddr> for Victim {
    /// One that is plain.
    fn from(at: SocketAddr) -> Self {
        Self {
            at,
            bare: Bare::Tcp,
            behind: None,
        }
    }
}

/// Attacks the master, and says with which seed before it begins.
pub(crate) async fn attack(master: impl Into<Victim>, attack: Attack) -> Tally {
    attack_with(stream, master.into(), attack).await
}

/// The same with other bytes, on whoever listens there.
pub(crate) async fn attack_with(stream: Stream, victim: Victim, attack: Attack) -> Tally {
    println!("{attack:?}");
    let end = Instant::now() + attack.lasting;
    let mut attackers = JoinSet::new();
    for number in 0..attack.connections {
        let random = StdRng::seed_from_u64(attack.seed.wrapping_mul(1 << 16) + number);
        attackers.spawn(attacker(stream, victim.clone(), random, end));
    }
    let mut tally = Tally::default();
    while let Some(done) = attackers.join_next().await {
        tally.add(done.expect("an attacker does not panic"));
    }
    tally
}

/// One connection after another.
async fn attacker(stream: Stream, victim: Victim, mut random: StdRng, end: Instant) -> Tally {
    let mut tally = Tally::default();
    let behind = victim.behind.map(|(make, expect)| (make(), expect));
    while Instant::now() < end {
        let bytes = stream(&mut random);
        let pieces = random.random_range(1..6);
        let reads = random.random_bool(0.7);
        let lingers = random.random_bool(0.3);
        let behind = behind.as_ref().filter(|_| random.random());
        if behind.is_none() && victim.bare == Bare::Udp {
            tally.add(datagrams(victim.at, &bytes).await);
        } else {
            match open(victim.at, behind).await {
                Some(lane) => {
                    tally.opened += 1;
                    tally.add(assault(lane, &bytes, pieces, reads).await);
                }
                // Out of ports or descriptors; the other attackers will free some.
                None => sleep(PATIENCE).await,
            }
        }
        if lingers {
            sleep(PATIENCE).await;
        }
    }
    tally
}

/// A lane behind the handshake, or one to the bare port. `None`: the victim does not take it now.
async fn open(at: SocketAddr, behind: Option<&(Arc<dyn Transport>, Identity)>) -> Option<Lane> {
    let to = Endpoint::Address(at);
    match behind {
        Some((transport, expect)) => transport.open(&to, Some(*expect)).await.ok(),
        None => Tcp::plain().open(&to, None).await.ok(),
    }
}

/// Datagrams that are no handshake, or not more than the beginning of one.
async fn datagrams(to: SocketAddr, bytes: &[u8]) -> Tally {
    let mut tally = Tally::default();
    let Ok(socket) = UdpSocket::bind((to.ip(), 0)).await else {
        return tally;
    };
    for piece in bytes.chunks(1300) {
        // The first byte and the version of a first packet of QUIC, padded as that has to be.
        let initial = [&[0xc3, 0, 0, 0, 1], piece].concat();
        let padded = [&initial[..], &[0; 1200]].concat();
        for datagram in [piece, &initial, &padded] {
            match socket.send_to(datagram, to).await {
                Ok(sent) => tally.sent += sent as u64,
                Err(_) => tally.ended = 1,
            }
        }
    }
    tally
}

async fn assault(mut victim: Lane, bytes: &[u8], pieces: usize, reads: bool) -> Tally {
    let mut tally = Tally::default();
    let mut answer = [0; 4096];
    for piece in bytes.chunks(bytes.len().div_ceil(pieces).max(1)) {
        match timeout(PATIENCE, send_all(&mut *victim.tx, piece, &[])).await {
            Ok(Ok(())) => tally.sent += piece.len() as u64,
            Ok(Err(_)) => tally.ended = 1,
            Err(_) => {}
        }
        if reads {
            match timeout(PATIENCE / 10, recv_some(&mut *victim.rx, &mut answer)).await {
                Ok(Ok(0) | Err(_)) => tally.ended = 1,
                Ok(Ok(n)) => tally.received += n as u64,
                Err(_) => {}
            }
        }
    }
    tally
}

/// What one connection sends.
fn stream(random: &mut StdRng) -> Vec<u8> {
    match random.random_range(0..8) {
        0 => noise(random, 4096),
        1 => [&Preamble::CONTROL.encode()[..], &noise(random, 4096)].concat(),
        2 => [introduction(random), noise(random, 64 * 1024)].concat(),
        3 => [introduction(random), oversized(random)].concat(),
        4 => [introduction(random), conversation(random)].concat(),
        _ => {
            let mut bytes = [introduction(random), conversation(random)].concat();
            spoil(random, &mut bytes);
            bytes
        }
    }
}

pub(crate) fn noise(random: &mut StdRng, most: usize) -> Vec<u8> {
    let mut bytes = vec![0; random.random_range(0..most)];
    random.fill_bytes(&mut bytes);
    bytes
}

/// Preamble and hello.
fn introduction(random: &mut StdRng) -> Vec<u8> {
    let mut bytes = Preamble::CONTROL.encode().to_vec();
    append(&ToMaster::Hello(messages::hello(random)), &mut bytes);
    bytes
}

fn conversation(random: &mut StdRng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.random_range(0..30) {
        append(&messages::message(random), &mut bytes);
    }
    bytes
}

fn append(message: &ToMaster, bytes: &mut Vec<u8>) {
    encode_control(message, bytes).expect("a message of legal length");
}

/// A frame that claims to be long, and is not.
fn oversized(random: &mut StdRng) -> Vec<u8> {
    let claim: u32 = random.random();
    announcing(claim, &noise(random, 4096))
}

/// Puts up to eight faults into a stream.
pub(crate) fn spoil(random: &mut StdRng, bytes: &mut Vec<u8>) {
    for _ in 0..random.random_range(1..9) {
        if bytes.is_empty() {
            return;
        }
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..5) {
            0 => bytes[at] ^= 1 << random.random_range(0..8),
            1 => bytes[at] = random.random(),
            2 => bytes.truncate(at),
            3 => bytes.insert(at, random.random()),
            _ => {
                let copy = bytes[at..].to_vec();
                bytes.extend(copy);
            }
        }
    }
}
