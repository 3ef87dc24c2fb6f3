//! Every mistake: what is done wrong, and what a user would see of it.

mutants! {
    // Collectives.
    /// Sites are found between peers whose ring stays as it was, and nobody is told: the master orders two levels among
    /// sites that no peer knows.
    FoundSitesUntold = "found-sites-untold",
    /// Shards are gathered that were laid out for a membership that is over: what was computed for one shard is taken
    /// for another.
    ShardsOfOthersGathered = "shards-of-others-gathered",
    /// The lengths of contributions are told in the order of the peers' numbers, not in that of the ranks: one's length is
    /// taken for another's.
    LengthsByPeerNumber = "lengths-by-peer-number",
    /// A peer takes its own length for that of each other: they disagree about what is where.
    OwnLengthTakenForAll = "own-length-taken-for-all",
    /// A broadcast starts although its root has left: nobody has what the others wait for.
    RootNotAsked = "root-not-asked",
    /// The master commits when all but one have voted: somebody is told to keep a result that it lacks.
    CommitBeforeLastVote = "commit-before-last-vote",
    /// A participant that dies before its vote counts as having voted yes: a reduce is committed
    /// although one of its contributors never said that it was done.
    DeathCountsAsVote = "death-counts-as-vote",
    /// A participant's death withdraws the vote that it had cast: a reduce that was whole everywhere is done again.
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
    /// A vote to start is taken back although everybody had voted: the peer is told that what runs does not start.
    WithdrawnAfterStart = "withdrawn-after-start",
    /// The vote of a dead member to start a collective is kept: the ballot never matches the living,
    /// and no reduce starts any more.
    DeadVoteToStartStays = "dead-vote-to-start-stays",
    /// A lost lane aborts all collectives of the group, those too whose result is whole.
    OneLaneAbortsAll = "one-lane-aborts-all",
    /// Of several collectives that lost a participant only the first is aborted: the others wait for ever.
    OnlyFirstTagAborted = "only-first-tag-aborted",
    /// A cancellation that crosses the start is forgotten: the plan runs, and the user waits for what it gave up.
    CancelForgottenAtStart = "cancel-forgotten-at-start",
    /// The frames of an execution that its user had given up before it began are not thrown away: they wait for
    /// a plan that never runs, and the lanes with them.
    CancelledFramesKept = "cancelled-frames-kept",
    /// The frames of an execution are not thrown away when it is decided: late ones wait for a ring that is over.
    FramesOutliveVerdict = "frames-outlive-verdict",
    /// A call that waits is tried again when the user calls something else, not when what it waits for ends: it
    /// waits for ever.
    WaitingCallForgotten = "waiting-call-forgotten",
    /// What a call that was given up has left answers any call, whatever that asks for.
    AnyMajorJoined = "any-major-joined",
    /// A call that is answered with one that was given up is not remembered: nobody answers it.
    JoinedCallForgotten = "joined-call-forgotten",
    /// A collective that was given up counts as one that is wanted: a call that has nothing to do with it fails.
    AbandonedCountsAsOpen = "abandoned-counts-as-open",
    /// Who gave a call up is answered all the same.
    AbandonedCallAnswered = "abandoned-call-answered",
    /// A call that is given up while it waits is made all the same, when its turn comes.
    WaitingCallNotForgotten = "waiting-call-not-forgotten",
    /// Of the collectives that wait the last one starts first: peers wait for each other in vain.
    LaterCallsOvertake = "later-calls-overtake",
    /// A peer has any number of collectives in flight: the master kicks it.
    CollectivesUnbounded = "collectives-unbounded",
    /// The transfers of a synchronization that is given up are not reported as failed: the others wait for them.
    GivenUpTransfersUnreported = "given-up-transfers-unreported",
    /// A plan for a synchronization that was given up is ignored: the others wait for a report that nobody makes.
    PlanOfNobodyIgnored = "plan-of-nobody-ignored",
    /// A vote that was taken back counts all the same: the collective starts without its caster.
    WithdrawnVoteCounts = "withdrawn-vote-counts",
    /// Contributors are told by their numbers, not in the order of the ring: a user takes one for another.
    ContributorsSorted = "contributors-sorted",

    // Ballots and membership.
    /// The ballots are not counted again when a connection ends: the survivors wait for a vote that nobody owes.
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
    /// Rebuilding a ring for a waiting collective lets newcomers in: they are accepted though nobody voted for it.
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
    /// A report about any but the newest round is a misdeed: a peer is kicked for a message that was on its way.
    LateReportKicked = "late-report-kicked",
    /// An update that changes nothing has another epoch: everybody is told a ring that it has.
    EpochRaisedForNothing = "epoch-raised-for-nothing",
    /// A peer that calls for an update is answered with the ring that it had.
    OldRingAnswered = "old-ring-answered",

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
    /// A failed attempt to connect a ring does not return its members to their vote: they wait for ever.
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
    /// What an attempt connected that was given up counts as an edge of the next ring: one end has dropped it.
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
    /// What is reported of one edge of a peer is noted of the other: that one is rebuilt, and the broken one is kept.
    OtherEdgeMarkedBroken = "other-edge-marked-broken",
    /// A failed transfer is noted against the holder: it goes, and not the one that could not fetch.
    TransferTurnedRound = "transfer-turned-round",
    /// Who could not fetch from several holders at once has failed with each of them: it is sent away for the
    /// fault of one.
    AllHoldersBlamed = "all-holders-blamed",
    /// A holder that could not serve one takes a success of all for a contradiction.
    UnservedForbidsSuccess = "unserved-forbids-success",
    /// A holder that could not serve one fails the attempt of all, though that one has others to fetch from.
    UnservedFailsAll = "unserved-fails-all",
    /// Who could not fetch from several holders at once is given several again: nobody learns whose fault it is.
    SeveralAfterAFailure = "several-after-a-failure",
    /// A synchronization that failed because a peer was lost is said not to have ended in time.
    LossDuringSyncCalledTimeOut = "loss-during-sync-called-time-out",
    /// Who held others up once is thrown out the second time, whatever was committed in between.
    StallsNeverForgiven = "stalls-never-forgiven",
    /// The last and the first of a ring may be a pair that failed: it is tried again and again.
    RingClosesAnywhere = "ring-closes-anywhere",
    /// A lane that breaks once counts as often as collectives run on it: one break has a peer thrown out.
    EachCollectiveIsABreak = "each-collective-is-a-break",
    /// A collective that a user cancelled is said to have lost a lane.
    CancelCalledLaneLost = "cancel-called-lane-lost",
    /// A failed transfer names not the one that reported it, but its other end.
    TransferNamesTheOther = "transfer-names-the-other",
    /// Of the fields in which votes differ the last is named, with those that differ in it.
    LastFieldNamed = "last-field-named",
    /// All voters are named where two disagree: nobody knows who.
    DisagreementNamesAll = "disagreement-names-all",
    /// A newcomer whose edge was overdue is told that its connection was refused: its user looks for a closed port.
    OverdueCalledRefused = "overdue-called-refused",
    /// Newcomers are tried at the end of the ring only: where that does not fit a standing ring is torn up.
    NewcomersAtTheEndOnly = "newcomers-at-the-end-only",
    /// A refused pair is avoided in one order only.
    ForbiddenOneWay = "forbidden-one-way",
    /// A pair that could not be connected stays refused when it is connected later.
    RepairedPairStaysFailed = "repaired-pair-stays-failed",
    /// A lane that ends marks whatever lanes the edge has now: whole edges are built again.
    OldBreakMarksNewLanes = "old-break-marks-new-lanes",
    /// A break that crossed the announcement of another ring is noted of that one: a whole edge is built again.
    BreakOfAnOlderRing = "break-of-an-older-ring",
    /// Who is thrown out is told that it lost the master: its user does not learn why.
    KickCalledLoss = "kick-called-loss",

    // Who is late, and who gives way.
    /// A peer is kicked for its vote although more would have to go than wait: one that is fast has all others kicked.
    KickedThoughMoreWouldGo = "kicked-though-more-would-go",
    /// The timer of a peer that others wait for is never started: one that lives and never votes stops the run.
    LateNotWatched = "late-not-watched",
    /// The timer of a peer that others wait for does not start anew when it goes on: a peer is ended that works.
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
    /// Who waits to start other tags has the time of a part: collectives are refused for a vote that was not late.
    JoinHasAPartsTime = "join-has-a-parts-time",
    /// A newcomer that rests counts as late for an update, to which its admission is its vote: it is thrown out.
    RestingIsLate = "resting-is-late",
    /// Who is idle has no deadline while others wait to optimize: one that never votes stops them.
    OptimizersWaitForNobody = "optimizers-wait-for-nobody",
    /// A call that gave way gives its peer all the time again for the vote that it owes.
    GivingWayGainsTime = "giving-way-gains-time",
    /// The stalls of all peers add up: one goes that stalled for the first time.
    StallsOfAllAddUp = "stalls-of-all-add-up",
    /// Who holds up what runs goes where most others are not done either, and stays where they are.
    MajorityStalls = "majority-stalls",
    /// Those who wait in other groups count when a late peer is to go: two have one thrown out whom only one waits for.
    LateCountedInAllGroups = "late-counted-in-all-groups",
    /// Newcomers that reduce while others wait to synchronize go the third time, although nobody has given way to them.
    NewcomersGoAtOnce = "newcomers-go-at-once",
    /// Who took its vote back while its ring was connected counts as resting: its next update is taken for one
    /// that was answered, and waits.
    WhoWithdrewRests = "who-withdrew-rests",
    /// When a member is set aside the votes of the others are not counted again: their collective waits for a
    /// vote that nobody owes.
    AsideLeavesNothingReady = "aside-leaves-nothing-ready",
    /// Who asks while the others wait to reduce is told that somebody waits, and waits itself where the others are not.
    AskersLedAstray = "askers-led-astray",

    // Groups.
    /// A synchronization begins when all members of all groups have called it: one group waits for another.
    BallotOfAllGroups = "ballot-of-all-groups",
    /// A loss aborts what runs in every group: one group's death costs all others a retry.
    LossAbortsOtherGroups = "loss-aborts-other-groups",
    /// A group whose ring is what it was keeps its epoch when another's changes: one epoch is two worlds.
    EpochOfOneGroup = "epoch-of-one-group",
    /// Who asks is told of newcomers of its own group only: a second group is never let in.
    PendingOfOwnGroupOnly = "pending-of-own-group-only",
    /// A collective waits while the ring of any group is stale.
    AnyStaleRingHoldsUpAll = "any-stale-ring-holds-up-all",
    /// The end of another group raises no epoch: one epoch has two world sizes.
    EmptyGroupKeepsEpoch = "empty-group-keeps-epoch",
    /// An update that changes no ring keeps the epoch although groups have different ones: nobody but who asked
    /// is told.
    OlderEpochIsPresent = "older-epoch-is-present",
    /// A collective gives way to a synchronization of another group.
    MajorCallOfAnyGroup = "major-call-of-any-group",
    /// The revision that the first group has reached is held against every group.
    ReachedByAnotherGroup = "reached-by-another-group",
    /// What a group had reached is forgotten with its last member: the next one sets it back.
    RevisionDiesWithTheGroup = "revision-dies-with-the-group",
    /// The largest group is said to be the own one: averages over groups are weighed wrongly.
    LargestGroupIsOwn = "largest-group-is-own",

    // Which call gives way.
    /// `optimize_topology` gives way to `sync_shared_state`, which the documentation says the other way round.
    OptimizeGivesWay = "optimize-gives-way",
    /// A conflict names the peer itself: its user looks for the other call where it is not.
    ConflictNamesTheLoser = "conflict-names-the-loser",
    /// Updates pass over a call without end: who waits in it waits for ever.
    PassedOverForEver = "passed-over-for-ever",
    /// A synchronization that gives way to an optimization is told that a collective was in its way.
    ConflictNamesACollective = "conflict-names-a-collective",
    /// A synchronization gives way to an optimization that waits in another group, and would have ended before.
    OptimizeElsewhereBeatsSync = "optimize-elsewhere-beats-sync",

    // What orders contain.
    /// The two directions between two peers have one ticket: lanes are taken for those of the other edge.
    OneTicketForBothWays = "one-ticket-for-both-ways",
    /// The end that dials is told its own address: no edge comes up.
    OwnAddressDialled = "own-address-dialled",
    /// Both ends of an edge open its lanes: each waits for the other to take them.
    BothEndsDial = "both-ends-dial",
    /// As many lanes are ordered as the sender would like: the receiver has fewer.
    LanesOfOneEnd = "lanes-of-one-end",
    /// For a transfer as many lanes are ordered as the end with more would like.
    LanesOfTheGreedy = "lanes-of-the-greedy",
    /// The address that a peer advertises is ignored: nobody reaches it behind its router.
    AdvertisedIgnored = "advertised-ignored",
    /// Peers are told of as many lanes as the thinnest edge has: the others carry nothing on most of theirs.
    ThinnestEdgeCounted = "thinnest-edge-counted",

    // Timers.
    /// Timers are not stopped when nobody needs them any more.
    TimerNotStopped = "timer-not-stopped",
    /// The timer that ends the pause after a failed attempt is not started: the ring is never tried again.
    PauseNeverEnds = "pause-never-ends",
    /// A peer that is out of the run lets its timers run.
    PeerTimersLeftRunning = "peer-timers-left-running",
    /// A peer does not watch whether its master is silent: when the connection goes dead it waits for ever.
    MasterSilenceUnwatched = "master-silence-unwatched",

    // Deadlines and signs of life.
    /// What a peer says does not begin its silence anew: it is thrown out although it talks.
    SilenceNotRestarted = "silence-not-restarted",
    /// Whoever says anything begins everybody's silence anew: that one has gone silent is noticed only when all have.
    OneSpeaksForAll = "one-speaks-for-all",
    /// The master gives signs of life to accepted peers only: a newcomer that waits takes its master for lost.
    SignsOfLifeToMembersOnly = "signs-of-life-to-members-only",
    /// A peer gives one sign of life and no other: it is thrown out while its user computes.
    OneSignOfLife = "one-sign-of-life",
    /// Any sign of life gives a peer all the time again for its part, also where no bytes have moved: one
    /// that hangs and lives holds up the others for ever.
    EverySignOfLifeGainsTime = "every-sign-of-life-gains-time",
    /// Who reports a measurement has its time again: a peer that measures on and on holds up the others.
    MeasurementGainsTime = "measurement-gains-time",
    /// Measurements may take as long as parts of a collective: one slow edge holds up all others.
    ProbeHasAPartsTime = "probe-has-a-parts-time",
    /// Who has not measured in time is thrown out.
    SlowProbeKicked = "slow-probe-kicked",
    /// A measurement that comes after its time is a misdeed: a slow peer is thrown out.
    LateMeasurementKicked = "late-measurement-kicked",
    /// Who is idle is not watched from when others begin to wait for it: one that never votes stops the run.
    WaitNotNoticed = "wait-not-noticed",
    /// A peer is late for what another group waits in: it is thrown out for a vote that it cannot cast.
    LateForAnotherGroup = "late-for-another-group",
    /// Who has done its part of a collective is watched as if it had not: it is thrown out for what another one lacks.
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
    /// The master gives no signs of life before somebody is accepted: the first peers take it for lost.
    NoBeatBeforeTheFirst = "no-beat-before-the-first",
    /// The silence of a newcomer is not watched: one that dies behind a dead link holds up the run.
    NewcomersSilenceUnwatched = "newcomers-silence-unwatched",
    /// Once bytes have moved, every sign of life says so: who hangs is never late.
    MovedForEver = "moved-for-ever",
    /// Nobody watches for the welcome: whoever connects to a dead master waits for ever.
    WelcomeUnwatched = "welcome-unwatched",

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
    /// Older content than the group has reached is taken where there is no newer: work is undone silently.
    RevisionGoesBack = "revision-goes-back",
    /// Content is compared by revision alone: peers that differ at one revision go on differing.
    DirtyByRevisionOnly = "dirty-by-revision-only",
    /// A synchronization is concluded when all but one have reported: that one does not have the content.
    StateCommittedBeforeLastReport = "state-committed-before-last-report",
    /// Who cannot fetch what others can is not set aside until these hold it: a peer is kicked for one
    /// connection that it lacks.
    UnfetchableNotSpared = "unfetchable-not-spared",
    /// A peer writes what it has fetched although the synchronization failed: memory changes behind the user's back.
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
    /// What was reached and what is offered are exchanged in the error: its user restores the wrong checkpoint.
    SenderBehindTurnedRound = "sender-behind-turned-round",
    /// The error about a skipped revision names the newest that is offered, not the oldest.
    NewestSkipNamed = "newest-skip-named",
    /// The error names one send-only peer twice: nobody knows which the other is.
    SenderDiffersFromItself = "sender-differs-from-itself",
    /// An entry that is described otherwise counts twice among those that differ.
    RedescribedCountsTwice = "redescribed-counts-twice",
    /// A restart needs no consent of those who only receive: their newer state is overwritten with older.
    ReceiversHaveNoSay = "receivers-have-no-say",
    /// The revision that is remembered never goes back: after a restart the next synchronization is refused.
    RestartUndone = "restart-undone",
    /// Who is beyond the next revision is sent away although all agree to restart.
    RestartHeldToTheNext = "restart-held-to-the-next",
    /// After all have left, what the group held does not win against another content of its revision.
    HeldContentForgotten = "held-content-forgotten",
    /// A veteran that repeats the reached revision does not keep a newcomer from raising it: work is skipped.
    VeteranWhoRepeatsDoesNotDecide = "veteran-who-repeats-does-not-decide",
    /// Whoever lacks something is given also what may differ: a veteran loses what is its own.
    PrivateEntriesOverwritten = "private-entries-overwritten",
    /// A newcomer whose other entries are equal is not given what may differ: it works with what it began with.
    NewcomerLacksWhatMayDiffer = "newcomer-lacks-what-may-differ",
    /// What may differ is compared in elections: peers that hold the same are different camps.
    MayDifferCompared = "may-differ-compared",
    /// A newcomer that holds the elected content serves as well: others are given its fresh entries.
    NewcomerServesWhatMayDiffer = "newcomer-serves-what-may-differ",
    /// Newcomers and others that hold the same are given one list: a veteran is given what may differ, or a
    /// newcomer not.
    DirtyOfAnother = "dirty-of-another",

    // Optimization.
    /// The measurements of a dead peer are waited for: `optimize_topology` never ends.
    OptimizationWaitsForTheDead = "optimization-waits-for-the-dead",
    /// A ring that was solved before a death is adopted: it names the departed.
    RingOfTheDepartedAdopted = "ring-of-the-departed-adopted",
    /// A rotation begins while one peer still measures: two probes share it, and each measures the other.
    RotationBeforeLastReport = "rotation-before-last-report",
    /// A peer sends two probes at the same time: each measures half of what there is.
    ProbesShareASender = "probes-share-a-sender",
    /// What is known is measured again, each time: `optimize_topology` takes as long as the first time.
    FreshMeasuredAgain = "fresh-measured-again",
    /// The edges of a dead peer stay known.
    EdgesOfTheDeadKept = "edges-of-the-dead-kept",
    /// An edge that nobody has reported counts as a very slow one: the ring may go where nothing gets through.
    UnreportedHasAnEdge = "unreported-has-an-edge",
    /// The rings are probed under load again and again: `optimize_topology` takes longer than is allowed.
    LoadProbedAgain = "load-probed-again",
    /// Whose measurements took too long is asked to probe under load all the same, and has to be waited for again.
    SlowIsAskedAgain = "slow-is-asked-again",
    /// A search goes on after a peer has come or gone, and what it finds is adopted: the ring names the departed,
    /// or lacks a member.
    StaleSearchAdopted = "stale-search-adopted",
    /// What a search finds after it was ended is kept as if the present one had found it.
    SearchOfAnotherRound = "search-of-another-round",
    /// The solver is told each measurement for the opposite direction: the ring goes the slow way round.
    MeasurementsTurnedRound = "measurements-turned-round",
    /// Users are told that a better ring was adopted although it could not be connected.
    FailedOptimizationCalledDone = "failed-optimization-called-done",

    // Peers.
    /// The plan of an aborted collective is not stopped: it writes into a buffer that was given back.
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
    /// The end of any plan counts as that of the first tag that runs: the wrong buffer is called whole.
    RingEndOfAnotherTag = "ring-end-of-another-tag",
    /// A tag that is in use can be used again: the peer is kicked for it.
    DuplicateTagAccepted = "duplicate-tag-accepted",
    /// The plan of a cancelled collective is not stopped: it writes into a buffer that was given back.
    CancelledRingRunsOn = "cancelled-ring-runs-on",

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
    /// What travels directly is added in the order in which it arrived, another for every part: a sum of floats
    /// depends on who combines it.
    DirectAddedAsTheyArrive = "direct-added-as-they-arrive",
    /// What travels directly and is combined is told to nobody: every rank holds the result of its own part alone.
    ResultsNeverTold = "results-never-told",
    /// The results that other ranks tell are added, not copied: contributions count twice.
    ResultAddedAgain = "result-added-again",
    /// What travels in rounds is added again where its result arrives: contributions count twice.
    RoundsAddResultsAgain = "rounds-add-results-again",
    /// A reduce-scatter around the ring ends one rank too early: each rank holds the shard of the next one, and its own
    /// not.
    ScatteredOneShort = "scattered-one-short",
    /// An all-gather around the ring begins with the shard of the previous rank: nobody tells the own one.
    AnothersShardGathered = "anothers-shard-gathered",
    /// The chain of a broadcast ends at the second rank: the others wait for ever.
    ChainEndsEarly = "chain-ends-early",
    /// The tree of a broadcast ends below the root: the ranks that are farther down wait for ever.
    TreeEndsEarly = "tree-ends-early",
    /// In two levels a rank adds its own contribution first, whichever place it has at its site.
    LevelsAddedOwnFirst = "levels-added-own-first",
    /// In two levels the sum of a site stays at its gateway: the home of the shard waits for ever.
    SiteSumsStay = "site-sums-stay",
    /// In two levels a gateway keeps the results of other sites: the members behind it wait for ever.
    SiteResultsStay = "site-results-stay",
    /// In a ring of sites the result stays at the site behind its home: the sites behind that wait for ever.
    SiteRingStops = "site-ring-stops",
    /// With all sums at all sites, each gateway adds the sum of its own site first.
    SitesAddOwnFirst = "sites-add-own-first",
    /// In two levels a result is added where it arrives: contributions count twice.
    LevelsAddResultsAgain = "levels-add-results-again",
    /// The master takes two levels in a group that is at one site.
    LevelsAtOneSite = "levels-at-one-site",

    // What begins ahead.
    /// A refused or withdrawn collective may commence under the number that was reserved for it: the frames of those who
    /// began ahead were thrown away.
    ReservationOutlivesRefusal = "reservation-outlives-refusal",
    /// A number that was reserved on one ring is used on the next: frames of the old plan are taken for those of the new.
    ReservationOutlivesRing = "reservation-outlives-ring",
    /// A collective commences under a reserved number after a newer one: nobody takes its frames.
    ReservationOutlivesAnother = "reservation-outlives-another",
    /// What was begun ahead counts whatever number commences: nobody else runs it.
    AheadCountsForAnother = "ahead-counts-for-another",
    /// A failure of what was begun ahead is voted on at once: the master knows of nothing that could be aborted.
    FailureAheadVotedAtOnce = "failure-ahead-voted-at-once",
    /// Who has voted ahead votes again when the execution commences: it is evicted.
    VoteAheadCastTwice = "vote-ahead-cast-twice",
    /// Who gives up a call after it voted ahead votes that it was cancelled, if it commences all the same.
    VoteAheadForgotten = "vote-ahead-forgotten",
    /// The master does not note a vote that comes before its execution commences: all wait for it.
    VoteAheadIgnored = "vote-ahead-ignored",
    /// A vote that was cast ahead counts for whatever commences: this peer may not have its result.
    VoteAheadCountsForAnother = "vote-ahead-counts-for-another",
    /// What was begun ahead runs on when the call is refused: it writes to memory that is its user's again.
    AheadOutlivesRefusal = "ahead-outlives-refusal",

    // The journal.
    /// What a master says is sent before its record is on the disk: after a failure it does not know what peers were told.
    AnswerBeforeJournal = "answer-before-journal",
    /// A vote whose record says nothing to anybody is not replayed: its caster does not repeat it, and the others wait.
    VoteForgotten = "vote-forgotten",
    /// The epochs begin from the first again: another ring has the name of one that peers know.
    EpochReused = "epoch-reused",
    /// A vote that decided a collective is not replayed, what it led to was said: the collective is decided again.
    VerdictChanged = "verdict-changed",
    /// A hello that is replayed is that of another peer as well: the run has a member that nobody is.
    AdmittedTwice = "admitted-twice",
}
