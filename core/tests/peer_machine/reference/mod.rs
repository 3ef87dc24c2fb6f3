//! What a peer is, said a second time: which calls are open, what runs for it, which links it has. After
//! every input it says what the peer has to do, and the peer has to do exactly that.
//!
//! | file | what it says |
//! |---|---|
//! | `mod` | what is remembered, and the way out |
//! | `calls` | what the user may call, and what it opens |
//! | `master` | what each message of the master leads to, and which ones make no sense |
//! | `plane` | what the reports of the data plane lead to |
//! | `links` | which lanes lead to other peers |
//! | `shadow` | the comparison with a real peer after every input |

mod calls;
mod links;
mod master;
mod plane;
mod shadow;

use std::collections::{BTreeMap, BTreeSet};

use crate::desk::*;
pub(crate) use shadow::Shadow;

/// A call that waits for an answer, and how far it is.
#[derive(Clone, Debug)]
enum Major {
    Update,
    /// The round of the measurements, and whether they are over.
    Optimize(Option<(Round, bool)>),
    /// The plan, and what was reported about it.
    Sync(Option<(SyncPlan, Option<bool>)>),
}

#[derive(Clone, Debug, PartialEq)]
enum Collective {
    /// Waits for the others.
    Wanted {
        spec: CollectiveSpec,
        /// What runs under a number that was reserved, and how that ended.
        ahead: Option<(Reserved, Option<PlanOutcome>)>,
    },
    /// Its ring runs.
    Running(Seq),
    /// Its ring is over, and whether the result is whole.
    Over(Seq, bool),
}

/// The lanes of a link.
#[derive(Clone, Copy, Debug)]
struct Lanes {
    built: Round,
    broken: bool,
}

/// The last order to connect links.
#[derive(Clone, Debug)]
struct Order {
    round: Round,
    ordered: BTreeMap<LinkId, Fresh>,
}

/// Lanes that are to be connected, and whether they were said to be up.
#[derive(Clone, Copy, Debug)]
struct Fresh {
    lanes: Lanes,
    /// `None`: nothing was reported.
    up: Option<bool>,
}

#[derive(Clone, Debug)]
enum Stage {
    Unconnected,
    Greeting,
    Registered,
    Accepted,
    Gone(CallError),
}

struct Reference {
    stage: Stage,
    fresh: bool,
    /// Has cast no vote since its admission.
    rests: bool,
    /// Bytes have moved that no sign of life has told of.
    moved: bool,
    topology: Topology,
    /// Who wants to be admitted, if it still does.
    connecting: Option<CallId>,
    major: Option<Major>,
    /// Who waits for its answer, if anybody does.
    in_major: Option<CallId>,
    /// Whether it asks, and who waits for the answer.
    asking: Option<Option<CallId>>,
    tags: BTreeMap<Tag, Collective>,
    /// Who waits for their answers. The others were given up.
    wanted: BTreeMap<Tag, CallId>,
    /// What each tag that is open was called for.
    specs: BTreeMap<Tag, CollectiveSpec>,
    /// What begins ahead if it is called next.
    repeat: Option<(Tag, CollectiveSpec, Reserved)>,
    /// Those whose rings were stopped before their verdict.
    stopped: BTreeSet<Tag>,
    /// In the order of the calls.
    waiting: Vec<(CallId, Call)>,
    /// Those that stand.
    links: BTreeMap<LinkId, Lanes>,
    order: Option<Order>,
    newest: Option<Round>,
    out: Vec<PeerOutput>,
}

/// What a fact leads to; the error ends the peer's part in the run.
type End = Result<(), CallError>;

const NONSENSE: End = Err(CallError::MasterMisbehaved);

/// It is only legal where this holds.
fn only_if(holds: bool) -> End {
    if holds { Ok(()) } else { NONSENSE }
}

impl Reference {
    fn new() -> Self {
        Self {
            stage: Stage::Unconnected,
            fresh: false,
            rests: false,
            moved: false,
            topology: Topology::default(),
            connecting: None,
            major: None,
            in_major: None,
            asking: None,
            tags: BTreeMap::new(),
            wanted: BTreeMap::new(),
            specs: BTreeMap::new(),
            repeat: None,
            stopped: BTreeSet::new(),
            waiting: Vec::new(),
            links: BTreeMap::new(),
            order: None,
            newest: None,
            out: Vec::new(),
        }
    }

    /// What the peer has to do, its timers apart.
    fn take(&mut self, input: &PeerInput) -> Vec<PeerOutput> {
        let end = match input {
            PeerInput::Call { call, what } => self.call(*call, what),
            PeerInput::GiveUp { call } => {
                self.is_given_up(*call);
                Ok(())
            }
            PeerInput::Withdraw { call } => {
                self.is_asked_back(*call);
                Ok(())
            }
            PeerInput::Leave => self.leaves(),
            PeerInput::MasterDisconnected => Err(CallError::MasterLost),
            PeerInput::MasterMisbehaved => Err(CallError::MasterMisbehaved),
            PeerInput::Message(message) => self.hears(message),
            PeerInput::TimerFired(timer) => self.time_is_over(*timer),
            PeerInput::Moved => {
                self.moved |= matches!(self.stage, Stage::Accepted);
                Ok(())
            }
            PeerInput::AskWhoIsAwaited => {
                if matches!(self.stage, Stage::Registered | Stage::Accepted) {
                    self.send(ToMaster::WhoIsAwaited);
                }
                Ok(())
            }
            PeerInput::LinkUp { .. }
            | PeerInput::LinkFailed { .. }
            | PeerInput::LinkBroke { .. } => {
                self.link(input);
                Ok(())
            }
            PeerInput::PlanEnded { seq, outcome } => {
                self.plan_ended(*seq, *outcome);
                Ok(())
            }
            PeerInput::TransfersEnded { .. }
            | PeerInput::Measured { .. }
            | PeerInput::ProbesEnded { .. } => {
                self.data_plane_is_done(input);
                Ok(())
            }
        };
        match end {
            Ok(()) => self.starts_what_waits(),
            Err(why) => self.ends(why),
        }
        std::mem::take(&mut self.out)
    }

