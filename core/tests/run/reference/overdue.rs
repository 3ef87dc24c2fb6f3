//! What follows when somebody has been waited for too long.

use pccl_core::id::{GroupId, PeerId, Tag};
use pccl_core::master::MasterTimer;
use pccl_core::messages::{AbortCause, CollectiveRefusal, Misdeed, ToPeer};
use pccl_core::shared_state::SyncFailure;
use pccl_core::states::ConnectionState;

use super::Reference;
use super::seen::Seen;
use super::state::Lateness;

impl Reference {
    /// Who keeps others waiting goes, where it does nothing else meanwhile; else what they wait for is
    /// given up.
    pub(super) fn is_overdue(&mut self, timer: MasterTimer, seen: &Seen) {
        match timer {
            MasterTimer::HeartbeatDue => {
                let everybody: Vec<PeerId> = self.peers.keys().copied().collect();
                self.tell_all(everybody, &ToPeer::Heartbeat);
            }
            MasterTimer::MeasurementsAge => {}
            MasterTimer::Silence(peer) => self.is_kicked(peer, Misdeed::Silent),
            MasterTimer::Late(peer) => self.is_late(peer),
            MasterTimer::Wiring(round) | MasterTimer::RetryWiring(round) => {
                self.wiring_fails(round, seen);
            }
            MasterTimer::Solver(_) => self.conclude_search(false),
        }
    }

    fn is_late(&mut self, peer: PeerId) {
        let group = self.peers[&peer].group;
        match self.lateness_of(peer).expect("its timer ran") {
            Lateness::Vote => {
                let (late, waiting) = self.late_and_waiting(peer);
                if late <= waiting {
                    self.is_kicked(peer, Misdeed::MissedBallot);
                }
            }
            Lateness::Join => {
                let starting = self.groups[&group].starting.iter();
                let lacking = starting.filter(|(_, votes)| !votes.contains_key(&peer));
                let lacking: Vec<Tag> = lacking.map(|(tag, _)| *tag).collect();
                for tag in lacking {
                    let mut peers = self.members(group);
                    peers.retain(|peer| {
                        !self.tags_of(*peer).contains_key(&tag) && self.only_waits_to_start(*peer)
                    });
                    let peers = peers.into_iter().collect();
                    self.refuse(group, tag, &CollectiveRefusal::NotJoined { peers });
                }
            }
            Lateness::Part => self.holds_up(peer, group),
            Lateness::Probe => self.measures_no_more(peer),
        }
    }

    /// How many do nothing although others wait for them where these wait for this one; and how many of
    /// those others there are.
    fn late_and_waiting(&self, peer: PeerId) -> (usize, usize) {
        let group = self.peers[&peer].group;
        let asks = |peer: &PeerId| self.asking.contains(peer);
        let of_all = !self.optimizing_by_itself().is_empty()
            || !self.updating_by_itself().is_empty() && !self.resting.contains(&peer)
            || !self.asking.is_empty() && !asks(&peer);
        let mut concerned = self.accepted.clone();
        concerned.retain(|peer| of_all || self.peers[peer].group == group);
        let idle = |peer: &&PeerId| self.state_of(**peer) == ConnectionState::Idle;
        let late = concerned.iter().filter(idle);
        let late = late.filter(|peer| self.lateness_of(**peer).is_some());
        let waits = |peer: &&PeerId| !idle(peer) || asks(peer);
        (late.count().max(1), concerned.iter().filter(waits).count())
    }

    /// Whoever holds up what runs goes if as many have done their part as have not, or if it does so
    /// again; else what it holds up comes to nothing.
    fn holds_up(&mut self, peer: PeerId, id: GroupId) {
        let members = self.members(id).len();
        let group = self.groups.get_mut(&id).unwrap();
        let stalls = group.stalls.entry(peer).or_default();
        *stalls += 1;
        let again = *stalls >= 2;
        let moving = group.moving.as_ref();
        let moving = moving.filter(|moving| moving.lacking.contains(&peer));
        let running = group.running.iter();
        let held_up = running.filter(|(_, running)| running.lacking.contains(&peer));
        let held_up: Vec<(Tag, usize)> = held_up
            .map(|(tag, running)| (*tag, running.lacking.len()))
            .collect();
        let fewest = held_up.iter().map(|(_, lacking)| *lacking).min();
        let is_moving = moving.is_some();
        let (lacking, all) = match (moving, fewest) {
            (Some(moving), _) => (moving.lacking.len(), members),
            (None, Some(lacking)) => (lacking, members),
            (None, None) => unreachable!("nothing lacks its part"),
        };
        if again || 2 * lacking <= all {
            self.is_kicked(peer, Misdeed::Stalled);
        } else if is_moving {
            self.transfers_take_too_long(id);
            self.conclude_sync(id, Err(SyncFailure::TimedOut));
        } else {
            for (tag, _) in held_up {
                self.abort(id, tag, AbortCause::TimedOut);
            }
        }
    }

    /// Who has not fetched in time has failed with its holder.
    fn transfers_take_too_long(&mut self, id: GroupId) {
        let group = self.groups.get_mut(&id).unwrap();
        if let Some(moving) = &group.moving {
            let sources = moving.sources.iter();
            let late = sources.filter(|(requester, _)| moving.lacking.contains(requester));
            for (requester, holders) in late {
                group.mishaps.fails(*requester, holders);
            }
        }
    }
}
