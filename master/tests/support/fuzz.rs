//! An attack on a master: many connections that send random bytes, valid streams, and valid streams
//! with faults in them, and read or do not read what comes back.
//!
//! What is sent depends on the seed alone; when it arrives does not.

use std::net::SocketAddr;
use std::time::Duration;

use pccl_core::messages::ToMaster;
use pccl_core::wire::{Preamble, encode_control};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::messages;

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

/// Attacks the master, and says with which seed before it begins.
pub(crate) async fn attack(master: SocketAddr, attack: Attack) -> Tally {
    attack_with(stream, master, attack).await
}

/// The same with other bytes, on whoever listens there.
pub(crate) async fn attack_with(stream: Stream, victim: SocketAddr, attack: Attack) -> Tally {
    println!("{attack:?}");
    let end = Instant::now() + attack.lasting;
    let mut attackers = JoinSet::new();
    for number in 0..attack.connections {
        let random = StdRng::seed_from_u64(attack.seed.wrapping_mul(1 << 16) + number);
        attackers.spawn(attacker(stream, victim, random, end));
    }
    let mut tally = Tally::default();
    while let Some(done) = attackers.join_next().await {
        tally.add(done.expect("an attacker does not panic"));
    }
    tally
}

/// One connection after another.
async fn attacker(stream: Stream, victim: SocketAddr, mut random: StdRng, end: Instant) -> Tally {
    let mut tally = Tally::default();
    while Instant::now() < end {
        let bytes = stream(&mut random);
        let pieces = random.random_range(1..6);
        let reads = random.random_bool(0.7);
        let lingers = random.random_bool(0.3);
        match TcpStream::connect(victim).await {
            Ok(connection) => {
                tally.opened += 1;
                tally.add(assault(connection, &bytes, pieces, reads).await);
            }
            // Out of ports or descriptors; the other attackers will free some.
            Err(_) => sleep(PATIENCE).await,
        }
        if lingers {
            sleep(PATIENCE).await;
        }
    }
    tally
}

async fn assault(mut victim: TcpStream, bytes: &[u8], pieces: usize, reads: bool) -> Tally {
    let mut tally = Tally::default();
    let mut answer = [0; 4096];
    for piece in bytes.chunks(bytes.len().div_ceil(pieces).max(1)) {
        match timeout(PATIENCE, victim.write_all(piece)).await {
            Ok(Ok(())) => tally.sent += piece.len() as u64,
            Ok(Err(_)) => tally.ended = 1,
            Err(_) => {}
        }
        if reads {
            match timeout(PATIENCE / 10, victim.read(&mut answer)).await {
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
    [&claim.to_le_bytes()[..], &noise(random, 4096)].concat()
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
