//! Rings: orders, reports, broken links, and which lanes a ring is made of.

use crate::desk::*;

#[test]
fn an_admission_counts_as_the_newcomers_first_update() {
    let mut desk = Desk::fresh();

    let first = desk.calls(Call::UpdateTopology);
    let second = desk.calls(Call::UpdateTopology);

    let topology = topology(1, &[1, 2, 3]);
    let answered = Answer::TopologyUpdated(Ok(topology));
    assert_eq!(first, [to_caller(answered)]);
    assert!(matches!(
        sent(&second)[..],
        [ToMaster::UpdateTopology { .. }]
    ));
}

#[test]
fn a_question_about_newcomers_leaves_the_first_update_free_and_any_other_call_does_not() {
    let mut asked = Desk::fresh();
    asked.calls(Call::ArePeersPending);
    let mut synchronized = Desk::fresh();
    synchronized.calls(Call::SyncSharedState(sync_vote()));
    synchronized.hears(conclusion(Err(SyncFailure::NobodyToSend)));

    let free = asked.calls(Call::UpdateTopology);
    let voted = synchronized.calls(Call::UpdateTopology);

    assert!(sent(&free).is_empty());
    assert_eq!(sent(&voted).len(), 1);
}

#[test]
fn an_order_without_edges_is_handed_on_and_not_answered() {
    let mut desk = updating();

    let ordered = desk.hears(establish(2, &[]));
    let up = desk.gets(link_up(2, to(3)));

    let (round, links) = (Round(2), Vec::new());
    assert_eq!(ordered, [PeerOutput::Establish { round, links }]);
    assert!(up.is_empty());
}

#[test]
fn each_ordered_edge_is_reported_by_itself_and_once() {
    let mut desk = updating();
    desk.hears(establish(2, &[to(4), from(5)]));
    let (round, failure) = (Round(2), LaneFailure::Refused);

    let failed = desk.gets(link_failed(2, to(4), failure));
    let up = desk.gets(link_up(2, from(5)));
    let again = [
        link_up(2, to(4)),
        link_failed(2, to(4), LaneFailure::TimedOut),
        link_up(2, from(5)),
        link_failed(2, from(5), failure),
    ]
    .map(|report| desk.gets(report));

    let link = to(4);
    let report = ToMaster::LinkFailed {
        round,
        link,
        failure,
    };
    assert_eq!(failed, [PeerOutput::Send(report)]);
    let link = from(5);
    assert_eq!(up, [PeerOutput::Send(ToMaster::LinkUp { round, link })]);
    assert!(again.iter().all(Vec::is_empty), "{again:?}");
}

#[test]
fn reports_about_another_round_or_an_edge_that_was_not_ordered_are_not_passed_on() {
    let mut desk = updating();
    desk.hears(establish(2, &[to(3), to(4)]));
    desk.hears(establish(3, &[to(3)]));

    let pointless = [
        link_up(2, to(3)),
        link_failed(2, to(4), LaneFailure::TimedOut),
        link_up(3, from(3)),
        link_failed(3, from(1), LaneFailure::TimedOut),
        link_up(3, to(4)),
        link_up(4, to(3)),
    ]
    .map(|report| desk.gets(report));
    let present = desk.gets(link_up(3, to(3)));

    assert!(pointless.iter().all(Vec::is_empty), "{pointless:?}");
    let (round, link) = (Round(3), to(3));
    assert_eq!(sent(&present), [&ToMaster::LinkUp { round, link }]);
}

#[test]
fn an_order_that_another_one_has_overtaken_means_nothing() {
    let mut desk = updating();
    desk.hears(establish(3, &[to(3)]));

    let older = desk.hears(establish(2, &[to(4)]));
    let same = desk.hears(establish(3, &[to(4)]));
    let up = desk.gets(link_up(3, to(3)));

    assert!(older.is_empty() && same.is_empty());
    assert_eq!(
        sent(&up).len(),
        1,
        "the order that was taken is carried out"
    );
}

