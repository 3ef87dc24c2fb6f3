//! The bystander who sees everything: checks what each step does against the claims.

use std::collections::BTreeSet;

use pccl_core::id::{ContentHash, GroupId, PeerId, Revision, Seq, Tag};
use pccl_core::master::{Master, MasterInput, MasterOutput, MasterTimer};
use pccl_core::messages::{CallKind, Misdeed, RingOutcome, ToMaster, ToPeer, Verdict};
use pccl_core::peer::{Answer, CallError, PeerInput, PeerOutput};
use pccl_core::shared_state::{SyncRole, SyncStrategy};
use pccl_core::states::{
    CollectiveCommunicationState, CollectiveEvent, ConnectionPhase, ConnectionState, Event,
};
use pccl_core::topology::{Edge, Topology};

use crate::claim::Claim;
use crate::milestone::Milestone;
use crate::plane::Chunk;
use crate::run::{Run, small};
use crate::state::Life;
use crate::step::SeatNo;

/// No queue of messages holds more: the most is one answer per call, the plan of each kind of round,
/// a farewell and its reason.
const QUEUE_MAX: usize = 8;

pub(crate) fn bounded(run: &mut Run<'_>, no: SeatNo) {
    let link = &run.seat(no).link;
    if link.up.queue.len() > QUEUE_MAX || link.down.queue.len() > QUEUE_MAX {
        run.state.breaks(Claim::Bounded);
    }
}

/// Each departure, newcomer or fault may cost each user two retries: one of its own, and one more
/// because another user had one.
const RETRIES_PER_SHOCK: u8 = 2;

pub(crate) fn retries(run: &mut Run<'_>, no: SeatNo) {
    let allowed = run
        .state
        .ghost
        .shocks
        .saturating_mul(RETRIES_PER_SHOCK)
        .saturating_add(1);
    if run.seat(no).user.retries > allowed {
        run.state.breaks(Claim::RetriesExplained);
    }
}

pub(crate) fn master_hears(run: &mut Run<'_>, peer: PeerId, message: &ToMaster) {
    if let ToMaster::CompleteCollective {
        seq,
        outcome: RingOutcome::Done,
        ..
    } = message
        && run.master_knows(peer)
    {
        run.state.ghost.edit().done.insert((*seq, peer));
    }
}

// What the master did.

pub(crate) fn master_moved(
    run: &mut Run<'_>,
    before: &Master,
    heard: &MasterInput,
    out: &[MasterOutput],
) {
    let Some(after) = run.state.master.clone() else {
        return;
    };
    for output in out {
        look_at(run, before, &after, heard, output);
    }
    verdicts(run, before, &after, out);
    timers(run, before, &after, heard, out);
    admission(run, before, &after);
    exclusivity(run, &after);
    revisions(run, before, &after);
    rings(run, before, &after);
}

fn look_at(
    run: &mut Run<'_>,
    before: &Master,
    after: &Master,
    heard: &MasterInput,
    output: &MasterOutput,
) {
    match output {
        MasterOutput::Inconsistent { .. } => run.state.breaks(Claim::WithinTheTable),
        MasterOutput::Moved { event, from, .. } => {
            run.coverage.moved(*from, *event);
            match event {
                Event::RingStandsForCollectives => run.state.reach(Milestone::Rewired),
                Event::RetryUpdate | Event::RetryRewire | Event::RetryAdmission => {
                    run.state.reach(Milestone::WiredAgain);
                }
                _ => {}
            }
        }
        MasterOutput::Send {
            message: ToPeer::Kicked(misdeed),
            ..
        } => {
            if !may_befall(misdeed) {
                run.state.breaks(Claim::Innocence);
            }
        }
        MasterOutput::Send { peer, message } => said(run, before, after, heard, *peer, message),
        MasterOutput::Register { .. }
        | MasterOutput::Refuse { .. }
        | MasterOutput::Close { .. }
        | MasterOutput::StartTimer { .. }
        | MasterOutput::StopTimer(_)
        | MasterOutput::SolveTour { .. }
        | MasterOutput::Lost { .. }
        | MasterOutput::Stopped => {}
    }
}

