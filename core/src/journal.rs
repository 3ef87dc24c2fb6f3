//! What of a master outlives its process, if the driver keeps a journal.
//!
//! A journal is a [`log`](crate::log) whose machine is [`Durable`]: it starts with one such value, and continues with
//! what the master has heard and said since. A driver appends each record before it carries out what the master said,
//! so whatever a peer has been told is in the journal. A process that is killed can be followed by another one: it
//! replays the journal and has the same master, and what each peer may still lack. The peers come back by their
//! [sessions](crate::session).
//!
//! - The system has a record before its outputs are carried out, so nothing is lost with the process. [`OnDisk`] says
//!   which records also have to be on the disk by then, so that they are not lost with the machine. A record that tells
//!   no peer anything, for example a vote that others have yet to join, need not: the peer that sent it keeps it until
//!   it is acknowledged.
//! - When a journal has become long, the driver begins another one with the present value (a snapshot).
//! - Connections do not outlive the process: all peers are away until they come back. Timers run anew.
//!
//! **Invariant:** a value after replaying is the value before, except for what peers have acknowledged.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{GroupId, Identity, PeerId, Round};
use crate::log::Machine;
use crate::master::{Master, MasterInput, MasterOutput, MasterTimer};
use crate::messages::ToPeer;
#[cfg(feature = "mutants")]
use crate::mutants::replay;
use crate::session::Unacknowledged;
use crate::tour::TourProblem;

/// A master, and what it owes to its peers and to itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Durable {
    /// The machine.
    pub master: Master,
    /// The sessions of all registered peers.
    pub sessions: BTreeMap<PeerId, DurableSession>,
    /// What the driver is doing for the machine.
    pub pending: Pending,
}

/// What the driver of a master is doing for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pending {
    /// The timers that run, and the time after which each of them runs out.
    pub timers: BTreeMap<MasterTimer, Duration>,
    /// The questions to the ring solver that were not answered.
    pub questions: BTreeMap<(Round, GroupId), TourProblem>,
}

/// The session of a peer, apart from its connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DurableSession {
    /// The identity that the peer has proved. Another one cannot resume the session.
    pub identity: Option<Identity>,
    /// Number of the peer's messages that the machine has processed.
    pub heard: u64,
    /// Whether the peer was admitted to the run.
    pub is_admitted: bool,
    /// What was sent to the peer and may not have arrived.
    pub sent: Unacknowledged<ToPeer>,
}

impl Durable {
    /// A master without peers, to which nothing has happened.
    #[must_use]
    pub const fn new(master: Master) -> Self {
        Self {
            master,
            sessions: BTreeMap::new(),
            pending: Pending {
                timers: BTreeMap::new(),
                questions: BTreeMap::new(),
            },
        }
    }

    /// Applies one input, and appends the outputs of the machine to `out`.
    pub fn handle(&mut self, input: MasterInput, out: &mut Vec<MasterOutput>) {
        self.pending.heard(&input);
        let (mut arriving, mut lost) = (None, None);
        match &input {
            MasterInput::Connected { identity, .. } => arriving = *identity,
            MasterInput::Message { peer, .. } => {
                if let Some(session) = self.sessions.get_mut(peer) {
                    session.heard += 1;
                }
            }
            MasterInput::Disconnected { peer } => lost = Some(*peer),
            MasterInput::Misbehaved { .. }
            | MasterInput::TimerFired(_)
            | MasterInput::TourSolved { .. }
            | MasterInput::TourImproved { .. }
            | MasterInput::Stop => {}
        }
        let before = out.len();
        self.master.handle(input, out);
        for output in out.get(before..).unwrap_or_default() {
            self.pending.said(output);
            self.said(output, arriving);
        }
        if let Some(peer) = lost {
            self.sessions.remove(&peer);
        }
    }

    /// Notes what the driver does to sessions because of this output.
    fn said(&mut self, output: &MasterOutput, arriving: Option<Identity>) {
        match output {
            MasterOutput::Register { peer, .. } => {
                let session = DurableSession {
                    identity: arriving,
                    // Its hello.
                    heard: 1,
                    ..DurableSession::default()
                };
                self.sessions.insert(*peer, session);
            }
            MasterOutput::Send { peer, message } => {
                if let Some(session) = self.sessions.get_mut(peer) {
                    session.is_admitted |= admits(message);
                    session.sent.push(message.clone());
                }
            }
            MasterOutput::Close { peer } => {
                self.sessions.remove(peer);
            }
            MasterOutput::StartTimer { .. }
            | MasterOutput::StopTimer(_)
            | MasterOutput::SolveTour { .. }
            | MasterOutput::SearchTour { .. }
            | MasterOutput::EndSearch { .. }
            | MasterOutput::Refuse { .. }
            | MasterOutput::Moved { .. }
            | MasterOutput::Lost { .. }
            | MasterOutput::Inconsistent { .. }
            | MasterOutput::Stopped => {}
        }
    }
}