#[test]
fn an_order_that_makes_no_sense_means_that_the_master_misbehaves() {
    let mut without_lanes = link_order(from(4));
    without_lanes.lanes.lanes = 0;
    let [first, second, third] = [to(1), to(3), from(3)].map(link_order);
    let to_itself = [to(ME.0), from(ME.0)].map(link_order);
    let nonsense = [
        ("to itself", vec![to_itself[0]]),
        ("to itself, among others", vec![first, second, to_itself[1]]),
        ("without lanes", vec![without_lanes]),
        ("without lanes, among others", vec![first, without_lanes]),
        ("out of order", vec![second, first]),
        ("the other way first", vec![third, first]),
        ("out of order at the end", vec![first, third, second]),
        ("named twice", vec![first, second, second]),
        ("named twice, not in a row", vec![first, second, first]),
    ];
    for (what, links) in nonsense {
        for mut desk in [Desk::registered(), updating()] {
            let round = Round(2);
            let links = links.clone();

            let out = desk.hears(ToPeer::EstablishLinks { round, links });

            assert!(is_gone_with(&desk, &CallError::MasterMisbehaved), "{what}");
            let handed_on = |output: &PeerOutput| matches!(output, PeerOutput::Establish { .. });
            assert!(!out.iter().any(handed_on), "{what}");
        }
    }
}

/// It is looked at before it is asked whether it is of any use.
#[test]
fn an_order_that_makes_no_sense_does_so_also_where_another_one_has_overtaken_it() {
    let mut desk = updating();
    desk.hears(establish(3, &[to(3)]));

    desk.hears(establish(2, &[from(1), to(3)]));

    assert!(is_gone_with(&desk, &CallError::MasterMisbehaved));
}

#[test]
fn a_ring_takes_each_edge_from_the_round_that_the_master_names() {
    let mut desk = updating();
    desk.hears(establish(2, &[to(3)]));
    desk.gets(link_up(2, to(3)));

    let adopted = desk.hears(established(2, &[1, 2, 3], &[(to(3), 2), (from(1), 1)]));

    let ring = topology(2, &[1, 2, 3]);
    let links = [(to(3), from_round(2)), (from(1), KEEP)];
    assert_eq!(adopted[..1], [adopt(ring, &links)]);
}

#[test]
fn fresh_lanes_of_an_attempt_that_came_to_nothing_are_not_used_though_they_are_up() {
    let mut desk = updating();
    desk.hears(establish(2, &[to(3), from(1)]));
    desk.gets(link_up(2, to(3)));
    desk.gets(link_up(2, from(1)));

    let adopted = desk.hears(established(2, &[1, 2, 3], &FIRST_LINKS));
    desk.gets(link_broke(to(3), 2));

    let ring = topology(2, &[1, 2, 3]);
    assert_eq!(adopted[..1], [adopt(ring, &ALL_KEPT)]);
    let broken = desk.peer.view().broken_links();
    assert_eq!(broken, BrokenLinks::NONE, "no link is made of those lanes");
}

#[test]
fn both_ends_of_an_edge_use_the_lanes_of_one_round_whatever_came_up_at_either() {
    let up_at = [(true, true), (true, false), (false, true), (false, false)];
    for (up_at_sender, up_at_receiver) in up_at {
        let mut sender = Desk::in_a_ring_of_two(PeerId(2), PeerId(3));
        let mut receiver = Desk::in_a_ring_of_two(PeerId(3), PeerId(2));
        sender.hears(establish(2, &[to(3)]));
        receiver.hears(establish(2, &[from(2)]));
        if up_at_sender {
            sender.gets(link_up(2, to(3)));
        }
        if up_at_receiver {
            receiver.gets(link_up(2, from(2)));
        }
        let given_up = |other| established(2, &[2, 3], &[(to(other), 1), (from(other), 1)]);

        let at_sender = sender.hears(given_up(3));
        let at_receiver = receiver.hears(given_up(2));

        let kept = |other| {
            let links = [(to(other), KEEP), (from(other), KEEP)];
            adopt(topology(2, &[2, 3]), &links)
        };
        assert_eq!(at_sender[..1], [kept(3)]);
        assert_eq!(at_receiver[..1], [kept(2)]);
    }
}

