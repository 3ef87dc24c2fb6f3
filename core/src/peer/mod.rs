//! The machine beside each training process: turns a user's calls into votes, and what the master
//! says into orders for whoever moves the data.
//!
//! ```text
//!             Call::Connect           Welcome            first TopologyEstablished
//!  Unconnected ─────────▶ AwaitingWelcome ─────▶ Registered ─────────▶ Accepted
//!       └──────────────────────┴── the master is lost, refuses, … ──┴──────┴──▶ Gone (for good)
//! ```
//!
//! | file | what it is for |
//! |---|---|
//! | `io` | inputs, outputs, calls, answers, configuration |
//! | `joining` | hello, welcome, waiting to be admitted; signs of life |
//! | `accepted` | a peer of the run: which input goes where |
//! | `admission` | which calls may be made, which wait, and what a given-up call leaves behind |
//! | `membership` | `update_topology`, other rings, `are_peers_pending`, calls that give way |
//! | `wiring` | which ring edges stand, which are being connected, which are broken |
//! | `collectives` | the tags: vote, run, vote, verdict |
//! | `shared_state` | synchronizing |
//! | `optimize` | measuring for a better ring |
//! | `farewell` | every way out: what is stopped and who is answered |
//! | `view` | what tests, the model and the logs may look at |
//!
//! **Invariant:** every call is answered exactly once, unless it was given up: then it is not. A usage error
//! comes within the same [`Peer::handle`], without anything sent or changed.
//!
//! **Invariant:** the only way out of the run is `farewell`; it stops what runs, answers what is open,
//! and is never come back from.

mod accepted;
mod admission;
mod collectives;
mod farewell;
mod io;
mod joining;
mod kind;
mod membership;
mod optimize;
mod shared_state;
mod view;
mod wiring;

use alloc::vec::Vec;

pub use io::{
    AdoptedLanes, AdoptedLink, Answer, Call, CallError, Committed, Joined, Optimized, PeerConfig,
    PeerInput, PeerOutput, PeerTimer, Synchronized, Usage,
};
pub use joining::WELCOME_LIMIT;
pub use kind::Kind;
pub use view::{OpenCalls, PeerPhase, PeerView, TagView};

use crate::id::CallId;
use crate::messages::{ToMaster, ToPeer};
use accepted::Accepted;
use admission::Caller;
use joining::Registered;

/// One peer's part of the protocol. The same inputs in the same order give the same outputs.
///
/// ```
/// use pccl_core::id::{CallId, GroupId};
/// use pccl_core::messages::ToMaster;
/// use pccl_core::peer::{Call, Peer, PeerConfig, PeerInput, PeerOutput};
///
/// let mut peer = Peer::new(PeerConfig {
///     group: GroupId(0),
///     port: 48149,
///     advertise: None,
///     lanes: 4,
///     site: Default::default(),
///     name: Default::default(),
///     collectives_max: 16,
/// });
/// let mut out = Vec::new();
/// peer.handle(PeerInput::Call { call: CallId(0), what: Call::Connect }, &mut out);
///
/// assert!(matches!(out.first(), Some(PeerOutput::Send(ToMaster::Hello(_)))));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    config: PeerConfig,
    stage: Stage,
}

/// How far the peer is, with all that it knows there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Unconnected,
    AwaitingWelcome(Caller),
    Registered(Registered),
    Accepted(Accepted),
    Gone(CallError),
}

/// What `handle` appends to.
type Out = Vec<PeerOutput>;

/// How an input was taken: the error is why the peer has to leave the run.
type Step = Result<(), CallError>;

impl Peer {
    /// A peer that has not connected.
    #[must_use]
    pub fn new(config: PeerConfig) -> Self {
        let stage = Stage::Unconnected;
        Self { config, stage }
    }

    /// Applies one input and appends what is to be done, in order. Never fails: whatever ends the
    /// run for this peer is told by the answers to its calls.
    pub fn handle(&mut self, input: PeerInput, out: &mut Out) {
        if let Err(why) = self.take(input, out) {
            self.end(why, out);
        }
    }

    /// What tests, the model and the logs may look at.
    #[must_use]
    pub fn view(&self) -> PeerView<'_> {
        PeerView::new(self)
    }

    fn take(&mut self, input: PeerInput, out: &mut Out) -> Step {
        match &mut self.stage {
            Stage::Unconnected => self.while_unconnected(input, out),
            Stage::AwaitingWelcome(_) => self.while_awaiting_welcome(input, out),
            Stage::Registered(registered) => match registered.take(input, out)? {
                Some(accepted) => {
                    self.stage = Stage::Accepted(accepted);
                    Ok(())
                }
                None => Ok(()),
            },
            Stage::Accepted(accepted) => accepted.take(input, out),
            Stage::Gone(why) => {
                if let PeerInput::Call { call, what } = input {
                    answer(out, call, what.kind().failed(why.clone()));
                }
                Ok(())
            }
        }
    }
}

fn send(out: &mut Out, message: ToMaster) {
    out.push(PeerOutput::Send(message));
}

fn answer(out: &mut Out, call: CallId, answer: Answer) {
    out.push(PeerOutput::Answer { call, answer });
}

/// Answers a call that was a mistake of the calling program; nothing else happens.
fn misuse(call: CallId, what: &Call, usage: Usage, out: &mut Out) {
    answer(out, call, what.kind().failed(CallError::Usage(usage)));
}

/// Why a message ends the peer's part in the run, in a state where it should not have been sent.
fn out_of_place(message: &ToPeer) -> CallError {
    match message {
        ToPeer::Refused(refusal) => CallError::Refused(refusal.clone()),
        ToPeer::Kicked(misdeed) => {
            rule!(CallError::Kicked(misdeed.clone()); KickCalledLoss => CallError::MasterLost)
        }
        ToPeer::Stopping => CallError::MasterStopped,
        ToPeer::Welcome { .. }
        | ToPeer::EstablishLinks { .. }
        | ToPeer::TopologyEstablished { .. }
        | ToPeer::CallFailed(_)
        | ToPeer::PeersPending { .. }
        | ToPeer::Probe { .. }
        | ToPeer::OptimizationConcluded { .. }
        | ToPeer::SharedStatePlan(_)
        | ToPeer::SharedStateConcluded { .. }
        | ToPeer::Commence { .. }
        | ToPeer::CollectiveRefused { .. }
        | ToPeer::Verdict { .. }
        | ToPeer::Heartbeat
        | ToPeer::Awaited(_) => CallError::MasterMisbehaved,
    }
}
