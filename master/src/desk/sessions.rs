//! Peers whose connection ends, and who may come back over another one. The machine learns only of those that do not.

use std::sync::Arc;
use std::time::Duration;

use pccl_core::id::{ConnId, PeerId};
use pccl_core::master::MasterInput;
use pccl_core::transport::LaneError;
use pccl_core::wire::{ControlError, DecodeError};
use tokio::time::Instant;

use super::{Connected, Desk, Due, FOREVER};
use crate::connection::{Resumed, Returning};
use crate::outbox::CannotAttach;

impl Desk {
    /// The session of this peer, if this is its connection. What another connection of the peer still brings was sent
    /// again over this one, or will be.
    pub(super) fn present(&mut self, peer: PeerId, conn: ConnId) -> Option<&mut Connected> {
        let connected = self.peers.get_mut(&peer)?;
        (connected.conn == Some(conn)).then_some(connected)
    }

    /// The connection of a peer has ended. If the peer may still be there, it has time to come back.
    pub(super) fn ended(&mut self, peer: PeerId, error: &ControlError, may_return: bool) {
        let limit = self.may_be_away(peer, error).filter(|_| may_return);
        match limit {
            Some(limit) => self.wait_for(peer, limit),
            None => self.gone(peer),
        }
    }

    /// How long a peer whose connection has ended so may stay away; `None` if it is lost.
    fn may_be_away(&self, peer: PeerId, error: &ControlError) -> Option<Duration> {
        match error {
            // Its invitation was revoked.
            ControlError::Lane(LaneError::Untrusted) => None,
            // A network that carries nothing, or other bytes, says nothing of the peer. Its silence does.
            ControlError::Lane(LaneError::TimedOut | LaneError::Unreachable)
            | ControlError::Decode(DecodeError::Damaged) => Some(self.away_max()),
            ControlError::Lane(_)
            | ControlError::Ended
            | ControlError::Decode(_)
            | ControlError::Encode(_) => match self.peers.get(&peer) {
                // A peer gives an attempt to come back up if it takes too long, and makes another one.
                Some(connected) if !connected.has_spoken => Some(self.away_max()),
                Some(_) | None => {
                    (!self.limits.reconnect.is_zero()).then_some(self.limits.reconnect)
                }
            },
        }
    }

    /// As long as it does not count as silent.
    fn away_max(&self) -> Duration {
        self.limits.reconnect.max(self.silence).min(FOREVER)
    }

    fn wait_for(&mut self, peer: PeerId, limit: Duration) {
        if let Some(connected) = self.peers.get_mut(&peer) {
            tracing::info!("the connection of {peer} has ended; it may come back within {limit:?}");
            connected.conn = None;
            connected.outbox.detach();
            let at = Instant::now() + limit;
            self.timers.arm(Due::Absence(peer), at);
        }
    }

    /// The peer is lost.
    pub(super) fn gone(&mut self, peer: PeerId) {
        self.handle(MasterInput::Disconnected { peer });
        self.close(peer);
        self.ring();
    }

    /// Lets a peer go on over another connection, if it is the peer of that session and both ends have kept what the
    /// other lacks. The machine learns nothing of it.
    pub(super) fn resume(&mut self, returning: Returning) {
        if !self.is_on_disk() {
            return;
        }
        let Returning { from, session, .. } = returning;
        let peer = session.peer;
        let is_right = session.token == self.mint.session(peer);
        let known = self
            .peers
            .get_mut(&peer)
            .filter(|connected| is_right && connected.identity == returning.identity);
        let Some(connected) = known else {
            tracing::debug!("{from} wants to resume a session of {peer}, and there is no such one");
            return;
        };
        if session.attempt <= connected.attempt {
            tracing::debug!("{peer} has given up this attempt to come back, and made another one");
            return;
        }
        let by = match connected.outbox.attach(session.received) {
            Ok(by) => by,
            Err(error @ CannotAttach::Overtaken) => {
                tracing::debug!("{peer} does not go on over another connection: {error}");
                return;
            }
            Err(CannotAttach::Resume(error)) => {
                tracing::warn!("{peer} cannot resume its session: {error}");
                return self.gone(peer);
            }
        };
        returning.granted.register();
        if connected.is_admitted {
            returning.granted.admit();
        }
        connected.conn = Some(returning.conn);
        connected.attempt = session.attempt;
        connected.has_spoken = false;
        returning.pulse.follow(&connected.pulse);
        connected.pulse = returning.pulse;
        connected.granted = returning.granted;
        let resumed = Resumed {
            outbox: Arc::clone(&connected.outbox),
            by,
            heard: connected.heard,
        };
        if returning.resumed.send(resumed).is_ok() {
            tracing::info!("{peer} has come back from {from}");
            self.timers.disarm(Due::Absence(peer));
        } else {
            let limit = self.away_max();
            self.wait_for(peer, limit);
        }
    }
}
