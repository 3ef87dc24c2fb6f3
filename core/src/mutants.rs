//! Mistakes in the protocol, to check the model checker with. Only with the feature `mutants`, which
//! no program that does work has.
//!
//! Each stands beside the rule that it breaks, in a `rule!`. One at a time is switched on, for the
//! whole process:
//!
//! ```
//! use pccl_core::mutants::{Mutant, switch_on, taken};
//!
//! switch_on(Mutant::from_name("commit-before-last-vote"));
//! // … explore …
//! assert!(!taken()); // nobody has come to the place where it would be made
//! switch_on(None);
//! ```

use core::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use crate::id::PeerId;
use crate::topology::Ring;

/// Position in [`Mutant::ALL`], from one; zero: the protocol is what it should be.
static ON: AtomicU16 = AtomicU16::new(0);

/// The mistake was made at least once.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Makes one mistake from here on, and no other. `None`: none at all.
///
/// It holds for the whole process: for all machines, those that exist already included.
pub fn switch_on(mutant: Option<Mutant>) {
    let number = mutant.map_or(0, Mutant::number);
    ON.store(number, Ordering::SeqCst);
    TAKEN.store(false, Ordering::SeqCst);
}

/// Did a machine come to the place of the mistake since it was switched on? It may have made no
/// difference there.
#[must_use]
pub fn taken() -> bool {
    TAKEN.load(Ordering::SeqCst)
}

macro_rules! mutants {
    ($($(#[doc = $doc:literal])+ $mutant:ident = $name:literal,)+) => {
        /// One mistake: what is done wrong, and what a user would see of it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Mutant {
            $($(#[doc = $doc])+ $mutant,)+
        }

        impl Mutant {
            /// Every mutant.
            pub const ALL: &'static [Self] = &[$(Self::$mutant),+];

            /// Its name on a command line.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$mutant => $name,)+
                }
            }

            /// What is done wrong, and what a user would see of it; lines begin with a space.
            #[must_use]
            pub const fn story(self) -> &'static str {
                match self {
                    $(Self::$mutant => concat!($($doc),+),)+
                }
            }
        }
    };
}

