//! Peers from which nothing is heard: the others are told before they are evicted, so that whoever waits for them can
//! say so.

use std::cmp::Reverse;

use pccl_core::id::PeerId;
use pccl_core::wire::{QUIET_MAX, QuietPeer};
use tokio::time::Instant;

use super::Desk;

/// Peers are quiet after so many halves of the interval of their signs of life.
const HALVES: u32 = 5;

impl Desk {
    /// Looks from whom nothing is heard, before the others get a sign of life.
    pub(super) fn look_who_is_quiet(&mut self, now: Instant) {
        let limit = self.heartbeat.saturating_mul(HALVES) / 2;
        let peers = self.peers.iter().map(|(peer, connected)| {
            let silence = now.saturating_duration_since(connected.pulse.last());
            (silence, *peer)
        });
        let mut quiet: Vec<_> = peers.filter(|(silence, _)| *silence >= limit).collect();
        quiet.sort_unstable_by_key(|(silence, peer)| (Reverse(*silence), *peer));
        quiet.truncate(QUIET_MAX);
        let was_quiet = |peer: PeerId| self.quiet.iter().any(|quiet| quiet.peer == peer);
        for (silence, peer) in quiet.iter().filter(|(_, peer)| !was_quiet(*peer)) {
            self.chronicle.hears_nothing_from(*peer, *silence);
        }
        let quiet = quiet.into_iter().map(|(silence, peer)| QuietPeer {
            peer,
            millis: u32::try_from(silence.as_millis()).unwrap_or(u32::MAX),
        });
        self.quiet = quiet.collect();
    }
}
