//! The session at the master: what takes the place of a connection that breaks or carries nothing.

use pccl_core::peer::PeerInput;
use pccl_core::timers::{PAUSE, prolonged};
use pccl_core::transport::LaneError;
use pccl_core::wire::{ControlError, HandshakeError};
use tokio::time::Instant;

use super::Live;
use crate::engine::control::Wire;
use crate::engine::returning::{Returned, Returning};

#[cfg(test)]
mod tests;

impl Live {
    /// Tries to go on over another connection, if there is a session.
    pub(super) fn disconnected(&mut self, error: ControlError) -> Option<PeerInput> {
        tracing::debug!(%error, "the connection to the master ended");
        let Some(returning) = self.way_back() else {
            return Some(PeerInput::MasterDisconnected);
        };
        self.go_back(&error, returning);
        None
    }

    fn go_back(&mut self, error: &ControlError, returning: Returning) {
        let away_max = self.control.away_max();
        if !away_max.is_zero() {
            tracing::warn!("the master is away ({error}); it has {away_max:?} to come back");
        }
        self.control.go_back(returning);
        self.data.excuse_stalls(true);
    }

    /// Leads to another connection. `None`: the connection is down already, or has no session.
    fn way_back(&self) -> Option<Returning> {
        let shown = self.control.shown_by(self.me)?;
        let may_restart = !self.control.away_max().is_zero();
        let shown = (shown, &self.control.attempts);
        let home = &self.home;
        Some(home.return_to(&self.transport, shown, may_restart, self.seed))
    }

    pub(super) fn returned(
        &mut self,
        returned: Result<Returned, HandshakeError>,
    ) -> Option<PeerInput> {
        let lost = match returned {
            Ok(returned) => match self.control.resume(self.heard_from(returned)) {
                Ok(()) => {
                    self.data.excuse_stalls(false);
                    tracing::info!(
                        "another connection to the master has taken the place of one that was broken"
                    );
                    return None;
                }
                Err(error) => error.to_string(),
            },
            Err(error) => error.to_string(),
        };
        if self.control.look_no_further().is_some() {
            tracing::debug!("no other connection to the master can be had: {lost}");
            return None;
        }
        self.control.end();
        tracing::debug!("the session at the master is over: {lost}");
        Some(PeerInput::MasterDisconnected)
    }

    fn heard_from(&self, returned: Returned) -> Returned {
        let lane = self.hearing.note(returned.lane);
        Returned { lane, ..returned }
    }

    /// Looks for another connection if nothing is heard over this one: a path that carries nothing any more says nothing
    /// of the master, which may be reached on another one, or have started again. Time in which this peer stood still
    /// does not count.
    pub(super) fn doubt(&mut self, now: Instant) {
        let Some(at) = self.doubted_at.filter(|at| *at <= now) else {
            return;
        };
        let heard = self.hearing.doubted_from(self.silence);
        let later = prolonged(at, now, PAUSE).or(Some(heard).filter(|later| *later > now));
        self.doubted_at = later;
        if later.is_none()
            && let Wire::Up { beside: None, .. } = self.control.wire
            && let Some(beside) = self.way_back()
        {
            tracing::info!("nothing is heard from the master; this peer dials it again");
            self.control.look_beside(beside);
        }
    }

    /// When to check again whether the master is lost. It is not yet if something has arrived that is no whole message,
    /// if its messages come too irregularly to give it up, or if it keeps a journal: then another process may go on in
    /// its place, and is looked for.
    pub(super) fn reprieve(&mut self, now: Instant) -> Option<Instant> {
        let later = self.hearing.patience_until(self.silence);
        if later > now {
            return Some(later);
        }
        let away_max = self.control.away_max();
        if let Wire::Up { .. } = self.control.wire
            && !away_max.is_zero()
        {
            let beside = self.control.look_no_further();
            let returning = beside.or_else(|| self.way_back());
            if let Some(returning) = returning {
                self.go_back(&LaneError::TimedOut.into(), returning);
            }
        }
        let Wire::Down { since, .. } = self.control.wire else {
            return None;
        };
        since.checked_add(away_max).filter(|until| *until > now)
    }
}
