//! Which calls exclude each other.

use crate::desk::*;

#[test]
fn one_major_call_at_a_time_and_none_beside_a_collective() {
    let mut updating = Desk::accepted();
    updating.calls(Call::UpdateTopology);
    let mut reducing = Desk::accepted();
    reducing.calls(initiate(1));
    let before = (updating.peer.clone(), reducing.peer.clone());

    let optimize = updating.calls(Call::OptimizeTopology);
    let reduce = updating.calls(initiate(1));
    let update = reducing.calls(Call::UpdateTopology);
    let same_tag = reducing.calls(initiate(1));

    let usage = CallError::Usage;
    assert_eq!(
        optimize,
        [to_caller(Answer::TopologyOptimized(Err(usage(
            Usage::Busy
        ))))]
    );
    assert_eq!(reduce, [ended(1, Err(usage(Usage::Busy)))]);
    assert_eq!(
        update,
        [to_caller(Answer::TopologyUpdated(Err(usage(
            Usage::PendingCollectives
        ))))]
    );
    assert_eq!(same_tag, [ended(1, Err(usage(Usage::TagInUse(Tag(1)))))]);
    assert_eq!((updating.peer, reducing.peer), before);
}

#[test]
fn the_question_about_newcomers_overlaps_everything_but_itself() {
    let mut desk = performing();

    let asked = desk.calls(Call::ArePeersPending);
    let again = desk.calls(Call::ArePeersPending);
    let told = desk.hears(ToPeer::PeersPending { pending: true });

    assert_eq!(sent(&asked), [&ToMaster::ArePeersPending]);
    let why = CallError::Usage(Usage::QueryPending);
    assert_eq!(again, [to_caller(Answer::PeersPending(Err(why)))]);
    assert_eq!(told, [to_caller(Answer::PeersPending(Ok(true)))]);
}

#[test]
fn a_major_call_that_gives_way_fails_and_the_peer_is_idle_again() {
    let mut desk = Desk::accepted();
    desk.calls(Call::SyncSharedState(sync_vote()));
    let conflict = Conflict {
        yours: CallKind::SyncSharedState,
        theirs: CallKind::UpdateTopology,
        peer: PeerId(1),
    };

    let out = desk.hears(ToPeer::CallFailed(CallFailure::Conflict(conflict)));

    let why = CallError::Conflict(conflict);
    assert_eq!(out, [to_caller(Answer::Synchronized(Err(why)))]);
    assert!(desk.peer.view().is_idle());
}
