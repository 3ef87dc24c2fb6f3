//! Interesting things that happen: each guards a claim that would be empty without it.

/// An interesting thing that happens. Each guards a property that would be empty without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Milestone {
    /// A collective was committed.
    Committed,
    /// A collective was committed although a contributor was gone.
    CommittedWithoutOne,
    /// A collective was committed whose buffers travelled whole.
    TravelledWhole,
    /// A collective was committed for which each sent to each.
    WentDirectly,
    /// A collective was committed that went in rounds.
    WentInRounds,
    /// A collective was committed that went in two levels.
    WentInLevels,
    /// A collective was committed that went around a ring of sites.
    WentFromSiteToSite,
    /// A collective was committed of which all sums were at all sites.
    SummedAtAllSites,
    /// A collective was committed around a ring although its group was to have a mesh.
    RingAlone,
    /// A collective was aborted.
    Aborted,
    /// A collective was aborted at a peer that had the whole result already.
    RestoredWhole,
    /// An aborted collective was committed in a later attempt.
    Recovered,
    /// Two collectives of a group ran at the same time.
    TwoTagsAtOnce,
    /// A newcomer was admitted by the others.
    Admitted,
    /// A peer found the run empty and was admitted at once.
    AdmittedAlone,
    /// A ring was rebuilt without newcomers.
    Rewired,
    /// An attempt to connect a ring was given up and made again.
    WiredAgain,
    /// A synchronization in which content moved succeeded.
    ContentMoved,
    /// A synchronization in which nothing had to move succeeded.
    ContentKept,
    /// A synchronization failed.
    SyncFailed,
    /// A revision of a group advanced.
    RevisionAdvanced,
    /// Another ring was adopted because it is better.
    Optimized,
    /// An optimization was given up.
    OptimizationFailed,
    /// Edges of a large group were measured because a ring wants them.
    EdgesWanted,
    /// A call gave way to another peer's.
    GaveWay,
    /// Somebody who asked was told that peers are pending.
    ToldPending,
    /// Somebody who asked was told that nobody is pending.
    ToldNobodyPending,
    /// A peer lost the master while a collective of its was undecided.
    LostMasterUndecided,
    /// A peer was noticed by its silence alone.
    NoticedBySilence,
    /// A peer was thrown out for what befell it: a deadline, or edges that cannot be connected.
    ThrownOut,
    /// A send-only peer served its content.
    SenderServed,
    /// A receive-only peer was given content.
    ReceiverTook,
    /// A peer fetched from several holders at once.
    TookFromSeveral,
    /// A user left on purpose at the end of its program.
    LeftAtTheEnd,
    /// A collective waited until fewer were in flight.
    WaitedForItsTurn,
    /// A call waited for one that was given up.
    WaitedForGivenUp,
    /// A call that was given up answered the next one.
    AnsweredTheNext,
    /// A synchronization was given up while its state moved.
    GivenUpInTransfer,
    /// A peer keeps its lanes although others were connected since.
    KeptBesideFresh,
    /// A newcomer is admitted while a peer waits in another call, which goes on.
    Consented,
    /// Who holds up what others have done is ended.
    Stalled,
    /// A newcomer that waits in another call than all others is set aside.
    SetAside,
    /// A ring is connected in which a pair that failed is kept apart.
    RoutedAround,
    /// A peer of one group is lost while another group is at work.
    LostBeside,
    /// A peer fetches one of two entries.
    PartMoved,
    /// A group goes back to an older revision.
    Restarted,
    /// A peer that has other entries than the rest is sent away.
    Mismatched,
    /// A ring was adopted that was found while nobody waited.
    BetterAdopted,
    /// A broadcast does not start because its root has gone.
    RootGone,
    /// Shards are laid out anew because the group has changed.
    LaidOutAnew,
    /// Peers want to gather more elements than they allow.
    TooLong,
    /// A master went on from its journal.
    CameBack,
    /// A message is heard again because its record was lost.
    HeardAgain,
    /// A peer began a collective ahead.
    BegunAhead,
    /// What a peer had begun ahead is what commenced.
    AheadConfirmed,
    /// What a peer had begun ahead was in vain.
    BegunInVain,
    /// A peer voted on the outcome of what it had begun ahead before it commenced.
    VotedAhead,
    /// A caller asked for its vote to start back, and got it.
    AskedBack,
}

