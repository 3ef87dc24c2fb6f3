//! Random walks: users call what they like, peers join, leave and die, lanes break, pairs cannot be
//! connected, timers fire; the watch looks at every step. Then the faults end, and the run has to heal:
//! every call ends, everybody is admitted, and a synchronization and a reduce succeed for all.

use std::collections::BTreeSet;

use pccl_core::element::{CollectiveKind, CollectiveSpec};
use pccl_core::id::{ContentHash, GroupId, PeerId, Revision, Tag};
use pccl_core::master::MasterTimer;
use pccl_core::messages::Misdeed;
use pccl_core::peer::{Answer, Call, CallError, PeerPhase};
use pccl_core::shared_state::{EntryInfo, SyncStrategy, SyncVote};
use pccl_core::states::{ConnectionState, TRANSITIONS};
use proptest::prelude::*;

use crate::deaths::STORIES;
use crate::harness::{Holds, Run, SeatNo, reduce, ring_spec, shared};
use crate::replayable::replayable;

/// Processes that live at the same time.
const SEATS_MAX: usize = 8;

/// What a user may call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wish {
    Update,
    Query,
    Optimize,
    Sync(SyncStrategy),
    Reduce(u64),
    /// A reduce that the others may not agree with.
    Odd(u64),
    Cancel(u64),
    /// What it calls that is no collective.
    GiveUp,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Move {
    Steps(u8),
    Call(u8, Wish),
    /// Everybody of a group calls the same.
    CallTogether(u8, Wish),
    /// Everybody of every group updates.
    UpdateAll,
    Join(u8),
    Lose(u8, u8),
    Freeze(u8),
    /// The silence of the frozen is noticed.
    Notice,
    Leave(u8),
    Break(u8, u8),
    Block(u8, u8),
    /// Nothing of the shared state arrives between two.
    BlockTransfers(u8, u8),
    Unblock,
    CannotMeasure(u8),
    /// A deadline passes.
    Fire(u8),
}

pub(crate) fn wish() -> impl Strategy<Value = Wish> {
    let strategies = vec![
        SyncStrategy::EnforcePopular,
        SyncStrategy::EnforcePopular,
        SyncStrategy::EnforcePopular,
        SyncStrategy::SendOnly,
        SyncStrategy::ReceiveOnly,
    ];
    prop_oneof![
        4 => Just(Wish::Update),
        2 => Just(Wish::Query),
        2 => Just(Wish::Optimize),
        3 => prop::sample::select(strategies).prop_map(Wish::Sync),
        8 => (0..4_u64).prop_map(Wish::Reduce),
        1 => (0..3_u64).prop_map(Wish::Odd),
        1 => (0..4_u64).prop_map(Wish::Cancel),
        1 => Just(Wish::GiveUp),
    ]
}

pub(crate) fn any_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        20 => (1..40_u8).prop_map(Move::Steps),
        10 => (any::<u8>(), wish()).prop_map(|(seat, wish)| Move::Call(seat, wish)),
        8 => (any::<u8>(), wish()).prop_map(|(group, wish)| Move::CallTogether(group, wish)),
        5 => any::<u8>().prop_map(Move::Join),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(seat, kept)| Move::Lose(seat, kept)),
        1 => any::<u8>().prop_map(Move::Freeze),
        1 => Just(Move::Notice),
        1 => any::<u8>().prop_map(Move::Leave),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(seat, kept)| Move::Break(seat, kept)),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(one, other)| Move::Block(one, other)),
        1 => (any::<u8>(), any::<u8>())
            .prop_map(|(one, other)| Move::BlockTransfers(one, other)),
        1 => Just(Move::Unblock),
        1 => any::<u8>().prop_map(Move::CannotMeasure),
        1 => any::<u8>().prop_map(Move::Fire),
    ]
}

/// An entry in which peers may differ.
fn own(hash: u128) -> EntryInfo {
    EntryInfo {
        allow_content_inequality: true,
        ..shared("local", hash)
    }
}

struct Walk {
    run: Run,
    groups: u32,
}

/// A collective of a kind for each tag. The root may have gone, or be in the other group; what all have may be more than
/// they allow.
fn collective(tag: u64, no: SeatNo) -> Call {
    let kind = match tag {
        0 => CollectiveKind::AllReduce,
        1 => CollectiveKind::ReduceScatter,
        2 => CollectiveKind::Broadcast { root: PeerId(2) },
        _ => CollectiveKind::AllGatherV {
            own: no as u64 % 3,
            limit: 3,
        },
    };
    let spec = CollectiveSpec {
        kind,
        ..ring_spec()
    };
    Call::Initiate {
        tag: Tag(tag),
        spec,
    }
}

