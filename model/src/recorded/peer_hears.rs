//! What a sound environment gives a peer: calls, words of the master, and what it was ordered to do.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{PeerId, Round, Seq};
use pccl_core::messages::ToMaster;
use pccl_core::peer::{AdoptedLanes, Peer, PeerInput, PeerOutput, PeerTimer};
use pccl_core::shared_state::{SyncPlan, SyncRole};
use pccl_core::topology::{LinkId, LinkOrder, Way};

use super::log::Logged;
use super::rule::{Finding, Rule, Unsound, holds};
use super::timers::Timers;
use crate::show::towards;

/// Judges every input of a peer's log.
pub(super) fn judge(log: &Logged<Peer>, found: &mut Vec<Finding>) {
    let mut around = Surroundings::new();
    let mut records = log.records.iter().enumerate().peekable();
    while let Some((at, record)) = records.next() {
        let next = records.peek().map(|(_, next)| &next.input);
        if let Err((rule, what)) = around.gives(&record.input, next) {
            found.push(Finding {
                log: log.name.clone(),
                record: Some(at + 1),
                rule,
                what,
            });
        }
        for output in &record.outputs {
            around.is_told(output, &record.input);
        }
    }
}

/// What the environment of a peer was told to do.
struct Surroundings {
    timers: Timers<PeerTimer>,
    said_hello: bool,
    closed: bool,
    /// The peer ended with one of the timers that are handed in together.
    closed_by_a_timer: bool,
    attempt: Option<Attempt>,
    /// Lanes that have been a link.
    adopted: BTreeSet<(LinkId, Round)>,
    /// Lanes that were reported as lost.
    lost: BTreeSet<(LinkId, Round)>,
    /// Executions that were ordered, and whether they have ended.
    executions: BTreeMap<Seq, bool>,
    plans: BTreeMap<Round, Plan>,
    probing: Option<Probing>,
    /// Bytes may move: there are lanes.
    has_lanes: bool,
}

/// The last order to connect links.
struct Attempt {
    round: Round,
    links: BTreeMap<LinkId, Ordered>,
}

#[derive(Clone, Copy)]
struct Ordered {
    dials: bool,
    /// What was reported: whether the link is up.
    report: Option<bool>,
}

struct Plan {
    ended: bool,
    with: Vec<PeerId>,
}

/// The last order to measure.
struct Probing {
    round: Round,
    /// Towards whom, and not measured yet.
    left: BTreeSet<PeerId>,
    ended: bool,
}

impl Ordered {
    fn of(order: &LinkOrder) -> Self {
        Self {
            dials: order.lanes.dial.is_some(),
            report: None,
        }
    }
}

impl Surroundings {
    fn new() -> Self {
        Self {
            timers: Timers::new(PeerTimer::HeartbeatDue),
            said_hello: false,
            closed: false,
            closed_by_a_timer: false,
            attempt: None,
            adopted: BTreeSet::new(),
            lost: BTreeSet::new(),
            executions: BTreeMap::new(),
            plans: BTreeMap::new(),
            probing: None,
            has_lanes: false,
        }
    }

    /// Whether such an input can be given here.
    fn gives(&mut self, input: &PeerInput, next: Option<&PeerInput>) -> Result<(), Unsound> {
        self.note_expiry(input);
        self.is_still_there(input)?;
        match input {
            PeerInput::Call { .. }
            | PeerInput::GiveUp { .. }
            | PeerInput::Withdraw { .. }
            | PeerInput::Leave
            | PeerInput::AskWhoIsAwaited
            | PeerInput::MasterDisconnected => Ok(()),
            PeerInput::Message(message) => holds(self.said_hello, Rule::HelloFirst, || {
                format!("it hears {message:?} before its hello")
            }),
            PeerInput::MasterMisbehaved => holds(self.said_hello, Rule::HelloFirst, || {
                "it hears what is no message before its hello".to_owned()
            }),
            PeerInput::LinkUp { round, link } => self.reports(*round, *link, true),
            PeerInput::LinkFailed { round, link, .. } => self.reports(*round, *link, false),
            PeerInput::LinkBroke { link, built } => self.loses(*link, *built),
            PeerInput::Moved => self.moved(next),
            PeerInput::PlanEnded { seq, .. } => self.ends_execution(*seq),
            PeerInput::TransfersEnded { round, ok, with } => {
                self.ends_transfers(*round, *ok, *with)
            }
            PeerInput::Measured { round, to, .. } => self.measures(*round, *to),
            PeerInput::ProbesEnded { round, .. } => self.ends_probes(*round),
            PeerInput::TimerFired(timer) => self.timers.fires(*timer).judged(timer),
        }
    }

