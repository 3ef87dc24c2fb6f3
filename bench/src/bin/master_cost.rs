//! The master's time per message, and the bytes of a commit: `cargo run --release -p pccl-bench --bin
//! master_cost`.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::{
    ConnId, ContentHash, Epoch, GroupId, PeerId, ProtocolVersion, Revision, Seq, Tag,
};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput};
use pccl_core::messages::{Hello, PlanOutcome, ToMaster, ToPeer};
use pccl_core::shared_state::{EntryInfo, SyncStrategy, SyncVote};
use pccl_core::site::SiteName;
use pccl_core::topology::{BrokenLinks, LinkOrder};
use pccl_core::wire::encode_control;

/// Hands the real machine the messages of a run in its stride and measures how long it takes for each;
/// its outputs are thrown away. Exit code 0 only if all targets are met.
#[derive(Debug, Parser)]
struct Arguments {
    /// Peers of a large run
    #[arg(long, default_value_t = 1000)]
    peers: usize,
    /// Collectives of each peer in a large run
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Tags at a time where there are many
    #[arg(long, default_value_t = 1000)]
    tags: u64,
    /// Peers that elect a shared state with as many entries as are allowed
    #[arg(long, default_value_t = 64)]
    electors: usize,
}

const MESSAGE_MAX: Duration = Duration::from_micros(10);
const ELECTION_MAX: Duration = Duration::from_millis(200);
const COMMIT_MAX: usize = 64 * 1024;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Arguments { peers, rounds, .. } = arguments;
    let groups = (peers / 8).max(1);
    println!(
        "{:<58} {:>9} {:>10} {:>10} {:>10} {:>20}",
        "what", "messages", "median", "p99", "max", "target"
    );
    let (one_group, commit_bytes) = collectives(peers, 1, rounds);
    let (many_groups, _) = collectives(peers, groups, rounds);
    let (few, many) = (in_flight(16, 1000), in_flight(arguments.tags, 1000));
    let ratio = many.total().as_secs_f64() / few.total().as_secs_f64();
    let mut met = one_group.print(&format!("collectives, {peers} peers in one group"), true);
    met &= many_groups.print(
        &format!("collectives, {peers} peers in {groups} groups"),
        true,
    );
    met &= all_at_once(arguments.tags).print("all tags begin, then all end, 8 peers", true);
    met &= few.print("16 reduces in flight, 8 peers", true);
    met &= many.print(
        &format!("{} reduces in flight, 8 peers", arguments.tags),
        true,
    );
    met &= updates(peers, 1).print(
        &format!("update_topology, {peers} peers in one group"),
        true,
    );
    met &= updates(peers, groups).print(&format!("the same in {groups} groups"), true);
    println!("many reduces in flight cost {ratio:.1} times as much as 16");
    met &= told(
        "an election at the limits of entries",
        election(arguments.electors),
    );
    let bytes_ok = commit_bytes <= COMMIT_MAX;
    println!(
        "start and verdict of one collective, {peers} peers: {commit_bytes} bytes in all (<= {COMMIT_MAX}) {}",
        verdict(bytes_ok)
    );
    if met && bytes_ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn verdict(ok: bool) -> &'static str {
    if ok { "ok" } else { "MISSED" }
}

fn told(what: &str, took: Duration) -> bool {
    let ok = took <= ELECTION_MAX;
    println!("{what}: {took:.1?} (<= {ELECTION_MAX:?}) {}", verdict(ok));
    ok
}

/// How long each of some messages took.
#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    fn total(&self) -> Duration {
        self.0.iter().sum()
    }

    /// Prints them, and says whether their median is what it should be.
    fn print(mut self, what: &str, has_target: bool) -> bool {
        self.0.sort_unstable();
        let at = |share: f64| {
            let place = (self.0.len() as f64 * share) as usize;
            self.0
                .get(place.min(self.0.len().saturating_sub(1)))
                .copied()
                .unwrap_or_default()
        };
        let (median, p99, max) = (at(0.5), at(0.99), at(1.0));
        let ok = !has_target || median <= MESSAGE_MAX;
        println!(
            "{what:<58} {:>9} {:>10} {:>10} {:>10} {:>20}",
            self.0.len(),
            format!("{median:.1?}"),
            format!("{p99:.1?}"),
            format!("{max:.1?}"),
            format!("<= {MESSAGE_MAX:?} {}", verdict(ok)),
        );
        ok
    }
}

