//! What goes into the master machine and what comes out.

use core::net::IpAddr;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{ConnId, EntryIndex, GroupId, Identity, PeerId, Round};
use crate::messages::{Hello, Misdeed, Refusal, ToMaster, ToPeer};
use crate::states::{ConnectionState, Event};
use crate::ticket::TicketMint;
use crate::tour::{Solved, TourProblem};

/// A fact that happened to the master.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MasterInput {
    /// A connection said hello. Answered at once by [`MasterOutput::Register`] or
    /// [`MasterOutput::Refuse`].
    Connected {
        /// The driver's name for the connection.
        conn: ConnId,
        /// What it said.
        hello: Hello,
        /// Where it comes from.
        from: IpAddr,
        /// What its transport has proved. `None`: the transport proves nothing.
        identity: Option<Identity>,
    },
    /// A registered peer said something. Messages of peers that the master has already let go are
    /// ignored: they were on their way.
    Message {
        /// Who.
        peer: PeerId,
        /// What.
        message: ToMaster,
    },
    /// A peer sent something that is not a message, or did not read what was sent to it.
    Misbehaved {
        /// Who.
        peer: PeerId,
        /// [`Misdeed::Malformed`] or [`Misdeed::SlowReader`].
        misdeed: Misdeed,
    },
    /// A peer's connection ended.
    Disconnected {
        /// Whose.
        peer: PeerId,
    },
    /// A timer that was started has run out.
    TimerFired(MasterTimer),
    /// Answer to [`MasterOutput::SolveTour`].
    TourSolved {
        /// The round of the question.
        round: Round,
        /// The group of the question.
        group: GroupId,
        /// `None`: no ring connects all.
        found: Option<Solved>,
    },
    /// A search that goes on by [`MasterOutput::SearchTour`] has found another ring. What comes after its end
    /// means nothing.
    TourImproved {
        /// The round of the question.
        round: Round,
        /// The group of the question.
        group: GroupId,
        /// The best ring so far.
        found: Solved,
    },
    /// The operator wants the master to end.
    Stop,
}

/// What the driver has to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MasterOutput {
    /// The connection is this peer from here on.
    Register {
        /// The driver's name for the connection.
        conn: ConnId,
        /// Its identity.
        peer: PeerId,
    },
    /// Tell the connection why it is not welcome, and end it.
    Refuse {
        /// The driver's name for the connection.
        conn: ConnId,
        /// Why.
        reason: Refusal,
    },
    /// Send a message.
    Send {
        /// To whom.
        peer: PeerId,
        /// What.
        message: ToPeer,
    },
    /// End the peer's connection once what was sent has gone out. The machine has already forgotten
    /// the peer.
    Close {
        /// Whose.
        peer: PeerId,
    },
    /// Start the timer, or start it anew.
    StartTimer {
        /// Which.
        timer: MasterTimer,
        /// How long.
        after: Duration,
    },
    /// Stop the timer.
    StopTimer(MasterTimer),
    /// Find a good ring; answer with [`MasterInput::TourSolved`].
    SolveTour {
        /// The optimization.
        round: Round,
        /// Whose ring.
        group: GroupId,
        /// What is known.
        problem: TourProblem,
    },
    /// Go on with the search for the answer to [`SolveTour`](Self::SolveTour), where nobody waits for it; tell each
    /// better ring by [`MasterInput::TourImproved`]. It ends by itself when it has taken its steps, or when nothing
    /// better can be found.
    SearchTour {
        /// The round of the question.
        round: Round,
        /// Whose ring.
        group: GroupId,
        /// How many steps it may take at most.
        steps: u64,
    },
    /// End that search: nobody wants to know any more.
    EndSearch {
        /// The round of the question.
        round: Round,
        /// Whose ring.
        group: GroupId,
    },
    /// For logs, traces and coverage: a peer changed its state.
    Moved {
        /// Who.
        peer: PeerId,
        /// Why.
        event: Event,
        /// From where.
        from: ConnectionState,
        /// To where.
        to: ConnectionState,
    },
    /// For logs: a peer is no longer part of the run, or no longer waits.
    Lost {
        /// Who.
        peer: PeerId,
        /// What it had done wrong, if anything.
        misdeed: Option<Misdeed>,
    },
    /// The machine found itself in a contradiction: a defect of this crate. The driver logs it; tests
    /// and the model checker fail on it. The peer's state is left as it was.
    Inconsistent {
        /// About whom.
        peer: PeerId,
        /// Its state.
        state: ConnectionState,
        /// What was to happen.
        event: Event,
    },
    /// The master has told everybody and can end.
    Stopped,
}

/// Everything that the master can be waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MasterTimer {
    /// Time to give every peer a sign of life.
    HeartbeatDue,
    /// What was measured before the last time is out of date.
    MeasurementsAge,
    /// A peer has been silent and is about to be counted as lost.
    Silence(PeerId),
    /// Others have waited for this peer for long: for its vote, or for its part of something that runs.
    Late(PeerId),
    /// Not everybody has reported about its ring edges.
    Wiring(Round),
    /// A failed attempt to connect a ring may be repeated.
    RetryWiring(Round),
    /// The ring solver is slow.
    Solver(Round),
}