impl Pending {
    /// Removes what this input ends. Call it before the machine gets the input.
    pub fn heard(&mut self, input: &MasterInput) {
        match input {
            MasterInput::TimerFired(timer) => {
                self.timers.remove(timer);
            }
            MasterInput::TourSolved { round, group, .. } => {
                self.questions.remove(&(*round, *group));
            }
            MasterInput::Connected { .. }
            | MasterInput::Message { .. }
            | MasterInput::Misbehaved { .. }
            | MasterInput::Disconnected { .. }
            | MasterInput::TourImproved { .. }
            | MasterInput::Stop => {}
        }
    }

    /// Adds and removes what this output of the machine orders.
    pub fn said(&mut self, output: &MasterOutput) {
        match output {
            MasterOutput::StartTimer { timer, after } => {
                self.timers.insert(*timer, *after);
            }
            MasterOutput::StopTimer(timer) => {
                self.timers.remove(timer);
            }
            MasterOutput::SolveTour {
                round,
                group,
                problem,
            } => {
                self.questions.insert((*round, *group), problem.clone());
            }
            // A background search is not continued by another process.
            MasterOutput::SearchTour { .. }
            | MasterOutput::EndSearch { .. }
            | MasterOutput::Register { .. }
            | MasterOutput::Send { .. }
            | MasterOutput::Close { .. }
            | MasterOutput::Refuse { .. }
            | MasterOutput::Moved { .. }
            | MasterOutput::Lost { .. }
            | MasterOutput::Inconsistent { .. }
            | MasterOutput::Stopped => {}
        }
    }
}

/// Whether this message admits the peer that gets it to the run.
#[must_use]
pub const fn admits(message: &ToPeer) -> bool {
    matches!(message, ToPeer::TopologyEstablished { .. })
}

/// When the record of an input has to be on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OnDisk {
    /// With a later one: no peer is told anything. What led to it is sent again by the peer that sent it.
    Later,
    /// Soon: peers are told to begin something. If the machine fails before, these peers lose the master.
    Soon,
    /// Before a peer is told: it is a result, or an acknowledgement of what the peer then forgets.
    Before,
}

impl OnDisk {
    /// Decides it for an input with these outputs.
    #[must_use]
    pub fn of(outputs: &[MasterOutput]) -> Self {
        let soonest = outputs.iter().map(Self::of_output).max();
        rule!(soonest.unwrap_or(Self::Later); AnswerBeforeJournal => Self::Later)
    }

    const fn of_output(output: &MasterOutput) -> Self {
        match output {
            MasterOutput::Send { message, .. } => Self::of_message(message),
            MasterOutput::Register { .. }
            | MasterOutput::Close { .. }
            | MasterOutput::StartTimer { .. }
            | MasterOutput::StopTimer(_)
            | MasterOutput::SolveTour { .. }
            | MasterOutput::SearchTour { .. }
            | MasterOutput::EndSearch { .. }
            | MasterOutput::Refuse { .. }
            | MasterOutput::Moved { .. }
            | MasterOutput::Lost { .. }
            | MasterOutput::Inconsistent { .. }
            | MasterOutput::Stopped => Self::Later,
        }
    }

    const fn of_message(message: &ToPeer) -> Self {
        match message {
            ToPeer::EstablishLinks { .. }
            | ToPeer::Probe { .. }
            | ToPeer::Commence { .. }
            | ToPeer::SharedStatePlan(_)
            | ToPeer::PeersPending { .. }
            | ToPeer::Awaited(_) => Self::Soon,
            ToPeer::Welcome { .. }
            | ToPeer::Refused(_)
            | ToPeer::TopologyEstablished { .. }
            | ToPeer::CallFailed(_)
            | ToPeer::OptimizationConcluded { .. }
            | ToPeer::SharedStateConcluded { .. }
            | ToPeer::CollectiveRefused { .. }
            | ToPeer::Verdict { .. }
            | ToPeer::Kicked(_)
            | ToPeer::Heartbeat
            | ToPeer::Stopping => Self::Before,
        }
    }
}

impl Machine for Durable {
    type Config = Self;
    type Input = MasterInput;
    type Output = MasterOutput;

    const NAME: &'static str = "journal";
    const KIND: u8 = 2;

    fn begin(snapshot: Self) -> Self {
        rule!(snapshot; EpochReused => snapshot.before_all_epochs())
    }

    fn step(&mut self, input: MasterInput, out: &mut Vec<MasterOutput>) {
        rule!(
            self.handle(input, out);
            VoteForgotten => self.step_but_if(replay::is_silent, input, out),
            VerdictChanged => self.step_but_if(replay::decides, input, out),
            AdmittedTwice => self.step_and_admit_again(input, out),
        );
    }
}

#[cfg(test)]
mod tests;
