//! What a synchronization costs the master at the documented limits: the time to take one vote, and
//! that of the step in which the last vote decides.
//!
//! ```sh
//! cargo run --release -p pccl-bench --bin election_cost
//! ```
//!
//! `--peers` and `--entries` are yours to set. It fails where a deciding step takes more than 0.2 s. The
//! master's loop does not encode what a peer is to fetch; the time that the connections' writers take for
//! it is shown beside.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use pccl_core::element::ElementType;
use pccl_core::id::{ConnId, ContentHash, GroupId, PeerId, ProtocolVersion, Revision};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput};
use pccl_core::messages::{Hello, ToMaster, ToPeer};
use pccl_core::shared_state::{EntryInfo, SyncStrategy, SyncVote};
use pccl_core::site::SiteName;
use pccl_core::topology::{BrokenLinks, LinkOrder};
use pccl_core::wire::encode_control;

/// Longer than this the master must not be away from its connections.
const LIMIT: Duration = Duration::from_millis(200);

#[derive(Parser)]
struct Arguments {
    /// Peers of the group.
    #[arg(long, default_value_t = 1024)]
    peers: u64,
    /// Entries of each peer's shared state.
    #[arg(long, default_value_t = 16_384)]
    entries: u64,
}

/// What the peers hold.
#[derive(Clone, Copy, Debug)]
enum Situation {
    AllAgree,
    HalfDiffer,
    AllDiffer,
    AllDifferInParts,
    HalfHaveOtherNames,
    AllHaveOtherNames,
    AllHaveOtherLongNames,
    NewcomersFetchAll,
    HalfAreExpelled,
}

impl Situation {
    const ALL: [Self; 9] = [
        Self::AllAgree,
        Self::HalfDiffer,
        Self::AllDiffer,
        Self::AllDifferInParts,
        Self::HalfHaveOtherNames,
        Self::AllHaveOtherNames,
        Self::AllHaveOtherLongNames,
        Self::NewcomersFetchAll,
        Self::HalfAreExpelled,
    ];

    const fn words(self) -> &'static str {
        match self {
            Self::AllAgree => "all agree",
            Self::HalfDiffer => "half hold other content in every entry",
            Self::AllDiffer => "every peer holds other content in every entry",
            Self::AllDifferInParts => "every peer holds other content in another half",
            Self::HalfHaveOtherNames => "half have another name for every entry",
            Self::AllHaveOtherNames => "every peer has another name for every entry",
            Self::AllHaveOtherLongNames => "the same with names of 255 bytes",
            Self::NewcomersFetchAll => "another half, and newcomers what may differ",
            Self::HalfAreExpelled => "half have other names, and half differ in parts",
        }
    }

    /// Whether a peer holds what nobody else does in a half of the entries that is its own.
    const fn differs_in_parts(self, peer: PeerId) -> bool {
        match self {
            Self::AllDifferInParts | Self::NewcomersFetchAll => true,
            Self::HalfAreExpelled => !peer.0.is_multiple_of(2),
            Self::AllAgree
            | Self::HalfDiffer
            | Self::AllDiffer
            | Self::HalfHaveOtherNames
            | Self::AllHaveOtherNames
            | Self::AllHaveOtherLongNames => false,
        }
    }

    fn vote(self, peer: PeerId, entries: u64) -> SyncVote {
        let half = peer.0 % 2;
        let (content, names) = match self {
            Self::AllAgree => (0, 0),
            Self::HalfDiffer => (half, 0),
            Self::AllDiffer | Self::AllDifferInParts | Self::NewcomersFetchAll => (peer.0, 0),
            Self::HalfHaveOtherNames => (0, half),
            Self::AllHaveOtherNames | Self::AllHaveOtherLongNames => (0, peer.0),
            Self::HalfAreExpelled => (peer.0, (1 - half) * peer.0),
        };
        let length = match self {
            Self::AllHaveOtherLongNames => 255 - "layers.00000.weight.".len(),
            _ => 1,
        };
        let is_own = |number: u64| {
            let mixed = (number * 1024 + peer.0).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            !self.differs_in_parts(peer) || (mixed >> 40).is_multiple_of(2)
        };
        let entry = |number| EntryInfo {
            name: format!("layers.{number:05}.weight.{names:0length$}"),
            element: ElementType::F32,
            count: 1024,
            hash: ContentHash(
                u128::from(if is_own(number) { content } else { 0 }) << 64 | u128::from(number),
            ),
            allow_content_inequality: matches!(self, Self::NewcomersFetchAll) && number % 4 == 0,
        };
        SyncVote {
            revision: Revision(0),
            strategy: SyncStrategy::EnforcePopular,
            restart: false,
            entries: (0..entries).map(entry).collect(),
        }
    }
}