/// A master with peers that have been admitted, and what it says.
struct Run {
    master: Master,
    peers: Vec<PeerId>,
    out: Vec<MasterOutput>,
    /// Executions that began and whose end nobody has told.
    begun: BTreeMap<Tag, Seq>,
    times: Times,
    /// Bytes of all frames that begin and end collectives.
    bytes: usize,
}

impl Run {
    /// So many peers, admitted together, spread over so many groups.
    fn of(peers: usize, groups: usize) -> Self {
        let mut run = Self {
            master: Master::new(MasterConfig::default()),
            peers: Vec::new(),
            out: Vec::new(),
            begun: BTreeMap::new(),
            times: Times::default(),
            bytes: 0,
        };
        for no in 0..peers {
            run.hello(no, GroupId(u32::try_from(no % groups).unwrap_or(0)));
        }
        let first = run.peers[0];
        run.update(first);
        let world = run.master.view().world_sizes(GroupId(0));
        assert_eq!(world.global as usize, peers, "not all were admitted");
        run.times = Times::default();
        run
    }

    fn hello(&mut self, no: usize, group: GroupId) {
        let hello = Hello {
            protocol: ProtocolVersion::CURRENT,
            group,
            port: 48149,
            advertise: None,
            lanes: 4,
            site: SiteName::NONE,
            name: Default::default(),
        };
        let [.., high, low] = (no as u32 + 1).to_be_bytes();
        let input = MasterInput::Connected {
            conn: ConnId(no as u64),
            hello,
            from: [198, 51, high, low].into(),
            identity: None,
        };
        self.out.clear();
        self.master.handle(input, &mut self.out);
        for output in &self.out {
            if let MasterOutput::Register { peer, .. } = output {
                self.peers.push(*peer);
            }
        }
    }

    /// One message, timed, and whatever has to follow: links come up at once, untimed.
    fn tell(&mut self, peer: PeerId, message: ToMaster) {
        self.out.clear();
        let begun = Instant::now();
        self.master
            .handle(MasterInput::Message { peer, message }, &mut self.out);
        self.times.0.push(begun.elapsed());
        let mut ordered = Vec::new();
        for output in &self.out {
            match output {
                MasterOutput::Send { peer, message } => match message {
                    ToPeer::EstablishLinks { round, links } => {
                        let links = links.iter().map(LinkOrder::link);
                        ordered.extend(links.map(|link| (*peer, *round, link)));
                    }
                    ToPeer::Commence { tag, seq, .. } => {
                        self.begun.insert(*tag, *seq);
                        self.bytes += bytes_of(message);
                    }
                    ToPeer::Verdict { .. } => self.bytes += bytes_of(message),
                    _ => {}
                },
                MasterOutput::Lost { peer, misdeed } => panic!("{peer} was lost: {misdeed:?}"),
                _ => {}
            }
        }
        for (peer, round, link) in ordered {
            let message = ToMaster::LinkUp { round, link };
            let input = MasterInput::Message { peer, message };
            self.master.handle(input, &mut Vec::new());
        }
    }

    fn epoch_of(&self, peer: PeerId) -> Epoch {
        let view = self.master.view();
        let group = view.peer(peer).map(|peer| peer.group());
        group
            .and_then(|group| view.epoch(group))
            .unwrap_or_default()
    }

    fn update(&mut self, peer: PeerId) {
        let (epoch, broken) = (self.epoch_of(peer), BrokenLinks::NONE);
        self.tell(peer, ToMaster::UpdateTopology { epoch, broken });
    }

