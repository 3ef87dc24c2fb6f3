//! Which of two calls gives way when peers wait for each other.
//!
//! Two members of a group that wait in different calls wait for ever: neither can cast the vote that
//! the other lacks. The call that gives way is answered with [`Conflict`], which names the other call
//! and its caller; nothing was changed, and the way out is to make that call first. In order:
//!
//! 1. `update_topology` goes on;
//! 2. `optimize_topology` gives way to it;
//! 3. `sync_shared_state` gives way to both;
//! 4. a collective that has not started gives way to all three. One that runs is never disturbed:
//!    the major call waits for it.
//!
//! A peer that asks `are_peers_pending` while a major call waits for its vote would wait for ever too:
//! it cannot make that call before it has its answer. It is told *yes*, which leads it to where the
//! others are. A newcomer whose loop begins with the question gets the answer that the others had,
//! for it was itself what was pending.
//!
//! Where the others of its group wait to start a collective it is told *no*, for the same reason: they
//! have had their answer, and go on without an update.
//!
//! So in the usual loop (update, synchronize, compute, reduce) a peer that fell out of step comes back
//! into it at the top of its loop.

use alloc::vec::Vec;

use super::record::{Collective, SyncProgress};
use super::{Master, Out, send};
use crate::id::{GroupId, PeerId, Tag};
use crate::messages::{CallFailure, CallKind, CollectiveRefusal, Conflict, ToPeer};
use crate::states::{ConnectionState, Event};

impl Master {
    /// True: some call gave way.
    pub(super) fn resolve_conflicts(&mut self, out: &mut Out) -> bool {
        self.optimization_gives_way(out)
            || self.sync_gives_way(out)
            || rule!(self.collectives_give_way(out); CollectiveStandsFast => false)
            || rule!(self.queries_give_way(out); QueryStandsFast => false)
    }

    fn queries_give_way(&mut self, out: &mut Out) -> bool {
        let global = self.major_call_above_sync(None).is_some();
        let asking: Vec<(PeerId, bool)> = self
            .accepted()
            .filter(|(_, record)| record.asked_pending)
            .filter_map(|(peer, record)| {
                if global || self.major_call(record.group).is_some() {
                    return Some((peer, true));
                }
                let holds_up = record.state == ConnectionState::Idle
                    && self.a_tag_that_waits(record.group).is_some();
                holds_up.then_some((peer, false))
            })
            .collect();
        for (peer, pending) in &asking {
            if let Some(record) = self.peers.get_mut(peer) {
                record.asked_pending = false;
            }
            let pending = *pending;
            send(out, *peer, ToPeer::PeersPending { pending });
        }
        !asking.is_empty()
    }

    fn optimization_gives_way(&mut self, out: &mut Out) -> bool {
        let Some(peer) = self.first_in(None, ConnectionState::VoteAcceptNewPeers) else {
            return false;
        };
        let losers = self.all_in(None, ConnectionState::VoteOptimizeTopology);
        let (yours, theirs) = (CallKind::OptimizeTopology, CallKind::UpdateTopology);
        self.give_way(
            &losers,
            Conflict {
                yours,
                theirs,
                peer,
            },
            out,
        )
    }

    fn sync_gives_way(&mut self, out: &mut Out) -> bool {
        let groups: Vec<GroupId> = self.groups.keys().copied().collect();
        for group in groups {
            let losers = self.all_in(Some(group), ConnectionState::VoteSyncSharedState);
            let Some((theirs, peer)) = self.major_call_above_sync(Some(group)) else {
                continue;
            };
            let conflict = Conflict {
                yours: CallKind::SyncSharedState,
                theirs,
                peer,
            };
            if self.give_way(&losers, conflict, out) {
                if let Some(record) = self.groups.get_mut(&group) {
                    record.sync = SyncProgress::default();
                }
                return true;
            }
        }
        false
    }

    fn collectives_give_way(&mut self, out: &mut Out) -> bool {
        let groups: Vec<GroupId> = self.groups.keys().copied().collect();
        groups.into_iter().any(|group| {
            let Some((theirs, peer)) = self.major_call(group) else {
                return false;
            };
            let Some(tag) = self.a_tag_that_waits(group) else {
                return false;
            };
            let conflict = Conflict {
                yours: CallKind::Collective,
                theirs,
                peer,
            };
            self.refuse_tag(group, tag, &CollectiveRefusal::Conflict(conflict), out);
            true
        })
    }

    fn give_way(&mut self, losers: &[PeerId], conflict: Conflict, out: &mut Out) -> bool {
        for loser in losers {
            self.step(*loser, Event::CallGaveWay, out);
            send(
                out,
                *loser,
                ToPeer::CallFailed(CallFailure::Conflict(conflict)),
            );
        }
        !losers.is_empty()
    }

    /// Of one group, or of all.
    fn major_call_above_sync(&self, group: Option<GroupId>) -> Option<(CallKind, PeerId)> {
        let update = self.first_in(group, ConnectionState::VoteAcceptNewPeers);
        let optimize = self.first_in(group, ConnectionState::VoteOptimizeTopology);
        update
            .map(|peer| (CallKind::UpdateTopology, peer))
            .or(optimize.map(|peer| (CallKind::OptimizeTopology, peer)))
    }

    fn major_call(&self, group: GroupId) -> Option<(CallKind, PeerId)> {
        let sync = self.first_in(Some(group), ConnectionState::VoteSyncSharedState);
        self.major_call_above_sync(Some(group))
            .or(sync.map(|peer| (CallKind::SyncSharedState, peer)))
    }

    /// A tag whose start is being voted on. A peer in a major call has no collectives, so while one
    /// of the group is, this vote cannot become unanimous.
    fn a_tag_that_waits(&self, group: GroupId) -> Option<Tag> {
        self.groups
            .get(&group)?
            .collectives
            .iter()
            .find_map(|(tag, collective)| match collective {
                Collective::Initiating(_) => Some(*tag),
                Collective::Running { .. } => None,
            })
    }

    fn first_in(&self, group: Option<GroupId>, state: ConnectionState) -> Option<PeerId> {
        self.all_in(group, state).first().copied()
    }

    fn all_in(&self, group: Option<GroupId>, state: ConnectionState) -> Vec<PeerId> {
        self.accepted()
            .filter(|(_, record)| record.state == state)
            .filter(|(_, record)| group.is_none_or(|group| record.group == group))
            .map(|(peer, _)| peer)
            .collect()
    }
}