mutants! {
    // Collectives.
    /// The master commits when all but one have voted: somebody is told to keep a result that it does
    /// not have.
    CommitBeforeLastVote = "commit-before-last-vote",
    /// A participant that dies before its vote counts as having voted yes: a reduce is committed
    /// although one of its contributors never said that it was done.
    DeathCountsAsVote = "death-counts-as-vote",
    /// A participant's death withdraws the vote that it had cast: a reduce that was whole everywhere
    /// is done again.
    StandingVoteWithdrawn = "standing-vote-withdrawn",
    /// A participant's death before its vote is overlooked: the others wait for its vote for ever.
    DeathMidReduceMissed = "death-mid-reduce-missed",
    /// A report of a lost lane counts as a vote to commit: half a result is called whole.
    LaneLossTakenForDone = "lane-loss-taken-for-done",
    /// An abort is told to those only who have voted: the others run or wait for ever.
    AbortToldToVotersOnly = "abort-told-to-voters-only",
    /// On an abort those who have voted are told that it is committed: some keep the sum, some do not.
    VerdictPerPeer = "verdict-per-peer",
    /// A vote on an operation that is decided counts for a later one that runs: it is committed before
    /// the voter is done.
    VoteOfAnotherSeq = "vote-of-another-seq",
    /// A collective starts when one member wants it, while the others run another: a peer is told to
    /// reduce what it never offered.
    StartBeforeLastVote = "start-before-last-vote",
    /// Who takes its vote to start back while its ring is connected for it may call nothing until the ring
    /// stands: it is kicked for its next call.
    WithdrawalForgottenInWiring = "withdrawal-forgotten-in-wiring",
    /// A vote to start is taken back although everybody had voted: the peer is told that what runs does not
    /// start.
    WithdrawnAfterStart = "withdrawn-after-start",
    /// The vote of a dead member to start a collective is kept: the ballot never matches the living,
    /// and no reduce starts any more.
    DeadVoteToStartStays = "dead-vote-to-start-stays",

    // Ballots and membership.
    /// The ballots are not counted again when a connection ends: the survivors wait for a vote that
    /// nobody owes.
    DeathNotRecounted = "death-not-recounted",
    /// A newcomer's vote is waited for, which it may not cast before it is admitted: nobody goes on.
    NewcomerIsWaitedFor = "newcomer-is-waited-for",
    /// Newcomers come in as if nobody were there: rings are rebuilt under those who work.
    AcceptedWithoutBallot = "accepted-without-ballot",
    /// One vote to update the topology is enough: the ring is rebuilt under those who did not ask.
    AdmittedByOneVote = "admitted-by-one-vote",
    /// Who is in a collective counts as having voted to update the topology: the ring is rebuilt under
    /// a running reduce.
    CollectiveCountsAsConsent = "collective-counts-as-consent",
    /// Rebuilding a ring for a waiting collective lets newcomers in: they are accepted though nobody
    /// voted for it.
    AdmittedByRewire = "admitted-by-rewire",
    /// A ring is rebuilt although another collective of the peer still runs on it.
    RewireUnderRunning = "rewire-under-running",
    /// A collective does not give way: it and a major call wait for each other for ever.
    CollectiveStandsFast = "collective-stands-fast",
    /// `are_peers_pending` does not give way: it and a major call wait for each other for ever.
    QueryStandsFast = "query-stands-fast",
    /// `are_peers_pending` is answered to idle peers only: who asks during a reduce waits for ever.
    QueryAnsweredToIdleOnly = "query-answered-to-idle-only",
    /// The world size counts peers that wait to be admitted: averages are divided by too much.
    WorldCountsRegistered = "world-counts-registered",
    /// A report about any but the newest round is a misdeed: a peer is kicked for a message that was
    /// on its way.
    LateReportKicked = "late-report-kicked",

    // Identities.
    /// Whatever key the other end of a lane proves, the lane is taken: who has stolen a ticket is a neighbour.
    AnyIdentityTaken = "any-identity-taken",
    /// Who proves no key at all is taken for the one who was expected: who has stolen a ticket and speaks no
    /// TLS is a neighbour.
    UnprovenIdentityTaken = "unproven-identity-taken",
    /// The end that dials is told its own key in place of the other's: no edge comes up.
    OwnIdentityNamed = "own-identity-named",
    /// The end that is dialled is told no key: whoever has stolen the ticket is its neighbour.
    ListenerToldOfNoIdentity = "listener-told-of-no-identity",

    // Rings.
    /// A ring that names the departed counts as sound: reduces start with a dead neighbour, for ever.
    RingKeptAfterLoss = "ring-kept-after-loss",
    /// A ring with a broken edge counts as sound: every reduce is aborted like the last.
    BrokenEdgeForgotten = "broken-edge-forgotten",
    /// A broken edge is kept when the ring is rebuilt: every reduce is aborted like the last.
    EdgeKeptThoughBroken = "edge-kept-though-broken",
    /// A ring stands when all but one have reported: that one has no lanes.
    RingBeforeLastReport = "ring-before-last-report",
    /// A report about an earlier round counts for the present one: the ring stands before its lanes do.
    StaleEdgesUpTaken = "stale-edges-up-taken",
    /// The death of a member is overlooked while its ring is being connected: `update_topology` ends
    /// with a dead neighbour, or never.
    DeathMidWiringMissed = "death-mid-wiring-missed",
    /// A failed attempt to connect a ring does not return its members to their vote: they wait for
    /// ever.
    RetryForgotten = "retry-forgotten",
    /// Another ring keeps the epoch of the one before: two rings have one name.
    EpochNotRaised = "epoch-not-raised",
    /// Each peer is told a ring that begins with itself: everybody thinks that its rank is 0.
    RingStartsWithEach = "ring-starts-with-each",
    /// A vote to update that crossed the announcement of another ring counts for the next one: nobody waits
    /// in that call any more, and the peer is kicked for its next.
    VoteOnAnOlderRingCounts = "vote-on-an-older-ring-counts",
    /// A peer that rests is not told of a ring that it was given when it calls for an update next: it waits
    /// for another update, which nobody else wants.
    LateUpdateWaits = "late-update-waits",
    /// A newcomer is told another ring than the others: its rank is somebody else's.
    NewcomerGetsAnotherRing = "newcomer-gets-another-ring",

    /// A peer adopts whatever lanes it has connected last although the master says that the old ones stay:
    /// the two ends of an edge use different lanes, for ever.
    FreshLanesAdopted = "fresh-lanes-adopted",
    /// What an attempt connected that was given up counts as an edge of the next ring: one end has dropped
    /// it.
    GivenUpEdgesAnnounced = "given-up-edges-announced",
    /// An edge counts as up when one of its ends has said so: the other may have no lanes.
    UpAtOneEnd = "up-at-one-end",
    /// A newcomer is refused for the first failure: one lost packet keeps it out.
    RefusedForTheFirstFailure = "refused-for-the-first-failure",
    /// Edges that break under collectives are not counted: lanes that carry nothing are rebuilt for ever.
    BreaksNotCounted = "breaks-not-counted",
    /// Who cannot be neighbours is sent away although another ring is left.
    EvictedThoughARingIsLeft = "evicted-though-a-ring-is-left",
    /// Lanes are opened by the sender also where the receiver was not reached before: with a peer whose port
    /// is closed nobody is ever on one ring.
    UnreachableNeverDials = "unreachable-never-dials",
    /// A ring of two counts as possible when one of its edges stands: the other one is tried for ever.
    OneWayRing = "one-way-ring",

    // Blame, kicks, and what those are told whom they befall.
    /// When the time of a late peer is over one of those goes who wait for it: a peer is thrown out that did
    /// what it should.
    WhoWaitsIsKicked = "who-waits-is-kicked",
    /// Who holds others up is thrown out the first time, although most others are not done either.
    StalledAtOnce = "stalled-at-once",
    /// A collective that does not start is blamed on those who have joined it.
    JoinersCalledAbsent = "joiners-called-absent",
    /// A collective that did not end in time is said to have lost a peer that is there.
    StallCalledLoss = "stall-called-loss",
    /// Of those who cannot be neighbours the latest goes, whoever of them it is that nobody can be connected with.
    LatestGoesWhateverFailed = "latest-goes-whatever-failed",
    /// Both ends of a pair that cannot be connected go: a peer too many is lost.
    BothEndsGo = "both-ends-go",
    /// A newcomer that nobody reaches is told that it reaches nobody: its user looks at the wrong end.
    DirectionTurnedRound = "direction-turned-round",
    /// A newcomer is told that it could not reach itself.
    NewcomerNamesItself = "newcomer-names-itself",
    /// A newcomer is told the address of the end that dialled: its user opens a port that is open.
    AddressOfTheWrongEnd = "address-of-the-wrong-end",
    /// Both edges of a peer count as broken where one is: a pair is given up that works.
    BothEdgesBlamed = "both-edges-blamed",
    /// A pair that could not be connected is forgotten: the same is tried again and again.
    FailedPairForgotten = "failed-pair-forgotten",
    /// After any failed attempt every edge is opened anew, those that stand included.
    EveryFailureCastsDoubt = "every-failure-casts-doubt",
    /// All edges of a ring are opened anew where one is broken.
    WholeRingRebuilt = "whole-ring-rebuilt",
    /// An edge that breaks in one group has the other groups' edges opened anew.
    OtherGroupRebuiltAsWell = "other-group-rebuilt-as-well",
    /// The abort after a loss names the neighbour of the one that was lost.
    LostPeerMisnamed = "lost-peer-misnamed",
    /// What is reported of one edge of a peer is noted of the other: that one is rebuilt, and the broken one is
    /// kept.
    OtherEdgeMarkedBroken = "other-edge-marked-broken",
    /// A failed transfer is noted against the holder: it goes, and not the one that could not fetch.
    TransferTurnedRound = "transfer-turned-round",
    /// A synchronization that failed because a peer was lost is said not to have ended in time.
    LossDuringSyncCalledTimeOut = "loss-during-sync-called-time-out",
    /// Who held others up once is thrown out the second time, whatever was committed in between.
    StallsNeverForgiven = "stalls-never-forgiven",
    /// The last and the first of a ring may be a pair that failed: it is tried again and again.
    RingClosesAnywhere = "ring-closes-anywhere",
    /// A lane that breaks once counts as often as collectives run on it: one break has a peer thrown out.
    EachCollectiveIsABreak = "each-collective-is-a-break",

    // Who is late, and who gives way.
    /// A peer is kicked for its vote although more would have to go than wait: one that is fast has all
    /// others kicked.
    KickedThoughMoreWouldGo = "kicked-though-more-would-go",
    /// The timer of a peer that others wait for is never started: one that lives and never votes stops the
    /// run.
    LateNotWatched = "late-not-watched",
    /// The timer of a peer that others wait for does not start anew when it goes on: a peer is ended that
    /// works.
    LateThoughHeard = "late-though-heard",
    /// Whatever a peer says gives it all the time again for the vote that it owes: one that lives and never
    /// votes stops the run.
    WordsGainTime = "words-gain-time",
    /// Who holds up what the others have done is never sent away: each attempt ends like the last.
    StalledAgainAndAgain = "stalled-again-and-again",
    /// The vote of a newcomer that is set aside is dropped: it waits in a synchronization that the others
    /// conclude without it.
    VoteAsideDropped = "vote-aside-dropped",
    /// A newcomer is never set aside: it and those who reduce get in each other's way without end.
    ThirdConflictNotResolved = "third-conflict-not-resolved",
    /// A commit names the newest epoch of the run, not that of the ring that contributed.
    VerdictOfAnotherEpoch = "verdict-of-another-epoch",

    // Groups.
    /// A synchronization begins when all members of all groups have called it: one group waits for another.
    BallotOfAllGroups = "ballot-of-all-groups",
    /// A loss aborts what runs in every group: one group's death costs all others a retry.
    LossAbortsOtherGroups = "loss-aborts-other-groups",
    /// A group whose ring is what it was keeps its epoch when another's changes: one epoch is two worlds.
    EpochOfOneGroup = "epoch-of-one-group",

    // Which call gives way.
    /// `optimize_topology` gives way to `sync_shared_state`, which the documentation says the other way round.
    OptimizeGivesWay = "optimize-gives-way",
    /// A conflict names the peer itself: its user looks for the other call where it is not.
    ConflictNamesTheLoser = "conflict-names-the-loser",
    /// Updates pass over a call without end: who waits in it waits for ever.
    PassedOverForEver = "passed-over-for-ever",

    // What orders contain.
    /// The two directions between two peers have one ticket: lanes are taken for those of the other edge.
    OneTicketForBothWays = "one-ticket-for-both-ways",
    /// The end that dials is told its own address: no edge comes up.
    OwnAddressDialled = "own-address-dialled",
    /// Both ends of an edge open its lanes: each waits for the other to take them.
    BothEndsDial = "both-ends-dial",
    /// As many lanes are ordered as the sender would like: the receiver has fewer.
    LanesOfOneEnd = "lanes-of-one-end",

    // Timers.
    /// Timers are not stopped when nobody needs them any more.
    TimerNotStopped = "timer-not-stopped",
    /// The timer that ends the pause after a failed attempt is not started: the ring is never tried
    /// again.
    PauseNeverEnds = "pause-never-ends",
    /// A peer that is out of the run lets its timers run.
    PeerTimersLeftRunning = "peer-timers-left-running",
    /// A peer does not watch whether its master is silent: when the connection goes dead it waits for
    /// ever.
    MasterSilenceUnwatched = "master-silence-unwatched",

    // Deadlines and signs of life.
    /// What a peer says does not begin its silence anew: it is thrown out although it talks.
    SilenceNotRestarted = "silence-not-restarted",
    /// Whoever says anything begins everybody's silence anew: that one has gone silent is noticed only when
    /// all have.
    OneSpeaksForAll = "one-speaks-for-all",
    /// The master gives signs of life to accepted peers only: a newcomer that waits takes its master for
    /// lost.
    SignsOfLifeToMembersOnly = "signs-of-life-to-members-only",
    /// A peer gives one sign of life and no other: it is thrown out while its user computes.
    OneSignOfLife = "one-sign-of-life",
    /// Any sign of life gives a peer all the time again for its part, also where no bytes have moved: one
    /// that hangs and lives holds up the others for ever.
    EverySignOfLifeGainsTime = "every-sign-of-life-gains-time",
    /// A measurement does not begin the time for the next one: a peer with many others is thrown out although
    /// it measures.
    MeasurementGainsNoTime = "measurement-gains-no-time",
    /// Who is idle is not watched from when others begin to wait for it: one that never votes stops the run.
    WaitNotNoticed = "wait-not-noticed",
    /// A peer is late for what another group waits in: it is thrown out for a vote that it cannot cast.
    LateForAnotherGroup = "late-for-another-group",
    /// Who has done its part of a collective is watched as if it had not: it is thrown out for what another
    /// one lacks.
    DoneIsLate = "done-is-late",
    /// Who holds up what runs has as much time as for a vote: a hung transfer takes ten minutes to end.
    PartHasAVotesTime = "part-has-a-votes-time",
    /// The deadline of an attempt to connect a ring ends with the first report: an edge that nobody reports
    /// is waited for for ever.
    WiringWatchedToFirstReport = "wiring-watched-to-first-report",
    /// Whatever the master hears begins the deadline of an attempt anew: an edge that never comes up is
    /// waited for as long as anybody talks.
    ReportGainsTimeForAll = "report-gains-time-for-all",
    /// The deadline of an earlier attempt to connect a ring counts for the present one: edges fail that have
    /// just been ordered.
    StaleWiringTaken = "stale-wiring-taken",
    /// Nobody watches the solver: where it does not end, neither does `optimize_topology`.
    SolverNotWatched = "solver-not-watched",
    /// The solver's answer to an earlier question is taken for that to the present one: a ring is adopted for
    /// what was measured before.
    TourOfAnotherRound = "tour-of-another-round",

    // Shared state.
    /// A tie goes to the latest peer: the one that has just come overwrites the one that was there.
    TieToTheLatest = "tie-to-the-latest",
    /// A receive-only peer is a candidate: the content of one that asked to be overwritten wins.
    ReceiveOnlyChosen = "receive-only-chosen",
    /// A send-only peer that lost the election does not fail the call: it is overwritten.
    SendOnlyOverwritten = "send-only-overwritten",
    /// A later synchronization does not advance the revision of the group: the third one is refused.
    RevisionStandsStill = "revision-stands-still",
    /// The master counts up as the users do: every advance is two.
    RevisionBumpedTwice = "revision-bumped-twice",
    /// Older content than the group has reached is taken where there is no newer: work is undone
    /// silently.
    RevisionGoesBack = "revision-goes-back",
    /// Content is compared by revision alone: peers that differ at one revision go on differing.
    DirtyByRevisionOnly = "dirty-by-revision-only",
    /// A synchronization is concluded when all but one have reported: that one does not have the
    /// content.
    StateCommittedBeforeLastReport = "state-committed-before-last-report",
    /// Who cannot fetch what others can is not set aside until these hold it: a peer is kicked for one
    /// connection that it lacks.
    UnfetchableNotSpared = "unfetchable-not-spared",
    /// A peer writes what it has fetched although the synchronization failed: memory changes behind
    /// the user's back.
    FailedSyncWritten = "failed-sync-written",
    /// A peer drops what it has fetched although the synchronization succeeded: it goes on with its
    /// old content, and nobody knows.
    FetchedStateDropped = "fetched-state-dropped",

    /// All entries are fetched where one differs: what may differ is overwritten, and bytes travel for nothing.
    AllEntriesFetched = "all-entries-fetched",
    /// An entry is asked for by the hash that it has already: what arrives is never what was asked for.
    EntryUnderAnotherHash = "entry-under-another-hash",
    /// One peer that agrees to restart is enough: the others lose work that they did not give up.
    RestartByOne = "restart-by-one",

    // Optimization.
    /// The measurements of a dead peer are waited for: `optimize_topology` never ends.
    OptimizationWaitsForTheDead = "optimization-waits-for-the-dead",
    /// A ring that was solved before a death is adopted: it names the departed.
    RingOfTheDepartedAdopted = "ring-of-the-departed-adopted",

    // Peers.
    /// The ring of an aborted collective is not stopped: it writes into a buffer that was given back.
    RingRunsOnAfterAbort = "ring-runs-on-after-abort",
    /// A peer that loses the master calls its whole collectives committed: the others may have aborted.
    InventedCommit = "invented-commit",
    /// A peer that loses the master calls its collectives aborted: the others may have committed.
    InventedAbort = "invented-abort",
    /// A peer whose own part was whole takes an abort for a commit: some keep the sum, some do not.
    WholeHereIsCommitted = "whole-here-is-committed",
    /// A lane that breaks before its ring stands is forgotten: the next reduce is aborted for a lane that
    /// nobody names, and edges are rebuilt that are whole.
    FreshBreakForgotten = "fresh-break-forgotten",
    /// The end of any ring counts as that of the first tag that runs: the wrong buffer is called whole.
    RingEndOfAnotherTag = "ring-end-of-another-tag",
    /// A tag that is in use can be used again: the peer is kicked for it.
    DuplicateTagAccepted = "duplicate-tag-accepted",

    // The plans.
    /// The first chunk of the gather phase is added, not copied: contributions count twice.
    ReducedTwice = "reduced-twice",
    /// The last chunk of the reduce phase is copied, not added: contributions are lost.
    GatheredTooEarly = "gathered-too-early",
    /// The last contribution is added, but the sum is not kept as a result: an average is not divided, and
    /// every rank lacks a chunk of it.
    NeverFinished = "never-finished",
    /// What travels whole is added in the order in which it arrived, another at every peer: sums of
    /// floats differ in their last bits.
    AddedAsTheyArrive = "added-as-they-arrive",
    /// What travels whole makes one step too few: the contribution that would come last is lost.
    OneContributionMissed = "one-contribution-missed",
}