fn said(
    run: &mut Run<'_>,
    before: &Master,
    after: &Master,
    heard: &MasterInput,
    peer: PeerId,
    message: &ToPeer,
) {
    let state_before = |tag: &Tag| {
        let view = before.view().peer(peer)?;
        view.tags()
            .find(|(known, _)| known == tag)
            .map(|(_, state)| state)
    };
    match message {
        ToPeer::TopologyEstablished(topology) => topology_is_right(run, after, peer, topology),
        ToPeer::Commence { .. } => {
            let from = Some(CollectiveCommunicationState::VoteInitiate);
            run.coverage.tag_moved(None, CollectiveEvent::Initiated);
            run.coverage.tag_moved(from, CollectiveEvent::Commenced);
        }
        ToPeer::CollectiveRefused { .. } => {
            let from = Some(CollectiveCommunicationState::VoteInitiate);
            run.coverage.tag_moved(from, CollectiveEvent::Refused);
            run.state.reach(Milestone::GaveWay);
        }
        ToPeer::Verdict { tag, .. } => {
            let voted = matches!(heard, MasterInput::Message { peer: caster, message: ToMaster::CompleteCollective { .. } } if *caster == peer);
            let performing = Some(CollectiveCommunicationState::Perform);
            let from = if voted {
                run.coverage
                    .tag_moved(performing, CollectiveEvent::Completed);
                Some(CollectiveCommunicationState::VoteComplete)
            } else {
                state_before(tag)
            };
            run.coverage.tag_moved(from, CollectiveEvent::Decided);
        }
        ToPeer::CallFailed(_) => run.state.reach(Milestone::GaveWay),
        ToPeer::SharedStatePlan(plan) => {
            let fetched = match &plan.role {
                SyncRole::Request { entries, .. } => entries.first().map(|(_, hash)| *hash),
                SyncRole::Distribute { .. } => None,
            };
            elected(run, before, after, peer, plan.revision, fetched);
        }
        ToPeer::SharedStateConcluded { result, .. } => match result {
            Ok(revision) => elected(run, before, after, peer, *revision, None),
            Err(_) => run.state.reach(Milestone::SyncFailed),
        },
        ToPeer::Welcome { .. }
        | ToPeer::Refused(_)
        | ToPeer::EstablishRing { .. }
        | ToPeer::PeersPending { .. }
        | ToPeer::Probe { .. }
        | ToPeer::OptimizationConcluded { .. }
        | ToPeer::Kicked(_)
        | ToPeer::Heartbeat
        | ToPeer::Stopping => {}
    }
}

/// All peers here keep to the protocol: they may be kicked for what befell them only.
fn may_befall(misdeed: &Misdeed) -> bool {
    match misdeed {
        Misdeed::MissedBallot
        | Misdeed::NoReport
        | Misdeed::Unconnectable { .. }
        | Misdeed::RevisionAhead { .. }
        | Misdeed::Silent => true,
        Misdeed::WrongState { .. }
        | Misdeed::NotAccepted
        | Misdeed::SecondHello
        | Misdeed::DuplicateVote
        | Misdeed::DuplicateTag { .. }
        | Misdeed::UnknownRound
        | Misdeed::UnaskedProbe
        | Misdeed::Malformed
        | Misdeed::TooManyTags { .. }
        | Misdeed::BadManifest
        | Misdeed::StateMismatch { .. }
        | Misdeed::SlowReader => false,
    }
}

/// Agreement and unanimity: one verdict per execution, told to everybody who took part and is still
/// there, and a commit exactly when every vote is in.
fn verdicts(run: &mut Run<'_>, before: &Master, after: &Master, out: &[MasterOutput]) {
    for group in before.view().groups() {
        for (tag, seq) in before.view().running(group) {
            let runs_on = after.view().running(group).any(|known| known == (tag, seq));
            let told: Vec<(PeerId, &Verdict)> = out
                .iter()
                .filter_map(|output| match output {
                    MasterOutput::Send {
                        peer,
                        message:
                            ToPeer::Verdict {
                                seq: s, verdict, ..
                            },
                    } if *s == seq => Some((*peer, verdict)),
                    _ => None,
                })
                .collect();
            verdict_of_one(run, before, after, group, (tag, seq), &told, runs_on);
        }
    }
}

