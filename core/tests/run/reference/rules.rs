//! What follows from the facts. A ballot that is complete is decided; what cannot become complete
//! gives way; then everything is looked at again, until nothing moves.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::element::{CollectiveKind, CollectiveSpec, SpecField};
use pccl_core::id::{
    ContentHash, EntryIndex, GroupId, Membership, PeerId, Revision, Round, Seq, Tag,
};
use pccl_core::lengths::Lengths;
use pccl_core::messages::{AbortCause, CollectiveRefusal, Misdeed, Reserved, ToPeer, Verdict};
use pccl_core::plan::{Algorithm, Paths, Reach};
use pccl_core::shared_state::{EntryInfo, SyncFailure, SyncPlan, SyncRole};

use super::election::{Held, Outcome, content, elect, fetches, holders};
use super::rings::{Purpose, in_order};
use super::seen::Seen;
use super::{Moving, Peers, Reference, Running};

/// The reference knows rings only.
const RINGS: Paths = Paths {
    reach: Reach::Ring,
    within_machine: false,
    rounds_from: 4,
    two_levels: false,
    site_ring: false,
    even_sites: true,
    sites_whole_max: 0,
    in_order: false,
    costs: None,
};

impl Reference {
    pub(super) fn settle(&mut self, seen: &Seen) {
        while self.queries_are_answered()
            || self.some_group_goes_on(seen)
            || self.search_goes_on(seen)
            || self.search_begins(seen)
            || self.admission_begins(seen)
            || self.somebody_gives_way()
        {}
    }

    /// When every accepted peer asks, all hear the same: does anybody wait to be admitted?
    fn queries_are_answered(&mut self) -> bool {
        let all_ask = !self.accepted.is_empty() && self.asking == self.accepted;
        if all_ask {
            let pending = self.peers.len() > self.accepted.len();
            let asking = std::mem::take(&mut self.asking);
            self.tell_all(asking, &ToPeer::PeersPending { pending });
        }
        all_ask
    }

    fn some_group_goes_on(&mut self, seen: &Seen) -> bool {
        let groups: Vec<GroupId> = self.groups.keys().copied().collect();
        groups.into_iter().any(|group| {
            self.commits(group)
                || self.has_moved(group)
                || self.elects(group, seen)
                || self.rewires(group, seen)
                || self.starts(group)
        })
    }

    /// Committed at the moment when nobody's vote on the outcome lacks: each has voted, though it may be
    /// gone since. (Who goes before it has voted, or votes otherwise, aborts at that moment.)
    fn commits(&mut self, group: GroupId) -> bool {
        let running = &self.groups[&group].running;
        let complete = running.iter().find(|(_, r)| r.lacking.is_empty());
        let Some((tag, ended)) = complete.map(|(tag, running)| (*tag, running.clone())) else {
            return false;
        };
        let bytes = ended.bytes;
        // From peer to peer it comes to that one before the root, and no further.
        let ring = &ended.participants;
        let at_root = |rank: &usize| ring.len() > 2 && Some(ring[*rank]) == ended.root;
        let root = (0..ring.len()).find(at_root);
        let unused =
            root.map(|rank| in_order((ring[(rank + ring.len() - 1) % ring.len()], ring[rank])));
        let epoch = self.groups[&group].epoch;
        let next = self.reserves(group, &ended, tag);
        self.decide(group, tag, &Verdict::Committed { epoch, next });
        let record = self.groups.get_mut(&group).unwrap();
        record
            .breaks
            .retain(|pair, (_, largest)| *largest > bytes || Some(*pair) == unused);
        record.cancels.retain(|_, (_, largest)| *largest > bytes);
        if bytes > 0 {
            record.stalls.clear();
        }
        self.conflicts_end(group);
        true
    }

