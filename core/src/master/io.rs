//! Inputs, outputs, timers and configuration of the master machine.

use core::net::IpAddr;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{ConnId, EntryIndex, GroupId, Identity, PeerId, Round};
use crate::messages::{Hello, Misdeed, Refusal, ToMaster, ToPeer};
use crate::states::{ConnectionState, Event};
use crate::ticket::TicketMint;
use crate::tour::{Solved, TourProblem};

/// An event that the driver reports to the master.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MasterInput {
    /// A connection sent its hello. The master answers at once with [`MasterOutput::Register`] or
    /// [`MasterOutput::Refuse`].
    Connected {
        /// The driver's id of the connection.
        conn: ConnId,
        /// The hello.
        hello: Hello,
        /// The remote address of the connection.
        from: IpAddr,
        /// The identity that the transport has proved. `None`: the transport proves nothing.
        identity: Option<Identity>,
    },
    /// A registered peer sent a message. Messages of peers that the master has already removed are ignored, because
    /// they may have been in flight.
    Message {
        /// The sender.
        peer: PeerId,
        /// The message.
        message: ToMaster,
    },
    /// A peer sent bytes that are not a message, or did not read what was sent to it.
    Misbehaved {
        /// The peer.
        peer: PeerId,
        /// [`Misdeed::Malformed`] or [`Misdeed::SlowReader`].
        misdeed: Misdeed,
    },
    /// The connection of a peer ended.
    Disconnected {
        /// The peer.
        peer: PeerId,
    },
    /// A timer ran out.
    TimerFired(MasterTimer),
    /// The answer to [`MasterOutput::SolveTour`].
    TourSolved {
        /// The round of the question.
        round: Round,
        /// The group of the question.
        group: GroupId,
        /// The ring that was found. `None`: no ring connects all members.
        found: Option<Solved>,
    },
    /// A background search ([`MasterOutput::SearchTour`]) has found a better ring. Ignored after the search has
    /// ended.
    TourImproved {
        /// The round of the question.
        round: Round,
        /// The group of the question.
        group: GroupId,
        /// The best ring so far.
        found: Solved,
    },
    /// The operator stops the master.
    Stop,
}

/// An order to the driver. Carry orders out in sequence.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MasterOutput {
    /// From here on, this connection belongs to this peer.
    Register {
        /// The driver's id of the connection.
        conn: ConnId,
        /// The peer's id.
        peer: PeerId,
    },
    /// Tell the connection why it is refused, and close it.
    Refuse {
        /// The driver's id of the connection.
        conn: ConnId,
        /// The reason.
        reason: Refusal,
    },
    /// Send a message.
    Send {
        /// The recipient.
        peer: PeerId,
        /// The message.
        message: ToPeer,
    },
    /// Close the peer's connection after everything that was sent to it has gone out. The machine has already
    /// forgotten the peer.
    Close {
        /// The peer.
        peer: PeerId,
    },
    /// Start the timer, or restart it.
    StartTimer {
        /// The timer.
        timer: MasterTimer,
        /// The time after which it runs out.
        after: Duration,
    },
    /// Stop the timer.
    StopTimer(MasterTimer),
    /// Find a good ring, and answer with [`MasterInput::TourSolved`].
    SolveTour {
        /// The optimization.
        round: Round,
        /// The group.
        group: GroupId,
        /// The measurements.
        problem: TourProblem,
    },
    /// Continue the search behind the answer to [`SolveTour`](Self::SolveTour) in the background, and report each
    /// better ring with [`MasterInput::TourImproved`]. The search ends by itself after its last step, or when no
    /// better ring is possible.
    SearchTour {
        /// The round of the question.
        round: Round,
        /// The group.
        group: GroupId,
        /// Maximum number of steps.
        steps: u64,
    },
    /// End that search: its result is no longer needed.
    EndSearch {
        /// The round of the question.
        round: Round,
        /// The group.
        group: GroupId,
    },
    /// For logs, traces and coverage: a peer changed its state.
    Moved {
        /// The peer.
        peer: PeerId,
        /// The event that caused the change.
        event: Event,
        /// The old state.
        from: ConnectionState,
        /// The new state.
        to: ConnectionState,
    },
    /// For logs: a peer has left the run, or has stopped waiting to be admitted.
    Lost {
        /// The peer.
        peer: PeerId,
        /// The rule that it broke, if any.
        misdeed: Option<Misdeed>,
    },
    /// The machine found a contradiction in its state, which is a defect of this crate. The driver logs it; tests and
    /// the model checker fail on it. The peer's state is left unchanged.
    Inconsistent {
        /// The peer.
        peer: PeerId,
        /// Its state.
        state: ConnectionState,
        /// The event that the state does not permit.
        event: Event,
    },
    /// The master has told all peers, and can end.
    Stopped,
}

/// The timers of the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MasterTimer {
    /// The next heartbeat to all peers is due.
    HeartbeatDue,
    /// The known measurements become one generation older.
    MeasurementsAge,
    /// Nothing has arrived from this peer for too long.
    Silence(PeerId),
    /// Others have waited for this peer for too long: for its vote, or for its part of a running operation.
    Late(PeerId),
    /// The links of this round were not all reported in time.
    Wiring(Round),
    /// A failed attempt to connect a ring may be repeated.
    RetryWiring(Round),
    /// The ring solver did not answer in time.
    Solver(Round),
}

/// The peers whose rings an attempt connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Scope {
    /// Those of all groups, with or without newcomers.
    Everybody,
    /// The accepted peers of one group.
    Group(GroupId),
}

