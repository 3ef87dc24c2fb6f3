//! Plans of a few ranks, written out.

use super::*;

#[test]
fn the_ring_of_three_ranks_is_the_published_one() {
    let shards = Shards::of_ranks(7, 3);
    let rank_1 = all_reduce(Algorithm::Ring, 3, 1).unwrap();
    let to = |step| Target { rank: 2, step };

    let own = only_contribution(rank_1, shards.stripe(1, 0));
    let flows: Vec<_> = rank_1
        .arrivals(shards.stripe(1, 0))
        .map(|mut flow| {
            (
                flow.step,
                flow.range,
                flow.action,
                flow.after,
                flow.onward.next(),
            )
        })
        .collect();

    assert_eq!((own.range, own.to), (0..3, to(0)));
    assert_eq!(
        flows,
        [
            (0, 5..7, Action::Combine, After::Nothing, Some(to(1))),
            (1, 3..5, Action::Finish, After::Nothing, Some(to(2))),
            (2, 0..3, Action::Copy, After::Contribution(0), Some(to(3))),
            (3, 5..7, Action::Copy, After::Arrival(0), None),
        ]
    );
}

#[test]
fn four_contributions_that_travel_whole_are_an_all_gather() {
    let shards = Shards::of_ranks(7, 4);
    let rank_1 = all_reduce(WHOLE, 4, 1).unwrap();
    let flows: Vec<_> = rank_1
        .arrivals(shards.stripe(1, 0))
        .map(|mut flow| {
            (
                flow.from,
                flow.range,
                flow.action,
                flow.onward.next().map(|to| to.step),
            )
        })
        .collect();

    assert_eq!(
        flows,
        [
            (0, 0..7, Action::Keep { sum: 0, turn: 0 }, Some(1)),
            (0, 0..7, Action::Keep { sum: 0, turn: 3 }, Some(2)),
            (0, 0..7, Action::Keep { sum: 0, turn: 2 }, None),
        ]
    );
}

#[test]
fn over_a_mesh_what_travels_whole_comes_from_whom_it_is_of() {
    let shards = Shards::of_ranks(7, 4);
    let rank_1 = all_reduce(Algorithm::Whole(Pattern::Mesh), 4, 1).unwrap();

    let sent: Vec<_> = rank_1.contributions(shards.stripe(1, 0)).collect();
    let flows = rank_1.arrivals(shards.stripe(1, 0));
    let flows: Vec<_> = flows
        .map(|mut flow| (flow.from, flow.action, flow.onward.next()))
        .collect();

    let to = |rank, step| Target { rank, step };
    assert!(sent.iter().all(|own| own.range == (0..7)));
    let sent: Vec<Target> = sent.iter().map(|own| own.to).collect();
    assert_eq!(sent, [to(2, 0), to(3, 1), to(0, 2)]);
    let keep = |turn| Action::Keep { sum: 0, turn };
    assert_eq!(
        flows,
        [(0, keep(0), None), (3, keep(3), None), (2, keep(2), None)]
    );
}

#[test]
fn three_ranks_that_exchange_directly_combine_a_part_each() {
    let shards = Shards::of_ranks(7, 3);
    let rank_1 = all_reduce(Algorithm::Direct, 3, 1).unwrap();
    let to = |rank, step| Target { rank, step };

    let sent: Vec<_> = rank_1
        .contributions(shards.stripe(1, 0))
        .map(|own| (own.range, own.to))
        .collect();
    let kept: Vec<Kept<'_>> = rank_1.kept(shards.stripe(1, 0)).collect();
    let flows: Vec<_> = rank_1
        .arrivals(shards.stripe(1, 0))
        .map(|flow| (flow.from, flow.range, flow.action, flow.after))
        .collect();

    assert_eq!(sent, [(5..7, to(2, 0)), (0..3, to(0, 1))]);
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].told.collect::<Vec<_>>(), [to(2, 2), to(0, 3)]);
    assert_eq!((&kept[0].range, kept[0].own_turn), (&(3..5), Some(1)));
    assert_eq!((kept[0].terms, kept[0].is_result), (3, true));
    assert_eq!(
        flows,
        [
            (0, 3..5, Action::Keep { sum: 0, turn: 0 }, After::Nothing),
            (2, 3..5, Action::Keep { sum: 0, turn: 2 }, After::Nothing),
            (0, 0..3, Action::Copy, After::Contribution(1)),
            (2, 5..7, Action::Copy, After::Contribution(0)),
        ]
    );
}

#[test]
fn two_ranks_and_one_of_another_site_have_the_sums_of_both() {
    let (sites, shards) = (Sites::of([0, 0, 1]), Shards::of_ranks(7, 3));
    let (kind, stripe) = (CollectiveKind::AllReduce, shards.stripe(1, 0));
    let rank_0 = Plan::among(kind, Algorithm::TwoLevelWhole, &sites, 0).unwrap();
    let to = |rank, step| Target { rank, step };

    let own: Vec<_> = rank_0.contributions(stripe).collect();
    let flows = rank_0.arrivals(stripe);
    let flows: Vec<_> = flows
        .map(|flow| (flow.from, flow.range, flow.action, flow.sent_at_once))
        .collect();
    let last = rank_0.arrival(stripe, 4).unwrap();
    let sums = rank_0.kept(stripe);
    let sums: Vec<_> = sums
        .map(|sum| {
            (
                sum.range,
                sum.own_turn,
                sum.onto,
                sum.told.collect::<Vec<_>>(),
            )
        })
        .collect();

    // Rank 0 is the gateway of the chunks 0 and 2, rank 1 that of its own, and rank 2 of all.
    assert_eq!(
        (own.len(), &own[0].range, own[0].to),
        (1, &(3..5), to(1, 0))
    );
    let keep = |sum, turn| Action::Keep { sum, turn };
    assert_eq!(
        flows,
        [
            (1, 0..3, keep(0, 1), true),
            (1, 5..7, keep(1, 1), true),
            // That of the home's site is the first.
            (2, 0..3, keep(2, 1), true),
            (2, 5..7, keep(3, 0), true),
            (1, 3..5, Action::Copy, false),
        ]
    );
    assert_eq!(last.after, After::Contribution(0));
    let onto = |sum, turn| Some(Term { sum, turn });
    assert_eq!(
        sums,
        [
            (0..3, Some(0), onto(2, 0), vec![to(2, 0)]),
            (5..7, Some(0), onto(3, 1), vec![to(2, 2)]),
            (0..3, None, None, vec![to(1, 2)]),
            (5..7, None, None, vec![to(1, 3)]),
        ]
    );
}