fn verdict_of_one(
    run: &mut Run<'_>,
    before: &Master,
    after: &Master,
    group: GroupId,
    (tag, seq): (Tag, Seq),
    told: &[(PeerId, &Verdict)],
    runs_on: bool,
) {
    // The ring of the group is the one that it runs on, the departed included.
    let members: Vec<PeerId> = (before.view().ring(group).into_iter())
        .flat_map(|ring| &ring.0)
        .filter(|peer| after.view().peer(**peer).is_some())
        .copied()
        .collect();
    let ghost = run.state.ghost.clone();
    let all_done = |peers: &[PeerId]| peers.iter().all(|peer| ghost.done.contains(&(seq, *peer)));
    let Some((_, first)) = told.first() else {
        // With nobody left there is nobody to tell.
        if !runs_on && !members.is_empty() {
            run.state.breaks(Claim::Agreement);
        }
        if runs_on && all_done(&members) && !members.is_empty() {
            run.state.breaks(Claim::Unanimity);
        }
        return;
    };
    let same = told.iter().all(|(_, verdict)| verdict == first);
    let everybody = members
        .iter()
        .all(|peer| told.iter().any(|(known, _)| known == peer));
    if !same || !everybody || runs_on {
        run.state.breaks(Claim::Agreement);
    }
    match first {
        Verdict::Committed { contributors } => {
            if !all_done(contributors) {
                run.state.breaks(Claim::Unanimity);
            }
            run.state.reach(Milestone::Committed);
            if contributors.len() > told.len() {
                run.state.reach(Milestone::CommittedWithoutOne);
            }
        }
        Verdict::Aborted(_) => run.state.reach(Milestone::Aborted),
    }
    let verdict = (*first).clone();
    let ghost = run.state.ghost.edit();
    ghost.done.retain(|(known, _)| *known != seq);
    ghost.verdicts.insert((group, tag), (seq, verdict));
}

/// Timers are started and stopped so that exactly those run that the master thinks run.
fn timers(
    run: &mut Run<'_>,
    before: &Master,
    after: &Master,
    heard: &MasterInput,
    out: &[MasterOutput],
) {
    let mut running: BTreeSet<MasterTimer> = before.view().timers().collect();
    if let MasterInput::TimerFired(timer) = heard {
        running.remove(timer);
    }
    for output in out {
        match output {
            MasterOutput::StartTimer { timer, .. } => {
                running.insert(*timer);
            }
            MasterOutput::StopTimer(timer) => {
                running.remove(timer);
            }
            _ => {}
        }
    }
    if !after.view().timers().eq(running.iter().copied()) {
        run.state.breaks(Claim::Timers);
    }
}

fn accepted(master: &Master, group: GroupId) -> impl Iterator<Item = PeerId> {
    let peers = master.view().peers();
    peers
        .filter(move |(_, peer)| peer.group() == group && peer.phase() == ConnectionPhase::Accepted)
        .map(|(id, _)| id)
}

/// Nobody is accepted without the vote of everybody who is.
fn admission(run: &mut Run<'_>, before: &Master, after: &Master) {
    let accepted = |master: &Master| -> BTreeSet<PeerId> {
        let peers = master.view().peers();
        let accepted = peers.filter(|(_, peer)| peer.phase() == ConnectionPhase::Accepted);
        accepted.map(|(id, _)| id).collect()
    };
    let (old, new) = (accepted(before), accepted(after));
    if new.is_subset(&old) {
        return;
    }
    run.shock();
    let stayed: Vec<PeerId> = old.intersection(&new).copied().collect();
    run.state.reach(if stayed.is_empty() {
        Milestone::AdmittedAlone
    } else {
        Milestone::Admitted
    });
    for peer in stayed {
        let seat = run.state.seat_of(peer).and_then(|no| run.state.seat(no));
        let voted = seat.is_none_or(|seat| {
            let view = seat.peer.view();
            // One that is gone may have voted before.
            !seat.runs() || view.open_calls().major == Some(CallKind::UpdateTopology)
        });
        if !voted {
            run.state.breaks(Claim::Admission);
        }
    }
}