impl Mutant {
    /// The mutant of this name, as [`name`](Self::name) spells it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|mutant| mutant.name() == name)
    }

    const fn number(self) -> u16 {
        self as u16 + 1
    }

    /// Is this the one that is switched on? Its place was reached then.
    pub(crate) fn is_made(self) -> bool {
        let made = ON.load(Ordering::Relaxed) == self.number();
        // Every thread reads this; it is written once.
        if made && !TAKEN.load(Ordering::Relaxed) {
            TAKEN.store(true, Ordering::Relaxed);
        }
        made
    }
}

impl Ring {
    /// The same neighbours, counted from another peer.
    pub(crate) fn counted_from(&self, peer: PeerId) -> Self {
        let mut ring = self.clone();
        ring.0.rotate_left(self.rank_of(peer).unwrap_or(0));
        ring
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::format;
    use alloc::string::String;

    use super::*;

    fn kebab(camel: &str) -> String {
        let mut name = String::new();
        for letter in camel.chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.extend(letter.to_lowercase());
        }
        name
    }

    #[test]
    fn every_mutant_is_found_by_its_name_and_no_two_share_one() {
        let names: BTreeSet<&str> = Mutant::ALL.iter().map(|mutant| mutant.name()).collect();

        assert_eq!(names.len(), Mutant::ALL.len());
        for mutant in Mutant::ALL {
            assert_eq!(mutant.name(), kebab(&format!("{mutant:?}")));
            assert_eq!(Mutant::from_name(mutant.name()), Some(*mutant));
        }
        assert_eq!(Mutant::from_name("no-mistake"), None);
    }
}
