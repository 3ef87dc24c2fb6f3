//! One hostile word each, and whom it harms: the one that says it, or nobody.

use pccl_core::element::{CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::{Epoch, PeerId, Revision, Round, Seq, Tag};
use pccl_core::master::{MasterConfig, MasterInput, MasterTimer};
use pccl_core::messages::{Misdeed, RingOutcome, ToMaster};
use pccl_core::shared_state::{SyncStrategy, SyncVote};
use pccl_core::states::{ConnectionPhase, ConnectionState};
use pccl_core::topology::{BrokenEdges, Edge, LaneFailure};

use super::Bystander;

const BOTH: [Edge; 2] = [Edge::ToNext, Edge::FromPrevious];

const SPEC: CollectiveSpec = CollectiveSpec {
    op: ReduceOp::Sum,
    element: ElementType::F32,
    count: 10,
    quantization: Quantization::None,
};

/// What a peer says.
pub(super) type Words = fn(&mut Run, u64);

/// A run of one group, and what its peers say.
pub(super) struct Run {
    pub(super) bystander: Bystander,
}

impl Run {
    /// Peers 1 to `size` are accepted, on a ring in this order, and have reduced once.
    pub(super) fn of(size: u64) -> Self {
        let bystander = Bystander::new(MasterConfig::default());
        let mut run = Self { bystander };
        run.bystander.join(0, false);
        for _ in 1..size {
            run.bystander.join(0, false);
        }
        run.all_update();
        run.all_connect();
        let all: Vec<u64> = (1..=size).collect();
        assert_eq!(run.accepted(), all);
        run.reduces(&all);
        run
    }

    pub(super) fn says(&mut self, peer: u64, message: ToMaster) {
        let peer = PeerId(peer);
        self.bystander.tell(MasterInput::Message { peer, message });
    }

    pub(super) fn fires(&mut self, timer: MasterTimer) {
        assert!(self.bystander.timers.remove(&timer), "{timer:?} runs");
        self.bystander.tell(MasterInput::TimerFired(timer));
    }

    pub(super) fn is_timed(&self, timer: MasterTimer) -> bool {
        self.bystander.timers.contains(&timer)
    }

    fn all_update(&mut self) {
        for peer in self.accepted() {
            self.updates(peer, BrokenEdges::NONE);
        }
    }

    fn updates(&mut self, peer: u64, broken: BrokenEdges) {
        let epoch = self.epoch(peer);
        self.says(peer, ToMaster::UpdateTopology { epoch, broken });
    }

    /// Of the ring that the peer is on.
    fn epoch(&self, peer: u64) -> Epoch {
        let epochs = &self.bystander.epochs;
        epochs.get(&PeerId(peer)).copied().unwrap_or_default()
    }

    /// How often the peer was given time.
    pub(super) fn starts(&self, peer: u64) -> u64 {
        let starts = &self.bystander.starts;
        starts
            .get(&MasterTimer::Late(PeerId(peer)))
            .copied()
            .unwrap_or_default()
    }

    /// The round that the peer was told last.
    pub(super) fn round(&self, peer: u64) -> Round {
        self.bystander.heard[&PeerId(peer)].0
    }

    fn is_up(&mut self, peer: u64, edge: Edge) {
        let round = self.round(peer);
        self.is_reported(peer, edge);
        self.says(peer, ToMaster::EdgeUp { round, edge });
    }

    fn fails(&mut self, peer: u64, edge: Edge) {
        self.fails_in(self.round(peer), peer, edge);
    }

    fn fails_in(&mut self, round: Round, peer: u64, edge: Edge) {
        let failure = LaneFailure::Refused;
        let failed = ToMaster::EdgeFailed {
            round,
            edge,
            failure,
        };
        self.is_reported(peer, edge);
        self.says(peer, failed);
    }

    fn is_reported(&mut self, peer: u64, edge: Edge) {
        if let Some(ordered) = self.bystander.ordered.get_mut(&PeerId(peer)) {
            ordered.retain(|other| *other != edge);
        }
    }

    /// Everybody reports all that is ordered.
    fn all_connect(&mut self) {
        let ordered = self.bystander.ordered.clone();
        for (peer, edges) in ordered {
            for edge in edges {
                self.is_up(peer.0, edge);
            }
        }
    }

    /// All of the group's edges are to be built anew, at the next update of all: all are broken.
    fn rebuild(&mut self) {
        let broken = BrokenEdges {
            to_next: true,
            from_previous: true,
        };
        for peer in self.accepted() {
            self.updates(peer, broken);
        }
    }

    pub(super) fn initiates(&mut self, peer: u64, tag: u64) {
        let vote = ToMaster::InitiateCollective {
            tag: Tag(tag),
            spec: SPEC,
            epoch: self.epoch(peer),
            broken: BrokenEdges::NONE,
        };
        self.says(peer, vote);
    }

    pub(super) fn completes(&mut self, peer: u64, seq: Seq) {
        let (outcome, broken) = (RingOutcome::Done, BrokenEdges::NONE);
        let done = ToMaster::CompleteCollective {
            seq,
            outcome,
            broken,
        };
        self.says(peer, done);
    }

    fn synchronizes(&mut self, peer: u64) {
        let vote = SyncVote {
            revision: Revision(0),
            strategy: SyncStrategy::EnforcePopular,
            restart: false,
            entries: Vec::new(),
        };
        self.says(peer, ToMaster::SyncSharedState(vote));
    }

    fn accepted(&self) -> Vec<u64> {
        let view = self.bystander.master.view();
        let accepted = view
            .peers()
            .filter(|(_, peer)| peer.phase() == ConnectionPhase::Accepted);
        accepted.map(|(peer, _)| peer.0).collect()
    }

    fn state(&self, peer: u64) -> Option<ConnectionState> {
        let view = self.bystander.master.view();
        view.peer(PeerId(peer)).map(|peer| peer.state())
    }

    /// Who was sent away for what.
    pub(super) fn gone(&self) -> Vec<(u64, Misdeed)> {
        let gone = self.bystander.gone.iter();
        gone.map(|(peer, misdeed)| (peer.0, misdeed.clone()))
            .collect()
    }

    /// The collective that everybody votes for commits on the ring of these.
    fn reduces(&mut self, peers: &[u64]) {
        for peer in peers {
            self.initiates(*peer, 7);
        }
        self.all_connect();
        let seq = self.bystander.heard[&PeerId(peers[0])].1;
        let before = self.bystander.verdicts.len();
        for peer in peers {
            self.completes(*peer, seq);
        }
        assert_eq!(self.bystander.verdicts.len(), before + 1);
    }
}

#[test]
fn who_reports_an_edge_twice_goes_and_the_others_connect_without_it() {
    for edge in BOTH {
        let mut run = Run::of(3);
        run.rebuild();
        run.is_up(2, edge);
        let before = run.gone();

        run.is_up(2, edge);

        assert_eq!(before, []);
        assert_eq!(run.gone(), [(2, Misdeed::DuplicateVote)]);
        run.all_connect();
        run.reduces(&[1, 3]);
    }
}

/// Only the end that opens the lanes can say that they did not come up.
#[test]
fn who_reports_an_edge_failed_and_then_up_goes_and_the_others_connect_without_it() {
    let mut contradicted = 0;
    for edge in BOTH {
        let mut run = Run::of(3);
        run.rebuild();
        run.fails(2, edge);
        if !run.gone().is_empty() {
            continue;
        }

        run.is_up(2, edge);

        assert_eq!(run.gone(), [(2, Misdeed::DuplicateVote)]);
        run.all_connect();
        run.reduces(&[1, 3]);
        contradicted += 1;
    }
    assert!(contradicted > 0);
}

#[test]
fn a_vote_to_start_that_names_breaks_of_an_older_ring_has_no_ring_built_anew() {
    let mut run = Run::of(3);
    let older = run.epoch(2);
    run.rebuild();
    run.all_connect();
    let round = run.round(2);
    assert!(run.epoch(2) > older);

    run.initiates(1, 1);
    let vote = ToMaster::InitiateCollective {
        tag: Tag(1),
        spec: SPEC,
        epoch: older,
        broken: BrokenEdges {
            to_next: true,
            from_previous: true,
        },
    };
    run.says(2, vote);
    run.initiates(3, 1);

    assert_eq!(run.round(2), round);
    let seq = run.bystander.heard[&PeerId(1)].1;
    (1..=3).for_each(|peer| run.completes(peer, seq));
    assert_eq!(run.bystander.verdicts.len(), 2);
}

#[test]
fn who_reports_an_edge_that_was_not_ordered_goes_and_the_others_connect_without_it() {
    // Of the ring 1, 2, 3 only the edge from 1 to 2 is built anew.
    let broken = BrokenEdges {
        to_next: true,
        from_previous: false,
    };
    for (liar, edge) in [(1, Edge::FromPrevious), (2, Edge::ToNext)] {
        let mut run = Run::of(3);
        run.updates(1, broken);
        run.updates(2, BrokenEdges::NONE);
        run.updates(3, BrokenEdges::NONE);
        assert_eq!(run.round(1), run.round(2));

        run.is_up(liar, edge);

        assert_eq!(run.gone(), [(liar, Misdeed::UnknownRound)]);
        run.all_connect();
        run.reduces(&[3 - liar, 3]);
    }
}

#[test]
fn a_report_about_a_round_of_the_others_harms_nobody() {
    let broken = BrokenEdges {
        to_next: true,
        from_previous: false,
    };
    let mut run = Run::of(3);
    run.updates(1, broken);
    run.updates(2, BrokenEdges::NONE);
    run.updates(3, BrokenEdges::NONE);
    let round = run.round(1);

    let edge = Edge::ToNext;
    run.says(3, ToMaster::EdgeUp { round, edge });

    assert_eq!(
        run.gone(),
        [(3, Misdeed::UnknownRound)],
        "it has no edge in it"
    );
    run.all_connect();
    run.reduces(&[1, 2]);
}

/// Only the end that was to open the lanes can know that they did not come up.
#[test]
fn who_reports_that_an_edge_failed_which_it_does_not_dial_goes() {
    let mut run = Run::of(3);
    run.rebuild();

    run.fails(2, Edge::FromPrevious);

    assert_eq!(run.gone(), [(2, Misdeed::UnknownRound)]);
    run.all_connect();
    run.reduces(&[1, 3]);
}

/// The receiver says so first, and refuses the lanes: then the sender reports, as it must.
#[test]
fn an_honest_report_of_a_failed_edge_is_no_repetition_whatever_the_other_end_says() {
    let mut run = Run::of(3);
    run.rebuild();
    let round = run.round(1);
    run.fails(2, Edge::FromPrevious);

    run.fails_in(round, 1, Edge::ToNext);

    assert!(run.accepted().contains(&1), "{:?}", run.gone());
}

#[test]
fn an_edge_that_failed_does_not_come_up_after_all() {
    let mut run = Run::of(3);
    run.rebuild();
    run.fails(1, Edge::ToNext);

    run.is_up(2, Edge::FromPrevious);
    run.all_connect();

    let stands = |peer| run.state(peer) == Some(ConnectionState::Idle);
    assert!(!(1..=3).any(stands), "the attempt has failed");
    assert_eq!(run.gone(), []);
}

#[test]
fn a_withdrawal_of_what_the_peer_has_not_voted_for_changes_nothing() {
    let mut run = Run::of(3);
    run.initiates(1, 1);
    run.initiates(2, 2);
    let before = run.bystander.master.clone();

    let (of_others, of_nobody) = (Tag(1), Tag(9));
    for tag in [of_others, of_nobody] {
        run.says(3, ToMaster::Withdraw { tag });
        run.says(2, ToMaster::Withdraw { tag });
    }

    assert_eq!(run.bystander.master, before);
}

#[test]
fn a_withdrawal_after_the_start_is_too_late_and_harms_nobody() {
    let mut run = Run::of(2);
    run.initiates(1, 1);
    run.initiates(2, 1);
    let seq = run.bystander.heard[&PeerId(1)].1;

    run.says(2, ToMaster::Withdraw { tag: Tag(1) });
    run.completes(1, seq);
    run.completes(2, seq);

    assert_eq!(run.gone(), []);
    assert_eq!(run.bystander.verdicts.len(), 2);
}

#[test]
fn votes_of_a_peer_that_was_set_aside_end_its_part_in_the_run_alone() {
    let words: [(Words, bool); 8] = [
        (|run, peer| run.updates(peer, BrokenEdges::NONE), false),
        (|run, peer| run.initiates(peer, 1), false),
        (|run, peer| run.synchronizes(peer), false),
        (
            |run, peer| run.says(peer, ToMaster::OptimizeTopology),
            false,
        ),
        (
            |run, peer| {
                let (round, ok, with) = (Round(1), true, None);
                run.says(peer, ToMaster::SharedStateDone { round, ok, with });
            },
            false,
        ),
        (|run, peer| run.says(peer, ToMaster::ArePeersPending), true),
        (
            |run, peer| run.says(peer, ToMaster::Withdraw { tag: Tag(1) }),
            true,
        ),
        (|run, peer| run.completes(peer, Seq(1)), true),
    ];
    for (word, is_harmless) in words {
        let mut run = set_aside();

        word(&mut run, 3);

        let expected: &[(u64, Misdeed)] = match is_harmless {
            true => &[],
            false => &[(3, Misdeed::NotAccepted)],
        };
        assert_eq!(run.gone(), expected);
        let seq = run.bystander.heard[&PeerId(1)].1;
        run.completes(1, seq);
        run.completes(2, seq);
        run.reduces(&[1, 2]);
        run.all_update();
        run.all_connect();
        let all: &[u64] = if is_harmless { &[1, 2, 3] } else { &[1, 2] };
        assert_eq!(run.accepted(), all);
    }
}

/// Peers 1 and 2 have synchronized and reduce, for the third time beside peer 3, which waits to
/// synchronize.
fn set_aside() -> Run {
    let mut run = Run::of(2);
    run.synchronizes(1);
    run.synchronizes(2);
    run.bystander.join(0, false);
    run.all_update();
    run.all_connect();
    assert_eq!(run.accepted(), [1, 2, 3]);
    run.synchronizes(3);
    for _ in 0..10 {
        if run.accepted() == [1, 2] {
            break;
        }
        run.initiates(1, 1);
        run.initiates(2, 1);
        run.all_connect();
    }
    assert_eq!(run.accepted(), [1, 2], "peer 3 is set aside");
    run
}

/// Peers 3 and 4 are a group of their own, and its ring is whole. Peer 3 waits for peer 4 in a collective when
/// peer 1 has all rings connected anew, for a newcomer; and peer 1 dies.
#[test]
fn an_update_that_comes_to_nothing_leaves_collectives_that_wait_on_a_whole_ring_as_they_were() {
    let bystander = Bystander::new(MasterConfig::default());
    let mut run = Run { bystander };
    for group in [0, 0, 1, 1] {
        run.bystander.join(group, false);
    }
    run.all_update();
    run.all_connect();
    assert_eq!(run.accepted(), [1, 2, 3, 4]);
    run.says(2, ToMaster::Leave);
    run.bystander.join(0, false);
    run.initiates(3, 1);
    run.updates(1, BrokenEdges::NONE);
    assert_eq!(run.state(1), Some(ConnectionState::ConnectingToPeers));
    run.says(1, ToMaster::Leave);

    run.initiates(4, 1);

    let seq = run.bystander.heard[&PeerId(3)].1;
    run.completes(3, seq);
    run.completes(4, seq);
    assert_eq!(run.bystander.verdicts.len(), 1);
}

/// What a peer votes for that has reported a failed edge, before the attempt is over.
fn voted_after_its_edge_failed(vote: Words) -> Run {
    let mut run = Run::of(3);
    for newcomer in [4, 5] {
        run.bystander.join(0, false);
        for peer in 1..=3 {
            run.updates(peer, BrokenEdges::NONE);
        }
        if newcomer == 4 {
            run.all_connect();
        }
    }
    run.fails(4, Edge::ToNext);
    assert_eq!(run.state(4), Some(ConnectionState::ConnectingToPeersFailed));
    vote(&mut run, 4);
    run.all_connect();
    run
}

#[test]
fn a_vote_between_a_failed_edge_and_the_next_attempt_stands_when_the_ring_does() {
    let votes: [(Words, ConnectionState); 3] = [
        (
            |run, peer| run.updates(peer, BrokenEdges::NONE),
            ConnectionState::Idle,
        ),
        (
            |run, peer| run.synchronizes(peer),
            ConnectionState::VoteSyncSharedState,
        ),
        (
            |run, peer| run.says(peer, ToMaster::OptimizeTopology),
            ConnectionState::VoteOptimizeTopology,
        ),
    ];
    for (vote, state) in votes {
        let mut run = voted_after_its_edge_failed(vote);

        run.fires(MasterTimer::RetryWiring(run.round(4)));
        run.all_connect();

        assert_eq!(run.gone(), []);
        assert_eq!(run.accepted(), [1, 2, 3, 4, 5]);
        assert_eq!(run.state(4), Some(state));
    }
}

/// Eight updates of the others pass over it.
fn passed_over() -> Run {
    let mut run = Run::of(3);
    run.says(3, ToMaster::OptimizeTopology);
    for _ in 0..8 {
        assert_eq!(run.state(3), Some(ConnectionState::VoteOptimizeTopology));
        run.updates(1, BrokenEdges::NONE);
        run.updates(2, BrokenEdges::NONE);
    }
    run
}

#[test]
fn who_updates_for_ever_does_not_keep_another_call_waiting_for_ever() {
    let run = passed_over();

    assert_eq!(run.gone(), []);
    assert_eq!(run.state(3), Some(ConnectionState::Idle));
}

/// The ring is to be turned round, which one edge prevents.
fn not_turned_round() -> Run {
    let mut run = Run::of(3);
    for peer in 1..=3 {
        run.says(peer, ToMaster::OptimizeTopology);
    }
    for peer in 1..=3 {
        let (round, ok) = (run.round(peer), true);
        run.says(peer, ToMaster::ProbesDone { round, ok });
    }
    run.bystander.solve(true);
    run.fails(1, Edge::ToNext);
    run.all_connect();
    run.fires(MasterTimer::RetryWiring(run.round(1)));
    run
}

#[test]
fn a_better_ring_that_cannot_be_connected_leaves_the_present_one() {
    let mut run = not_turned_round();

    assert_eq!(run.gone(), []);
    run.reduces(&[1, 2, 3]);
}

/// Corners that random words seldom reach.
pub(super) fn corners() -> impl Iterator<Item = Bystander> {
    let votes: [Words; 3] = [
        |run, peer| run.updates(peer, BrokenEdges::NONE),
        |run, peer| run.synchronizes(peer),
        |run, peer| run.says(peer, ToMaster::OptimizeTopology),
    ];
    let voted = votes.into_iter().map(voted_after_its_edge_failed);
    voted
        .chain([passed_over(), not_turned_round()])
        .map(|run| run.bystander)
}