impl Walk {
    fn new(seed: u64, groups: u32) -> Self {
        let mut walk = Self {
            run: Run::new(seed),
            groups,
        };
        for seat in 0..3 {
            walk.join(seat);
        }
        walk.run.settle();
        walk.run.update_all();
        walk
    }

    /// A process that does something, where there is one.
    fn pick(&self, number: u8) -> SeatNo {
        let number = usize::from(number);
        let acting = self.acting();
        let nth = acting.get(number % acting.len().max(1)).copied();
        nth.unwrap_or(number % self.run.seats.len())
    }

    fn acting(&self) -> Vec<SeatNo> {
        let mut all: Vec<SeatNo> = (0..self.run.seats.len()).collect();
        all.retain(|seat| self.run.is_in_the_run(*seat));
        all
    }

    fn make(&mut self, next: Move) {
        match next {
            Move::Steps(steps) => self.run.steps(usize::from(steps)),
            Move::Call(seat, wish) => self.wish(self.pick(seat), wish),
            Move::CallTogether(group, wish) => {
                let group = GroupId(u32::from(group) % self.groups);
                for seat in self.run.accepted() {
                    if self.run.seats[seat].group == group {
                        self.wish(seat, wish);
                    }
                }
            }
            Move::UpdateAll => {
                for seat in self.run.accepted() {
                    self.wish(seat, Wish::Update);
                }
            }
            Move::Join(number) => self.join(number),
            Move::Lose(seat, kept) => self.lose(self.pick(seat), kept),
            Move::Freeze(seat) => self.run.freeze(self.pick(seat)),
            Move::Notice => self.notice_the_frozen(),
            Move::Leave(seat) => {
                let seat = self.pick(seat);
                if self.run.seats[seat].acts() {
                    self.run.leave(seat);
                }
            }
            Move::Break(seat, kept) => self.run.break_link(self.pick(seat), usize::from(kept) % 4),
            Move::Block(one, other) => {
                let (one, other) = (self.pick(one), self.pick(other));
                self.run
                    .faults
                    .blocked
                    .insert((one.min(other), one.max(other)));
            }
            Move::BlockTransfers(one, other) => {
                let (one, other) = (self.pick(one), self.pick(other));
                let pair = (one.min(other), one.max(other));
                self.run.faults.untransferable.insert(pair);
            }
            Move::Unblock => self.unblock(),
            Move::CannotMeasure(seat) => {
                let seat = self.pick(seat);
                self.run.faults.cannot_measure.insert(seat);
            }
            Move::Fire(which) => self.fire(which),
        }
    }

    fn unblock(&mut self) {
        self.run.faults.blocked.clear();
        self.run.faults.untransferable.clear();
    }

    fn join(&mut self, number: u8) {
        if self.acting().len() >= SEATS_MAX {
            return;
        }
        let seat = self.run.join(GroupId(u32::from(number) % self.groups));
        let content = vec![own(seat as u128), shared("weights", u128::from(number) % 3)];
        self.run.seats[seat].memory.entries = content;
    }

    fn lose(&mut self, seat: SeatNo, kept: u8) {
        if self.run.seats[seat].alive {
            let on_the_way = self.run.seats[seat].connection.up.queue.len();
            self.run
                .lose_with_prefix(seat, usize::from(kept) % (on_the_way + 1));
        }
    }

    fn fire(&mut self, which: u8) {
        // The silence of peers that are not silent would be a lie.
        let honest: Vec<MasterTimer> = self
            .run
            .timers()
            .iter()
            .filter(|timer| !matches!(timer, MasterTimer::Silence(_)))
            .copied()
            .collect();
        if let Some(timer) = honest.get(usize::from(which) % honest.len().max(1)) {
            self.run.fire(*timer);
        }
    }

    /// Calls what the user wishes, where the library allows it.
    fn wish(&mut self, no: SeatNo, wish: Wish) {
        self.train(no);
        if !self.run.is_in_the_run(no) {
            return;
        }
        let seat = &self.run.seats[no];
        let call = match wish {
            Wish::Update => Call::UpdateTopology,
            Wish::Query => Call::ArePeersPending,
            Wish::Optimize => Call::OptimizeTopology,
            Wish::Sync(strategy) => seat.sync_call(strategy),
            Wish::Reduce(tag) => collective(tag, no),
            Wish::Odd(tag) => {
                let mut spec = ring_spec();
                spec.count += 1;
                Call::Initiate {
                    tag: Tag(tag),
                    spec,
                }
            }
            Wish::Cancel(tag) => return self.run.give_up(no, Tag(tag)),
            Wish::GiveUp => return self.run.give_up_major(no),
        };
        self.run.call(no, call);
    }

