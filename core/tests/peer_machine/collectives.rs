//! A tag from its vote to its verdict.

use crate::desk::*;

#[test]
fn a_collective_is_voted_on_run_voted_on_and_committed() {
    let mut desk = Desk::accepted();

    let vote = desk.calls(initiate(1));
    let run = desk.hears(commence(1, 9));
    let done = desk.gets(plan_ended(9, PlanOutcome::Done));
    let told = desk.hears(verdict(1, 9, committed(1)));

    assert_eq!(sent(&vote).len(), 1);
    let (tag, seq, spec, algorithm) = (Tag(1), Seq(9), spec(), algorithm());
    let call = name_of_tag(tag);
    let expected = PeerOutput::RunPlan {
        call,
        tag,
        seq,
        spec,
        lengths: Lengths::NONE,
        algorithm,
        ahead: false,
    };
    assert_eq!(run, [expected]);
    assert_eq!(done, [completion(9, PlanOutcome::Done, BrokenLinks::NONE)]);
    let contributors = [1, 2, 3].map(PeerId).to_vec();
    let committed = ended(1, Ok(Committed { seq, contributors }));
    assert_eq!(told, [PeerOutput::StopPlan { seq }, committed]);
    assert!(desk.peer.view().is_idle());
}

#[test]
fn an_abort_in_mid_plan_stops_the_plan_before_it_is_answered() {
    let mut desk = performing();
    let cause = AbortCause::PeerLost(PeerId(3));

    let out = desk.hears(verdict(1, 9, Verdict::Aborted(cause)));
    let late = desk.gets(plan_ended(9, PlanOutcome::Done));

    let seq = Seq(9);
    assert_eq!(out, [PeerOutput::StopPlan { seq }, aborted(1, cause)]);
    assert!(late.is_empty());
}

#[test]
fn an_abort_after_the_plan_had_finished_here_is_an_error_like_any_other() {
    let mut desk = voted(PlanOutcome::Done);
    let cause = AbortCause::LaneLost {
        by: PeerId(3),
        link: Some(to(4)),
    };

    let out = desk.hears(verdict(1, 9, Verdict::Aborted(cause)));

    assert_eq!(
        out,
        [PeerOutput::StopPlan { seq: Seq(9) }, aborted(1, cause)]
    );
}

#[test]
fn a_lane_lost_in_mid_plan_is_told_with_the_edge_that_broke() {
    let mut desk = performing();

    desk.gets(link_broke(to(3), 1));
    let out = desk.gets(plan_ended(9, PlanOutcome::LaneLost));

    let to_next = broken(&[to(3)]);
    assert_eq!(out, [completion(9, PlanOutcome::LaneLost, to_next)]);
}

#[test]
fn a_commit_of_what_was_not_whole_here_means_that_the_master_misbehaves() {
    for mut desk in [performing(), voted(PlanOutcome::LaneLost)] {
        let out = desk.hears(verdict(1, 9, committed(1)));

        assert!(out.contains(&ended(1, Err(CallError::MasterMisbehaved))));
        assert_eq!(out.last(), Some(&PeerOutput::Close));
    }
}

#[test]
fn a_commit_on_another_ring_than_the_own_means_that_the_master_misbehaves() {
    for epoch in [0, 2] {
        let mut desk = voted(PlanOutcome::Done);

        let out = desk.hears(verdict(1, 9, committed(epoch)));

        assert_eq!(
            answers(&out),
            answers(&[ended(1, Err(CallError::MasterMisbehaved))])
        );
    }
}

#[test]
fn the_contributors_are_the_peers_of_the_ring_on_which_it_ran() {
    let mut desk = Desk::accepted();
    desk.calls(initiate(1));
    desk.hears(establish(2, &[to(1), from(3)]));
    desk.gets(link_up(2, to(1)));
    desk.gets(link_up(2, from(3)));
    desk.hears(established(4, &[3, 2, 1], &[(to(1), 2), (from(3), 2)]));
    desk.hears(commence(1, 9));
    desk.gets(plan_ended(9, PlanOutcome::Done));

    let told = desk.hears(verdict(1, 9, committed(4)));

    let (seq, contributors) = (Seq(9), [3, 2, 1].map(PeerId).to_vec());
    assert_eq!(
        told.last(),
        Some(&ended(1, Ok(Committed { seq, contributors })))
    );
}

#[test]
fn a_verdict_about_another_execution_is_ignored() {
    let mut desk = performing();
    let before = desk.peer.clone();

    let older = desk.hears(verdict(1, 8, Verdict::Aborted(AbortCause::TimedOut)));
    let unknown = desk.hears(verdict(4, 8, Verdict::Aborted(AbortCause::TimedOut)));

    assert!(older.is_empty() && unknown.is_empty());
    assert_eq!(desk.peer, before);
}

