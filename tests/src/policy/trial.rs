//! One situation: what happens in it, what is expected, and what came of it.

use std::collections::BTreeSet;

use super::network::SeatNo;
use super::seat::{Exit, Seat};
use super::time::{MINUTE, Micros, SECOND};
use super::world::World;

/// So many events at most: a run that takes more is going round in circles.
const WORK_MAX: u64 = 6_000_000;

/// How long it is watched after it went on.
const AFTERMATH: Micros = 30 * SECOND;

/// A further check of a run that is over: what is wrong, if anything.
pub type Check = Box<dyn Fn(&World) -> Option<String>>;

/// A situation, staged.
pub struct Trial {
    /// The run, with everything planned that will happen to it.
    pub world: World,
    /// When things go wrong: commits that begin later count.
    pub fault: Micros,
    /// Those that are expected to go on together; the rest may be lost.
    pub healthy: BTreeSet<SeatNo>,
    /// Those that have to be lost.
    pub must_go: BTreeSet<SeatNo>,
    /// Those that have to become part of the run, or to be lost: nobody waits at the door for ever.
    pub must_be_told: BTreeSet<SeatNo>,
    /// How many of the healthy ones may be lost: where no ring with all exists.
    pub may_lose: usize,
    /// How long the run may take until it goes on.
    pub within: Micros,
    /// How long it is watched.
    pub patience: Micros,
    /// Further checks.
    pub checks: Vec<Check>,
}

impl std::fmt::Debug for Trial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trial")
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}

/// What came of a situation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How long until all that were left of the healthy ones had committed together.
    pub goes_on: Option<Micros>,
    /// How long it was watched after the fault.
    pub watched: Micros,
    /// It was given up because it ran in circles.
    pub in_circles: bool,
    /// Healthy ones that were lost.
    pub healthy_lost: usize,
    /// Others that were lost.
    pub faulty_lost: usize,
    /// Attempts to connect rings since the fault.
    pub rings: usize,
    /// Calls that failed since the fault, of the peer with most of them.
    pub failed_calls: usize,
    /// What is not as expected.
    pub wrong: Vec<String>,
}

impl Trial {
    /// All are healthy, nobody may be lost, and nothing goes wrong at this instant yet.
    #[must_use]
    pub fn of(world: World, fault: Micros) -> Self {
        let healthy = world.everybody().map(Seat::no).collect();
        Self {
            world,
            fault,
            healthy,
            must_go: BTreeSet::new(),
            must_be_told: BTreeSet::new(),
            may_lose: 0,
            within: MINUTE,
            patience: 30 * MINUTE,
            checks: Vec::new(),
        }
    }

    /// The same, where these are not healthy.
    #[must_use]
    pub fn with_faulty(mut self, faulty: impl IntoIterator<Item = SeatNo>) -> Self {
        for seat in faulty {
            self.healthy.remove(&seat);
        }
        self
    }

    /// The same, where these are not healthy and have to go.
    #[must_use]
    pub fn without(mut self, faulty: impl IntoIterator<Item = SeatNo>) -> Self {
        self.must_go = faulty.into_iter().collect();
        let gone = self.must_go.clone();
        self.with_faulty(gone)
    }

    /// The same, where these are not healthy, and have to become part of the run or to be lost.
    #[must_use]
    pub fn telling(mut self, faulty: impl IntoIterator<Item = SeatNo>) -> Self {
        self.must_be_told = faulty.into_iter().collect();
        let told = self.must_be_told.clone();
        self.with_faulty(told)
    }

    /// The same, with this time to go on.
    #[must_use]
    pub fn within(mut self, within: Micros) -> Self {
        self.within = within;
        self
    }

    /// The same, watched for so long after the fault.
    #[must_use]
    pub fn watched(mut self, patience: Micros) -> Self {
        self.patience = patience;
        self
    }

    /// The same, where so many healthy ones may be lost.
    #[must_use]
    pub fn losing(mut self, may_lose: usize) -> Self {
        self.may_lose = may_lose;
        self
    }

    /// The same, with a further check.
    #[must_use]
    pub fn checked(mut self, check: impl Fn(&World) -> Option<String> + 'static) -> Self {
        self.checks.push(Box::new(check));
        self
    }