    fn rests(&self) -> bool {
        self.rests && matches!(self.stage, Stage::Accepted)
    }

    /// Do its timers run: the sign of life that it owes, and the one that it expects?
    fn timers(&self) -> (bool, bool) {
        match self.stage {
            Stage::Unconnected | Stage::Gone(_) => (false, false),
            Stage::Greeting => (false, true),
            Stage::Registered | Stage::Accepted => (true, true),
        }
    }

    fn send(&mut self, message: ToMaster) {
        self.out.push(PeerOutput::Send(message));
    }

    /// `None`: nobody waits for the answer.
    fn answer(&mut self, call: Option<CallId>, answer: Answer) {
        let told = call.map(|call| PeerOutput::Answer { call, answer });
        self.out.extend(told);
    }

    /// The way out: what runs is stopped, what is open is answered, everything is closed. The first
    /// reason stays.
    fn ends(&mut self, why: CallError) {
        let was = std::mem::replace(&mut self.stage, Stage::Gone(why.clone()));
        if let Stage::Gone(first) = was {
            self.stage = Stage::Gone(first);
            return;
        }
        let was_connected = !matches!(was, Stage::Unconnected);
        if was_connected && why == CallError::Left {
            self.send(ToMaster::Leave);
        }
        if matches!(was, Stage::Greeting | Stage::Registered) {
            let connecting = self.connecting.take();
            self.answer(connecting, Answer::Connected(Err(why.clone())));
        }
        self.major_fails(&why);
        let asking = self.asking.take().flatten();
        self.answer(asking, Answer::PeersPending(Err(why.clone())));
        for (tag, collective) in std::mem::take(&mut self.tags) {
            self.collective_fails(tag, &collective, why.clone());
        }
        for (name, call) in std::mem::take(&mut self.waiting) {
            self.fails_at_once(name, &call, why.clone());
        }
        self.out.push(PeerOutput::Close);
    }

    /// Whether there was one.
    fn major_fails(&mut self, why: &CallError) -> bool {
        let why = why.clone();
        let (major, caller) = (self.major.take(), self.in_major.take());
        let was_there = major.is_some();
        match major {
            Some(Major::Update) => self.answer(caller, Answer::TopologyUpdated(Err(why))),
            Some(Major::Optimize(_)) => self.answer(caller, Answer::TopologyOptimized(Err(why))),
            Some(Major::Sync(plan)) => {
                // What nobody waits for was dropped when it was given up.
                let dropped = plan.filter(|_| caller.is_some());
                let dropped = dropped.map(|(plan, _)| PeerOutput::DropState { round: plan.round });
                self.out.extend(dropped);
                self.answer(caller, Answer::Synchronized(Err(why)));
            }
            None => {}
        }
        was_there
    }

    fn collective_fails(&mut self, tag: Tag, collective: &Collective, why: CallError) {
        match collective {
            Collective::Running(seq) => self.out.push(PeerOutput::StopPlan { seq: *seq }),
            Collective::Wanted { ahead, .. } => self.stops(*ahead),
            Collective::Over(..) => {}
        }
        let (result, caller) = (Err(why), self.wanted.remove(&tag));
        self.answer(caller, Answer::CollectiveEnded { tag, result });
    }

    /// Nobody wants what was begun ahead, if it was not stopped when it ended.
    fn stops(&mut self, ahead: Option<(Reserved, Option<PlanOutcome>)>) {
        if let Some((reserved, ended)) = ahead
            && ended != Some(PlanOutcome::Cancelled)
        {
            self.out.push(PeerOutput::StopPlan { seq: reserved.seq });
        }
    }

    /// Whatever was begun ahead and has another number is void.
    fn stops_all_but(&mut self, seq: Option<Seq>) {
        let mut void = Vec::new();
        for collective in self.tags.values_mut() {
            if let Collective::Wanted { ahead, .. } = collective {
                void.push(ahead.take_if(|(reserved, _)| Some(reserved.seq) != seq));
            }
        }
        void.into_iter().for_each(|ahead| self.stops(ahead));
    }

    fn time_is_over(&mut self, timer: PeerTimer) -> End {
        match (timer, self.timers()) {
            (PeerTimer::HeartbeatDue, (true, _)) => {
                let moved = std::mem::take(&mut self.moved);
                self.send(ToMaster::Heartbeat { moved });
                Ok(())
            }
            (PeerTimer::MasterSilence, (_, true)) => Err(CallError::MasterLost),
            (PeerTimer::HeartbeatDue | PeerTimer::MasterSilence, _) => Ok(()),
        }
    }
}
