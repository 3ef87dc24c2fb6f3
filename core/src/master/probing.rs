//! The rotations of an optimization: who measures what, who has reported, who is not awaited any more.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use super::optimize::{Optimization, Promised};
use super::probes::Rotation;
use super::{Master, Out, send};
use crate::id::{GroupId, PeerId, Round};
use crate::messages::{Misdeed, ToPeer};
use crate::paths::Measurement;
use crate::states::Event;
use crate::topology::{LinkOrder, Way};

/// Edges are measured.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Probing {
    /// Names the present rotation: its orders and reports carry it.
    pub(super) rotation: Round,
    pub(super) probes: Rotation,
    pub(super) awaiting: BTreeSet<PeerId>,
    /// Whose reports about the present rotation are not awaited any more, and mean nothing.
    pub(super) excused: BTreeSet<PeerId>,
    /// Later rotations.
    pub(super) rest: VecDeque<Rotation>,
    pub(super) failed: bool,
    /// How often edges that a ring wants may still be measured.
    pub(super) wanted: u8,
    /// The rings whose edges are probed all at once. `None`: one edge of a peer at a time.
    pub(super) loaded: Option<BTreeMap<GroupId, Promised>>,
}

impl Master {
    /// Hands out the next rotation that has edges left. Without one nobody is awaited.
    pub(super) fn rotate(&mut self, out: &mut Out) {
        let Some(probes) = self.next_probes() else {
            return;
        };
        let rotation = self.take_round();
        let mut orders: BTreeMap<PeerId, Vec<LinkOrder>> = BTreeMap::new();
        for (from, to) in &probes {
            let wish = |peer: &PeerId| self.peers.get(peer).map_or(1, |record| record.lanes);
            let lanes = wish(from).min(wish(to));
            if let Some((ours, theirs)) = self.lane_orders(rotation, *from, *to, lanes) {
                for (peer, way, lanes) in [(*from, Way::Out, ours), (*to, Way::In, theirs)] {
                    let of_peer = orders.entry(peer).or_default();
                    of_peer.push(LinkOrder { way, lanes });
                }
            }
        }
        self.note_tried(&probes);
        if let Some(probing) = self.probing_mut() {
            probing.rotation = rotation;
            probing.probes = probes;
            probing.awaiting = orders.keys().copied().collect();
            probing.excused.clear();
        }
        for (peer, mut probes) in orders {
            probes.sort_unstable_by_key(LinkOrder::link);
            self.step(peer, Event::ProbesHandedOut, out);
            // Each rotation has its own time.
            self.went_on.insert(peer);
            let round = rotation;
            send(out, peer, ToPeer::Probe { round, probes });
        }
    }

    /// Of large groups edges are estimated, unless they were tried and could not be measured.
    fn note_tried(&mut self, probes: &Rotation) {
        let size_of = |peer: &PeerId| {
            let group = self.peers.get(peer).map(|record| record.group);
            let group = group.and_then(|group| self.groups.get(&group));
            group.map_or(0, |group| group.members.len())
        };
        let of_large = probes
            .iter()
            .filter(|(from, _)| self.is_large(size_of(from)));
        let of_large: Rotation = of_large.copied().collect();
        if let Some(current) = &mut self.optimization {
            current.tried.extend(of_large);
        }
    }

    /// Edges of the next rotation, as far as both ends are there.
    fn next_probes(&mut self) -> Option<Rotation> {
        let probing = self.optimization.as_mut()?.probing_mut()?;
        while let Some(mut probes) = probing.rest.pop_front() {
            let is_there = |peer: &PeerId| self.peers.contains_key(peer);
            probes.retain(|(from, to)| is_there(from) && is_there(to));
            if !probes.is_empty() {
                return Some(probes);
            }
        }
        None
    }

    /// The measurements of an optimization, while it measures.
    fn probing_mut(&mut self) -> Option<&mut Probing> {
        self.optimization.as_mut()?.probing_mut()
    }

