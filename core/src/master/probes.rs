//! The known measurements of the edges between peers, and the order in which edges are measured.
//!
//! Two probes that share a peer would disturb each other, so edges are measured in *rotations*, in each of which a
//! peer has at most one probe: it sends, or it receives. The edges among N peers take 2·(N−1) rotations, two more if
//! N is odd, in the order of a round-robin tournament.
//!
//! A result ages, even the result that nothing arrived: it is kept at least for the configured time, and at most for
//! twice that. A probe under load does not make an edge's result younger.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::id::PeerId;
use crate::paths::Measurement;

/// A directed edge, sender first.
pub(super) type Edge = (PeerId, PeerId);

/// Edges that are measured at the same time.
pub(super) type Rotation = BTreeSet<Edge>;

/// The results of probes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(super) struct Known {
    edges: BTreeMap<Edge, Aging>,
}

/// A result, and whether it is in its last generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Aging {
    /// The measurement of the edge alone. `None` if nothing arrived, so that it cannot be used.
    alone: Option<Measurement>,
    /// The rate of the edge while all other edges of a ring were probed. Zero if nothing arrived, so that the edge
    /// cannot be used in this optimization.
    under_load: Option<u64>,
    is_aged: bool,
}

impl Aging {
    /// Takes the rate under load if it is lower, because the edge shares a link with others. The round trip is that
    /// of the edge alone, because under load it includes queueing.
    fn measured(&self) -> Option<Measurement> {
        let alone = self.alone?;
        let loaded = self.under_load.unwrap_or(alone.bytes_per_s);
        (loaded > 0).then(|| Measurement {
            bytes_per_s: alone.bytes_per_s.min(loaded),
            ..alone
        })
    }
}

impl Known {
    /// Notes a result. An edge on which nothing arrived cannot be used.
    pub(super) fn note(&mut self, edge: Edge, measured: Measurement) {
        let aging = Aging {
            alone: Some(measured).filter(|measured| measured.bytes_per_s > 0),
            under_load: None,
            is_aged: false,
        };
        self.edges.insert(edge, aging);
    }

    /// Notes a result under load. The age of the edge's own result is unchanged.
    pub(super) fn correct(&mut self, edge: Edge, measured: Measurement) {
        if self
            .edges
            .get(&edge)
            .is_none_or(|known| known.alone.is_none())
        {
            self.note(edge, measured);
        }
        if let Some(aging) = self.edges.get_mut(&edge) {
            aging.under_load = Some(measured.bytes_per_s);
        }
    }

    /// Notes that nothing arrived. The edge is not probed again until this is stale.
    pub(super) fn fail(&mut self, edge: Edge) {
        self.note(edge, Measurement::default());
    }

    /// Forgets that nothing arrived on edges under load, because that held for one optimization, which is over. Their
    /// own results are kept.
    pub(super) fn end_load(&mut self) {
        for aging in self.edges.values_mut() {
            aging.under_load = aging.under_load.filter(|rate| *rate > 0);
        }
    }

    /// Whether the edge was probed under load.
    pub(super) fn is_under_load(&self, edge: Edge) -> bool {
        let aging = self.edges.get(&edge);
        aging.is_some_and(|aging| aging.under_load.is_some())
    }

    /// The measurement of the edge, if it can be used.
    pub(super) fn of(&self, edge: Edge) -> Option<Measurement> {
        self.edges.get(&edge)?.measured()
    }

    /// The measurement of the edge alone, if it can be used.
    pub(super) fn alone(&self, edge: Edge) -> Option<Measurement> {
        self.edges.get(&edge)?.alone
    }

    /// Whether the edge was probed, even if it cannot be used.
    pub(super) fn is_tried(&self, edge: Edge) -> bool {
        self.edges.contains_key(&edge)
    }