/// What may not overlap within a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Activity {
    Wiring,
    Optimizing,
    Moving,
    Collectives,
}

fn activity(state: ConnectionState) -> Option<Activity> {
    match state {
        ConnectionState::ConnectingToPeers
        | ConnectionState::ConnectingToPeersFailed
        | ConnectionState::WaitingForOtherPeers => Some(Activity::Wiring),
        ConnectionState::OptimizeTopology
        | ConnectionState::OptimizeTopologyFailed
        | ConnectionState::VoteCompleteTopologyOptimization => Some(Activity::Optimizing),
        ConnectionState::DistributeSharedState
        | ConnectionState::RequestSharedState
        | ConnectionState::VoteCompleteSharedStateSync => Some(Activity::Moving),
        ConnectionState::Idle
        | ConnectionState::VoteAcceptNewPeers
        | ConnectionState::VoteNoNewPeersEstablishP2p
        | ConnectionState::VoteOptimizeTopology
        | ConnectionState::VoteSyncSharedState
        | ConnectionState::CollectiveCommunicationsRunning => None,
    }
}

fn exclusivity(run: &mut Run<'_>, master: &Master) {
    for group in master.view().groups() {
        let peers = master.view().peers();
        let members = peers
            .filter(|(_, peer)| peer.group() == group && peer.phase() == ConnectionPhase::Accepted);
        let mut first = None;
        let running = master.view().running(group).count();
        if running > 0 {
            first = Some(Activity::Collectives);
        }
        if running > 1 {
            run.state.reach(Milestone::TwoTagsAtOnce);
        }
        for active in members.filter_map(|(_, peer)| activity(peer.state())) {
            if *first.get_or_insert(active) != active {
                run.state.breaks(Claim::Exclusivity);
            }
        }
    }
}

/// The revision grows by one or stays.
fn revisions(run: &mut Run<'_>, before: &Master, after: &Master) {
    for group in after.view().groups() {
        let (old, new) = (before.view().revision(group), after.view().revision(group));
        let right = match (old, new) {
            (Some(old), Some(new)) => new == old || new == old.next(),
            // With its last member a group's revision goes too.
            (Some(_), None) => !accepted(after, group)
                .any(|peer| accepted(before, group).any(|known| known == peer)),
            (None, Some(_) | None) => true,
        };
        if !right {
            run.state.breaks(Claim::Revision);
        }
        if old != new && old.is_some() {
            run.state.reach(Milestone::RevisionAdvanced);
        }
    }
}

/// An epoch's ring never changes.
fn rings(run: &mut Run<'_>, before: &Master, after: &Master) {
    for group in after.view().groups() {
        let same_epoch = before.view().epoch(group) == after.view().epoch(group);
        if same_epoch && before.view().ring(group) != after.view().ring(group) {
            run.state.breaks(Claim::OneView);
        }
    }
}

/// The ring that a peer is told is its group's, and all of the group are on it.
fn topology_is_right(run: &mut Run<'_>, master: &Master, peer: PeerId, topology: &Topology) {
    let Some(group) = master.view().peer(peer).map(|view| view.group()) else {
        return;
    };
    let mut on_ring = topology.ring.0.clone();
    on_ring.sort();
    let right = on_ring.iter().copied().eq(accepted(master, group))
        && topology.world == master.view().world_sizes(group)
        && topology.world.group as usize == on_ring.len()
        && Some(&topology.ring) == master.view().ring(group)
        && Some(topology.epoch) == master.view().epoch(group);
    if !right {
        run.state.breaks(Claim::OneView);
    }
}

