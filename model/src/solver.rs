//! The ring solver of the master's driver, and searches that it goes on with.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pccl_core::master::MasterInput;
use pccl_core::topology::Ring;
use pccl_core::tour::{self, Solved, TourProblem};

use crate::claim::Claim;
use crate::run::Run;

impl Run<'_> {
    /// The solver answers the oldest question.
    pub(crate) fn solve(&mut self) {
        if self.state.tours.is_empty() {
            return;
        }
        let tour = self.state.tours.remove(0);
        let Ok(found) = catch_unwind(AssertUnwindSafe(|| tour::solve(&tour.problem))) else {
            self.state.breaks(Claim::NoPanic);
            return;
        };
        let found = match self.scenario.searches {
            true => found.map(|found| not_yet(&tour.problem, found)),
            false => found,
        };
        self.tell_master(MasterInput::TourSolved {
            round: tour.round,
            group: tour.group,
            found,
        });
    }

    /// A search that goes on has found the best ring.
    pub(crate) fn improve(&mut self) {
        if self.state.searches.is_empty() {
            return;
        }
        let tour = self.state.searches.remove(0);
        if let Some(found) = tour::solve(&tour.problem) {
            self.tell_master(MasterInput::TourImproved {
                round: tour.round,
                group: tour.group,
                found,
            });
        }
    }
}

/// An immediate answer that is not the best: the present order, if it is a ring.
fn not_yet(problem: &TourProblem, best: Solved) -> Solved {
    let present = Ring(problem.members.clone());
    let is_ring = present
        .edges()
        .all(|edge| problem.edges.contains_key(&edge));
    Solved {
        ring: if is_ring { present } else { best.ring },
        is_optimal: false,
        ..best
    }
}