    /// Edges that can be used.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Edge, Measurement)> + '_ {
        let edges = self.edges.iter();
        edges.filter_map(|(edge, aging)| Some((*edge, aging.measured()?)))
    }

    /// Edges that cannot be used.
    pub(super) fn unusable(&self) -> impl Iterator<Item = Edge> + '_ {
        let edges = self.edges.iter();
        edges.filter_map(|(edge, aging)| aging.measured().is_none().then_some(*edge))
    }

    /// The results of the edges on which this peer sends. `None` if an edge cannot be used.
    pub(super) fn from(
        &self,
        peer: PeerId,
    ) -> impl Iterator<Item = (Edge, Option<Measurement>)> + '_ {
        let edges = self.edges_from(peer);
        edges.map(|(edge, aging)| (*edge, aging.measured()))
    }

    /// The round trip of each usable edge on which this peer sends, in microseconds.
    pub(super) fn round_trips_from(&self, peer: PeerId) -> impl Iterator<Item = (Edge, u32)> + '_ {
        let edges = self.edges_from(peer);
        edges.filter_map(|(edge, aging)| Some((*edge, aging.alone?.round_trip_us)))
    }

    fn edges_from(&self, peer: PeerId) -> impl Iterator<Item = (&Edge, &Aging)> + '_ {
        self.edges
            .range((peer, PeerId(0))..=(peer, PeerId(u64::MAX)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.edges.is_empty()
    }

    /// Forgets this direction.
    pub(super) fn forget_edge(&mut self, edge: Edge) {
        self.edges.remove(&edge);
    }

    /// Forgets that nothing arrived on these edges, so that they are probed again.
    pub(super) fn forget_failed(&mut self, edges: impl IntoIterator<Item = Edge>) {
        for edge in edges {
            if self
                .edges
                .get(&edge)
                .is_some_and(|known| known.alone.is_none())
            {
                self.edges.remove(&edge);
            }
        }
    }

    /// Forgets both directions between two peers.
    pub(super) fn forget(&mut self, (one, other): Edge) {
        self.edges.remove(&(one, other));
        self.edges.remove(&(other, one));
    }

    /// Forgets all edges of this peer.
    pub(super) fn forget_peer(&mut self, peer: PeerId) {
        let is_its = |(from, to): &Edge| *from == peer || *to == peer;
        self.edges.retain(|edge, _| !is_its(edge));
    }

    /// Ends a generation: results from before it began are forgotten.
    pub(super) fn age(&mut self) {
        self.edges.retain(|_, aging| !aging.is_aged);
        for aging in self.edges.values_mut() {
            aging.is_aged = true;
        }
    }
}

/// Distributes edges over rotations. The first edge is in the first rotation.
pub(super) fn rotations(edges: impl IntoIterator<Item = Edge>) -> VecDeque<Rotation> {
    let edges: BTreeSet<Edge> = edges.into_iter().collect();
    let peers: BTreeSet<PeerId> = edges.iter().flat_map(|(from, to)| [*from, *to]).collect();
    let places: BTreeMap<PeerId, usize> = peers.into_iter().zip(0..).collect();
    let mut in_turn: Vec<((bool, usize), Edge)> = edges
        .into_iter()
        .filter_map(|edge| {
            let (from, to) = (*places.get(&edge.0)?, *places.get(&edge.1)?);
            let round = round_of(from.min(to), from.max(to), places.len());
            Some(((from > to, round), edge))
        })
        .collect();
    in_turn.sort_unstable();
    let mut rotations: Vec<(Rotation, BTreeSet<PeerId>)> = Vec::new();
    for (_, edge) in in_turn {
        let is_free = |(_, busy): &&mut (Rotation, BTreeSet<PeerId>)| {
            rule!(
                !busy.contains(&edge.0) && !busy.contains(&edge.1);
                ProbesShareASender => !busy.contains(&edge.1)
            )
        };
        let place = rotations.iter_mut().find(is_free);
        match place {
            Some((rotation, busy)) => {
                rotation.insert(edge);
                busy.extend([edge.0, edge.1]);
            }
            None => rotations.push(([edge].into(), [edge.0, edge.1].into())),
        }
    }
    rotations
        .into_iter()
        .map(|(rotation, _)| rotation)
        .collect()
}

