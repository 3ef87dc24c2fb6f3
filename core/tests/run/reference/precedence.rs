//! Which call gives way where peers wait for each other.

use std::collections::BTreeMap;

use pccl_core::id::{GroupId, PeerId};
use pccl_core::messages::{CallFailure, CallKind, CollectiveRefusal, Conflict, Misdeed, ToPeer};
use pccl_core::states::ConnectionState;

use super::{Peers, Reference};

/// Those that a collective gives way to, in order of precedence.
const MAJOR: [CallKind; 2] = [CallKind::OptimizeTopology, CallKind::SyncSharedState];

fn call_failed(conflict: Conflict) -> ToPeer {
    ToPeer::CallFailed(CallFailure::Conflict(conflict))
}

impl Reference {
    /// Who waits in one call while another member waits in another would wait for ever. Optimizations go on;
    /// synchronizations give way to them, and collectives that have not started to both, in their group. (Updates need
    /// nobody to give way: who waits agrees.) But the third collective in a row does not give way to a synchronization:
    /// who waits in it waits for the next update. Only if veterans wait in it for newcomers alone, it gives way itself,
    /// and the sixth time they have to go. Queries are answered with yes where anybody waits in an update or
    /// optimization, or somebody of the group in a synchronization; else with no where somebody of the group waits for
    /// a collective to start, and who asks does nothing else.
    pub(super) fn somebody_gives_way(&mut self) -> bool {
        let groups: Vec<GroupId> = self.groups.keys().copied().collect();
        groups.iter().any(|group| self.sync_gives_way(*group))
            || groups.iter().any(|group| self.start_gives_way(*group))
            || self.queries_give_way()
    }

    fn sync_gives_way(&mut self, group: GroupId) -> bool {
        let above = [CallKind::OptimizeTopology];
        let Some((theirs, peer)) = self.first_waiting(&above, Some(group)) else {
            return false;
        };
        self.offers_give_way(group, theirs, peer)
    }

    pub(super) fn offers_give_way(
        &mut self,
        group: GroupId,
        theirs: CallKind,
        peer: PeerId,
    ) -> bool {
        let offers = &mut self.groups.get_mut(&group).unwrap().offers;
        let losers: Peers = std::mem::take(offers).into_keys().collect();
        let gives_way = !losers.is_empty();
        let conflict = Conflict {
            yours: CallKind::SyncSharedState,
            theirs,
            peer,
        };
        self.tell_all(losers, &call_failed(conflict));
        gives_way
    }

    fn start_gives_way(&mut self, group: GroupId) -> bool {
        let tag = self.groups[&group].starting.keys().next().copied();
        let theirs = self.first_waiting(&MAJOR, Some(group));
        let (Some(tag), Some((theirs, peer))) = (tag, theirs) else {
            return false;
        };
        if theirs == CallKind::SyncSharedState {
            let record = self.groups.get_mut(&group).unwrap();
            let is_new = record.conflicted.len() < 64 && record.conflicted.insert(tag);
            if !is_new || record.conflicts == 0 {
                record.conflicts += 1;
                record.conflicted = [tag].into();
            }
            let callers: Peers = record.starting[&tag].keys().copied().collect();
            let waiting: Peers = record.offers.keys().copied().collect();
            let for_newcomers =
                callers.is_disjoint(&self.veterans) && !waiting.is_disjoint(&self.veterans);
            match record.conflicts {
                3.. if !for_newcomers => {
                    record.conflicts = 0;
                    record.conflicted.clear();
                    self.are_set_aside(group, &waiting);
                    return true;
                }
                3 => {
                    let first = *callers.first().unwrap();
                    self.offers_give_way(group, CallKind::Collective, first);
                    return true;
                }
                6 => {
                    record.conflicts = 0;
                    record.conflicted.clear();
                    for caller in callers {
                        self.is_kicked(caller, Misdeed::MissedBallot);
                    }
                    return true;
                }
                _ => {}
            }
        }
        let conflict = Conflict {
            yours: CallKind::Collective,
            theirs,
            peer,
        };
        self.refuse(group, tag, &CollectiveRefusal::Conflict(conflict));
        true
    }

    /// They wait for the next update with what they offer.
    pub(super) fn are_set_aside(&mut self, group: GroupId, waiting: &Peers) {
        let record = self.groups.get_mut(&group).unwrap();
        for peer in waiting {
            let offer = record.offers.remove(peer).unwrap();
            self.aside.insert(*peer, offer);
        }
        self.accepted = &self.accepted - waiting;
        for peer in &self.asking.clone() & waiting {
            self.asking.remove(&peer);
            self.tell(peer, ToPeer::PeersPending { pending: true });
        }
        self.kept_aside
            .extend(waiting.iter().map(|peer| (*peer, 2)));
    }

    fn queries_give_way(&mut self) -> bool {
        let above = [CallKind::UpdateTopology, CallKind::OptimizeTopology];
        let all = self.first_waiting(&above, None).is_some();
        let mut answered = BTreeMap::new();
        for peer in &self.asking {
            let group = self.peers[peer].group;
            let is_idle = self.state_of(*peer) == ConnectionState::Idle;
            if all || self.first_waiting(&MAJOR, Some(group)).is_some() {
                answered.insert(*peer, true);
            } else if is_idle && !self.groups[&group].starting.is_empty() {
                answered.insert(*peer, false);
            }
        }
        let any = !answered.is_empty();
        for (peer, pending) in answered {
            self.asking.remove(&peer);
            self.tell(peer, ToPeer::PeersPending { pending });
        }
        any
    }

    /// The first of these calls that somebody waits in, and who does for the longest in the run.
    fn first_waiting(
        &self,
        calls: &[CallKind],
        group: Option<GroupId>,
    ) -> Option<(CallKind, PeerId)> {
        calls.iter().find_map(|call| {
            let waiting = self.waiting(*call, group);
            waiting.first().map(|peer| (*call, *peer))
        })
    }

    /// Who waits in a major call for others to make it too.
    fn waiting(&self, call: CallKind, group: Option<GroupId>) -> Peers {
        let mut all: Peers = match call {
            CallKind::UpdateTopology => self.updating.clone(),
            CallKind::OptimizeTopology => self.optimizing.clone(),
            CallKind::SyncSharedState => {
                let offers = self.groups.values().flat_map(|group| group.offers.keys());
                offers.copied().collect()
            }
            CallKind::Collective => Peers::new(),
        };
        all.retain(|peer| {
            !self.is_wired(*peer) && group.is_none_or(|group| self.peers[peer].group == group)
        });
        all
    }
}
