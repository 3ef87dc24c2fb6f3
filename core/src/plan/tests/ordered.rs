//! What holds of additions in the order of the peers, whatever the ring.

use alloc::vec::Vec;

use super::*;

/// The algorithms that add in turns.
const IN_TURNS: [Algorithm; 5] = [
    WHOLE,
    Algorithm::Whole(Pattern::Mesh),
    GATHERED,
    Algorithm::Direct,
    Algorithm::Relay,
];

/// All rings of so many peers.
fn rings(world: u64) -> Vec<Vec<PeerId>> {
    let mut rings = vec![Vec::new()];
    for peer in (1..=world).map(PeerId) {
        let with_it = rings.iter().flat_map(|ring: &Vec<PeerId>| {
            (0..=ring.len()).map(move |at| {
                let mut ring = ring.clone();
                ring.insert(at, peer);
                ring
            })
        });
        rings = with_it.collect();
    }
    rings
}

/// What each peer writes, of each element, by peers in place of ranks.
fn results(
    kind: CollectiveKind<u32>,
    algorithm: Algorithm,
    ring: &[PeerId],
) -> BTreeMap<PeerId, BTreeMap<u64, Vec<PeerId>>> {
    let turns = Turns::of_peers(ring);
    let shards = Shards::of_peers(11, ring);
    let operation = Operation {
        kind,
        algorithm,
        sites: &Sites::one(ring.len() as u32),
        stripe: shards.stripe(1, 0),
        turns: Some(&turns),
    };
    keeps_its_promise(operation, false).unwrap();
    let by_rank = simulate(operation, true).unwrap();
    let of_peer = |(peer, result): (&PeerId, BTreeMap<u64, Sum>)| {
        let peers = |sum: Sum| sum.into_iter().map(|rank| ring[rank as usize]).collect();
        let result = result
            .into_iter()
            .map(|(element, sum)| (element, peers(sum)));
        (*peer, result.collect())
    };
    ring.iter().zip(by_rank).map(of_peer).collect()
}

#[test]
fn whatever_the_ring_contributions_are_added_in_the_order_of_the_peers() {
    for world in 2..=5 {
        for ring in rings(world) {
            for algorithm in IN_TURNS {
                for kind in [CollectiveKind::AllReduce, CollectiveKind::ReduceScatter] {
                    if !algorithm.carries(&kind) {
                        continue;
                    }
                    let order: Vec<PeerId> = (1..=world).map(PeerId).collect();
                    for (peer, result) in results(kind, algorithm, &ring) {
                        let mut sums = result.values();
                        assert!(sums.all(|sum| *sum == order), "{peer} by {algorithm}");
                    }
                }
            }
        }
    }
}

/// The frames that it sends, counted by their bytes, and how many times what it sends has been around the ring.
fn buffers_sent(ring: &[PeerId], kind: CollectiveKind<u32>) -> u64 {
    let turns = Turns::of_peers(ring);
    let shards = Shards::of_peers(60, ring);
    let sites = Sites::one(ring.len() as u32);
    let operation = Operation {
        kind,
        algorithm: Algorithm::Relay,
        sites: &sites,
        stripe: shards.stripe(1, 0),
        turns: Some(&turns),
    };
    let sent = (0..sites.world()).flat_map(|rank| sends(operation, rank));
    sent.map(|(_, range)| range.end - range.start).sum::<u64>() / 60
}

#[test]
fn a_relay_goes_around_as_often_as_the_order_of_the_ring_makes_it() {
    let forth: Vec<PeerId> = (1..=6).map(PeerId).collect();
    let back: Vec<PeerId> = (1..=6).rev().map(PeerId).collect();
    let reduce = CollectiveKind::AllReduce;

    // From the first to the last, and from there to all others.
    assert_eq!(buffers_sent(&forth, reduce), 5 + 5);
    // To the rank before takes five hops.
    assert_eq!(buffers_sent(&back, reduce), 5 * 5 + 5);
    // Chunks are scattered over 0 to 5 hops.
    let scatter = CollectiveKind::ReduceScatter;
    assert_eq!(buffers_sent(&forth, scatter), 5 + 15 / 6);
}

#[test]
fn what_is_relayed_and_scattered_tells_nobody_how_far_its_contribution_has_come() {
    let comes_back = |kind| {
        let shards = Shards::of_ranks(20, 4);
        let plans = (0..4).map(|rank| Plan::new(kind, Algorithm::Relay, 4, rank).unwrap());
        let back = plans.map(|plan| {
            let mut arrivals = plan.arrivals(shards.stripe(1, 0));
            arrivals.any(|flow| flow.comes_back)
        });
        back.collect::<Vec<_>>()
    };

    let first_alone = [true, false, false, false];
    assert_eq!(comes_back(CollectiveKind::AllReduce), first_alone);
    assert_eq!(comes_back(CollectiveKind::ReduceScatter), [false; 4]);
}

#[test]
fn turns_of_another_number_of_ranks_are_refused() {
    let turns = Turns::of_peers(&[3, 1].map(PeerId));
    let plan = |world| all_reduce(Algorithm::Relay, world, 0).unwrap();

    assert!(plan(2).in_turns(&turns).is_some());
    assert!(plan(3).in_turns(&turns).is_none());
}