/// The round of a round-robin tournament of `count` players in which two of them meet, `one` before `other`, by the
/// circle method, in which the last player of an even number stays in place.
fn round_of(one: usize, other: usize, count: usize) -> usize {
    let circle = if count.is_multiple_of(2) {
        count.saturating_sub(1).max(1)
    } else {
        count.max(1)
    };
    match other < circle {
        true => (one + other) % circle,
        false => (2 * one) % circle,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all_edges(count: u64) -> Vec<Edge> {
        let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
        let edges = pairs.filter(|(from, to)| from != to);
        edges.map(|(from, to)| (PeerId(from), PeerId(to))).collect()
    }

    fn busy(rotation: &Rotation) -> Vec<PeerId> {
        rotation
            .iter()
            .flat_map(|(from, to)| [*from, *to])
            .collect()
    }

    #[test]
    fn all_edges_take_as_few_rotations_as_a_tournament() {
        for count in 2..20 {
            let rotations = rotations(all_edges(count));

            let rounds = if count % 2 == 0 { count - 1 } else { count };
            assert_eq!(rotations.len() as u64, 2 * rounds, "{count} peers");
        }
    }

    #[test]
    fn a_measurement_outlives_one_generation_and_not_the_next() {
        let edge = (PeerId(1), PeerId(2));
        let measured = Measurement {
            bytes_per_s: 5,
            round_trip_us: 1,
        };
        let mut known = Known::default();
        known.note(edge, measured);

        known.age();
        assert_eq!(known.of(edge), Some(measured));
        known.age();
        assert!(known.is_empty());
    }

    const EDGE: Edge = (PeerId(1), PeerId(2));

    fn rate(bytes_per_s: u64) -> Measurement {
        Measurement {
            bytes_per_s,
            round_trip_us: 1,
        }
    }

    #[test]
    fn an_edge_on_which_nothing_arrived_is_none() {
        let edge = (PeerId(1), PeerId(2));
        let mut known = Known::default();

        known.note(edge, Measurement::default());

        assert_eq!(known.of(edge), None);
    }

    #[test]
    fn that_a_probe_has_failed_is_known_until_it_is_out_of_date() {
        let mut known = Known::default();
        known.fail(EDGE);

        known.age();
        assert!(known.is_tried(EDGE));
        assert_eq!(known.unusable().collect::<Vec<_>>(), [EDGE]);
        known.age();
        assert!(!known.is_tried(EDGE));
    }

    #[test]
    fn a_correction_makes_an_old_measurement_no_younger() {
        let mut known = Known::default();
        known.note(EDGE, rate(5));
        known.age();

        known.correct(EDGE, rate(3));

        assert_eq!(known.of(EDGE), Some(rate(3)));
        known.age();
        assert_eq!(known.of(EDGE), None);
    }

    #[test]
    fn what_is_measured_first_under_load_is_as_young_as_any_measurement() {
        let mut known = Known::default();

        known.correct(EDGE, rate(3));

        known.age();
        assert_eq!(known.of(EDGE), Some(rate(3)));
        assert!(known.is_under_load(EDGE));
    }

    #[test]
    fn an_edge_that_brings_nothing_under_load_cannot_be_used_until_the_optimization_is_over() {
        let mut known = Known::default();
        known.note(EDGE, rate(5));

        known.correct(EDGE, rate(0));
        assert_eq!((known.of(EDGE), known.alone(EDGE)), (None, Some(rate(5))));
        assert!(known.is_tried(EDGE) && known.is_under_load(EDGE));

        known.end_load();
        assert_eq!(known.of(EDGE), Some(rate(5)));
        assert!(!known.is_under_load(EDGE));
    }

    #[test]
    fn of_edges_only_those_are_forgotten_on_which_nothing_arrived() {
        let mut known = Known::default();
        let other = (EDGE.1, EDGE.0);
        known.note(EDGE, rate(5));
        known.fail(other);

        known.forget_failed([EDGE, other]);

        assert!(known.is_tried(EDGE) && !known.is_tried(other));
    }

    #[test]
    fn the_last_probe_under_load_counts_and_never_more_than_the_edge_alone() {
        let mut known = Known::default();
        known.note(EDGE, rate(5));

        known.correct(EDGE, rate(2));
        known.correct(EDGE, rate(4));
        assert_eq!(known.of(EDGE), Some(rate(4)));
        known.correct(EDGE, rate(9));
        assert_eq!(known.of(EDGE), Some(rate(5)));
        known.correct(EDGE, rate(0));
        assert_eq!(known.of(EDGE), None);
    }

    proptest! {
        #![proptest_config(crate::cases::cases(256))]

        #[test]
        fn every_edge_is_measured_once_and_no_two_probes_of_a_rotation_share_a_peer(
            count in 2..12_u64, left_out in proptest::collection::btree_set(0..132_usize, 0..130)
        ) {
            let edges = all_edges(count).into_iter().enumerate();
            let edges = edges.filter(|(number, _)| !left_out.contains(number));
            let edges: BTreeSet<Edge> = edges.map(|(_, edge)| edge).collect();

            let rotations = rotations(edges.clone());

            let measured: Vec<Edge> = rotations.iter().flatten().copied().collect();
            prop_assert_eq!(measured.len(), edges.len());
            prop_assert_eq!(measured.into_iter().collect::<BTreeSet<_>>(), edges);
            for rotation in &rotations {
                prop_assert!(!rotation.is_empty());
                let busy = busy(rotation);
                let distinct: BTreeSet<PeerId> = busy.iter().copied().collect();
                prop_assert_eq!(distinct.len(), busy.len());
            }
        }
    }
}