/// The election, stated once more: what each candidate held when it voted decides.
fn elected(
    run: &mut Run<'_>,
    before: &Master,
    after: &Master,
    peer: PeerId,
    revision: Revision,
    fetched: Option<ContentHash>,
) {
    let Some(view) = before.view().peer(peer) else {
        return;
    };
    // Where transfers end, the election was before.
    match view.state() {
        ConnectionState::VoteSyncSharedState | ConnectionState::Idle => {}
        _ => return,
    }
    let group = view.group();
    let Some(voters) = voters(run, after, group) else {
        return;
    };
    let right = expected_revision(&voters, before.view().revision(group)) == Some(revision)
        && fetched.is_none_or(|hash| expected_content(&voters, revision) == Some(hash));
    if !right {
        run.state.breaks(Claim::Election);
    }
}

/// Who votes, with what it holds. `None`: somebody has gone, and the others cannot tell whether its
/// vote had arrived.
fn voters(run: &Run<'_>, after: &Master, group: GroupId) -> Option<Vec<Voter>> {
    let voters = run.state.seats.iter().filter_map(|seat| {
        let id = seat.id?;
        let known = after.view().peer(id)?;
        let votes = known.group() == group && known.phase() == ConnectionPhase::Accepted;
        let strategy = seat
            .strategy
            .filter(|_| votes && seat.life != Life::Departed)?;
        Some((id, seat.user.revision, seat.user.content, strategy))
    });
    let voters: Vec<_> = voters.collect();
    (voters.len() == accepted(after, group).count()).then_some(voters)
}

/// Who, the revision and the content that it holds, and how it takes part.
type Voter = (PeerId, Revision, ContentHash, SyncStrategy);

fn candidates(voters: &[Voter]) -> Vec<(PeerId, Revision, ContentHash)> {
    let sender = voters.iter().any(|voter| voter.3 == SyncStrategy::SendOnly);
    let may_win = |strategy: SyncStrategy| match strategy {
        SyncStrategy::SendOnly => true,
        SyncStrategy::EnforcePopular => !sender,
        SyncStrategy::ReceiveOnly => false,
    };
    let may_win = voters.iter().filter(|voter| may_win(voter.3));
    may_win
        .map(|(id, revision, content, _)| (*id, *revision, *content))
        .collect()
}

fn expected_revision(voters: &[Voter], reached: Option<Revision>) -> Option<Revision> {
    let candidates = candidates(voters);
    let offers = |revision| {
        candidates
            .iter()
            .any(|(_, offered, _)| *offered == revision)
    };
    match reached {
        None => candidates.iter().map(|(_, offered, _)| *offered).max(),
        Some(reached) if offers(reached.next()) => Some(reached.next()),
        Some(reached) => offers(reached).then_some(reached),
    }
}

/// The content that wins.
fn expected_content(voters: &[Voter], revision: Revision) -> Option<ContentHash> {
    let current: Vec<_> = candidates(voters)
        .into_iter()
        .filter(|(_, offered, _)| *offered == revision)
        .collect();
    let camp = |content: ContentHash| current.iter().filter(|known| known.2 == content).count();
    let longest_in_the_run = |content: ContentHash| {
        let holders = current.iter().filter(|known| known.2 == content);
        holders.map(|known| known.0).min()
    };
    let contents = current.iter().map(|known| known.2);
    contents.max_by_key(|content| {
        (
            camp(*content),
            std::cmp::Reverse(longest_in_the_run(*content)),
        )
    })
}

// What a peer did.

pub(crate) fn peer_moved(run: &mut Run<'_>, no: SeatNo, heard: &PeerInput, out: &[PeerOutput]) {
    for output in out {
        let PeerOutput::Answer(answer) = output else {
            continue;
        };
        if !was_asked(run, no, answer) {
            run.state.breaks(Claim::AnsweredOnce);
        }
        if !is_told(heard, answer) {
            run.state.breaks(Claim::NoVerdictInvented);
        }
    }
    if run.seat(no).peer.view().ended() == Some(&CallError::MasterMisbehaved) {
        run.state.breaks(Claim::Trust);
    }
}

/// Does the user wait for this answer?
fn was_asked(run: &Run<'_>, no: SeatNo, answer: &Answer) -> bool {
    let user = &run.seat(no).user;
    match answer {
        Answer::Connected(_) => user.waits_to_connect(),
        Answer::TopologyUpdated(_) | Answer::TopologyOptimized(_) | Answer::Synchronized(_) => {
            user.waits_in_major()
        }
        Answer::PeersPending(_) => user.waits_in_query(),
        Answer::CollectiveEnded { tag, .. } => user.runs(small(*tag)),
    }
}