    /// Who wants the same again need not wait for the others, if nothing else of the group is open, if what it sends is
    /// known, and if that is little for whoever does not take it yet.
    fn reserves(&mut self, id: GroupId, ended: &Running, tag: Tag) -> Option<Reserved> {
        let is_stale = self.is_stale(id);
        let group = &self.groups[&id];
        let others = u64::try_from(group.ring.0.len()).unwrap() - 1;
        let is_alone = group.running.len() == 1 && group.starting.is_empty();
        let (spec, algorithm) = (ended.spec, ended.algorithm);
        let is_known = match spec.kind {
            CollectiveKind::AllGatherV { .. } | CollectiveKind::Barrier => false,
            _ => spec.op.weight().is_none(),
        };
        let most = match algorithm {
            // The reference knows rings only.
            Algorithm::Whole(_) => ended.bytes * others,
            _ => ended.bytes,
        };
        let is_little = most <= self.config.ahead_max;
        let moves = ended.bytes > 0 && others > 0;
        let may = is_alone && is_known && is_little && !is_stale && moves;
        if !may || !self.config.ahead_within_machine {
            return None;
        }
        self.executions += 1;
        let seq = Seq(self.executions);
        let reserved = Reserved { seq, algorithm };
        let group = self.groups.get_mut(&id).unwrap();
        (group.repeat, group.has_it) = (Some((tag, spec, reserved)), Peers::new());
        group.reserved = Some(seq);
        Some(reserved)
    }

    /// The group goes on: whom it has set aside may come in again.
    fn conflicts_end(&mut self, id: GroupId) {
        let group = self.groups.get_mut(&id).unwrap();
        group.conflicts = 0;
        group.conflicted.clear();
        let peers = &self.peers;
        self.kept_aside.retain(|peer, _| peers[peer].group != id);
    }

    pub(super) fn abort(&mut self, group: GroupId, tag: Tag, cause: AbortCause) {
        self.decide(group, tag, &Verdict::Aborted(cause));
    }

    /// Every participant that is still here hears the same verdict, and nobody else does.
    fn decide(&mut self, group: GroupId, tag: Tag, verdict: &Verdict) {
        let group = self.groups.get_mut(&group).unwrap();
        let ended = group.running.remove(&tag).unwrap();
        let (seq, verdict) = (ended.seq, verdict.clone());
        let mut here = ended.participants;
        here.retain(|peer| self.peers.contains_key(peer));
        self.tell_all(here, &ToPeer::Verdict { tag, seq, verdict });
    }

    /// A collective starts, on a ring that is whole, when every member of the group wants the same under
    /// its tag. Where they want different things, it is refused to all.
    fn starts(&mut self, id: GroupId) -> bool {
        let members = self.members(id);
        let mut starting = self.groups[&id].starting.iter();
        let complete = starting.find(|(_, votes)| votes.keys().eq(&members));
        let may_start = !self.is_stale(id) && !members.iter().any(|peer| self.is_wired(*peer));
        let Some((tag, votes)) = complete.filter(|_| may_start) else {
            return false;
        };
        let (tag, votes) = (*tag, votes.clone());
        if let Some(reason) = disagreement(&votes) {
            self.refuse(id, tag, &reason);
            return true;
        }
        let root = votes.values().find_map(|spec| spec.kind.root().copied());
        if let Some(root) = root.filter(|root| !members.contains(root)) {
            self.refuse(id, tag, &CollectiveRefusal::NoSuchRoot { root });
            return true;
        }
        let laid_out = votes.values().filter_map(|spec| spec.kind.laid_out_for());
        if laid_out
            .collect::<BTreeSet<_>>()
            .iter()
            .any(|of| *of != Membership::of(&self.groups[&id].ring.0))
        {
            self.refuse(id, tag, &CollectiveRefusal::WorldChanged);
            return true;
        }
        let own = |peer: &PeerId| votes[peer].kind.own_and_limit().map(|(own, _)| own);
        let lengths: Vec<u64> = self.groups[&id].ring.0.iter().filter_map(own).collect();
        let total: u128 = lengths.iter().map(|own| u128::from(*own)).sum();
        let mut spec = *votes.values().next().unwrap();
        if let Some(limit) = limit_of(&spec) {
            if total > u128::from(limit) {
                let total = u64::try_from(total).unwrap_or(u64::MAX);
                self.refuse(id, tag, &CollectiveRefusal::TooLong { total, limit });
                return true;
            }
            spec.count = u64::try_from(total).unwrap();
        }
        let weights = votes.values().filter_map(|spec| spec.op.weight());
        let total_weight: u64 = weights.clone().map(u64::from).sum();
        if total_weight == 0 && weights.count() > 0 {
            self.refuse(id, tag, &CollectiveRefusal::NoWeight);
            return true;
        }
        let world = u32::try_from(members.len()).unwrap();
        let algorithm = Algorithm::of(&spec, world, RINGS);
        let group = self.groups.get_mut(&id).unwrap();
        let reserved = match group.repeat.take() {
            Some((of, same, reserved)) if of == tag && same == spec => Some(reserved),
            _ => None,
        };
        let has_it = std::mem::take(&mut group.has_it);
        let (seq, lacking) = match reserved.filter(|reserved| reserved.algorithm == algorithm) {
            Some(reserved) => (reserved.seq, &members - &has_it),
            None => {
                self.executions += 1;
                (Seq(self.executions), members.clone())
            }
        };
        let group = self.groups.get_mut(&id).unwrap();
        group.starting.remove(&tag);
        let participants = group.ring.0.clone();
        let bytes = spec.count.saturating_mul(spec.element.size() as u64);
        group.running.insert(
            tag,
            Running {
                seq,
                spec,
                algorithm,
                bytes,
                root,
                participants,
                lacking,
            },
        );
        let commence = ToPeer::Commence {
            tag,
            seq,
            algorithm,
            lengths: Lengths(lengths),
            total_weight,
        };
        self.tell_all(members, &commence);
        true
    }

