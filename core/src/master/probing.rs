//! The rotations of an optimization: which edges are measured, which peers have reported, and which are no longer
//! awaited.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::loads::Load;
use super::optimize::Optimization;
use super::probes::{Edge, Rotation};
use super::{Master, Out, send};
use crate::id::{PeerId, Round};
use crate::messages::{Misdeed, ToPeer};
use crate::paths::Measurement;
use crate::states::Event;
use crate::topology::{LinkOrder, Way};

/// The stage of measuring.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(super) struct Probing {
    /// The current rotation. Its orders and reports carry it.
    pub(super) rotation: Round,
    pub(super) probes: Rotation,
    pub(super) awaiting: BTreeSet<PeerId>,
    /// Peers whose reports about the current rotation are no longer awaited, and are ignored.
    pub(super) excused: BTreeSet<PeerId>,
    /// Edges of the current rotation without a report.
    pub(super) unreported: Rotation,
    /// Later rotations.
    pub(super) rest: VecDeque<Rotation>,
    pub(super) failed: bool,
    /// How often edges of the solver's ring may still be measured.
    pub(super) wanted: u8,
    /// The rings whose edges are probed at the same time. `None`: one edge of a peer at a time.
    pub(super) load: Option<Load>,
}

impl Master {
    /// Orders the next rotation that has edges left. If there is none, no report is awaited.
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
            probing.unreported = probes.clone();
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

    /// Notes the measured edges of large groups, so that an edge that could not be measured is not estimated.
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

    /// Whether both ends are connected, and neither has taken too long.
    pub(super) fn can_be_probed(&self, (from, to): Edge) -> bool {
        let slow = self.optimization.as_ref().map(|current| &current.slow);
        let is_slow = |peer: &PeerId| slow.is_some_and(|slow| slow.contains(peer));
        let is_left = |peer: &PeerId| {
            let is_left = rule!(!is_slow(peer); SlowIsAskedAgain => true);
            is_left && self.peers.contains_key(peer)
        };
        is_left(&from) && is_left(&to)
    }

    /// The edges of the next rotation that can be probed.
    fn next_probes(&mut self) -> Option<Rotation> {
        while let Some(mut probes) = self.probing_mut()?.rest.pop_front() {
            probes.retain(|edge| self.can_be_probed(*edge));
            if !probes.is_empty() {
                return Some(probes);
            }
        }
        None
    }

    /// The current stage, if it is that of measuring.
    fn probing_mut(&mut self) -> Option<&mut Probing> {
        self.optimization.as_mut()?.probing_mut()
    }

    /// The stage of measuring, if this is its current rotation.
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
        probing.unreported.remove(&edge);
        if probing.load.is_some() {
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
        if ok {
            let is_load = self
                .probing_mut()
                .is_some_and(|probing| probing.load.is_some());
            for edge in self.take_unreported(peer) {
                match is_load {
                    true => self.known.correct(edge, Measurement::default()),
                    false => self.known.fail(edge),
                }
            }
        }
    }

    /// Edges to connected peers on which this peer was to send and has not reported.
    fn take_unreported(&mut self, peer: PeerId) -> Vec<Edge> {
        let Some(probing) = self.probing_mut() else {
            return Vec::new();
        };
        let own = (peer, PeerId(0))..=(peer, PeerId(u64::MAX));
        let mut edges: Vec<Edge> = probing.unreported.range(own).copied().collect();
        for edge in &edges {
            probing.unreported.remove(edge);
        }
        edges.retain(|(_, to)| self.peers.contains_key(to));
        edges
    }

    /// The peer's measurements take too long: its unreported edges do not exist, and it measures no more.
    pub(super) fn probes_overdue(&mut self, peer: PeerId, out: &mut Out) {
        let probing = self.probing_mut();
        if !probing.is_some_and(|probing| probing.awaiting.contains(&peer)) {
            return;
        }
        // What it might have found another optimization asks for again, also of who has sent to it in vain.
        for edge in self.take_unreported(peer) {
            self.known.forget_edge(edge);
        }
        let probes = self.probing_mut().map(|probing| probing.probes.clone());
        let to_it = probes.into_iter().flatten().filter(|(_, to)| *to == peer);
        self.known.forget_failed(to_it);
        if let Some(current) = &mut self.optimization {
            current.slow.insert(peer);
        }
        self.excuse(peer, out);
    }

    /// The peer's report about the current rotation is no longer awaited.
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
        let others = without_probes(probing, peer, |other| self.peers.contains_key(&other));
        for other in others {
            self.excuse(other, out);
        }
    }
}

/// Peers that were to probe with the departed one, are awaited, and have no probe left with a connected peer.
fn without_probes(
    probing: &Probing,
    departed: PeerId,
    is_there: impl Fn(PeerId) -> bool,
) -> Vec<PeerId> {
    let (mut with_it, mut left) = (BTreeSet::new(), BTreeSet::new());
    for (from, to) in &probing.probes {
        if *from == departed || *to == departed {
            with_it.extend([*from, *to]);
        } else if is_there(*from) && is_there(*to) {
            left.extend([*from, *to]);
        }
    }
    let others = with_it.intersection(&probing.awaiting);
    let others = others.filter(|peer| **peer != departed && is_there(**peer));
    others
        .filter(|peer| !left.contains(peer))
        .copied()
        .collect()
}
