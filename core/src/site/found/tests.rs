//! What holds of the sites that are found.

use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

/// Numbers of peers from one on.
fn peers(count: u64) -> Vec<PeerId> {
    (1..=count).map(PeerId).collect()
}

/// What was measured, and between whom, in microseconds.
fn measured(all: &[(u64, u64, u32)]) -> RoundTrips {
    let edges = all.iter();
    edges
        .map(|(from, to, micros)| ((PeerId(*from), PeerId(*to)), *micros))
        .collect()
}

fn found(count: u64, all: &[(u64, u64, u32)]) -> FoundSites {
    FoundSites::of(&peers(count), &measured(all))
}

/// The peers after which the sites of the first so many peers are called.
fn sites(found: &FoundSites, count: u64) -> Vec<u64> {
    let names = peers(count).into_iter().map(|peer| found.name_of(peer));
    let number = |name: SiteName| name.as_str().strip_prefix('~')?.parse().ok();
    names.filter_map(number).collect()
}

#[test]
fn two_that_are_near_and_one_that_is_far_are_two_sites() {
    let found = found(3, &[(1, 2, 300), (2, 3, 40_000), (3, 1, 41_000)]);

    assert_eq!(sites(&found, 3), [1, 1, 3]);
    assert_eq!(found.name_of(PeerId(2)).as_str(), "~1");
}

#[test]
fn who_is_chained_by_short_round_trips_is_at_one_site() {
    let chain = [(1, 2, 1_000), (2, 3, 1_000), (1, 3, 20_000)];
    let to_four = [1, 2, 3].map(|peer| (peer, 4, 30_000));

    let found = found(4, &[&chain[..], &to_four].concat());

    assert_eq!(sites(&found, 4), [1, 1, 1, 4]);
}

#[test]
fn without_a_clear_gap_there_are_no_sites() {
    // Each is less than five times the one before it.
    let spread = found(3, &[(1, 2, 1_000), (2, 3, 4_900), (1, 3, 20_000)]);
    let alike = found(3, &[(1, 2, 40_000), (2, 3, 40_000), (1, 3, 40_000)]);
    let far_and_farther = found(3, &[(1, 2, 5_001), (2, 3, 90_000), (1, 3, 90_000)]);

    for none in [spread, alike, far_and_farther] {
        assert!(none.is_empty(), "{none:?}");
    }
    assert_eq!(FoundSites::NONE.name_of(PeerId(1)), SiteName::NONE);
}

#[test]
fn a_gap_is_one_from_five_times_on_and_short_is_what_takes_five_milliseconds() {
    let with_gap = |short, long| found(3, &[(1, 2, short), (2, 3, long), (1, 3, long)]);

    assert_eq!(sites(&with_gap(5_000, 25_000), 3), [1, 1, 3]);
    assert!(with_gap(5_000, 24_999).is_empty());
    assert!(with_gap(5_001, 80_000).is_empty());
}

#[test]
fn processes_of_a_machine_and_racks_of_a_data_centre_are_no_sites() {
    let with_gap = |short, long| found(3, &[(1, 2, short), (2, 3, long), (1, 3, long)]);

    assert!(with_gap(20, 1_999).is_empty());
    assert_eq!(sites(&with_gap(20, 2_000), 3), [1, 1, 3]);
    assert_eq!(sites(&with_gap(0, 2_000), 3), [1, 1, 3]);
}

#[test]
fn one_stray_round_trip_cuts_no_site_in_two() {
    let found = found(3, &[(1, 2, 80), (2, 3, 90), (1, 3, 7_000)]);

    assert!(found.is_empty());
}

#[test]
fn of_several_gaps_the_one_at_the_longest_round_trips_counts() {
    // Machines of 1 and 2, and of 3 and 4, in one city; 5 is overseas.
    let machines = [(1, 2, 50), (3, 4, 60)];
    let city = [(1, 3, 3_000), (1, 4, 3_000), (2, 3, 3_100), (2, 4, 2_900)];
    let overseas = [1, 2, 3, 4].map(|peer| (peer, 5, 80_000));

    let found = found(5, &[&machines[..], &city, &overseas].concat());

    assert_eq!(sites(&found, 5), [1, 1, 1, 1, 5]);
}