/// Limits and deadlines of a master. docs/limits.md describes what happens when they run out.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MasterConfig {
    /// Maximum number of peers, registered ones included. Further peers are refused with [`Refusal::RunFull`].
    /// Default: 1024.
    pub peers_max: u32,
    /// Maximum number of collectives that one peer may have in flight. A peer that exceeds it is evicted with
    /// [`Misdeed::TooManyTags`]. At least [`COLLECTIVES_MAX`](crate::wire::COLLECTIVES_MAX), the limit that peers
    /// keep to. Default: 1024.
    pub tags_max: u32,
    /// Maximum number of entries of a shared state. A peer that offers more is evicted with [`Misdeed::BadManifest`].
    /// Default: 16,384.
    pub entries_max: EntryIndex,
    /// Interval of heartbeats in both directions. Default: 400 ms, a fifth of `silence`.
    pub heartbeat: Duration,
    /// A peer that has been silent for this long is evicted with [`Misdeed::Silent`]. Drivers give a peer that was heard
    /// with longer gaps before, or is far away, up to four times as long ([`rhythm`](crate::rhythm)). Default: 2 s.
    pub silence: Duration,
    /// How long others wait for the vote of an idle peer before it is evicted with [`Misdeed::MissedBallot`]. It is
    /// not evicted if more peers would be evicted than wait. Must exceed the longest computation between two calls.
    /// Default: 600 s.
    pub late: Duration,
    /// How long a peer that others wait for may go without moving bytes of a collective or a transfer, or ending its
    /// part of it. Default: 60 s.
    pub stalled: Duration,
    /// How long peers may take to connect their links. Links that are not reported by then count as failed. Default:
    /// 15 s.
    pub wiring: Duration,
    /// Pause before a failed attempt to connect a ring is repeated. It doubles with each failed attempt in a row, at
    /// most `wiring_attempts_max` times. Default: 20 ms.
    pub wiring_retry: Duration,
    /// Failed attempts in a row after which a peer is evicted with [`Misdeed::Unconnectable`], if no ring is left
    /// that avoids all pairs of peers that could not be connected. Two if newcomers are among them. Default: 5.
    pub wiring_attempts_max: u8,
    /// Failed transfers after which a peer is evicted with [`Misdeed::Unfetchable`], if it has failed with every
    /// holder. A peer that has not been through a synchronization of its group is evicted after two. Default: 3.
    pub transfer_attempts_max: u8,
    /// Maximum number of holders from which a peer fetches shared state at the same time. 0 counts as 1. Default: 4.
    pub transfer_holders_max: u8,
    /// A peer fetches from one holder for each `transfer_share_min` bytes that it lacks, and from at least one. So a
    /// small state comes from one holder. Default: 8 MiB.
    pub transfer_share_min: u64,
    /// How long one rotation of measurements may take. A peer that has not reported by then has no edges in this
    /// optimization, and is not asked again. It is not evicted. Default: 20 s.
    pub probe: Duration,
    /// How long a measurement is kept at least; it is kept at most twice as long. A measurement that is kept is not
    /// repeated. Default: 10 min.
    pub measurements: Duration,
    /// How long the ring solver may take before the optimization fails. Default: 300 s.
    pub solver: Duration,
    /// Maximum number of solver steps of the background search for a better ring, which runs if the immediate answer
    /// is not proved to be the best. 0: no search. 100 to 150 million steps take a second. Default: 3 billion.
    pub search_steps: u64,
    /// Maximum number of members of a group in which all edges are measured. In a larger group some edges of each
    /// peer are measured, and the others are estimated from them; the edges that the solver chooses are then measured
    /// as well. Default: 16.
    pub probe_all_max: u16,
    /// Percentage of the time of a reduce that another ring must save to be adopted. Default: 5.
    pub rewiring_gain: u8,
    /// Size in bytes of that reduce. Default: 64 MiB.
    pub reduce_bytes: u64,
    /// Maximum number of members of a group that gets a mesh: links between all members, beside those of its ring.
    /// Small and medium collectives are then exchanged directly. A mesh link that is not part of the ring gets one
    /// lane. 0: rings only. Default: 8.
    pub mesh_max: u16,
    /// As `mesh_max`, for a group at several sites with several members at one of them, because two-level collectives
    /// need a mesh. Has no effect unless it is larger than `mesh_max`. Default: 32.
    pub sites_mesh_max: u16,
    /// Minimum number of members of a group within one machine that sends small buffers in rounds, over its mesh. In
    /// smaller groups rounds save no messages. Default: 4.
    pub rounds_from: u16,
    /// Maximum number of bytes that a collective which begins [ahead](crate::messages::Reserved) may send to one peer that
    /// has not called it. These bytes wait in the buffers of the system, and a sender whose bytes nobody takes would give
    /// its lane up after a time. 0: none begins ahead. Default: 64 KiB.
    pub ahead_max: u64,
    /// Whether collectives of peers that have one address, usually one machine, begin ahead, too. If the master is as near
    /// as any peer, a message of each peer is gained: its vote to start and its vote on the outcome leave together. Peers
    /// that call long after each other are woken earlier by it. Default: yes.
    pub ahead_within_machine: bool,
    /// Mints the tickets. Its key must be 128 random bits; the default is all zeros.
    pub tickets: TicketMint,
}

impl MasterConfig {
    /// The default limits, but without meshes.
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
    /// Limits for a run on the internet, and an all-zero ticket key, which the driver must replace.
    fn default() -> Self {
        Self {
            peers_max: 1024,
            tags_max: 1024,
            entries_max: EntryIndex(16_384),
            heartbeat: Duration::from_millis(400),
            silence: Duration::from_secs(2),
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
            ahead_max: 64 << 10,
            ahead_within_machine: true,
            tickets: TicketMint { key: [0; 16] },
        }
    }
}