/// A verdict is the answer to the master's word only; and who lost the master claims none.
fn is_told(heard: &PeerInput, answer: &Answer) -> bool {
    let Answer::CollectiveEnded { tag, result } = answer else {
        return true;
    };
    let verdict = match heard {
        PeerInput::Message(ToPeer::Verdict {
            tag: t,
            seq,
            verdict,
        }) if t == tag => Some((seq, verdict)),
        _ => None,
    };
    match (result, verdict) {
        (Ok(committed), Some((seq, Verdict::Committed { contributors }))) => {
            committed.seq == *seq && committed.contributors == *contributors
        }
        (Ok(_), Some(_) | None) => false,
        (Err(CallError::Aborted { cause, .. }), Some((_, Verdict::Aborted(told)))) => cause == told,
        (Err(CallError::Aborted { .. }), Some(_) | None) => false,
        (Err(_), Some(_)) => false,
        (Err(_), None) => true,
    }
}

pub(crate) fn answered(run: &mut Run<'_>, no: SeatNo, answer: &Answer) {
    match answer {
        Answer::CollectiveEnded { tag, result } => collective_ended(run, no, *tag, result.as_ref()),
        Answer::PeersPending(Ok(true)) => run.state.reach(Milestone::ToldPending),
        Answer::PeersPending(Ok(false)) => run.state.reach(Milestone::ToldNobodyPending),
        Answer::TopologyOptimized(Err(CallError::OptimizationFailed)) => {
            run.state.reach(Milestone::OptimizationFailed);
        }
        Answer::TopologyOptimized(Ok(_)) => run.state.reach(Milestone::Optimized),
        Answer::Synchronized(Ok(synchronized)) => {
            run.state.reach(if synchronized.fetched.is_empty() {
                Milestone::ContentKept
            } else {
                Milestone::ContentMoved
            })
        }
        Answer::Connected(_)
        | Answer::TopologyUpdated(_)
        | Answer::TopologyOptimized(_)
        | Answer::PeersPending(Err(_))
        | Answer::Synchronized(Err(_)) => {}
    }
}

/// Exactly-once and restoration.
fn collective_ended(
    run: &mut Run<'_>,
    no: SeatNo,
    tag: Tag,
    result: Result<&pccl_core::peer::Committed, &CallError>,
) {
    let tag = small(tag);
    let plane = &run.seat(no).plane;
    let whole = plane.whole.iter().find(|known| known.tag == tag);
    match result {
        Ok(committed) => {
            let expected = Chunk::of_all(&committed.contributors);
            let right = whole.is_some_and(|known| {
                known.seq == committed.seq && known.chunks.iter().all(|chunk| *chunk == expected)
            });
            let again = run.seat(no).user.retries > 0;
            if !right {
                run.state.breaks(Claim::ExactlyOnce);
            }
            if again {
                run.state.reach(Milestone::Recovered);
            }
        }
        Err(why) => {
            let runs_on = plane.rings.iter().any(|known| known.tag == tag);
            let was_whole = whole.is_some();
            if runs_on {
                run.state.breaks(Claim::Restoration);
            }
            if was_whole && matches!(why, CallError::Aborted { .. }) {
                run.state.reach(Milestone::RestoredWhole);
            }
            if *why == CallError::MasterLost {
                run.state.reach(Milestone::LostMasterUndecided);
            }
        }
    }
}

pub(crate) fn before_message(run: &mut Run<'_>, no: SeatNo, message: &ToPeer) {
    match message {
        ToPeer::Verdict { tag, seq, verdict } => {
            let group = GroupId(run.plan(no).group);
            let known = run.state.ghost.verdicts.get(&(group, *tag));
            let differs = known.is_some_and(|(s, v)| s == seq && v != verdict);
            if differs {
                run.state.breaks(Claim::Agreement);
            }
        }
        ToPeer::SharedStatePlan(plan) => {
            let strategy = run.seat(no).strategy;
            let wrong = match &plan.role {
                SyncRole::Request { entries, .. } => {
                    !entries.is_empty() && strategy == Some(SyncStrategy::SendOnly)
                }
                SyncRole::Distribute { .. } => strategy == Some(SyncStrategy::ReceiveOnly),
            };
            if wrong {
                run.state.breaks(Claim::Sources);
            }
        }
        _ => {}
    }
}