    /// Nobody who wanted this collective gets it.
    pub(super) fn refuse(&mut self, group: GroupId, tag: Tag, reason: &CollectiveRefusal) {
        let group = self.groups.get_mut(&group).unwrap();
        let wanted = group.starting.remove(&tag).unwrap_or_default();
        if !wanted.is_empty() {
            group.repeat = None;
        }
        let reason = reason.clone();
        self.tell_all(
            wanted.into_keys(),
            &ToPeer::CollectiveRefused { tag, reason },
        );
    }

    /// When all members wait for a ring that is whole, the group's ring is built anew, without newcomers.
    fn rewires(&mut self, group: GroupId, seen: &Seen) -> bool {
        let members = self.members(group);
        let all_wait = members.iter().all(|peer| self.waits_for_a_ring(*peer));
        if all_wait {
            self.connect(Purpose::Rewire, members, seen);
        }
        all_wait
    }

    /// When every accepted peer of every group waits in `update_topology`, or agrees, they and those that were
    /// registered when this admission began are connected. Where nobody is accepted, nobody has to vote.
    fn admission_begins(&mut self, seen: &Seen) -> bool {
        let mut lacking = self.accepted.clone();
        lacking.retain(|peer| !self.updating.contains(peer) && !self.agrees(*peer));
        let somebody_calls = self.accepted.is_empty() || !self.updating_by_itself().is_empty();
        let wired = self
            .wirings
            .iter()
            .any(|wiring| wiring.purpose == Purpose::Update);
        let all_wait = lacking.is_empty() && somebody_calls && !wired;
        if !all_wait || self.peers.is_empty() || !self.wirings.is_empty() {
            return false;
        }
        let newcomers: Peers = self.peers.keys().copied().collect();
        let aside: Peers = self.kept_aside.keys().copied().collect();
        let mut newcomers = &(&newcomers - &self.accepted) - &aside;
        if self.accepted.is_empty() && newcomers.is_empty() {
            newcomers = aside;
        }
        // Who was set aside meanwhile was there when it began.
        let mut back: Peers = self.aside.keys().copied().collect();
        back.retain(|peer| !self.kept_aside.contains_key(peer));
        // Without anybody accepted, and all of the first ones gone, the next ones are the first.
        self.invited
            .take_if(|invited| self.accepted.is_empty() && invited.is_empty() && back.is_empty());
        let invited = self.invited.get_or_insert(newcomers);
        let everybody = &(&self.accepted | invited) | &back;
        self.connect(Purpose::Update, everybody, seen);
        true
    }

