//! What must always hold, as sentences.

use crate::milestone::Milestone;

/// A property of every reachable state. A state in which one is broken remembers which, and has no
/// successors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Claim {
    Agreement,
    Unanimity,
    ExactlyOnce,
    SameOrder,
    Restoration,
    Exclusivity,
    OneView,
    Orders,
    Named,
    Neighbours,
    Admission,
    SharedState,
    Election,
    Sources,
    Revision,
    NoStall,
    NoPanic,
    NoVerdictInvented,
    WithinTheTable,
    Innocence,
    Reasons,
    Rewiring,
    Avoidance,
    Persistence,
    Trust,
    AnsweredOnce,
    RetriesExplained,
    InStep,
    Timers,
    Watched,
    SignsOfLife,
    Unmoved,
    Bounded,
    Apart,
    Ballots,
    Epochs,
    Precedence,
    Patience,
    Truth,
    Meeting,
    Tickets,
    Fetched,
    Failures,
    GivenUp,
    Measured,
    Rotations,
    Frames,
    Turns,
    Resumption,
}

/// All claims.
pub const CLAIMS: &[Claim] = &[
    Claim::Agreement,
    Claim::Unanimity,
    Claim::ExactlyOnce,
    Claim::SameOrder,
    Claim::Restoration,
    Claim::Exclusivity,
    Claim::OneView,
    Claim::Orders,
    Claim::Named,
    Claim::Neighbours,
    Claim::Admission,
    Claim::SharedState,
    Claim::Election,
    Claim::Sources,
    Claim::Revision,
    Claim::NoStall,
    Claim::NoPanic,
    Claim::NoVerdictInvented,
    Claim::WithinTheTable,
    Claim::Innocence,
    Claim::Reasons,
    Claim::Rewiring,
    Claim::Avoidance,
    Claim::Persistence,
    Claim::Trust,
    Claim::AnsweredOnce,
    Claim::RetriesExplained,
    Claim::InStep,
    Claim::Timers,
    Claim::Watched,
    Claim::SignsOfLife,
    Claim::Unmoved,
    Claim::Bounded,
    Claim::Apart,
    Claim::Ballots,
    Claim::Epochs,
    Claim::Precedence,
    Claim::Patience,
    Claim::Truth,
    Claim::Meeting,
    Claim::Tickets,
    Claim::Fetched,
    Claim::Failures,
    Claim::GivenUp,
    Claim::Measured,
    Claim::Rotations,
    Claim::Frames,
    Claim::Turns,
    Claim::Resumption,
];