/// A master with one group of so many accepted peers.
fn master_with(peers: u64) -> Master {
    let mut master = Master::new(MasterConfig {
        peers_max: u32::try_from(peers).unwrap_or(u32::MAX),
        ..MasterConfig::default()
    });
    for conn in 0..peers {
        let hello = Hello {
            protocol: ProtocolVersion::CURRENT,
            group: GroupId(0),
            port: 48149,
            advertise: None,
            lanes: 1,
            site: SiteName::NONE,
            name: Default::default(),
        };
        let (conn, from) = (ConnId(conn), [192, 0, 2, 1].into());
        master.handle(
            MasterInput::Connected {
                conn,
                hello,
                from,
                identity: None,
            },
            &mut Vec::new(),
        );
    }
    let mut out = Vec::new();
    let epoch = master.view().epoch(GroupId(0)).unwrap_or_default();
    let broken = BrokenLinks::NONE;
    master.handle(
        said(PeerId(1), ToMaster::UpdateTopology { epoch, broken }),
        &mut out,
    );
    for output in out {
        if let MasterOutput::Send {
            peer,
            message: ToPeer::EstablishLinks { round, links },
        } = output
        {
            for link in links.iter().map(LinkOrder::link) {
                let up = ToMaster::LinkUp { round, link };
                master.handle(said(peer, up), &mut Vec::new());
            }
        }
    }
    master
}

fn said(peer: PeerId, message: ToMaster) -> MasterInput {
    MasterInput::Message { peer, message }
}

/// How long a step takes, until its outputs are there.
fn timed(master: &mut Master, input: MasterInput, out: &mut Vec<MasterOutput>) -> Duration {
    let since = Instant::now();
    master.handle(input, out);
    since.elapsed()
}

/// What one synchronization cost.
struct Cost {
    /// Median of the votes that do not decide.
    vote: Duration,
    /// Of the one that does.
    deciding: Duration,
    /// To encode what the peers are told then, off the loop.
    encoding: Duration,
    /// Bytes of that.
    told: usize,
}

fn measure(situation: Situation, arguments: &Arguments) -> Cost {
    let mut master = master_with(arguments.peers);
    let members = master.view().world_sizes(GroupId(0)).group;
    assert_eq!(u64::from(members), arguments.peers, "all are in");
    let mut votes = Vec::new();
    let (mut deciding, mut concluded) = (Duration::ZERO, 0);
    let (mut encoding, mut told_bytes) = (Duration::ZERO, 0);
    for peer in (1..=arguments.peers).map(PeerId) {
        let vote = situation.vote(peer, arguments.entries);
        let mut out = Vec::new();
        let input = said(peer, ToMaster::SyncSharedState(vote));
        deciding = timed(&mut master, input, &mut out);
        votes.push(deciding);
        let told = |output: &MasterOutput| match output {
            MasterOutput::Send { message, .. } => matches!(
                message,
                ToPeer::SharedStatePlan(_)
                    | ToPeer::SharedStateConcluded { .. }
                    | ToPeer::Kicked(_)
            ),
            _ => false,
        };
        concluded += out.iter().filter(|output| told(output)).count() as u64;
        (encoding, told_bytes) = encode(&out);
    }
    assert!(concluded >= arguments.peers, "the last vote decides");
    votes.pop();
    votes.sort();
    Cost {
        vote: votes.get(votes.len() / 2).copied().unwrap_or_default(),
        deciding,
        encoding,
        told: told_bytes,
    }
}

/// Encodes all that is sent, each into memory of its own.
fn encode(out: &[MasterOutput]) -> (Duration, usize) {
    let since = Instant::now();
    let mut bytes = 0;
    for output in out {
        if let MasterOutput::Send { message, .. } = output {
            let mut frame = Vec::new();
            encode_control(message, &mut frame).expect("what the master says can be encoded");
            bytes += frame.len();
        }
    }
    (since.elapsed(), bytes)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    println!(
        "{} peers, {} entries; limit of a deciding step: {LIMIT:?}",
        arguments.peers, arguments.entries
    );
    let mut slow = false;
    for situation in Situation::ALL {
        let cost = measure(situation, &arguments);
        let too_long = cost.deciding > LIMIT;
        slow |= too_long;
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        println!(
            "{:48} vote {:>6.2} ms  decision {:>7.2} ms  off the loop {:>7.1} ms for {:>6.1} MB{}",
            situation.words(),
            ms(cost.vote),
            ms(cost.deciding),
            ms(cost.encoding),
            cost.told as f64 / 1e6,
            if too_long { "  TOO LONG" } else { "" },
        );
    }
    ExitCode::from(u8::from(slow))
}
