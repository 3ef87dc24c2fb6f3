//! Who is awaited: questions to the master, and who has asked them.
//!
//! The master answers them in their order. They are no calls: they are in nobody's way, and the peer machine remembers
//! none of them.

use std::collections::VecDeque;

use pccl_core::awaited::Awaited;
use pccl_core::peer::{CallError, PeerInput, PeerPhase, PeerView, Usage};
use tokio::sync::oneshot;

/// Who wants to know.
#[derive(Debug)]
pub(super) enum Asker {
    /// The user.
    Caller(oneshot::Sender<Result<Awaited, CallError>>),
    /// Whoever reads the log, about calls that have waited for long.
    Log,
}

/// Questions that have no answer.
#[derive(Debug, Default)]
pub(super) struct Questions {
    askers: VecDeque<Asker>,
}

impl Questions {
    /// Asks the master. Outside of the run there is nobody to ask, which the user is told.
    pub(super) fn ask(&mut self, asker: Asker, peer: &PeerView<'_>) -> Option<PeerInput> {
        match peer.phase() {
            PeerPhase::Registered | PeerPhase::Accepted => {
                self.askers.push_back(asker);
                Some(PeerInput::AskWhoIsAwaited)
            }
            PeerPhase::Unconnected | PeerPhase::AwaitingWelcome | PeerPhase::Gone => {
                fail(asker, peer);
                None
            }
        }
    }

    /// Who gets the next answer.
    pub(super) fn next(&mut self) -> Option<Asker> {
        self.askers.pop_front()
    }

    /// The peer is out of the run: nothing is answered any more.
    pub(super) fn end(&mut self, peer: &PeerView<'_>) {
        self.askers.drain(..).for_each(|asker| fail(asker, peer));
    }
}

fn fail(asker: Asker, peer: &PeerView<'_>) {
    let why = peer.ended().cloned();
    let why = why.unwrap_or(CallError::Usage(Usage::NotConnected));
    match asker {
        // Who has gone needs no answer.
        Asker::Caller(reply) => drop(reply.send(Err(why))),
        Asker::Log => {}
    }
}