    /// Who has synchronized computes, and so comes to the next revision.
    fn train(&mut self, no: SeatNo) {
        let answers = self.run.answers(no);
        let synchronized = answers
            .iter()
            .any(|a| matches!(a, Answer::Synchronized(Ok(_))));
        if synchronized {
            let memory = &mut self.run.seats[no].memory;
            memory.revision = memory.revision.next();
            for entry in &mut memory.entries {
                entry.hash = ContentHash(u128::from(memory.revision.0) * 10);
            }
        }
    }

    /// The faults are over: everything that was begun ends, and everybody comes together.
    fn heal(&mut self) {
        self.unblock();
        self.notice_the_frozen();
        for _ in 0..30 {
            self.run.settle();
            self.ask_everybody(|run, seat| {
                run.call(seat, Call::ArePeersPending);
                run.call(seat, Call::UpdateTopology);
            });
            self.run.settle();
            if self.everybody_rests() {
                break;
            }
            self.end_ballots_that_cannot_end();
        }
        assert!(self.everybody_rests(), "{}", self.complaint());
    }

    /// Members of a group that wait in collectives of different tags are freed by the deadline.
    fn end_ballots_that_cannot_end(&mut self) {
        let late = self.run.timers().iter();
        let late = late.filter(|timer| matches!(timer, MasterTimer::Late(_)));
        for timer in late.copied().collect::<Vec<_>>() {
            if self.run.timers().contains(&timer) {
                self.run.fire(timer);
            }
        }
    }

    fn ask_everybody(&mut self, ask: impl Fn(&mut Run, SeatNo)) {
        for seat in self.run.accepted() {
            ask(&mut self.run, seat);
        }
    }

    fn notice_the_frozen(&mut self) {
        for seat in 0..self.run.seats.len() {
            let id = self.run.seats[seat]
                .id
                .filter(|_| self.run.seats[seat].frozen);
            let silence = id.map(MasterTimer::Silence);
            if let Some(timer) = silence.filter(|timer| self.run.timers().contains(timer)) {
                self.run.fire(timer);
            }
            if self.run.seats[seat].frozen && self.run.seats[seat].alive {
                self.run.lose(seat);
            }
        }
    }

    fn everybody_rests(&self) -> bool {
        self.acting().into_iter().all(|no| {
            let view = self.run.peer(no).view();
            view.phase() == PeerPhase::Accepted && view.is_idle() && !view.is_fresh()
        })
    }

    fn complaint(&self) -> String {
        let mut text = String::from("somebody waits for ever:\n");
        for no in self.acting() {
            let (id, view) = (self.run.seats[no].id, self.run.peer(no).view());
            let tags: Vec<_> = view.tags().collect();
            let state = id
                .and_then(|id| self.run.master().view().peer(id))
                .map(|p| p.state());
            text += &format!(
                "  {:?} {:?} {:?} {tags:?} fresh {} master {state:?}\n",
                id,
                view.phase(),
                view.open_calls(),
                view.is_fresh(),
            );
        }
        text
    }

    /// Everybody synchronizes and reduces, and it works.
    fn work(&mut self) {
        let mut peers = self.run.accepted();
        for seat in &peers {
            self.run.answers(*seat);
            let vote = self.run.seats[*seat].vote(SyncStrategy::EnforcePopular, true);
            self.run.call(*seat, Call::SyncSharedState(vote));
        }
        self.run.settle();
        // Who could not fetch while there were faults waits until the others hold the content.
        let aside: Vec<SeatNo> = (peers.iter().copied())
            .filter(|seat| self.run.is_aside(*seat))
            .collect();
        peers.retain(|seat| !aside.contains(seat));
        peers.retain(|seat| {
            let answer = self.run.outcome(*seat);
            let Answer::Synchronized(result) = answer else {
                panic!("{answer:?}");
            };
            // Who could not fetch while there were faults is not waited for.
            let is_given_up = result == Err(CallError::Kicked(Misdeed::Unfetchable));
            assert!(result.is_ok() || is_given_up, "{result:?}");
            result.is_ok()
        });
        self.run.call_all(&peers, &reduce(77));
        self.run.settle();
        for seat in &peers {
            let holds = self.run.seats[*seat].buffer(Tag(77));
            assert_eq!(holds, Holds::Sum(self.group_of(*seat)));
        }
        if !aside.is_empty() {
            self.let_in(&peers, &aside);
        }
    }