    /// A driver takes out all timers that are due, and hands them in one after the other.
    fn note_expiry(&mut self, input: &PeerInput) {
        match input {
            PeerInput::TimerFired(_) | PeerInput::Moved => self.timers.begin_to_expire(),
            _ => {
                self.timers.end_to_expire();
                self.closed_by_a_timer = false;
            }
        }
    }

    fn is_still_there(&self, input: &PeerInput) -> Result<(), Unsound> {
        let may_come = match input {
            PeerInput::Call { .. }
            | PeerInput::GiveUp { .. }
            | PeerInput::Withdraw { .. }
            | PeerInput::Leave
            | PeerInput::PlanEnded { .. }
            | PeerInput::TransfersEnded { .. } => true,
            PeerInput::TimerFired(_) | PeerInput::Moved => !self.closed || self.closed_by_a_timer,
            PeerInput::Message(_)
            | PeerInput::AskWhoIsAwaited
            | PeerInput::MasterDisconnected
            | PeerInput::MasterMisbehaved
            | PeerInput::LinkUp { .. }
            | PeerInput::LinkFailed { .. }
            | PeerInput::LinkBroke { .. }
            | PeerInput::Measured { .. }
            | PeerInput::ProbesEnded { .. } => !self.closed,
        };
        holds(may_come, Rule::OverIsOver, || {
            format!("it is out of the run, and then: {input:?}")
        })
    }

    fn reports(&mut self, round: Round, link: LinkId, is_up: bool) -> Result<(), Unsound> {
        let said = |what: &str| format!("{} of {round} {what}", towards(link));
        let attempt = self.attempt.as_mut();
        let Some(attempt) = attempt.filter(|attempt| attempt.round == round) else {
            let what = said("is reported, which is not the round that was ordered last");
            return Err((Rule::Edges, what));
        };
        let Some(ordered) = attempt.links.get_mut(&link) else {
            return Err((Rule::Edges, said("is reported, which was not ordered")));
        };
        let is_first = ordered.report.replace(is_up).is_none();
        holds(is_first, Rule::Edges, || said("is reported again"))?;
        let dials = ordered.dials;
        holds(is_up || dials, Rule::Edges, || {
            said("has failed at the end that does not dial")
        })
    }

    fn loses(&mut self, link: LinkId, built: Round) -> Result<(), Unsound> {
        let key = (link, built);
        let waits = self.attempt.as_ref().is_some_and(|attempt| {
            let ordered = attempt.links.get(&link);
            attempt.round == built && ordered.is_some_and(|ordered| ordered.report == Some(true))
        });
        let is_known = waits || self.adopted.contains(&key);
        holds(is_known, Rule::Lanes, || {
            let link = towards(link);
            format!("a lane {link} built in {built} is lost, which was never adopted")
        })?;
        holds(self.lost.insert(key), Rule::Lanes, || {
            format!(
                "the lanes {} built in {built} are lost again",
                towards(link)
            )
        })
    }

    fn moved(&mut self, next: Option<&PeerInput>) -> Result<(), Unsound> {
        let beat = PeerInput::TimerFired(PeerTimer::HeartbeatDue);
        holds(next.is_none_or(|next| *next == beat), Rule::Moved, || {
            "bytes have moved, and no sign of life follows".to_owned()
        })?;
        holds(self.has_lanes, Rule::Moved, || {
            "bytes have moved, and there never was a lane".to_owned()
        })
    }