impl Claim {
    /// The claim as a sentence.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Agreement => "every participant of a collective is told the same verdict",
            Self::Unanimity => {
                "a collective is committed exactly when every participant has voted that it is whole"
            }
            Self::ExactlyOnce => {
                "a committed collective holds every contributor's part exactly once"
            }
            Self::SameOrder => {
                "all participants of a committed collective have added its contributions in one order"
            }
            Self::Restoration => {
                "a collective that failed is stopped at a peer before its buffer goes back to the user"
            }
            Self::Exclusivity => {
                "a group never does two major operations at once, nor touches a ring in use"
            }
            Self::OneView => {
                "an epoch has one ring per group, all of its members are on it, and every edge has its lanes"
            }
            Self::Orders => "an order leaves nothing to decide: the lanes that it names are there",
            Self::Named => "who reports a lost lane says which edge it was of",
            Self::Neighbours => "nobody is a neighbour whose key the master did not name",
            Self::Admission => {
                "nobody is accepted without the vote or the consent of every accepted peer"
            }
            Self::SharedState => {
                "a successful synchronization leaves the group with one revision and one content"
            }
            Self::Election => {
                "the most popular current content wins, and a tie goes to the longest in the run"
            }
            Self::Sources => {
                "a send-only peer is never overwritten, and a receive-only peer never serves"
            }
            Self::Revision => {
                "a group's revision grows by one per advance and never goes back, unless all agree to restart"
            }
            Self::NoStall => "while the master lives and messages flow, every pending call ends",
            Self::NoPanic => "no input panics",
            Self::NoVerdictInvented => {
                "a peer claims a verdict only when the master has told it, and none when it lost the master"
            }
            Self::WithinTheTable => "the master never wants what its table of transitions forbids",
            Self::Innocence => {
                "who is thrown out or refused was hit by a fault, in the way that the reason says, and had to go"
            }
            Self::Reasons => {
                "who is told why something came to nothing is told the true cause, and whom it befell"
            }
            Self::Rewiring => {
                "lanes are opened for another ring or a broken edge only, and what was reported broken is not kept"
            }
            Self::Avoidance => {
                "pairs that failed are kept apart while there are others, and else try in both directions"
            }
            Self::Persistence => {
                "no more attempts are made than losses, failures and newcomers explain: then somebody goes"
            }
            Self::Trust => "no peer takes an honest master for a broken one",
            Self::AnsweredOnce => "every call is answered once, by an answer of its kind",
            Self::RetriesExplained => {
                "nobody retries more often than losses, newcomers and other peers' calls explain"
            }
            Self::InStep => {
                "where nothing goes wrong, users of one loop never get in each other's way"
            }
            Self::Timers => {
                "the timers that run are those that were started and not stopped, for as long as they should, and who goes on, and nobody else, has all its time again"
            }
            Self::Watched => {
                "whoever others wait for has a deadline that ends the wait, and nobody else has one"
            }
            Self::SignsOfLife => {
                "whoever says anything is not silent, and nobody else is taken for alive; signs of life go to everybody and do not end"
            }
            Self::Unmoved => {
                "a timer that was stopped and an answer that nobody waits for any more change nothing"
            }
            Self::Bounded => "no queue of messages to a peer grows beyond its bound",
            Self::Apart => {
                "what concerns one group changes nothing in another and is not told there"
            }
            Self::Ballots => {
                "a ballot that lacks nobody's vote is over, whatever other groups do, and a resting peer is told at its next update which ring it was given"
            }
            Self::Epochs => {
                "peers that are told of one epoch are told of one world, whatever their group"
            }
            Self::Precedence => {
                "of two calls that exclude each other the lower one gives way, and is told of the other and of its caller"
            }
            Self::Patience => {
                "an update passes over a call eight times at most, and a synchronization over a reduce twice"
            }
            Self::Truth => {
                "who asks whether anybody waits is told the truth, or what leads it to where the others wait"
            }
            Self::Meeting => {
                "both ends of an edge are told of as many lanes as both can, and one of them where the other is"
            }
            Self::Tickets => {
                "a ticket is told to the two ends of one edge, and is good for one round and one direction"
            }
            Self::Fetched => {
                "who synchronizes fetches what differs and nothing else, each entry by its hash"
            }
            Self::Failures => {
                "no synchronization or optimization fails without a cause, and the cause that is named is true"
            }
            Self::GivenUp => "nothing runs or moves for a call that its user has given up",
            Self::Measured => "better rings are looked for by what was measured in their direction",
            Self::Rotations => {
                "no two probes share a peer but those of a whole ring, which come twice at most, and nothing is measured that is known or by who is too slow"
            }
            Self::Frames => {
                "the frames of an execution that is decided, or was given up before it began, are thrown away"
            }
            Self::Turns => {
                "collectives start in the order of their calls, and no more are in flight than may be"
            }
            Self::Resumption => {
                "a master that dies goes on from its journal, and every session with it: no message is lost, and none is heard twice"
            }
        }
    }

    /// The milestone in which the claim is put to the test: a claim about what never happens says
    /// nothing.
    #[must_use]
    pub const fn guard(self) -> Milestone {
        match self {
            Self::Agreement => Milestone::CommittedWithoutOne,
            Self::SameOrder => Milestone::TravelledWhole,
            Self::Unanimity | Self::ExactlyOnce | Self::NoPanic | Self::Bounded => {
                Milestone::Committed
            }
            Self::Restoration => Milestone::RestoredWhole,
            Self::Named => Milestone::Aborted,
            Self::Exclusivity => Milestone::TwoTagsAtOnce,
            Self::OneView | Self::Neighbours | Self::Admission | Self::InStep => {
                Milestone::Admitted
            }
            Self::SharedState | Self::Election => Milestone::ContentMoved,
            Self::Sources => Milestone::ReceiverTook,
            Self::Revision => Milestone::RevisionAdvanced,
            Self::NoStall | Self::RetriesExplained => Milestone::Recovered,
            Self::NoVerdictInvented => Milestone::LostMasterUndecided,
            Self::WithinTheTable => Milestone::WiredAgain,
            Self::Orders => Milestone::KeptBesideFresh,
            Self::Innocence | Self::Trust => Milestone::ThrownOut,
            Self::Reasons => Milestone::Aborted,
            Self::Rewiring => Milestone::Rewired,
            Self::Avoidance => Milestone::RoutedAround,
            Self::Persistence => Milestone::WiredAgain,
            Self::AnsweredOnce => Milestone::GaveWay,
            Self::Timers | Self::SignsOfLife => Milestone::NoticedBySilence,
            Self::Watched => Milestone::Stalled,
            Self::Unmoved => Milestone::OptimizationFailed,
            Self::Apart => Milestone::LostBeside,
            Self::Ballots | Self::Epochs | Self::Meeting | Self::Tickets => Milestone::Admitted,
            Self::Precedence => Milestone::GaveWay,
            Self::Patience => Milestone::SetAside,
            Self::Truth => Milestone::ToldPending,
            Self::Fetched => Milestone::PartMoved,
            Self::Failures => Milestone::SyncFailed,
            Self::GivenUp => Milestone::GivenUpInTransfer,
            Self::Measured | Self::Rotations => Milestone::Optimized,
            Self::Frames => Milestone::Committed,
            Self::Turns => Milestone::WaitedForItsTurn,
            Self::Resumption => Milestone::HeardAgain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::standard;

    #[test]
    fn every_claim_is_put_to_the_test_in_a_standard_scenario() {
        let scenarios = standard();

        for claim in CLAIMS {
            let tested = |milestones: &[Milestone]| milestones.contains(&claim.guard());
            assert!(
                scenarios.iter().any(|scenario| tested(scenario.milestones)),
                "nothing shows that `{}` is more than empty words",
                claim.sentence()
            );
        }
    }
}