    /// Lets it happen.
    #[must_use]
    pub fn run(mut self) -> Outcome {
        let end = self.fault + self.patience;
        let mut until = end;
        let mut goes_on = None;
        let mut seen = 0;
        while self.world.work() < WORK_MAX && self.world.step(until) {
            let told = self.world.log.told();
            if goes_on.is_none() && told != seen {
                seen = told;
                goes_on = self.goes_on();
                if goes_on.is_some() {
                    until = end.min(self.world.now() + AFTERMATH);
                }
            }
        }
        let in_circles = self.world.work() >= WORK_MAX;
        self.outcome(goes_on, in_circles)
    }

    /// A commit of all that are left, where those that have to go are gone, and nobody waits at the door that
    /// has to be told.
    fn goes_on(&self) -> Option<Micros> {
        let out = |seat: &&SeatNo| self.world.look(**seat).is_out();
        let is_told = |seat: &&SeatNo| out(seat) || self.has_joined(**seat);
        if !self.must_go.iter().all(|seat| out(&seat))
            || !self.must_be_told.iter().all(|seat| is_told(&seat))
        {
            return None;
        }
        let left: BTreeSet<SeatNo> = self.healthy.iter().filter(|s| !out(s)).copied().collect();
        let commits = self.world.log.commits.values();
        let groups: BTreeSet<u32> = left.iter().map(|s| self.world.look(*s).group()).collect();
        let recent: Vec<_> = commits
            .filter(|commit| commit.begun >= self.fault)
            .collect();
        let of_group = |group: u32| {
            let members = left
                .iter()
                .filter(|s| self.world.look(**s).group() == group);
            let members: BTreeSet<SeatNo> = members.copied().collect();
            recent.iter().any(|commit| members.is_subset(&commit.by))
        };
        let all = !left.is_empty() && groups.into_iter().all(of_group);
        all.then(|| self.world.now().saturating_sub(self.fault))
    }

    fn has_joined(&self, seat: SeatNo) -> bool {
        self.world.look(seat).record().joined.is_some()
    }

    fn outcome(&self, goes_on: Option<Micros>, in_circles: bool) -> Outcome {
        let lost = |healthy: bool| {
            let all = self.world.everybody().filter(|seat| seat.is_lost());
            all.filter(|seat| self.healthy.contains(&seat.no()) == healthy)
                .count()
        };
        let since = |times: &[Micros]| times.iter().filter(|at| **at >= self.fault).count();
        let failed = self
            .world
            .everybody()
            .map(|seat| since(&seat.record().failed));
        let mut outcome = Outcome {
            goes_on,
            watched: self.world.now().saturating_sub(self.fault),
            in_circles,
            healthy_lost: lost(true),
            faulty_lost: lost(false),
            rings: self.world.log.rings_since(self.fault),
            failed_calls: failed.max().unwrap_or(0),
            wrong: Vec::new(),
        };
        outcome.wrong = self.what_is_wrong(&outcome);
        outcome
    }

    fn what_is_wrong(&self, outcome: &Outcome) -> Vec<String> {
        let mut wrong = Vec::new();
        if outcome.goes_on.is_none_or(|time| time > self.within) {
            wrong.push("goes on too late".to_owned());
        }
        if outcome.healthy_lost > self.may_lose {
            wrong.push(format!("healthy lost: {}", self.reasons()));
        }
        let stay = self
            .must_go
            .iter()
            .filter(|seat| !self.world.look(**seat).is_out());
        let stay = stay.count();
        if stay > 0 {
            wrong.push(format!("{stay} stay that cannot work"));
        }
        wrong.extend(self.world.log.contradictions.first().cloned());
        wrong.extend(self.checks.iter().filter_map(|check| check(&self.world)));
        wrong
    }

    /// Why healthy ones were lost, each reason once.
    fn reasons(&self) -> String {
        let healthy = self.healthy.iter().map(|seat| self.world.look(*seat));
        let reasons: BTreeSet<&str> = healthy
            .filter_map(|seat| match &seat.record().ended {
                Some((_, Exit::Lost(why))) => Some(why.as_str()),
                Some((_, Exit::Left | Exit::Killed)) | None => None,
            })
            .collect();
        let reasons: Vec<&str> = reasons.into_iter().take(2).collect();
        reasons.join(" / ")
    }
}