#[test]
fn a_round_trip_inside_a_site_can_hide_a_gap_that_is_there_without_it() {
    // 1, 2 and 3 are near each other, except that 1 and 2 have measured while a path was busy.
    let near = |stray| [(1, 3, 10), (2, 3, 10), (1, 2, stray)];
    let (city, overseas) = ([(3, 4, 2_000)], [(1, 4, 10_000), (2, 4, 10_000)]);
    let with = |stray| found(4, &[&near(stray)[..], &city, &overseas].concat());

    assert!(
        with(10).is_empty(),
        "2 ms to 10 ms is a gap, and 4 is near 3"
    );
    assert_eq!(
        sites(&with(4_000), 4),
        [1, 1, 1, 4],
        "10 us to 2 ms is the only gap"
    );
}

#[test]
fn the_shorter_of_both_directions_counts_and_one_is_enough() {
    let (there, back) = ((1, 2, 60_000), (2, 1, 900));

    let both = found(3, &[there, back, (3, 1, 50_000), (2, 3, 50_000)]);
    let one = found(3, &[back, (3, 1, 50_000), (2, 3, 50_000)]);

    assert_eq!(both, one);
    assert_eq!(sites(&one, 3), [1, 1, 3]);
}

#[test]
fn two_between_whom_nothing_was_measured_are_at_one_site_if_others_chain_them() {
    let found = found(4, &[(1, 2, 900), (2, 3, 900), (3, 4, 50_000)]);

    assert_eq!(sites(&found, 4), [1, 1, 1, 4]);
}

#[test]
fn nothing_is_found_if_two_may_be_at_one_site_or_at_two() {
    // Nobody has measured between 1, 2 and 3, 4: both are far from 5.
    let near = [(1, 2, 900), (3, 4, 900)];
    let far = [(1, 5, 50_000), (3, 5, 50_000)];
    assert!(found(5, &[near, far].concat()).is_empty());

    // Of a peer without any measurement it is not known either.
    let three = [(1, 2, 900), (2, 3, 50_000)];
    assert_eq!(sites(&found(3, &three), 3), [1, 1, 3]);
    assert!(found(4, &three).is_empty());
}

#[test]
fn who_is_not_of_the_group_says_nothing_about_it() {
    let others = [(1, 7, 10), (2, 7, 10), (3, 7, 10), (7, 8, 900_000)];
    let own = [(1, 2, 300), (2, 3, 40_000), (1, 3, 40_000)];

    let found = found(3, &[&own[..], &others].concat());

    assert_eq!(sites(&found, 3), [1, 1, 3]);
}

#[test]
fn the_departed_are_left_out_and_each_newcomer_is_at_a_site_of_its_own() {
    let near = [(1, 2, 300), (3, 4, 300)];
    let far = [(1, 3, 40_000), (2, 4, 40_000)];
    let found = found(4, &[near, far].concat());

    let after = found.among(&[2, 3, 4, 5, 6].map(PeerId));

    let names = [2, 3, 4, 5, 6].map(|peer| after.name_of(PeerId(peer)).to_string());
    assert_eq!(names, ["~1", "~3", "~3", "~5", "~6"]);
    assert_eq!(after.among(&[2, 3, 4, 5, 6].map(PeerId)), after);
}

#[test]
fn nothing_is_left_of_it_when_those_that_were_there_are_at_one_site_or_each_at_its_own() {
    let found = found(3, &[(1, 2, 300), (2, 3, 40_000), (1, 3, 40_000)]);

    assert!(found.among(&[1, 2, 4].map(PeerId)).is_empty());
    assert!(found.among(&[1, 3, 4].map(PeerId)).is_empty());
    assert!(!found.among(&[1, 2, 3, 4].map(PeerId)).is_empty());
}

#[test]
fn no_user_can_give_the_name_of_a_found_site() {
    let found = SiteName::found_around(PeerId(u64::MAX));

    assert!(found.is_found() && found.is_named());
    assert!(SiteName::try_from(found.to_string()).is_err());
    assert!(!SiteName::NONE.is_found());
}

/// A place of each of some peers, and the round trips between them: some of those inside of a place and between two
/// places, of which none may be missing.
fn world() -> impl Strategy<Value = (Vec<usize>, RoundTrips)> {
    let places = prop::collection::vec(0..4_usize, 3..12);
    let micros = prop::collection::vec((0..=1_000_u32, 10_000..=200_000_u32), 12 * 12);
    (places, micros).prop_map(|(places, micros)| {
        let mut all = RoundTrips::default();
        for (from, here) in places.iter().enumerate() {
            for (to, there) in places.iter().enumerate().filter(|(to, _)| *to != from) {
                let (short, long) = micros[from * 12 + to];
                let ends = (PeerId(from as u64 + 1), PeerId(to as u64 + 1));
                all.note(ends, if here == there { short } else { long });
            }
        }
        (places, all)
    })
}