/// All milestones.
pub const MILESTONES: &[Milestone] = &[
    Milestone::Committed,
    Milestone::CommittedWithoutOne,
    Milestone::TravelledWhole,
    Milestone::WentDirectly,
    Milestone::WentInRounds,
    Milestone::WentInLevels,
    Milestone::WentFromSiteToSite,
    Milestone::SummedAtAllSites,
    Milestone::RingAlone,
    Milestone::Aborted,
    Milestone::RestoredWhole,
    Milestone::Recovered,
    Milestone::TwoTagsAtOnce,
    Milestone::Admitted,
    Milestone::AdmittedAlone,
    Milestone::Rewired,
    Milestone::WiredAgain,
    Milestone::ContentMoved,
    Milestone::ContentKept,
    Milestone::SyncFailed,
    Milestone::RevisionAdvanced,
    Milestone::Optimized,
    Milestone::OptimizationFailed,
    Milestone::EdgesWanted,
    Milestone::GaveWay,
    Milestone::ToldPending,
    Milestone::ToldNobodyPending,
    Milestone::LostMasterUndecided,
    Milestone::NoticedBySilence,
    Milestone::ThrownOut,
    Milestone::SenderServed,
    Milestone::ReceiverTook,
    Milestone::TookFromSeveral,
    Milestone::LeftAtTheEnd,
    Milestone::WaitedForItsTurn,
    Milestone::WaitedForGivenUp,
    Milestone::AnsweredTheNext,
    Milestone::GivenUpInTransfer,
    Milestone::KeptBesideFresh,
    Milestone::Consented,
    Milestone::Stalled,
    Milestone::SetAside,
    Milestone::RoutedAround,
    Milestone::LostBeside,
    Milestone::PartMoved,
    Milestone::Restarted,
    Milestone::Mismatched,
    Milestone::BetterAdopted,
    Milestone::RootGone,
    Milestone::LaidOutAnew,
    Milestone::TooLong,
    Milestone::CameBack,
    Milestone::HeardAgain,
    Milestone::BegunAhead,
    Milestone::AheadConfirmed,
    Milestone::BegunInVain,
    Milestone::VotedAhead,
    Milestone::AskedBack,
];

impl Milestone {
    /// The milestone as a sentence.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Committed => "a collective is committed",
            Self::CommittedWithoutOne => "a collective is committed although a contributor is gone",
            Self::TravelledWhole => "a collective whose buffers travel whole is committed",
            Self::WentDirectly => "a collective for which each sends to each is committed",
            Self::WentInRounds => "a collective that goes in rounds is committed",
            Self::WentInLevels => "a collective that goes in two levels is committed",
            Self::WentFromSiteToSite => {
                "a collective that goes around a ring of sites is committed"
            }
            Self::SummedAtAllSites => "a collective with all sums at all sites is committed",
            Self::RingAlone => "a collective is committed around a ring where a mesh was wanted",
            Self::Aborted => "a collective is aborted",
            Self::RestoredWhole => "a peer restores a result that was whole",
            Self::Recovered => "a collective is committed after it was aborted",
            Self::TwoTagsAtOnce => "two collectives of a group run at the same time",
            Self::Admitted => "a newcomer is admitted by the others",
            Self::AdmittedAlone => "a peer finds the run empty and is admitted at once",
            Self::Rewired => "a ring is rebuilt without newcomers",
            Self::WiredAgain => "a ring is connected after an attempt failed",
            Self::ContentMoved => "a synchronization moves content",
            Self::ContentKept => "a synchronization finds nothing to move",
            Self::SyncFailed => "a synchronization fails",
            Self::RevisionAdvanced => "a revision advances",
            Self::Optimized => "a topology is optimized",
            Self::OptimizationFailed => "an optimization fails",
            Self::EdgesWanted => "edges are measured because a ring wants them",
            Self::GaveWay => "a call gives way to another peer's",
            Self::ToldPending => "a peer is told that others are pending",
            Self::ToldNobodyPending => "a peer is told that nobody is pending",
            Self::LostMasterUndecided => "a peer loses the master while a collective is undecided",
            Self::NoticedBySilence => "a peer is noticed by its silence alone",
            Self::ThrownOut => "a peer is thrown out for what befell it",
            Self::SenderServed => "a send-only peer serves its content",
            Self::ReceiverTook => "a receive-only peer is given content",
            Self::TookFromSeveral => "a peer fetches from several holders at once",
            Self::LeftAtTheEnd => "a user leaves at the end of its program",
            Self::WaitedForItsTurn => "a collective waits until fewer are in flight",
            Self::WaitedForGivenUp => "a call waits for one that was given up",
            Self::AnsweredTheNext => "a call that was given up answers the next one",
            Self::GivenUpInTransfer => "a synchronization is given up while its state moves",
            Self::KeptBesideFresh => "a peer keeps its lanes although others were connected since",
            Self::Consented => "a newcomer is admitted while a peer waits in another call",
            Self::Stalled => "a peer that holds others up is ended",
            Self::SetAside => "a newcomer is set aside until the next update",
            Self::RoutedAround => "a ring is tried that keeps a pair apart that failed",
            Self::LostBeside => "a peer of one group is lost while another group is at work",
            Self::PartMoved => "a peer fetches one of two entries",
            Self::Restarted => "a group goes back to an older revision",
            Self::Mismatched => "a peer that has other entries than the rest is sent away",
            Self::BetterAdopted => "an update adopts a ring that was found while nobody waited",
            Self::LaidOutAnew => "shards are laid out anew because the group has changed",
            Self::TooLong => {
                "a collective does not start because it has more elements than allowed"
            }
            Self::CameBack => "a master goes on from its journal",
            Self::HeardAgain => "a message is heard again because its record was lost",
            Self::BegunAhead => "a peer begins a collective ahead",
            Self::AheadConfirmed => "what a peer has begun ahead is what commences",
            Self::BegunInVain => "what a peer has begun ahead is in vain",
            Self::VotedAhead => "a peer votes on an outcome before the collective commences",
            Self::AskedBack => "a caller gets its vote to start back",
            Self::RootGone => "a broadcast does not start because its root has gone",
        }
    }
}