#[test]
fn a_ring_that_is_told_again_keeps_the_lanes_that_were_fresh() {
    let mut desk = updating();
    desk.hears(establish(2, &[to(3)]));
    desk.gets(link_up(2, to(3)));
    let links = [(to(3), 2), (from(1), 1)];
    desk.hears(established(2, &[1, 2, 3], &links));
    desk.calls(Call::UpdateTopology);

    let again = desk.hears(established(2, &[1, 2, 3], &links));

    let ring = topology(2, &[1, 2, 3]);
    assert_eq!(again[..1], [adopt(ring, &ALL_KEPT)]);
}

#[test]
fn a_ring_of_one_has_no_lanes() {
    let mut desk = updating();

    let alone = desk.hears(established(2, &[2], &[]));

    assert_eq!(alone[..1], [adopt(topology(2, &[2]), &[])]);
}

#[test]
fn a_broken_edge_goes_with_every_vote_until_its_lanes_are_replaced() {
    let mut desk = Desk::accepted();

    desk.gets(link_broke(to(3), 1));
    let vote = desk.calls(initiate(1));
    desk.hears(establish(2, &[to(3)]));
    desk.gets(link_up(2, to(3)));
    desk.hears(established(2, &[1, 2, 3], &[(to(3), 2), (from(1), 1)]));
    desk.gets(link_broke(to(3), 1));

    let wanted = ToMaster::InitiateCollective {
        tag: Tag(1),
        spec: spec(),
        epoch: Epoch(1),
        broken: broken(&[to(3)]),
    };
    assert_eq!(sent(&vote), [&wanted]);
    assert_eq!(desk.peer.view().broken_links(), BrokenLinks::NONE);
}

#[test]
fn an_edge_that_breaks_between_its_report_and_its_adoption_is_not_forgotten() {
    let mut desk = updating();
    desk.hears(establish(2, &[to(4)]));
    desk.gets(link_up(2, to(4)));

    desk.gets(link_broke(to(4), 2));
    desk.hears(established(2, &[1, 2, 4, 3], &[(to(4), 2), (from(1), 1)]));

    assert_eq!(desk.peer.view().broken_links(), broken(&[to(4)]));
}

#[test]
fn an_edge_that_broke_after_the_vote_and_was_not_rebuilt_stays_broken() {
    let mut desk = updating();

    desk.gets(link_broke(to(3), 1));
    desk.hears(established(2, &[1, 2, 3], &FIRST_LINKS));

    assert_eq!(desk.peer.view().broken_links(), broken(&[to(3)]));
}

/// What is said of lanes that are no link here, or of others than it is made of, means nothing.
#[test]
fn of_several_links_each_breaks_by_itself_and_all_are_told_in_order() {
    let mut desk = meshed();

    desk.gets(link_broke(from(4), 2));
    desk.gets(link_broke(to(4), 1));
    desk.gets(link_broke(from(3), 1));
    desk.gets(link_broke(to(3), 1));
    desk.gets(link_broke(to(1), 2));

    let named = broken(&[to(1), to(3), from(4)]);
    assert_eq!(desk.peer.view().broken_links(), named);
}

#[test]
fn a_layout_may_have_more_links_than_the_ring_and_each_is_used_or_kept() {
    let mut desk = updating();
    desk.hears(establish(2, &MESH_ORDERED));
    for link in MESH_ORDERED {
        desk.gets(link_up(2, link));
    }

    let used = desk.hears(established(2, &[1, 2, 3, 4], &MESH));
    desk.calls(Call::UpdateTopology);
    let kept = desk.hears(established(2, &[1, 2, 3, 4], &MESH));

    let ring = topology(2, &[1, 2, 3, 4]);
    let lanes = |(link, round)| match MESH_ORDERED.contains(&link) {
        true => (link, from_round(round)),
        false => (link, KEEP),
    };
    assert_eq!(used[..1], [adopt(ring.clone(), &MESH.map(lanes))]);
    let all_kept = MESH.map(|(link, _)| (link, KEEP));
    assert_eq!(kept[..1], [adopt(ring, &all_kept)]);
}