#[test]
fn a_collective_given_up_in_mid_plan_stops_and_its_verdict_is_told_to_nobody() {
    let mut desk = performing();

    let out = desk.gives_up(&initiate(1));
    let late = desk.gets(plan_ended(9, PlanOutcome::Done));
    let cause = AbortCause::Cancelled(ME);
    let told = desk.hears(verdict(1, 9, Verdict::Aborted(cause)));

    let seq = Seq(9);
    let cancelled = completion(9, PlanOutcome::Cancelled, BrokenLinks::NONE);
    assert_eq!(out, [PeerOutput::StopPlan { seq }, cancelled]);
    assert!(late.is_empty());
    assert!(told.is_empty(), "the plan is stopped once: {told:?}");
    assert!(desk.peer.view().is_idle());
}

#[test]
fn a_vote_to_start_is_withdrawn_once_and_ends_with_the_masters_answer() {
    let mut desk = Desk::accepted();
    desk.calls(initiate(1));
    let tag = Tag(1);

    let first = desk.gives_up(&initiate(1));
    let second = desk.gives_up(&initiate(1));
    let is_open = !desk.peer.view().is_idle();
    let reason = CollectiveRefusal::Withdrawn;
    let told = desk.hears(ToPeer::CollectiveRefused { tag, reason });

    assert_eq!(first, [PeerOutput::Send(ToMaster::Withdraw { tag })]);
    assert!(second.is_empty() && told.is_empty());
    assert!(is_open && desk.peer.view().is_idle());
}

#[test]
fn a_collective_that_started_before_its_withdrawal_arrived_never_touches_the_ring() {
    let mut desk = Desk::accepted();
    desk.calls(initiate(1));
    desk.gives_up(&initiate(1));

    let started = desk.hears(commence(1, 9));
    let cause = AbortCause::Cancelled(ME);
    let told = desk.hears(verdict(1, 9, Verdict::Aborted(cause)));

    let cancelled = completion(9, PlanOutcome::Cancelled, BrokenLinks::NONE);
    let seq = Seq(9);
    assert_eq!(
        started,
        [PeerOutput::StopPlan { seq }, cancelled],
        "frames of neighbours that run it are nobody's"
    );
    assert!(told.is_empty());
}

#[test]
fn a_driver_that_finds_nobody_to_run_a_ring_is_told_that_its_frames_are_nobodys() {
    let mut desk = performing();

    let out = desk.gets(plan_ended(9, PlanOutcome::Cancelled));

    let cancelled = completion(9, PlanOutcome::Cancelled, BrokenLinks::NONE);
    let seq = Seq(9);
    assert_eq!(out, [PeerOutput::StopPlan { seq }, cancelled]);
}

#[test]
fn a_call_that_is_given_up_after_the_own_vote_is_committed_and_not_answered() {
    let mut desk = voted(PlanOutcome::Done);

    let given_up = desk.gives_up(&initiate(1));
    let told = desk.hears(verdict(1, 9, committed(1)));

    assert!(given_up.is_empty());
    assert_eq!(told, [PeerOutput::StopPlan { seq: Seq(9) }]);
    assert!(desk.peer.view().is_idle());
}

#[test]
fn giving_up_a_call_that_is_not_open_changes_nothing() {
    let mut desk = voted(PlanOutcome::Done);
    let before = desk.peer.clone();

    let unknown = desk.gives_up(&initiate(2));

    assert!(unknown.is_empty());
    assert_eq!(desk.peer, before);
}

#[test]
fn a_refused_collective_says_whether_the_program_or_the_moment_was_wrong() {
    let tag = Tag(1);
    let disagreement = CollectiveRefusal::Disagreement {
        field: SpecField::Count,
        peers: vec![PeerId(1), PeerId(3)],
        values: [1, 2].map(SpecValue::Count),
    };
    let conflict = Conflict {
        yours: CallKind::Collective,
        theirs: CallKind::UpdateTopology,
        peer: PeerId(1),
    };
    let root = PeerId(7);
    let as_told = [
        disagreement,
        CollectiveRefusal::NoSuchRoot { root },
        CollectiveRefusal::WorldChanged,
    ];
    let as_told = as_told.map(|reason| {
        let why = reason.clone();
        (reason, CallError::CollectiveRefused { tag, reason: why })
    });
    let conflict = (
        CollectiveRefusal::Conflict(conflict),
        CallError::Conflict(conflict),
    );
    let expected = as_told.into_iter().chain([conflict]);
    for (reason, why) in expected {
        let mut desk = Desk::accepted();
        desk.calls(initiate(1));

        let out = desk.hears(ToPeer::CollectiveRefused { tag, reason });

        assert_eq!(out, [ended(1, Err(why))]);
        assert!(desk.peer.view().is_idle());
    }
}