/// Whom an attempt to connect rings concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// All groups, with or without newcomers.
    Everybody,
    /// The accepted peers of one group.
    Group(GroupId),
}

/// Limits and time limits of a master.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MasterConfig {
    /// Most peers at once, registered ones included.
    pub peers_max: u32,
    /// Most collectives that one peer may have in flight, beyond which it is kicked. At least
    /// [`COLLECTIVES_MAX`](crate::wire::COLLECTIVES_MAX): peers hold themselves to that.
    pub tags_max: u32,
    /// Most entries of a shared state.
    pub entries_max: EntryIndex,
    /// Between signs of life, in both directions.
    pub heartbeat: Duration,
    /// After so long a silence a peer counts as lost.
    pub silence: Duration,
    /// How long others wait for the vote of a peer that is idle. Then it is kicked, unless fewer wait
    /// than would be kicked. So it must exceed the longest computation between two calls.
    pub late: Duration,
    /// How long a peer that others wait for may move no bytes of a collective or a transfer, and not end its
    /// part of it.
    pub stalled: Duration,
    /// How long peers may take to connect their ring edges.
    pub wiring: Duration,
    /// Pause before an attempt between accepted peers is repeated; doubles with each attempt.
    pub wiring_retry: Duration,
    /// Failed attempts in a row after which a peer is evicted, if no ring is left that avoids all pairs of
    /// peers that could not be connected; two, if a newcomer is among them.
    pub wiring_attempts_max: u8,
    /// Failed transfers after which a peer that has been through a synchronization of its group has to
    /// go, if it has failed with every peer that could serve it. A newcomer goes after two. Default: 3.
    pub transfer_attempts_max: u8,
    /// Most holders that a peer fetches shared state from at a time; 0 is as 1. Default: 4.
    pub transfer_holders_max: u8,
    /// Bytes that a peer has to fetch for each holder that it is given, so that a small state comes from one.
    /// Default: 8 MiB.
    pub transfer_share_min: u64,
    /// How long the measurements of one rotation may take. Who has not reported then has no edges, and is not
    /// asked again by this optimization. Default: 20 s.
    pub probe: Duration,
    /// How long a measurement is kept at least; at most twice as long. What is kept is not measured again.
    /// Default: 10 min.
    pub measurements: Duration,
    /// How long the ring solver may take.
    pub solver: Duration,
    /// How many steps of the solver a search takes that goes on beside the run, when the immediate answer is not
    /// proven to be the best; 0: there is none. 100 to 150 million take a second of computing. Default: 3 billion.
    pub search_steps: u64,
    /// Up to how many members of a group all edges are measured. In a larger one some edges of each peer are, the
    /// others are estimated from them, and those that a ring wants are measured. Default: 16.
    pub probe_all_max: u16,
    /// How many percent of the time of a reduce another ring has to save to be adopted. Default: 5.
    pub rewiring_gain: u8,
    /// Of what size that reduce is. Default: 64 MiB.
    pub reduce_bytes: u64,
    /// A group of at most so many members is given links between all of them, a mesh, beside those of its ring:
    /// its small and middle-sized collectives are exchanged directly. At most one lane per link that is not of
    /// the ring. 0: rings only. Default: 8.
    pub mesh_max: u16,
    /// The same for a group whose members are at several sites, and several of them at one: collectives in two levels need
    /// a mesh. 0: `mesh_max` holds for these, too. Default: 32.
    pub sites_mesh_max: u16,
    /// From how many members on a group whose members have one address sends small buffers in rounds, over its mesh. In
    /// smaller ones rounds save no message. Default: 4.
    pub rounds_from: u16,
    /// Mints the tickets. Its key must be 128 random bits.
    pub tickets: TicketMint,
}

impl MasterConfig {
    /// The default limits, and no links beside those of the rings.
    #[must_use]
    pub fn rings_only() -> Self {
        Self {
            mesh_max: 0,
            sites_mesh_max: 0,
            ..Self::default()
        }
    }
}

impl Default for MasterConfig {
    /// Limits for a run on the internet, and an all-zero ticket key, which a driver must replace.
    fn default() -> Self {
        Self {
            peers_max: 1024,
            tags_max: 1024,
            entries_max: EntryIndex(16_384),
            heartbeat: Duration::from_secs(1),
            silence: Duration::from_secs(5),
            late: Duration::from_secs(600),
            stalled: Duration::from_secs(60),
            wiring: Duration::from_secs(15),
            wiring_retry: Duration::from_millis(20),
            wiring_attempts_max: 5,
            transfer_attempts_max: 3,
            transfer_holders_max: 4,
            transfer_share_min: 8 << 20,
            probe: Duration::from_secs(20),
            measurements: Duration::from_secs(600),
            solver: Duration::from_secs(300),
            search_steps: 3_000_000_000,
            probe_all_max: 16,
            rewiring_gain: 5,
            reduce_bytes: 64 << 20,
            mesh_max: 8,
            sites_mesh_max: 32,
            rounds_from: 4,
            tickets: TicketMint { key: [0; 16] },
        }
    }
}