    /// When all members of a group have offered their content, one is elected.
    fn elects(&mut self, id: GroupId, seen: &Seen) -> bool {
        let (members, group) = (self.members(id), &self.groups[&id]);
        let is_wired = members.iter().any(|peer| self.is_wired(*peer));
        if is_wired || group.offers.is_empty() || !group.offers.keys().eq(&members) {
            return false;
        }
        match elect(&group.offers, &self.veterans, self.held.get(&id)) {
            Outcome::Expelled(expelled) => {
                for (peer, why) in expelled {
                    self.is_kicked(peer, why);
                }
            }
            Outcome::Failed(failure) => self.conclude_sync(id, Err(failure)),
            Outcome::Elected { revision, winners } => self.distribute(id, revision, &winners, seen),
        }
        true
    }

    /// Who lacks something of the elected content fetches it from one of the holders. Where nobody
    /// does, the group is in step already.
    fn distribute(&mut self, id: GroupId, revision: Revision, winners: &Peers, seen: &Seen) {
        let group = &self.groups[&id];
        let holders = holders(&group.offers, &self.veterans, winners);
        let (given_up, others) = self.given_up(id, winners, &holders);
        if !given_up.is_empty() {
            let mut given_up = given_up;
            if others {
                let aside = &given_up - &self.spared;
                given_up = &given_up & &self.spared;
                self.spared.extend(&aside);
                self.are_set_aside(id, &aside);
            }
            let mishaps = &mut self.groups.get_mut(&id).unwrap().mishaps;
            mishaps.claims(given_up.len());
            for peer in given_up {
                self.is_kicked(peer, Misdeed::Unfetchable);
            }
            return;
        }
        let source = |peer: &PeerId| {
            let sources = seen.sources_of(*peer);
            *sources.first().or(holders.first()).unwrap()
        };
        let fetched: BTreeMap<PeerId, _> = (group.offers.iter())
            .filter(|(peer, _)| !holders.contains(peer))
            .map(|(peer, own)| {
                let source = &group.offers[&source(peer)];
                let is_newcomer = !self.veterans.contains(peer);
                (*peer, fetches(own, source, is_newcomer))
            })
            .collect();
        let winner = winners.first().unwrap();
        let reached = (revision, content(&group.offers[winner]));
        if fetched.values().all(Vec::is_empty) {
            self.conclude_sync(id, Ok(reached));
            return;
        }
        let mut sources = BTreeMap::new();
        for (peer, lacks) in fetched.iter().filter(|(_, lacks)| !lacks.is_empty()) {
            let choices = group.mishaps.choices(*peer, &holders);
            let told = seen.sources_of(*peer);
            let most = self.holders_for(lacks, &group.offers[peer].entries);
            let most = match group.mishaps.has_failed(*peer) {
                true => 1,
                false => most.min(choices.len()),
            };
            let different: Peers = told.iter().copied().collect();
            assert!(
                different.is_subset(&choices) && different.len() == told.len(),
                "{peer} fetches from {told:?}, not {choices:?}"
            );
            // What peers may differ in comes from holders that do not.
            let fewest = match self.veterans.contains(peer) {
                true => most,
                false => 1,
            };
            assert!(
                (fewest..=most).contains(&told.len()),
                "{peer} fetches from {told:?}, not from {most}"
            );
            sources.insert(*peer, told);
        }
        let lacking = self.members(id);
        let round = seen.round_of_plan(&lacking);
        seen.check_serving(&holders, &fetched);
        for peer in &lacking {
            let role = match fetched.get(peer) {
                Some(entries) => SyncRole::Request {
                    from: Vec::new(),
                    entries: entries.clone().into(),
                },
                None => SyncRole::Distribute { to: Vec::new() },
            };
            let plan = SyncPlan {
                round,
                revision,
                role,
            };
            self.tell(*peer, ToPeer::SharedStatePlan(plan));
        }
        let group = self.groups.get_mut(&id).unwrap();
        group.offers.clear();
        group.moving = Some(Moving {
            round,
            reached,
            holders,
            sources,
            lacking,
        });
    }