/// Peer 2 of three has two elements, and up to nine are allowed.
fn gather_v() -> Call {
    let tag = Tag(1);
    let spec = CollectiveSpec {
        kind: CollectiveKind::AllGatherV { own: 2, limit: 9 },
        count: 0,
        ..spec()
    };
    Call::Initiate { tag, spec }
}

fn commence_with(lengths: &[u64], algorithm: Algorithm) -> ToPeer {
    ToPeer::Commence {
        tag: Tag(1),
        seq: Seq(9),
        algorithm,
        lengths: Lengths(lengths.to_vec()),
        total_weight: 0,
    }
}

#[test]
fn what_runs_is_of_as_many_elements_as_all_have() {
    for lengths in [[3, 2, 4], [0, 2, 0]] {
        let mut desk = Desk::accepted();
        desk.calls(gather_v());

        let out = desk.hears(commence_with(&lengths, Algorithm::Ring));

        let [
            PeerOutput::RunPlan {
                spec, lengths: all, ..
            },
        ] = &out[..]
        else {
            panic!("{out:?}");
        };
        assert_eq!(spec.count, lengths.iter().sum());
        assert_eq!(all.0, lengths);
    }
}

#[test]
fn a_master_that_tells_lengths_which_cannot_be_misbehaves_and_nothing_runs() {
    let cases: [&[u64]; 9] = [
        &[],
        &[2],
        &[3, 2],
        &[3, 2, 4, 0],
        // Its own length is another one.
        &[2, 3, 4],
        // More than it allows.
        &[4, 2, 4],
        &[u64::MAX, 2, u64::MAX],
        &[u64::MAX - 1, 2, 0],
        &[0, 0, 0],
    ];
    for lengths in cases {
        let mut desk = Desk::accepted();
        desk.calls(gather_v());

        let out = desk.hears(commence_with(lengths, Algorithm::Ring));

        assert!(
            out.contains(&ended(1, Err(CallError::MasterMisbehaved))),
            "{lengths:?}"
        );
        assert!(out.contains(&PeerOutput::Close));
    }
}

#[test]
fn what_runs_knows_the_sum_of_all_weights_and_a_sum_that_cannot_be_is_no_sense() {
    for (own, total, runs) in [
        (Some(3), 8, true),
        (Some(3), 3, true),
        (Some(0), 5, true),
        // Less than its own, nothing, and weights that nobody asked for.
        (Some(3), 2, false),
        (Some(3), 0, false),
        (Some(0), 0, false),
        (None, 8, false),
    ] {
        let mut desk = Desk::accepted();
        let op = own.map_or(ReduceOp::Sum, |own| ReduceOp::WeightedAvg { own, total: 0 });
        let spec = CollectiveSpec { op, ..spec() };
        let tag = Tag(1);
        desk.calls(Call::Initiate { tag, spec });

        let out = desk.hears(ToPeer::Commence {
            tag,
            seq: Seq(9),
            algorithm: algorithm(),
            lengths: Lengths::NONE,
            total_weight: total,
        });

        let known = out.iter().find_map(|order| match order {
            PeerOutput::RunPlan { spec, .. } => Some(spec.op),
            _ => None,
        });
        let expected = own.map(|own| ReduceOp::WeightedAvg { own, total });
        assert_eq!(known, expected.filter(|_| runs), "{own:?} of {total}");
        assert_eq!(out.contains(&PeerOutput::Close), !runs);
    }
}

#[test]
fn lengths_for_buffers_that_have_one_are_no_sense() {
    let mut desk = Desk::accepted();
    desk.calls(initiate(1));

    let out = desk.hears(commence_with(&[10, 10, 10], algorithm()));

    assert!(out.contains(&ended(1, Err(CallError::MasterMisbehaved))));
}

