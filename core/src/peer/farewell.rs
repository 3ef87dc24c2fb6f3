//! Every end of the membership: what is stopped, and which calls are answered.

use super::io::{Answer, CallError, PeerOutput, PeerTimer};
use super::joining::Registered;
use super::{Out, Peer, Stage, send};
use crate::messages::ToMaster;

impl Peer {
    /// Ends the membership: plans are stopped, fetched state is dropped, each open call is answered with `why`, and
    /// everything is closed. No verdict is assumed: a collective without a verdict ends with `why`, even if its
    /// result was complete.
    pub(super) fn end(&mut self, why: CallError, out: &mut Out) {
        let stage = core::mem::replace(&mut self.stage, Stage::Gone(why.clone()));
        let was_connected = match stage {
            Stage::Unconnected => false,
            Stage::AwaitingWelcome(caller) | Stage::Registered(Registered { caller, .. }) => {
                say_goodbye(&why, out);
                caller.is_told(Answer::Connected(Err(why)), out);
                true
            }
            Stage::Accepted(accepted) => {
                say_goodbye(&why, out);
                out.extend(accepted.abandon(&why));
                true
            }
            // Nothing that has ended ends again: the first reason stays.
            Stage::Gone(first) => {
                self.stage = Stage::Gone(first);
                return;
            }
        };
        if rule!(was_connected; PeerTimersLeftRunning => false) {
            out.push(PeerOutput::StopTimer(PeerTimer::HeartbeatDue));
            out.push(PeerOutput::StopTimer(PeerTimer::MasterSilence));
        }
        out.push(PeerOutput::Close);
    }
}

/// Only a peer that leaves on purpose sends a message. In all other cases the master has ended the connection itself.
fn say_goodbye(why: &CallError, out: &mut Out) {
    if *why == CallError::Left {
        send(out, ToMaster::Leave);
    }
}