    /// The measurements of this rotation, if it is the present one.
    fn rotation_mut(&mut self, rotation: Round) -> Option<&mut Probing> {
        self.probing_mut()
            .filter(|probing| probing.rotation == rotation)
    }

    pub(super) fn measured(
        &mut self,
        peer: PeerId,
        rotation: Round,
        to: PeerId,
        measured: Measurement,
        out: &mut Out,
    ) {
        if !self.was_ordered(peer, rotation, out) {
            return;
        }
        // Who was lost while the report was on its way is not measured again.
        let is_there = self.peers.contains_key(&to);
        let Some(probing) = self.rotation_mut(rotation) else {
            return;
        };
        let is_late = rule!(probing.excused.contains(&peer); LateMeasurementKicked => false);
        if is_late || !is_there {
            return;
        }
        let edge = (peer, to);
        if !probing.probes.contains(&edge) || !probing.awaiting.contains(&peer) {
            self.kick(peer, Misdeed::UnaskedProbe, out);
            return;
        }
        if probing.loaded.is_some() {
            self.known.correct(edge, measured);
        } else {
            self.known.note(edge, measured);
        }
        let gains_time = rule!(false; MeasurementGainsTime => true);
        self.went_on.extend(gains_time.then_some(peer));
    }

    pub(super) fn probes_done(&mut self, peer: PeerId, rotation: Round, ok: bool, out: &mut Out) {
        if !self.was_ordered(peer, rotation, out) {
            return;
        }
        let Some(probing) = self.rotation_mut(rotation) else {
            return;
        };
        if probing.excused.contains(&peer) {
            return;
        }
        let event = if ok {
            Event::ProbesDone
        } else {
            Event::ProbesFailed
        };
        if !self.step_or_kick(peer, event, out) {
            return;
        }
        if let Some(probing) = self.rotation_mut(rotation) {
            probing.awaiting.remove(&peer);
            probing.failed |= !ok;
        }
    }

    /// The peer's measurements take too long: what it has not reported is no edge, and it measures no more.
    pub(super) fn probes_overdue(&mut self, peer: PeerId, out: &mut Out) {
        let probing = self.probing_mut();
        let Some(probing) = probing.filter(|probing| probing.awaiting.contains(&peer)) else {
            return;
        };
        for rotation in &mut probing.rest {
            rotation.retain(|(from, to)| *from != peer && *to != peer);
        }
        self.excuse(peer, out);
    }

    /// The peer's report about the present rotation is not awaited any more.
    fn excuse(&mut self, peer: PeerId, out: &mut Out) {
        if let Some(probing) = self.probing_mut() {
            probing.awaiting.remove(&peer);
            probing.excused.insert(peer);
        }
        self.step(peer, Event::ProbesGivenUp, out);
    }

    pub(super) fn optimization_loses(&mut self, peer: PeerId, out: &mut Out) {
        if self.tally.members() == 0 {
            // Whoever is admitted next does not wait for it, and neither does a deadline.
            self.optimization = None;
        }
        let Some(probing) = self
            .optimization
            .as_mut()
            .and_then(Optimization::probing_mut)
        else {
            return;
        };
        rule!(probing.awaiting.remove(&peer); OptimizationWaitsForTheDead => false);
        let others = without_probes(probing, |other| {
            other != peer && self.peers.contains_key(&other)
        });
        for other in others {
            self.excuse(other, out);
        }
    }
}

/// Who is awaited, and has no probe left with anybody who is there.
fn without_probes(probing: &Probing, is_there: impl Fn(PeerId) -> bool) -> Vec<PeerId> {
    let is_left = |peer: PeerId| {
        let mut probes = probing.probes.iter();
        probes.any(|(from, to)| (*from == peer || *to == peer) && is_there(*from) && is_there(*to))
    };
    let awaiting = probing.awaiting.iter().copied();
    let there = awaiting.filter(|peer| is_there(*peer));
    there.filter(|peer| !is_left(*peer)).collect()
}