#[test]
fn a_master_that_orders_what_the_links_or_the_spec_do_not_allow_misbehaves() {
    let mesh = Algorithm::Whole(Pattern::Mesh);
    for algorithm in [
        Algorithm::Chain,
        Algorithm::Direct,
        mesh,
        Algorithm::Circulant,
        Algorithm::TwoLevel,
        Algorithm::TwoLevelRing,
        Algorithm::TwoLevelWhole,
        Algorithm::Relay,
        Algorithm::Tree,
    ] {
        let mut desk = Desk::accepted();
        desk.calls(initiate(1));

        let (tag, seq) = (Tag(1), Seq(9));
        let out = desk.hears(ToPeer::Commence {
            tag,
            seq,
            algorithm,
            lengths: Lengths::NONE,
            total_weight: 0,
        });

        assert!(out.contains(&ended(1, Err(CallError::MasterMisbehaved))));
        assert!(out.contains(&PeerOutput::Close));
    }
}

#[test]
fn a_master_that_orders_the_ring_for_what_is_ordered_misbehaves() {
    for (algorithm, runs) in [
        (Algorithm::Whole(Pattern::Ring), true),
        (Algorithm::Relay, true),
        (Algorithm::Ring, false),
    ] {
        let mut desk = Desk::accepted();
        let spec = CollectiveSpec {
            ordered: true,
            ..spec()
        };
        let tag = Tag(1);
        desk.calls(Call::Initiate { tag, spec });

        let out = desk.hears(ToPeer::Commence {
            tag,
            seq: Seq(9),
            algorithm,
            lengths: Lengths::NONE,
            total_weight: 0,
        });

        let is_run = |order: &PeerOutput| matches!(order, PeerOutput::RunPlan { .. });
        assert_eq!(out.iter().any(is_run), runs, "{algorithm}");
        assert_eq!(out.contains(&PeerOutput::Close), !runs, "{algorithm}");
    }
}

/// What a peer wants of each kind on the ring of 1, 2 and 3, and by what it travels there.
fn wanted() -> [(CollectiveKind, Algorithm); 5] {
    let present = Membership::of(&[1, 2, 3].map(PeerId));
    [
        (CollectiveKind::AllReduce, algorithm()),
        (CollectiveKind::ReduceScatter, Algorithm::Ring),
        (
            CollectiveKind::AllGather {
                laid_out_for: present,
            },
            Algorithm::Ring,
        ),
        (
            CollectiveKind::Broadcast { root: PeerId(3) },
            Algorithm::Chain,
        ),
        (CollectiveKind::Barrier, Algorithm::Ring),
    ]
}

/// Of a peer that wants this, and hears that it starts.
fn starts(kind: CollectiveKind, algorithm: Algorithm) -> Vec<PeerOutput> {
    let (tag, seq) = (Tag(1), Seq(9));
    let spec = CollectiveSpec { kind, ..spec() };
    let mut desk = Desk::accepted();
    desk.calls(Call::Initiate { tag, spec });
    desk.hears(ToPeer::Commence {
        tag,
        seq,
        algorithm,
        lengths: Lengths::NONE,
        total_weight: 0,
    })
}

#[test]
fn each_kind_starts_by_the_algorithms_that_it_can_take_on_a_ring_and_by_no_other() {
    for (kind, right) in wanted() {
        // A small reduce may travel whole and in chunks.
        let other = match kind {
            CollectiveKind::AllReduce => Algorithm::Ring,
            CollectiveKind::ReduceScatter
            | CollectiveKind::AllGather { .. }
            | CollectiveKind::AllGatherV { .. }
            | CollectiveKind::Broadcast { .. }
            | CollectiveKind::Barrier => right,
        };
        for algorithm in Algorithm::ALL {
            let out = starts(kind, algorithm);

            let runs = out
                .iter()
                .any(|output| matches!(output, PeerOutput::RunPlan { .. }));
            let fits = [right, other].contains(&algorithm);
            assert_eq!(runs, fits, "{kind} by {algorithm}");
            assert_eq!(out.contains(&PeerOutput::Close), !fits);
        }
    }
}

#[test]
fn a_master_that_starts_a_broadcast_without_its_root_or_gathers_shards_of_others_misbehaves() {
    let present = [1, 2, 3].map(PeerId);
    let others = [&present[..2], &[], &[1, 2, 3, 4].map(PeerId)];
    let gathers = others.map(|peers| {
        let laid_out_for = Membership::of(peers);
        (CollectiveKind::AllGather { laid_out_for }, Algorithm::Ring)
    });
    let broadcasts = [0, 4, u64::MAX].map(|root| {
        let root = PeerId(root);
        (CollectiveKind::Broadcast { root }, Algorithm::Chain)
    });
    for (kind, algorithm) in gathers.into_iter().chain(broadcasts) {
        let out = starts(kind, algorithm);

        assert!(out.contains(&ended(1, Err(CallError::MasterMisbehaved))));
        assert!(out.contains(&PeerOutput::Close), "{kind:?}");
    }
}