#[test]
fn a_link_beyond_the_ring_that_breaks_goes_with_every_vote_until_it_is_given_up() {
    let mut desk = meshed();
    let (epoch, broken) = (Epoch(2), broken(&[to(4)]));

    desk.gets(link_broke(to(4), 2));
    let started = desk.calls(initiate(1));
    desk.hears(commence(1, 9));
    let ended = desk.gets(plan_ended(9, PlanOutcome::LaneLost));
    desk.hears(verdict(
        1,
        9,
        Verdict::Aborted(AbortCause::LaneLost { by: ME, link: None }),
    ));
    let updated = desk.calls(Call::UpdateTopology);
    desk.hears(established(3, &[1, 2, 3, 4], &FIRST_LINKS));

    let wanted = ToMaster::InitiateCollective {
        tag: Tag(1),
        spec: spec(),
        epoch,
        broken: broken.clone(),
    };
    assert_eq!(sent(&started), [&wanted]);
    let lost = completion(9, PlanOutcome::LaneLost, broken.clone());
    assert_eq!(ended, [lost]);
    let vote = ToMaster::UpdateTopology { epoch, broken };
    assert_eq!(sent(&updated), [&vote]);
    assert_eq!(desk.peer.view().broken_links(), BrokenLinks::NONE);
}

#[test]
fn a_link_beyond_the_ring_that_breaks_between_its_report_and_its_adoption_is_not_forgotten() {
    let mut desk = updating();
    desk.hears(establish(2, &MESH_ORDERED));
    for link in MESH_ORDERED {
        desk.gets(link_up(2, link));
    }

    desk.gets(link_broke(from(4), 2));
    desk.hears(established(2, &[1, 2, 3, 4], &MESH));

    assert_eq!(desk.peer.view().broken_links(), broken(&[from(4)]));
}

#[test]
fn a_link_that_a_layout_does_not_name_any_more_is_not_there() {
    let mut desk = meshed();
    desk.calls(Call::UpdateTopology);
    desk.hears(established(3, &[1, 2, 3, 4], &FIRST_LINKS));
    desk.gets(link_broke(to(4), 2));
    desk.calls(Call::UpdateTopology);
    assert_eq!(desk.peer.view().broken_links(), BrokenLinks::NONE);

    desk.hears(established(4, &[1, 2, 3, 4], &MESH));

    assert!(is_gone_with(&desk, &CallError::MasterMisbehaved));
}

#[test]
fn a_ring_that_makes_no_sense_here_means_that_the_master_misbehaves() {
    let ring = [1, 2, 3];
    let nonsense = [
        ("without this peer", established(2, &[1, 3], &FIRST_LINKS)),
        ("older", established(0, &ring, &FIRST_LINKS)),
        (
            "another neighbour",
            established(2, &[1, 2, 4, 3], &FIRST_LINKS),
        ),
        (
            "lanes that lead elsewhere",
            established(2, &ring, &[(to(3), 2), (from(1), 1)]),
        ),
        (
            "lanes that failed",
            established(2, &[5, 2, 3], &[(to(3), 1), (from(5), 2)]),
        ),
        (
            "lanes that are not up",
            established(2, &[5, 2, 3], &[(to(3), 1), (from(5), 2)]),
        ),
        (
            "a round that never was",
            established(2, &ring, &[(to(3), 1), (from(1), 7)]),
        ),
        (
            "fresh lanes of another round",
            established(2, &[1, 2, 4], &[(to(4), 1), (from(1), 1)]),
        ),
        (
            "a link of the ring unnamed",
            established(2, &ring, &[(from(1), 1)]),
        ),
        (
            "the other one unnamed",
            established(2, &ring, &[(to(3), 1)]),
        ),
        (
            "a link of the ring unnamed, another one named",
            established(2, &[1, 2, 3, 4], &[(to(3), 1), (to(4), 2)]),
        ),
        ("no link at all", established(2, &ring, &[])),
        ("a link too many", established(2, &[2], &[(from(1), 1)])),
        ("another one too many", established(2, &[2], &[(to(3), 1)])),
        (
            "out of order",
            established(2, &ring, &[(from(1), 1), (to(3), 1)]),
        ),
        (
            "out of order beyond the ring",
            established(2, &[1, 2, 3, 4], &[(to(4), 2), (to(3), 1), (from(1), 1)]),
        ),
        (
            "a link named twice",
            established(2, &ring, &[(to(3), 1), (from(1), 1), (from(1), 1)]),
        ),
        (
            "a link to a stranger",
            established(2, &ring, &[(to(3), 1), (to(4), 2), (from(1), 1)]),
        ),
        (
            "a link to itself",
            established(2, &ring, &[(to(2), 1), (to(3), 1), (from(1), 1)]),
        ),
        (
            "a link beyond the ring that is not up",
            established(2, &[1, 2, 3, 5], &[(to(3), 1), (from(1), 1), (from(5), 2)]),
        ),
        (
            "no sites",
            with_sites(established(2, &ring, &FIRST_LINKS), sites_of(&[])),
        ),
        (
            "a rank without a site",
            with_sites(established(2, &ring, &FIRST_LINKS), sites_of(&[1, 2])),
        ),
        (
            "a site of nobody",
            with_sites(established(2, &ring, &FIRST_LINKS), sites_of(&[1, 2, 3, 4])),
        ),
        (
            "a rank without a name",
            with_names(established(2, &ring, &FIRST_LINKS), 2),
        ),
    ];
    for (what, message) in nonsense {
        let mut desk = updating();
        // To peer 4 lanes are up; from peer 5 they never came up.
        desk.hears(establish(2, &[to(4), from(5)]));
        desk.gets(link_up(2, to(4)));
        if what == "lanes that failed" {
            desk.gets(link_failed(2, from(5), LaneFailure::TimedOut));
        }

        let out = desk.hears(message);

        let why = CallError::MasterMisbehaved;
        let answered = [&Answer::TopologyUpdated(Err(why.clone()))];
        assert_eq!(answers(&out), answered, "{what}");
        assert!(is_gone_with(&desk, &why), "{what}");
        let adopted = |output: &PeerOutput| matches!(output, PeerOutput::AdoptRing { .. });
        assert!(!out.iter().any(adopted), "{what}");
    }
}