    /// How many holders a peer that lacks these is given at most.
    fn holders_for(&self, lacks: &[(EntryIndex, ContentHash)], entries: &[EntryInfo]) -> usize {
        let bytes = lacks.iter().map(|(index, _)| {
            let entry = &entries[index.0 as usize];
            entry.count * entry.element.size() as u64
        });
        let shares = bytes.sum::<u64>() / self.config.transfer_share_min;
        shares.clamp(1, u64::from(self.config.transfer_holders_max)) as usize
    }

    /// Who is not told again to fetch what it could not fetch before; and do others lack it that may be told?
    fn given_up(&self, id: GroupId, winners: &Peers, holders: &Peers) -> (Peers, bool) {
        let group = &self.groups[&id];
        let elected = &group.offers[winners.first().unwrap()];
        let requesters = group.offers.iter().filter(|(peer, own)| {
            let is_newcomer = !self.veterans.contains(peer);
            !holders.contains(peer) && !fetches(own, elected, is_newcomer).is_empty()
        });
        let requesters = requesters.map(|(peer, _)| *peer).collect();
        let patience = self.config.transfer_attempts_max;
        let (veterans, members) = (&self.veterans, group.offers.len());
        let mishaps = &group.mishaps;
        mishaps.given_up(&requesters, holders, veterans, patience, members)
    }

    fn has_moved(&mut self, group: GroupId) -> bool {
        let moving = self.groups[&group].moving.as_ref();
        let Some(moved) = moving.filter(|moving| moving.lacking.is_empty()) else {
            return false;
        };
        let reached = moved.reached.clone();
        self.conclude_sync(group, Ok(reached));
        true
    }

    /// All members of the group hear the same, and only success changes what the group holds.
    pub(super) fn conclude_sync(&mut self, id: GroupId, result: Result<Held, SyncFailure>) {
        let members = self.members(id);
        let group = self.groups.get_mut(&id).unwrap();
        group.offers.clear();
        group.moving = None;
        if let Ok(held) = &result {
            group.stalls.clear();
            group.cancels.retain(|_, (_, largest)| *largest > 0);
            let aside: Peers = self.aside.keys().copied().collect();
            group.mishaps.end_for_all_but(&aside);
            self.veterans.extend(&members);
            self.held.insert(id, held.clone());
            self.conflicts_end(id);
        }
        let (round, result) = (Round(0), result.map(|(revision, _)| revision));
        self.tell_all(members, &ToPeer::SharedStateConcluded { round, result });
    }
}

/// The first field in which anybody differs from the one that is longest in the run, and who does.
fn disagreement(votes: &BTreeMap<PeerId, CollectiveSpec>) -> Option<CollectiveRefusal> {
    let (first, wanted) = votes.first_key_value()?;
    SpecField::ALL.into_iter().find_map(|field| {
        let differs = |spec: &CollectiveSpec| match field {
            SpecField::Kind => spec.kind.to_string() != wanted.kind.to_string(),
            SpecField::Root => spec.kind.root() != wanted.kind.root(),
            SpecField::Operation => spec.op.to_string() != wanted.op.to_string(),
            SpecField::ElementType => spec.element != wanted.element,
            SpecField::Count => spec.count != wanted.count,
            SpecField::Quantization => spec.quantization != wanted.quantization,
            SpecField::Algorithm => spec.algorithm != wanted.algorithm,
            SpecField::Limit => limit_of(spec) != limit_of(wanted),
            SpecField::Ordered => spec.ordered != wanted.ordered,
        };
        let odd = votes.iter().filter(|(_, spec)| differs(spec));
        let odd: Vec<PeerId> = odd.map(|(peer, _)| *peer).collect();
        let peers = [&[*first][..], &odd].concat();
        let (_, other) = votes.iter().find(|(_, spec)| differs(spec))?;
        let values = [wanted.value(field), other.value(field)];
        Some(CollectiveRefusal::Disagreement {
            field,
            peers,
            values,
        })
    })
}

/// How many elements its participants gather together at most.
fn limit_of(spec: &CollectiveSpec) -> Option<u64> {
    spec.kind.own_and_limit().map(|(_, limit)| limit)
}
