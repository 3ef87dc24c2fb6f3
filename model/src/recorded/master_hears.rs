//! What a sound environment gives a master: connections, words of peers, timers, answers of the solver.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{ConnId, GroupId, PeerId, Round};
use pccl_core::master::{Master, MasterInput, MasterOutput, MasterTimer};
use pccl_core::messages::Misdeed;
use pccl_core::tour::{self, Solved, TourProblem};

use super::log::Logged;
use super::rule::{Finding, Rule, Unsound, holds};
use super::timers::Timers;

/// Judges every input of a master's log.
pub(super) fn judge(log: &Logged<Master>, found: &mut Vec<Finding>) {
    let mut around = Surroundings {
        timers: Timers::new(MasterTimer::HeartbeatDue),
        connections: BTreeSet::new(),
        peers: BTreeMap::new(),
        questions: Vec::new(),
        answered: Vec::new(),
        stopped: false,
    };
    for (at, record) in log.records.iter().enumerate() {
        if let Err((rule, what)) = around.gives(&record.input) {
            found.push(Finding {
                log: log.name.clone(),
                record: Some(at + 1),
                rule,
                what,
            });
        }
        for output in &record.outputs {
            around.is_told(output);
        }
    }
}

/// What the environment of a master knows.
struct Surroundings {
    timers: Timers<MasterTimer>,
    connections: BTreeSet<ConnId>,
    /// Who was registered, and whether its connection is open.
    peers: BTreeMap<PeerId, bool>,
    questions: Vec<(Round, GroupId, TourProblem)>,
    /// The last question about each group that was answered.
    answered: Vec<(Round, GroupId, TourProblem)>,
    stopped: bool,
}

impl Surroundings {
    fn gives(&mut self, input: &MasterInput) -> Result<(), Unsound> {
        self.is_still_there(input)?;
        match input {
            MasterInput::Connected { conn, .. } => {
                holds(self.connections.insert(*conn), Rule::Newcomers, || {
                    format!("{conn} says hello again")
                })
            }
            MasterInput::Message { peer, message } => {
                let is_open = self.peers.get(peer) == Some(&true);
                holds(is_open, Rule::Speakers, || {
                    let whose = match self.peers.get(peer) {
                        Some(_) => "whose connection has ended",
                        None => "who was never registered",
                    };
                    format!("{peer}, {whose}, says {message:?}")
                })
            }
            MasterInput::Misbehaved { peer, misdeed } => self.accuses(*peer, misdeed),
            MasterInput::Disconnected { peer } => self.ends(*peer),
            MasterInput::TimerFired(timer) => self.timers.fires(*timer).judged(timer),
            MasterInput::TourSolved {
                round,
                group,
                found,
            } => self.solves((*round, *group), found.as_ref()),
            MasterInput::TourImproved {
                round,
                group,
                found,
            } => self.improves((*round, *group), found),
            MasterInput::Stop => Ok(()),
        }
    }

    /// What follows from taking leave may come after it, and nothing else.
    fn is_still_there(&self, input: &MasterInput) -> Result<(), Unsound> {
        let follows = match input {
            MasterInput::Misbehaved { .. } | MasterInput::Disconnected { .. } => true,
            MasterInput::Connected { .. }
            | MasterInput::Message { .. }
            | MasterInput::TimerFired(_)
            | MasterInput::TourSolved { .. }
            | MasterInput::TourImproved { .. }
            | MasterInput::Stop => false,
        };
        holds(follows || !self.stopped, Rule::OverIsOver, || {
            format!("it was stopped, and then: {input:?}")
        })
    }

    fn accuses(&mut self, peer: PeerId, misdeed: &Misdeed) -> Result<(), Unsound> {
        let may_be = matches!(misdeed, Misdeed::Malformed | Misdeed::SlowReader);
        holds(may_be, Rule::Misdeeds, || {
            format!("the driver says of {peer}: {misdeed}")
        })?;
        if *misdeed == Misdeed::Malformed {
            return self.ends(peer);
        }
        holds(self.peers.contains_key(&peer), Rule::Speakers, || {
            format!("{peer}, who was never registered, does not read")
        })
    }

    /// Nothing more is heard of it. A driver may say so twice: when it reads, and when it writes.
    fn ends(&mut self, peer: PeerId) -> Result<(), Unsound> {
        match self.peers.get_mut(&peer) {
            Some(is_open) => {
                *is_open = false;
                Ok(())
            }
            None => {
                let what = format!("the connection of {peer} ends, who was never registered");
                Err((Rule::Speakers, what))
            }
        }
    }

    fn solves(
        &mut self,
        (round, group): (Round, GroupId),
        found: Option<&Solved>,
    ) -> Result<(), Unsound> {
        let mut questions = self.questions.iter();
        let asked = questions.position(|(r, g, _)| (*r, *g) == (round, group));
        let Some(asked) = asked else {
            let what = format!("an answer about {group} in {round}, which nobody asked for");
            return Err((Rule::Solver, what));
        };
        let question = self.questions.remove(asked);
        let problem = question.2.clone();
        self.answered.retain(|(_, of, _)| *of != group);
        self.answered.push(question);
        holds(
            tour::solve(&problem).as_ref() == found,
            Rule::Solver,
            || format!("another ring for {group} in {round} than the solver finds"),
        )
    }

    /// A search that goes on finds a ring of all members, of edges that were measured. It may have been ended
    /// meanwhile.
    fn improves(&self, (round, group): (Round, GroupId), found: &Solved) -> Result<(), Unsound> {
        let is_it = |(r, g, _): &&(Round, GroupId, TourProblem)| (*r, *g) == (round, group);
        let asked = self.answered.iter().find(is_it);
        let is_ring = asked.is_some_and(|(_, _, problem)| {
            let members: BTreeSet<PeerId> = problem.members.iter().copied().collect();
            let on_ring: BTreeSet<PeerId> = found.ring.0.iter().copied().collect();
            let mut edges = found.ring.edges();
            let is_usable = |edge: (PeerId, PeerId)| {
                let estimated = problem.estimated_but.as_ref();
                let is_estimated = estimated.is_some_and(|but| !but.contains(&edge));
                problem.edges.contains_key(&edge) || is_estimated
            };
            members == on_ring && edges.all(is_usable)
        });
        holds(is_ring, Rule::Solver, || {
            format!("a ring for {group} in {round} that no search can find")
        })
    }

    /// The master wants something done.
    fn is_told(&mut self, output: &MasterOutput) {
        match output {
            MasterOutput::Register { peer, .. } => {
                self.peers.insert(*peer, true);
            }
            MasterOutput::StartTimer { timer, after } => self.timers.start(*timer, *after),
            MasterOutput::StopTimer(timer) => self.timers.stop(*timer),
            MasterOutput::SolveTour {
                round,
                group,
                problem,
            } => self.questions.push((*round, *group, problem.clone())),
            MasterOutput::Stopped => self.stopped = true,
            MasterOutput::Refuse { .. }
            | MasterOutput::SearchTour { .. }
            | MasterOutput::EndSearch { .. }
            | MasterOutput::Send { .. }
            | MasterOutput::Close { .. }
            | MasterOutput::Moved { .. }
            | MasterOutput::Lost { .. }
            | MasterOutput::Inconsistent { .. } => {}
        }
    }
}