#[test]
fn a_first_ring_that_makes_no_sense_admits_nobody() {
    let ring = [1, 2, 3];
    let first = established(1, &ring, &FIRST_LINKS);
    let nonsense = [
        established(1, &ring, &[(from(1), 1), (to(3), 1)]),
        established(1, &ring, &[(to(3), 1), (to(3), 1), (from(1), 1)]),
        established(1, &ring, &[(to(3), 1)]),
        established(1, &ring, &[(to(3), 1), (to(4), 1), (from(1), 1)]),
        with_sites(first.clone(), sites_of(&[1, 2])),
        with_sites(first, sites_of(&[1, 2, 3, 4])),
    ];
    for message in nonsense {
        let mut desk = Desk::registered();
        let ordered = [to(3), to(4), from(1)];
        desk.hears(establish(1, &ordered));
        for link in ordered {
            desk.gets(link_up(1, link));
        }

        let out = desk.hears(message.clone());

        let why = CallError::MasterMisbehaved;
        let refused = to_caller(Answer::Connected(Err(why.clone())));
        assert!(out.contains(&refused), "{message:?}: {out:?}");
        assert!(is_gone_with(&desk, &why), "{message:?}");
        let adopted = |output: &PeerOutput| matches!(output, PeerOutput::AdoptRing { .. });
        assert!(!out.iter().any(adopted), "{message:?}");
    }
}

/// The links of the ring 1, 2, 3, that are kept.
const ALL_KEPT: [(LinkId, AdoptedLanes); 2] = [(to(3), KEEP), (from(1), KEEP)];

/// What is ordered for [`MESH`].
const MESH_ORDERED: [LinkId; 3] = [to(1), to(4), from(4)];

/// More links than the ring 1, 2, 3, 4 has at this peer.
const MESH: [(LinkId, u64); 5] = [
    (to(1), 2),
    (to(3), 1),
    (to(4), 2),
    (from(1), 1),
    (from(4), 2),
];

fn updating() -> Desk {
    let mut desk = Desk::accepted();
    desk.calls(Call::UpdateTopology);
    desk
}

/// A desk that has the links of [`MESH`]. Nothing waits.
fn meshed() -> Desk {
    let mut desk = updating();
    desk.hears(establish(2, &MESH_ORDERED));
    for link in MESH_ORDERED {
        desk.gets(link_up(2, link));
    }
    desk.hears(established(2, &[1, 2, 3, 4], &MESH));
    assert!(desk.peer.view().is_idle());
    desk
}
