//! The machine beside each training process: it turns a user's calls into votes, and the master's messages into
//! orders for the data plane.
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
//! | `joining` | hello, welcome, waiting to be admitted; heartbeats |
//! | `accepted` | dispatch of the inputs of an accepted peer |
//! | `admission` | which calls may be made, which wait, and what a given-up call leaves behind |
//! | `membership` | `update_topology`, other rings, `are_peers_pending`, calls that give way |
//! | `wiring` | which ring edges are established, which are being connected, which are broken |
//! | `collectives` | the tags: vote, run, vote, verdict |
//! | `shared_state` | synchronizing |
//! | `optimize` | measuring for a better ring |
//! | `farewell` | every end of the membership: what is stopped and which calls are answered |
//! | `view` | the state that tests, the model and the logs may read |
//!
//! **Invariant:** every call is answered exactly once, unless it was given up: then it is not answered. A usage error
//! is returned in the same [`Peer::handle`], and nothing is sent or changed.
//!
//! **Invariant:** `farewell` is the only end of the membership. It stops what runs and answers the open calls, and it
//! is final.

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

/// The state machine of one peer. The same inputs in the same order give the same outputs.
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

/// The stage of the membership, with the state of that stage.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::large_enum_variant,
    reason = "a peer is accepted for nearly all of its life"
)]
enum Stage {
    Unconnected,
    AwaitingWelcome(Caller),
    Registered(Registered),
    Accepted(Accepted),
    Gone(CallError),
}

/// The list to which `handle` appends.
type Out = Vec<PeerOutput>;

/// The outcome of an input. The error is why the peer has to leave the run.
type Step = Result<(), CallError>;

impl Peer {
    /// A peer that has not connected.
    #[must_use]
    pub fn new(config: PeerConfig) -> Self {
        let stage = Stage::Unconnected;
        Self { config, stage }
    }

    /// Applies one input, and appends the orders for the driver to `out`, in sequence. It cannot fail: if the run
    /// ends for this peer, the answers to its calls say so.
    pub fn handle(&mut self, input: PeerInput, out: &mut Out) {
        if let Err(why) = self.take(input, out) {
            self.end(why, out);
        }
    }

    /// The state that tests, the model and the logs may read.
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

/// Answers a call that the program must not make. Nothing else happens.
fn misuse(call: CallId, what: &Call, usage: Usage, out: &mut Out) {
    answer(out, call, what.kind().failed(CallError::Usage(usage)));
}

/// Why a message ends the membership, if it arrives in a state in which the master must not send it.
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