    /// With the next update those come in that were set aside, and synchronize with the others.
    fn let_in(&mut self, peers: &[SeatNo], aside: &[SeatNo]) {
        self.run.call_all(peers, &Call::UpdateTopology);
        self.run.settle();
        for seat in peers {
            self.run.answers(*seat);
            let vote = self.run.seats[*seat].vote(SyncStrategy::EnforcePopular, true);
            self.run.call(*seat, Call::SyncSharedState(vote));
        }
        self.run.settle();
        for seat in peers.iter().chain(aside) {
            let answer = self.run.outcome(*seat);
            assert!(matches!(answer, Answer::Synchronized(Ok(_))), "{answer:?}");
        }
    }

    fn group_of(&self, no: SeatNo) -> Vec<PeerId> {
        let group = self.run.seats[no].group;
        let members = self.run.accepted().into_iter();
        let members = members
            .filter(|seat| self.run.seats[*seat].group == group && !self.run.is_aside(*seat));
        let mut ids: Vec<PeerId> = members.map(|seat| self.run.id(seat)).collect();
        ids.sort();
        ids
    }
}

pub(crate) fn walk(seed: u64, groups: u32, moves: &[Move]) -> Run {
    let mut walk = Walk::new(seed, groups);
    for next in moves {
        walk.make(*next);
    }
    walk.heal();
    walk.work();
    walk.run
}

proptest! {
    #![proptest_config(replayable(2000))]

    #[test]
    fn whatever_happens_the_run_keeps_its_promises_and_heals(
        seed in any::<u64>(),
        groups in 1..3_u32,
        moves in prop::collection::vec(any_move(), 1..80),
    ) {
        walk(seed, groups, &moves);
    }
}

#[test]
fn the_walks_commit_and_abort_often_enough_to_mean_something() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let script = prop::collection::vec(any_move(), 60..80);

    let runs: Vec<Run> = (1..200)
        .map(|seed| walk(seed, 1, &script.new_tree(&mut runner).unwrap().current()))
        .collect();

    let commits: u32 = runs.iter().map(|run| run.watch.commits).sum();
    let aborts: u32 = runs.iter().map(|run| run.watch.aborts).sum();
    assert!(
        commits > 200 && aborts > 100,
        "{commits} commits, {aborts} aborts"
    );
    let first = Revision(0);
    let revised = |run: &&Run| run.master().view().revision(GroupId(0)) > Some(first);
    assert!(runs.iter().filter(revised).count() > 10);
}

/// A newcomer that rests cannot connect with the next one, and makes its first calls meanwhile.
fn votes_after_a_failed_edge(calls: &[Call]) -> Run {
    let mut run = Run::with_accepted_peers(1, 2);
    let rests = run.join(GroupId(0));
    run.settle();
    run.call_all(&[0, 1], &Call::UpdateTopology);
    run.settle();
    let next = run.join(GroupId(0));
    run.settle();
    run.faults.blocked.insert((rests, next));
    run.call_all(&[0, 1], &Call::UpdateTopology);
    let has_failed = |run: &Run| {
        let peer = run.master().view().peer(run.id(rests));
        peer.is_some_and(|peer| peer.state() == ConnectionState::ConnectingToPeersFailed)
    };
    while !has_failed(&run) {
        assert!(run.step());
    }
    for call in calls {
        run.call(rests, call.clone());
    }
    run.settle();
    run
}

#[test]
fn every_legal_transition_is_taken() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let script = prop::collection::vec(any_move(), 60..80);
    let walks = (1..2000).map(|seed| {
        let moves = script.new_tree(&mut runner).unwrap().current();
        walk(seed, 1, &moves)
    });
    let stories = STORIES.iter().map(|(_, story)| {
        let mut run = story(1);
        run.settle();
        run
    });

    let vote = SyncVote {
        revision: Revision(0),
        strategy: SyncStrategy::EnforcePopular,
        restart: false,
        entries: Vec::new(),
    };
    let votes = [
        // The first update is answered by the admission.
        vec![Call::UpdateTopology, Call::UpdateTopology],
        vec![Call::OptimizeTopology],
        vec![Call::SyncSharedState(vote)],
    ];
    let votes = votes.map(|calls| votes_after_a_failed_edge(&calls));
    let runs = walks.chain(stories).chain(votes);
    let taken: BTreeSet<_> = runs.flat_map(|run| run.watch.taken).collect();

    let missed: Vec<_> = TRANSITIONS
        .iter()
        .filter(|row| !taken.contains(&(row.from, row.event)))
        .collect();
    assert!(missed.is_empty(), "never taken: {missed:#?}");
}