    fn initiate(&mut self, peer: PeerId, tag: Tag) {
        let spec = CollectiveSpec {
            kind: CollectiveKind::AllReduce,
            op: ReduceOp::Sum,
            element: ElementType::F32,
            count: 1000,
            quantization: Quantization::None,
            algorithm: None,
            ordered: false,
        };
        let (epoch, broken) = (self.epoch_of(peer), BrokenLinks::NONE);
        self.tell(
            peer,
            ToMaster::InitiateCollective {
                tag,
                spec,
                epoch,
                broken,
            },
        );
    }

    fn complete(&mut self, peer: PeerId, seq: Seq) {
        let (outcome, broken) = (PlanOutcome::Done, BrokenLinks::NONE);
        self.tell(
            peer,
            ToMaster::CompleteCollective {
                seq,
                outcome,
                broken,
            },
        );
    }
}

fn bytes_of(message: &ToPeer) -> usize {
    let mut frame = Vec::new();
    encode_control(message, &mut frame).expect("a message of the master can be encoded");
    frame.len()
}

/// Each group runs one collective at a time, under a tag of its own; all groups take turns. Returns the
/// bytes that begin and end one collective of each group as well.
fn collectives(peers: usize, groups: usize, rounds: usize) -> (Times, usize) {
    let mut run = Run::of(peers, groups);
    let everybody: Vec<(usize, PeerId)> = run.peers.iter().copied().enumerate().collect();
    let tag_of = |no: usize| Tag((no % groups) as u64);
    for _ in 0..rounds {
        for (no, peer) in &everybody {
            run.initiate(*peer, tag_of(*no));
        }
        for (no, peer) in &everybody {
            let seq = run.begun[&tag_of(*no)];
            run.complete(*peer, seq);
        }
    }
    (run.times, run.bytes / rounds.max(1))
}

/// Eight peers begin all their reduces, then all of them end.
fn all_at_once(tags: u64) -> Times {
    let mut run = Run::of(8, 1);
    let peers = run.peers.clone();
    for peer in &peers {
        (0..tags).for_each(|tag| run.initiate(*peer, Tag(tag)));
    }
    for peer in &peers {
        for seq in run.begun.values().copied().collect::<Vec<_>>() {
            run.complete(*peer, seq);
        }
    }
    run.times
}

/// Eight peers have so many reduces in flight; whenever the oldest one ends another one begins.
fn in_flight(window: u64, reduces: u64) -> Times {
    let mut run = Run::of(8, 1);
    let peers = run.peers.clone();
    for tag in 0..window {
        peers.iter().for_each(|peer| run.initiate(*peer, Tag(tag)));
    }
    run.times = Times::default();
    for number in 0..reduces {
        let tag = Tag(number % window);
        let seq = run.begun[&tag];
        peers.iter().for_each(|peer| run.complete(*peer, seq));
        peers.iter().for_each(|peer| run.initiate(*peer, tag));
    }
    run.times
}

/// All peers call `update_topology`, five times; nobody waits at the door.
fn updates(peers: usize, groups: usize) -> Times {
    let mut run = Run::of(peers, groups);
    for _ in 0..5 {
        for peer in run.peers.clone() {
            run.update(peer);
        }
    }
    run.times
}

/// The last vote of a synchronization of as many entries as are allowed.
fn election(peers: usize) -> Duration {
    let mut run = Run::of(peers, 1);
    let entries_max = MasterConfig::default().entries_max.0;
    let entry = |no: u32| EntryInfo {
        name: format!("model.layers.{no:05}.attention.weight"),
        element: ElementType::F32,
        count: 1 << 20,
        hash: ContentHash(u128::from(no)),
        allow_content_inequality: false,
    };
    let entries: Vec<EntryInfo> = (0..entries_max).map(entry).collect();
    for peer in run.peers.clone() {
        let vote = SyncVote {
            revision: Revision(7),
            strategy: SyncStrategy::EnforcePopular,
            restart: false,
            entries: entries.clone(),
        };
        run.tell(peer, ToMaster::SyncSharedState(vote));
    }
    run.times.0.last().copied().unwrap_or_default()
}