/// The peers by number, and for each the lowest of its site; each is at its own if there are none.
fn parts(found: &FoundSites, count: usize) -> Vec<usize> {
    let peers = (1..=count).map(|peer| PeerId(peer as u64));
    let names: Vec<SiteName> = peers.map(|peer| found.name_of(peer)).collect();
    let first = |name: &SiteName| names.iter().position(|other| other == name);
    names.iter().filter_map(first).collect()
}

proptest! {
    #![proptest_config(crate::cases::cases(256))]

    #[test]
    fn places_are_found_if_there_are_several_and_several_peers_at_one((places, all) in world()) {
        let peers = peers(places.len() as u64);

        let found = FoundSites::of(&peers, &all);

        let expected = Sites::of(&places);
        prop_assert_eq!(found.is_empty(), !expected.has_two_levels());
        if !found.is_empty() {
            prop_assert_eq!(Sites::of(peers.iter().map(|peer| found.name_of(*peer))), expected);
        }
    }

    #[test]
    fn other_numbers_and_another_order_give_the_same_sites(
        (places, all) in world(), shuffled in Just((0..12_u64).collect::<Vec<_>>()).prop_shuffle()
    ) {
        let count = places.len();
        let other = |peer: PeerId| PeerId(100 + shuffled[peer.0 as usize - 1]);
        let renamed = all.0.iter().map(|((a, b), micros)| ((other(*b), other(*a)), *micros));
        let peers = peers(count as u64);
        let others: Vec<PeerId> = peers.iter().rev().map(|peer| other(*peer)).collect();

        let found = FoundSites::of(&peers, &all);
        let of_others = FoundSites::of(&others, &renamed.collect());

        let here = peers.iter().map(|peer| found.name_of(*peer));
        let there = peers.iter().map(|peer| of_others.name_of(other(*peer)));
        prop_assert_eq!(Sites::of(here), Sites::of(there));
    }

    #[test]
    fn a_site_is_chained_by_short_round_trips_and_all_between_sites_are_long(
        (places, mut all) in world(),
        strays in prop::collection::btree_map(0..66_usize, 0..300_000_u32, 0..6),
        left_out in prop::collection::btree_set(0..66_usize, 0..20)
    ) {
        let mut number = 0..;
        all.0.retain(|_, micros| {
            let number = number.next().unwrap_or(0);
            *micros = *strays.get(&number).unwrap_or(micros);
            !left_out.contains(&number)
        });
        let peers = peers(places.len() as u64);

        let found = FoundSites::of(&peers, &all);

        if !found.is_empty() {
            let is_inside = |(one, other): Pair| found.name_of(one) == found.name_of(other);
            let between = all.0.iter().filter(|(pair, _)| !is_inside(**pair));
            let between: BTreeMap<Pair, u32> = between.map(|(pair, long)| (*pair, *long)).collect();
            let shortest = *between.values().min().unwrap();
            prop_assert!(shortest >= LONG_MIN_US);
            // Those that are short chain the same sites, so none hangs together by a long one.
            let is_short = |micros: u32| micros <= SHORT_MAX_US && micros.saturating_mul(GAP) <= shortest;
            let short = all.0.iter().filter(|(_, micros)| is_short(**micros));
            let by_short = chained(peers.into_iter().collect(), short.map(|(pair, _)| *pair));
            prop_assert_eq!(FoundSites(by_short), found);
        }
    }

    #[test]
    fn shorter_short_and_longer_long_round_trips_change_nothing(
        (places, all) in world(), shorter in 1..100_u32, longer in 1..100_u32
    ) {
        let peers = peers(places.len() as u64);
        let stretched = all.0.iter().map(|(pair, micros)| match *micros <= 1_000 {
            true => (*pair, micros / shorter),
            false => (*pair, micros * longer),
        });

        let (before, after) = (FoundSites::of(&peers, &all), FoundSites::of(&peers, &stretched.collect()));

        prop_assert_eq!(parts(&before, places.len()), parts(&after, places.len()));
        prop_assert_eq!(before, after);
    }
}