    fn ends_execution(&mut self, seq: Seq) -> Result<(), Unsound> {
        match self.executions.get_mut(&seq) {
            None => Err((
                Rule::Executions,
                format!("{seq} ends, which nobody ordered"),
            )),
            Some(ended) => holds(!std::mem::replace(ended, true), Rule::Executions, || {
                format!("{seq} ends again")
            }),
        }
    }

    fn ends_transfers(
        &mut self,
        round: Round,
        ok: bool,
        with: Option<PeerId>,
    ) -> Result<(), Unsound> {
        let Some(plan) = self.plans.get_mut(&round) else {
            let what = format!("the transfers of {round} end, which nobody ordered");
            return Err((Rule::Transfers, what));
        };
        let is_first = !std::mem::replace(&mut plan.ended, true);
        holds(is_first, Rule::Transfers, || {
            format!("the transfers of {round} end again")
        })?;
        let names_one = with.is_none_or(|with| !ok && plan.with.contains(&with));
        holds(names_one, Rule::Transfers, || {
            format!("the transfers of {round} end because of one that was not to be served")
        })
    }

    fn measures(&mut self, round: Round, to: PeerId) -> Result<(), Unsound> {
        let probing = self.probing.as_mut();
        let mut probing = probing.filter(|probing| probing.round == round && !probing.ended);
        let was_left = probing
            .as_mut()
            .is_some_and(|probing| probing.left.remove(&to));
        holds(was_left, Rule::Measurements, || {
            format!("a measurement towards {to} in {round}, which is not one that is open")
        })
    }

    fn ends_probes(&mut self, round: Round) -> Result<(), Unsound> {
        let probing = self.probing.as_mut();
        let probing = probing.filter(|probing| probing.round == round);
        let is_open = probing.is_some_and(|probing| !std::mem::replace(&mut probing.ended, true));
        holds(is_open, Rule::Measurements, || {
            format!("the measurements of {round} end, which are not open")
        })
    }

    /// The peer wants something done.
    fn is_told(&mut self, output: &PeerOutput, input: &PeerInput) {
        match output {
            PeerOutput::Send(ToMaster::Hello(_)) => self.said_hello = true,
            PeerOutput::Send(_) | PeerOutput::Answer { .. } => {}
            PeerOutput::Establish { round, links } => {
                let links = links.iter().map(|order| (order.link(), Ordered::of(order)));
                self.attempt = Some(Attempt {
                    round: *round,
                    links: links.collect(),
                });
            }
            PeerOutput::AdoptRing { links, .. } => {
                self.attempt = None;
                for adopted in links {
                    if let AdoptedLanes::Use(round) = adopted.lanes {
                        self.adopted.insert((adopted.link, round));
                        self.has_lanes = true;
                    }
                }
            }
            PeerOutput::RunPlan { seq, .. } => {
                self.executions.entry(*seq).or_insert(false);
            }
            PeerOutput::MoveState { plan, .. } => {
                self.has_lanes = true;
                self.plans.insert(plan.round, Plan::of(plan));
            }
            PeerOutput::Probe { round, probes } => {
                self.has_lanes = true;
                let outward = probes.iter().filter(|probe| probe.way == Way::Out);
                self.probing = Some(Probing {
                    round: *round,
                    left: outward.map(|probe| probe.lanes.with).collect(),
                    ended: false,
                });
            }
            PeerOutput::StopProbes { .. } => self.probing = None,
            PeerOutput::StartTimer { timer, after } => self.timers.start(*timer, *after),
            PeerOutput::StopTimer(timer) => self.timers.stop(*timer),
            PeerOutput::Close => {
                self.closed = true;
                self.closed_by_a_timer = matches!(input, PeerInput::TimerFired(_));
            }
            PeerOutput::StopPlan { .. }
            | PeerOutput::Confirm { .. }
            | PeerOutput::Awaited(_)
            | PeerOutput::CommitState { .. }
            | PeerOutput::DropState { .. } => {}
        }
    }
}

impl Plan {
    fn of(plan: &SyncPlan) -> Self {
        let with = match &plan.role {
            SyncRole::Distribute { to } => to.iter().map(|order| order.with).collect(),
            SyncRole::Request { from, .. } => from.iter().map(|order| order.with).collect(),
        };
        Self { ended: false, with }
    }
}
