//! Nothing moves: since when, for whom the operation waits, and which link is to blame.

use std::task::Context;
use std::time::Duration;

use pccl_core::plan::{Algorithm, Pattern};

use super::port::{OperationPort, WaitedLink, Waits};
use super::stall::{Moves, StallCheck};
use super::{In, Receiving, Run, RunFailure};
use crate::pace::Share;
use crate::work::RankWork;

impl Run<'_, '_> {
    /// Nothing moves: for too long?
    pub(super) fn look(&mut self, cx: &mut Context<'_>) -> Result<(), RunFailure> {
        while self.stall.poll_look(cx).is_ready() {
            let moves = self.moves();
            let is_ahead = self.port.course.is_ahead();
            if let Some(lasts) = self.stall.lull(moves, is_ahead) {
                self.tell_waits(lasts);
            }
            if !self.stall.is_counted() {
                continue;
            }
            let leaving = self.outs.iter().map(|out| out.work.left_so_far());
            // The first that waits for what is not sent at once does so for twice the stall time.
            let ranks_before = || waits(self.port, &self.work, |_| true).saturating_sub(1);
            let mut check = self.stall.looked(moves, leaving, ranks_before);
            if self.stall.is_excused(&self.port.registry, is_ahead) {
                continue;
            }
            check.is_starved &= check.is_behind || !self.waits_behind_others();
            if check.quiet && self.work.set_share(Share::Whole) != Share::Whole {
                // Whoever has the share makes no use of it: perhaps its user has ceased to poll it.
                cx.waker().wake_by_ref();
            }
            let misled = check.is_still && self.ins.iter().any(|link| self.is_misled(link));
            if check.frame_stuck || check.is_starved || misled {
                return Err(self.stalled(check, misled));
            }
        }
        Ok(())
    }

    /// Says which links the operation waits for.
    fn tell_waits(&mut self, lasts: Duration) {
        let Some(tell) = self.tell_waits else {
            return;
        };
        let rank = self.port.place.map_or(0, |place| place.rank);
        let outs = (0..).zip(&self.outs);
        let outs = outs.filter(|(outlet, _)| self.work.waits_to_send(*outlet));
        let mut links: Vec<WaitedLink> = Vec::new();
        for (_, out) in outs {
            let link = WaitedLink {
                link: out.to.link.link(),
                edge: (rank, out.to.rank),
                step: None,
            };
            // There is an outlet for each lane.
            if links.last() != Some(&link) {
                links.push(link);
            }
        }
        links.extend(self.expected().map(|link| WaitedLink {
            link: link.from.link.link(),
            edge: (link.from.rank, rank),
            step: self.work.step_from(link.from.rank),
        }));
        tell(&Waits { lasts, links });
    }

    /// Whether whatever is missing may be missing because of any other rank, in rounds, in two levels, behind the root of
    /// a broadcast or in a relay: somebody else knows which, and speaks first.
    fn waits_behind_others(&self) -> bool {
        match self.port.algorithm() {
            Algorithm::Ring | Algorithm::Direct => false,
            Algorithm::Whole(Pattern::Ring | Pattern::Mesh) => false,
            Algorithm::Chain
            | Algorithm::Whole(Pattern::Circulant)
            | Algorithm::Circulant
            | Algorithm::TwoLevel
            | Algorithm::TwoLevelRing
            | Algorithm::TwoLevelWhole
            | Algorithm::Relay
            | Algorithm::Tree => {
                let lacks = |link: &In<'_>| self.work.lacks_contribution_of(link.from.rank);
                !self.ins.iter().any(lacks)
            }
        }
    }

    /// How often bytes have moved on the links that are waited for.
    fn moves(&self) -> Moves {
        let waited_for = (0..).zip(&self.outs);
        let waited_for = waited_for.filter(|(outlet, _)| self.work.waits_to_send(*outlet));
        let sent = waited_for.map(|(_, out)| out.to.link.moves());
        let expected = self.expected();
        let received = expected.map(|link| link.from.link.moves());
        (
            sent.reduce(u64::wrapping_add),
            received.reduce(u64::wrapping_add),
        )
    }

    /// The links on which anything has to arrive.
    fn expected(&self) -> impl Iterator<Item = &In<'_>> {
        let ins = self.ins.iter();
        ins.filter(|link| self.work.expects_from(link.from.rank))
    }

    /// Whether what comes from a rank is not what it should send: frames have come, and none of this
    /// operation; or a lane waits for an operation that does not begin.
    fn is_misled(&self, link: &In<'_>) -> bool {
        let Receiving {
            link: state,
            strays,
            ..
        } = link.from;
        let nothing_but_strays = link.received == 0 && state.strays() > *strays;
        let registry = &self.port.registry;
        self.work.expects_from(link.from.rank)
            && (nothing_but_strays || registry.holds_lane_of(state))
    }

    /// Reports the links that were waited for.
    fn stalled(&self, check: StallCheck, misled: bool) -> RunFailure {
        tracing::debug!(seq = %self.port.seq, ?check, misled, "an operation stalled");
        for (outlet, out) in (0..).zip(&self.outs) {
            let is_starved = check.is_starved && self.work.waits_to_send(outlet);
            if is_starved || self.stall.is_stuck(usize::from(outlet)) {
                out.to.link.report();
            }
        }
        if check.is_starved || misled {
            let first = waits(self.port, &self.work, |_| true);
            for link in self.expected() {
                if self.is_to_blame(link, check.is_starved, first) {
                    link.from.link.report();
                }
            }
        }
        RunFailure::LaneLost
    }

    /// Of ranks that send what they have without waiting for others, those that have not are to blame. If all have, or
    /// there are none such, it may be every rank that owes something before which no more than `first` ranks wait.
    fn is_to_blame(&self, link: &In<'_>, is_starved: bool, first: u32) -> bool {
        let lacks = |link: &In<'_>| self.work.lacks_contribution_of(link.from.rank);
        let of_link = |rank| rank == link.from.rank;
        let is_first = || waits(self.port, &self.work, of_link) <= first;
        let may_be = || !self.ins.iter().any(lacks) && is_first();
        self.is_misled(link) || is_starved && (lacks(link) || may_be())
    }
}

/// Of what is missing from some ranks: how many ranks wait, one for the other, before the first of it can be sent.
fn waits(port: &OperationPort, work: &RankWork, is_of: impl Fn(u32) -> bool) -> u32 {
    let Some(plan) = port.plan() else {
        return 0;
    };
    let missing = work.missing().filter(|(_, rank)| is_of(*rank));
    let waits = missing.map(|(step, _)| step.map_or(0, |step| plan.waits(step)));
    waits.min().unwrap_or(0)
}
