//! What a synchronization costs the master at the documented limits: the time to take one vote, and
//! that of the step in which the last vote decides.
//!
//! ```sh
//! cargo run --release -p pccl-tests --bin election_cost
//! ```
//!
//! `--peers` and `--entries` are yours to set. It fails where a deciding step takes more than 0.2 s, but
//! for one situation: where each peer lacks other entries, each is told a list of its own, of eight
//! million lines in all at the limits, and writing them takes the time.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use pccl_core::element::ElementType;
use pccl_core::id::{ConnId, ContentHash, Epoch, GroupId, PeerId, ProtocolVersion, Revision};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput};
use pccl_core::messages::{Hello, ToMaster, ToPeer};
use pccl_core::shared_state::{EntryInfo, SyncStrategy, SyncVote};
use pccl_core::topology::{BrokenEdges, Edge};

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
}

impl Situation {
    const ALL: [Self; 6] = [
        Self::AllAgree,
        Self::HalfDiffer,
        Self::AllDiffer,
        Self::AllDifferInParts,
        Self::HalfHaveOtherNames,
        Self::AllHaveOtherNames,
    ];

    const fn words(self) -> &'static str {
        match self {
            Self::AllAgree => "all agree",
            Self::HalfDiffer => "half hold other content in every entry",
            Self::AllDiffer => "every peer holds other content in every entry",
            Self::AllDifferInParts => "every peer holds other content in another half",
            Self::HalfHaveOtherNames => "half have another name for every entry",
            Self::AllHaveOtherNames => "every peer has another name for every entry",
        }
    }

    /// Is what each peer is told as large as what it said?
    const fn has_a_list_for_each(self) -> bool {
        matches!(self, Self::AllDifferInParts)
    }

    fn vote(self, peer: PeerId, entries: u64) -> SyncVote {
        let half = peer.0 % 2;
        let (content, names) = match self {
            Self::AllAgree => (0, 0),
            Self::HalfDiffer => (half, 0),
            Self::AllDiffer | Self::AllDifferInParts => (peer.0, 0),
            Self::HalfHaveOtherNames => (0, half),
            Self::AllHaveOtherNames => (0, peer.0),
        };
        let is_own = |number: u64| match self {
            Self::AllDifferInParts => {
                let mixed = (number * 1024 + peer.0).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                (mixed >> 40).is_multiple_of(2)
            }
            Self::AllAgree
            | Self::HalfDiffer
            | Self::AllDiffer
            | Self::HalfHaveOtherNames
            | Self::AllHaveOtherNames => true,
        };
        let entry = |number| EntryInfo {
            name: format!("layers.{number:05}.weight.{names}"),
            element: ElementType::F32,
            count: 1024,
            hash: ContentHash(
                u128::from(if is_own(number) { content } else { 0 }) << 64 | u128::from(number),
            ),
            allow_content_inequality: false,
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
    let (epoch, broken) = (Epoch::default(), BrokenEdges::NONE);
    master.handle(
        said(PeerId(1), ToMaster::UpdateTopology { epoch, broken }),
        &mut out,
    );
    for output in out {
        if let MasterOutput::Send {
            peer,
            message:
                ToPeer::EstablishRing {
                    round,
                    next,
                    previous,
                },
        } = output
        {
            let next = next.map(|_| Edge::ToNext);
            for edge in next.into_iter().chain(previous.map(|_| Edge::FromPrevious)) {
                let up = ToMaster::EdgeUp { round, edge };
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

/// Median time of a vote that does not decide, and the time of the one that does.
fn measure(situation: Situation, arguments: &Arguments) -> (Duration, Duration) {
    let mut master = master_with(arguments.peers);
    let members = master.view().world_sizes(GroupId(0)).group;
    assert_eq!(u64::from(members), arguments.peers, "all are in");
    let mut votes = Vec::new();
    let (mut deciding, mut concluded) = (Duration::ZERO, 0);
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
    }
    assert!(concluded >= arguments.peers, "the last vote decides");
    votes.pop();
    votes.sort();
    let median = votes.get(votes.len() / 2).copied().unwrap_or_default();
    (median, deciding)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    println!(
        "{} peers, {} entries; limit of a deciding step: {LIMIT:?}",
        arguments.peers, arguments.entries
    );
    let mut slow = false;
    for situation in Situation::ALL {
        let (vote, deciding) = measure(situation, &arguments);
        let too_long = deciding > LIMIT;
        slow |= too_long && !situation.has_a_list_for_each();
        println!(
            "{:46}  vote {:>7.2} ms  decision {:>8.2} ms{}",
            situation.words(),
            vote.as_secs_f64() * 1e3,
            deciding.as_secs_f64() * 1e3,
            if too_long { "  TOO LONG" } else { "" },
        );
    }
    ExitCode::from(u8::from(slow))
}