pub(crate) fn after_message(run: &mut Run<'_>, no: SeatNo, message: &ToPeer) {
    match message {
        ToPeer::SharedStateConcluded {
            round,
            result: Ok(revision),
        } if run.seat(no).peer.view().ended().is_none() => {
            let group = GroupId(run.plan(no).group);
            // The answer has let the user go on; nothing that needs no call comes after a
            // synchronization but computing.
            let content = run.seat(no).user.content;
            let ghost = run.state.ghost.edit();
            let known = ghost
                .contents
                .entry(group)
                .or_insert((*round, *revision, content));
            if known.0 != *round {
                *known = (*round, *revision, content);
            }
            if *known != (*round, *revision, content) {
                run.state.breaks(Claim::SharedState);
            }
        }
        ToPeer::Verdict { tag, seq, .. } => forget_verdict(run, no, *tag, *seq),
        _ => {}
    }
}

/// Nobody can be told of it any more.
fn forget_verdict(run: &mut Run<'_>, no: SeatNo, tag: Tag, seq: Seq) {
    let group = GroupId(run.plan(no).group);
    let on_its_way =
        |message: &ToPeer| matches!(message, ToPeer::Verdict { seq: s, .. } if *s == seq);
    let awaited = run.state.seats.iter().any(|seat| {
        seat.link.down.queue.iter().any(on_its_way)
            || seat.peer.view().tags().any(|known| known.seq == Some(seq))
    });
    let known = run.state.ghost.verdicts.get(&(group, tag));
    if !awaited && known.is_some_and(|(s, _)| *s == seq) {
        run.state.ghost.edit().verdicts.remove(&(group, tag));
    }
}

/// A peer's ring is that of all others in its epoch, and both its edges have lanes.
pub(crate) fn adopted(run: &mut Run<'_>, no: SeatNo, me: PeerId) {
    let seat = run.seat(no);
    let mine = &seat.plane.topology;
    let leads = |edge: Edge| seat.plane.standing(edge).map(|lanes| lanes.with);
    let edges = leads(Edge::ToNext) == mine.ring.next_of(me)
        && leads(Edge::FromPrevious) == mine.ring.previous_of(me);
    let group = run.plan(no).group;
    let others = run.state.seat_numbers().filter(|other| *other != no);
    let same = others.into_iter().all(|other| {
        let theirs = &run.seat(other).plane.topology;
        let alike = run.plan(other).group == group && theirs.epoch == mine.epoch;
        !alike
            || run.seat(other).id.is_none()
            || (theirs.ring == mine.ring && meets(run, no, other))
    });
    if !edges || !same {
        run.state.breaks(Claim::OneView);
    }
}

/// Where one sends to the other on its standing lanes, the other receives on the same.
fn meets(run: &Run<'_>, no: SeatNo, other: SeatNo) -> bool {
    let joined = |from: SeatNo, to: SeatNo| {
        let (from, to) = (run.seat(from), run.seat(to));
        match (&from.plane.next, &to.plane.previous) {
            (Some(out), Some(back)) if Some(out.with) == to.id && Some(back.with) == from.id => {
                out.built == back.built
            }
            _ => true,
        }
    };
    joined(no, other) && joined(other, no)
}

/// All participants of an execution run it on one ring.
pub(crate) fn ring_runs(run: &mut Run<'_>, no: SeatNo, seq: Seq) {
    let mine = &run.seat(no).plane.topology.ring;
    let same = run.state.seats.iter().all(|seat| {
        let runs = seat
            .plane
            .rings
            .iter()
            .chain(&seat.plane.whole)
            .any(|known| known.seq == seq);
        !runs || seat.plane.topology.ring == *mine
    });
    if !same {
        run.state.breaks(Claim::OneView);
    }
}
