//! Garbage for the master and for two peers, from many connections, while the peers go on reducing.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use pccl::{Quic, Tcp};
use pccl_core::id::{Identity, PeerId, Seq, Ticket};
use pccl_core::wire::{FrameHeader, Preamble, Purpose};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::over::Over;
use crate::processes::{Member, PATIENCE, Swarm, Trouble};
use crate::roles::MasterOptions;
use crate::scripted::PeerOptions;
use crate::talk::Event;
use fuzz::{Attack, Bare, Stranger, Tally, Victim, attack, attack_with, noise, spoil};

#[path = "../../master/tests/support/fuzz.rs"]
mod fuzz;
#[path = "../../master/tests/support/messages.rs"]
mod messages;

/// Which siege.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Siege {
    /// What the run goes over, and the attackers.
    pub over: Over,
    /// Where all bytes come from.
    pub seed: u64,
    /// How long.
    pub lasting: Duration,
    /// Connections to the master at once.
    pub to_master: u64,
    /// Connections to each peer at once.
    pub to_each_peer: u64,
}

/// What a siege did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Connections that were opened to the master, and that it ended.
    pub master_connections: (u64, u64),
    /// The same for the peers.
    pub peer_connections: (u64, u64),
    /// Bytes sent in all.
    pub bytes: u64,
    /// Rounds that the first peer has done meanwhile, each with a result that was checked.
    pub rounds: u64,
    /// Calls that failed meanwhile and were made again.
    pub failures: u64,
    /// The longest time in which neither peer told of a committed round.
    pub longest_silence: Duration,
    /// Outputs of all machines that came out the same when the run was replayed.
    pub outputs_replayed: u64,
}

/// Besieges a run of two peers, then lets a third one join. Then replays what the machines heard and
/// said.
///
/// # Errors
/// What went wrong: a wrong result, a process that ended, a stall.
pub fn besiege(program: &Path, siege: Siege) -> Result<Report, Trouble> {
    println!("{siege:?}");
    let mut swarm = Swarm::recorded(program)?.over(siege.over);
    let strangers = usize::try_from(siege.to_master).ok();
    let open_gate = MasterOptions {
        strangers,
        ..MasterOptions::default()
    };
    let (_, master) = swarm.start_master(&open_gate)?;
    // Newcomers that never report their lanes hold an update up for long, so updates are rare.
    let options = PeerOptions {
        update_every: 200,
        tell_every: 20,
        ..PeerOptions::of(&master)
    };
    let mut members = swarm.join_all(&options, 2)?;
    let master = victim(siege.over, master.address, master.identity());
    let mut report = hold_out(&mut swarm, &members, master, siege)?;
    members.push(swarm.join(&options)?);
    swarm.until_all_commit(&members)?;
    report.outputs_replayed = swarm.conform()?.outputs();
    Ok(report)
}

fn hold_out(
    swarm: &mut Swarm,
    members: &[Member],
    master: Victim,
    siege: Siege,
) -> Result<Report, Trouble> {
    let of_peer = |member: &Member| victim(siege.over, member.lanes_at, member.identity);
    let peers: Vec<Victim> = members.iter().map(of_peer).collect();
    let (done, outcome) = mpsc::channel();
    thread::spawn(move || drop(done.send(storm(master, &peers, siege))));
    let mut report = Report::default();
    let mut last_commit = Instant::now();
    let mut first_round = None;
    let (masters, lanes) = loop {
        match swarm.next_within(Duration::from_millis(100))? {
            Some((_, Event::Committed(commit))) => {
                last_commit = Instant::now();
                let round = commit.rounds.values().next().copied().unwrap_or_default();
                report.rounds = round - *first_round.get_or_insert(round);
            }
            Some((_, Event::Failed { .. })) => report.failures += 1,
            Some((process, Event::GaveUp { error, .. })) => {
                return Err(Trouble::GaveUp { process, error });
            }
            Some(_) | None => {}
        }
        report.longest_silence = report.longest_silence.max(last_commit.elapsed());
        if report.longest_silence > PATIENCE {
            return Err(Trouble::Hang("a reduce under siege".into()));
        }
        match outcome.try_recv() {
            Ok(tallies) => break tallies?,
            Err(mpsc::TryRecvError::Empty) => {}
            Err(mpsc::TryRecvError::Disconnected) => {
                return Err(Trouble::Hang("the attackers, which have panicked".into()));
            }
        }
    };
    report.master_connections = (masters.opened, masters.ended);
    report.peer_connections = (lanes.opened, lanes.ended);
    report.bytes = masters.sent + lanes.sent;
    Ok(report)
}

/// Who listens there, and what strangers can speak to it.
fn victim(over: Over, at: SocketAddr, identity: Option<Identity>) -> Victim {
    let stranger: Stranger = match over {
        Over::Tcp | Over::Tls => || Arc::new(Tcp::new()),
        Over::Quic => || Arc::new(Quic::new()),
    };
    Victim {
        at,
        bare: match over {
            Over::Tcp | Over::Tls => Bare::Tcp,
            Over::Quic => Bare::Udp,
        },
        behind: identity.map(|identity| (stranger, identity)),
    }
}

/// All attacks at once: what happened to the master, and to the peers.
fn storm(master: Victim, peers: &[Victim], siege: Siege) -> Result<(Tally, Tally), Trouble> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let attack_of = |seed, connections| Attack {
        seed,
        connections,
        lasting: siege.lasting,
    };
    let seed = siege.seed;
    Ok(runtime.block_on(async {
        let on_master = tokio::spawn(attack(master, attack_of(seed, siege.to_master)));
        let mut on_peers = Vec::new();
        for (number, peer) in peers.iter().enumerate() {
            let seed = seed + 1 + number as u64;
            let with = attack_of(seed, siege.to_each_peer);
            on_peers.push(tokio::spawn(attack_with(lane_stream, peer.clone(), with)));
        }
        let mut lanes = Tally::default();
        for one in on_peers {
            let one = one.await.unwrap_or_default();
            lanes.opened += one.opened;
            lanes.ended += one.ended;
            lanes.sent += one.sent;
            lanes.received += one.received;
        }
        (on_master.await.unwrap_or_default(), lanes)
    }))
}

/// What one connection sends to a peer.
fn lane_stream(random: &mut StdRng) -> Vec<u8> {
    let mut bytes = match random.random_range(0..4) {
        0 => noise(random, 4096),
        1 => [&Preamble::CONTROL.encode()[..], &noise(random, 4096)].concat(),
        _ => [preamble(random), frames(random)].concat(),
    };
    if random.random() {
        spoil(random, &mut bytes);
    }
    bytes
}

/// A preamble of the right form with a ticket that nobody gave out.
fn preamble(random: &mut StdRng) -> Vec<u8> {
    let purposes = [Purpose::LinkLane, Purpose::SharedState, Purpose::Probe];
    let lanes = random.random_range(0..5);
    let preamble = Preamble {
        purpose: purposes
            .choose(random)
            .copied()
            .unwrap_or(Purpose::LinkLane),
        from: PeerId(random.random_range(0..5)),
        ticket: Ticket(random.random()),
        lane: random.random_range(0..5),
        lanes,
    };
    preamble.encode().to_vec()
}

/// What may look like data frames.
fn frames(random: &mut StdRng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.random_range(0..10) {
        let length: u32 = random.random_range(0..2048);
        let header = FrameHeader {
            seq: Seq(random.random_range(0..256)),
            offset: 0,
            length,
            step: 0,
            stripe: 0,
            flags: 0,
            sum: None,
        };
        bytes.extend(header.encode());
        bytes.extend(noise(random, 2048));
    }
    bytes
}
