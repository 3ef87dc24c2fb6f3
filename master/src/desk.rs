//! The loop that owns the machine: it takes facts, and carries out orders.

mod durable;
mod quiet;
mod sessions;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use pccl_core::id::{ConnId, GroupId, Identity, PeerId, Round};
use pccl_core::journal::{Pending, admits};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput, MasterTimer};
use pccl_core::messages::{Misdeed, ToPeer};
use pccl_core::ticket::TicketMint;
use pccl_core::timers::{PAUSE, TimerQueue};
use pccl_core::tour::{Quest, Solved, TourProblem};
use pccl_core::wire::QuietPeer;
use pccl_recording::Recorded;
use tokio::sync::mpsc;
use tokio::task::{JoinSet, spawn_blocking, yield_now};
use tokio::time::{Instant, sleep_until};

use crate::chronicle::Chronicle;
use crate::connection::{Event, Newcomer};
use crate::granted::Granted;
use crate::journal::{Journal, JournalError};
use crate::limits::Limits;
use crate::outbox::{Outbox, PushError};
use crate::pulse::Pulse;
use crate::searches::{Improved, Searches};
use crate::server::{StopHandle, Stopping};

/// Longer than any run. A later timer is set to this.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Owns the machine and its timers.
pub(crate) struct Desk {
    master: Recorded<Master>,
    timers: TimerQueue<Due, Instant>,
    events: mpsc::Receiver<Event>,
    peers: BTreeMap<PeerId, Connected>,
    heartbeat: Duration,
    silence: Duration,
    mint: TicketMint,
    /// The connection whose hello the machine is answering.
    newcomer: Option<Newcomer>,
    /// Outboxes to which the current input has added messages.
    touched: Vec<Arc<Outbox>>,
    solving: JoinSet<Answered>,
    searches: Searches,
    /// Whether solvers and searches run on threads of their own.
    has_threads: bool,
    /// Facts that came up while an input was processed.
    follow_ups: VecDeque<MasterInput>,
    outputs: Vec<MasterOutput>,
    /// Peers from which nothing was heard at the last sign of life.
    quiet: Vec<QuietPeer>,
    chronicle: Chronicle,
    journal: Option<Journaling>,
    limits: Limits,
    stopped: bool,
}

/// The journal of the run.
struct Journaling {
    journal: Journal,
    pending: Pending,
    /// Why the run cannot go on.
    failed: Option<JournalError>,
}

/// What a timer of the desk is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Machine(MasterTimer),
    /// A peer whose connection has ended has not come back.
    Absence(PeerId),
}

/// The session of a registered peer.
struct Connected {
    /// Its connection. `None`: it has ended, and the peer may come back.
    conn: Option<ConnId>,
    /// The identity that it has proved. Another one cannot resume its session.
    identity: Option<Identity>,
    /// Number of its messages that the machine has processed.
    heard: u64,
    /// Whether one of them came over the present connection.
    has_spoken: bool,
    /// The number of the latest connection that it has opened to resume its session.
    attempt: u64,
    is_admitted: bool,
    outbox: Arc<Outbox>,
    pulse: Arc<Pulse>,
    granted: Arc<Granted>,
}

/// The result of the ring solver.
struct Answered {
    round: Round,
    group: GroupId,
    found: Option<Solved>,
    /// The search, if it can be continued.
    quest: Option<Quest>,
}

/// Why the loop woke up.
enum Woken {
    Stop(Stopping),
    Timer,
    Solved(Answered),
    Improved(Improved),
    Event(Event),
}

impl Desk {
    pub(crate) fn new(
        config: MasterConfig,
        limits: Limits,
        events: mpsc::Receiver<Event>,
        record: Option<&Path>,
    ) -> Self {
        Self {
            heartbeat: config.heartbeat.min(FOREVER),
            silence: config.silence,
            mint: config.tickets.clone(),
            master: Recorded::begin(config, record),
            timers: TimerQueue::new(),
            events,
            peers: BTreeMap::new(),
            newcomer: None,
            touched: Vec::new(),
            solving: JoinSet::new(),
            searches: Searches::default(),
            has_threads: true,
            follow_ups: VecDeque::new(),
            outputs: Vec::new(),
            quiet: Vec::new(),
            chronicle: Chronicle::default(),
            journal: None,
            limits: Limits {
                reconnect: limits.reconnect.min(FOREVER),
                ..limits
            },
            stopped: false,
        }
    }

    /// Solves and searches in its own thread, so that a run is the same each time.
    pub(crate) fn without_threads(mut self) -> Self {
        self.searches = Searches::without_threads();
        self.has_threads = false;
        self
    }

    /// Runs until the machine has told all peers that it stops, or the master is suspended.
    ///
    /// # Errors
    /// The journal cannot be written. Nobody was told what it lacks.
    pub(crate) async fn run(mut self, stop: &StopHandle) -> Result<Stopping, JournalError> {
        let mut stopping = Stopping::ForGood;
        let mut stopped = pin!(stop.stopped());
        while !self.stopped {
            stopping = self.turn(stopped.as_mut()).await;
            self.release();
        }
        self.end_journal(stopping)
    }

    /// Processes the next event. Returns whether the run goes on if the process ends after it. If the master has been told
    /// to end, this was the last one.
    async fn turn(&mut self, stopped: Pin<&mut impl Future<Output = Stopping>>) -> Stopping {
        let woken = self.wake(stopped).await;
        self.look_at_the_clock();
        match woken {
            Woken::Stop(Stopping::ToComeBack) if self.journal.is_some() => {
                self.stopped = true;
                return Stopping::ToComeBack;
            }
            Woken::Stop(_) => {
                self.handle(MasterInput::Stop);
                self.stopped = true;
            }
            Woken::Timer => self.fire_timers(),
            Woken::Solved(Answered {
                round,
                group,
                found,
                quest,
            }) => {
                self.searches.keep(round, group, quest);
                self.handle(MasterInput::TourSolved {
                    round,
                    group,
                    found,
                });
            }
            Woken::Improved(Improved {
                round,
                group,
                found,
            }) => self.handle(MasterInput::TourImproved {
                round,
                group,
                found,
            }),
            Woken::Event(event) => {
                self.take(event);
                self.take_more();
            }
        }
        Stopping::ForGood
    }

    /// Processes what else waits, so that a journal is written once for all of it.
    fn take_more(&mut self) {
        while self.journal.is_some() && !self.stopped {
            match self.events.try_recv() {
                Ok(event) => self.take(event),
                Err(_) => return,
            }
        }
    }

    /// Arrivals come before a due timer: a timer fires only when nothing else is to be done.
    async fn wake(&mut self, stopped: Pin<&mut impl Future<Output = Stopping>>) -> Woken {
        tokio::select! {
            biased;
            stopping = stopped => Woken::Stop(stopping),
            Some(Ok(solved)) = self.solving.join_next() => Woken::Solved(solved),
            improved = self.searches.next() => Woken::Improved(improved),
            event = self.events.recv() => event.map_or(Woken::Stop(Stopping::ForGood), Woken::Event),
            () = due_and_quiet(self.timers.next_deadline()) => Woken::Timer,
        }
    }

    /// Time in which the master stood still counts against nobody. A timer that other work has delayed for a
    /// heartbeat fires nevertheless, because a flood may never end.
    fn look_at_the_clock(&mut self) {
        let now = Instant::now();
        if let Some(lost) = self.timers.forgive(now, PAUSE, is_patience) {
            tracing::warn!(?lost, "the master stood still");
        }
        let overdue = self.timers.next_deadline().map(|at| at + self.heartbeat);
        if overdue.is_some_and(|overdue| overdue <= now) {
            self.fire_timers();
        }
    }

    fn fire_timers(&mut self) {
        let now = Instant::now();
        while let Some(due) = self.timers.pop_expired(now) {
            match due {
                Due::Absence(peer) => self.gone(peer),
                Due::Machine(timer) => match self.reprieve(timer, now) {
                    Some(later) => self.timers.arm(due, later),
                    None => {
                        tracing::trace!(?timer, "timer fired");
                        if timer == MasterTimer::HeartbeatDue {
                            self.look_who_is_quiet(now);
                        }
                        self.handle(MasterInput::TimerFired(timer));
                    }
                },
            }
        }
    }

    /// When to check again whether the peer is silent, if something has arrived from it that the machine has not
    /// processed yet, or its messages come too irregularly to give it up.
    fn reprieve(&self, timer: MasterTimer, now: Instant) -> Option<Instant> {
        let MasterTimer::Silence(peer) = timer else {
            return None;
        };
        let pulse = &self.peers.get(&peer)?.pulse;
        let later = pulse.last() + pulse.limit(self.silence).min(FOREVER);
        (later > now).then_some(later)
    }

    fn take(&mut self, event: Event) {
        self.chronicle.happened(&event);
        self.apply(event);
        self.chronicle.dealt_with();
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Hello(newcomer) => {
                let hello = newcomer.hello.clone();
                let connected = MasterInput::Connected {
                    conn: newcomer.conn,
                    hello,
                    from: newcomer.from.ip(),
                    identity: newcomer.identity,
                };
                self.newcomer = Some(newcomer);
                self.handle(connected);
                self.newcomer = None;
            }
            Event::Message {
                peer,
                conn,
                message,
                share,
            } => {
                if let Some(connected) = self.present(peer, conn) {
                    connected.heard += 1;
                    connected.has_spoken = true;
                    self.handle(MasterInput::Message { peer, message });
                }
                drop(share);
            }
            Event::Malformed { peer, conn, .. } => {
                if self.present(peer, conn).is_some() {
                    let misdeed = Misdeed::Malformed;
                    self.handle(MasterInput::Misbehaved { peer, misdeed });
                }
            }
            Event::Gone {
                peer,
                conn,
                error,
                may_return,
            } => {
                if self.present(peer, conn).is_some() {
                    self.ended(peer, &error, may_return);
                }
            }
            Event::Return(returning) => self.resume(returning),
        }
        self.ring();
    }

    /// Lets the machine process the input, and then everything that follows from its orders.
    fn handle(&mut self, input: MasterInput) {
        let mut next = Some(input);
        while let Some(input) = next {
            let mut outputs = std::mem::take(&mut self.outputs);
            self.step(input, &mut outputs);
            for output in outputs.drain(..) {
                self.chronicle.decided(&output);
                self.carry_out(output);
            }
            self.outputs = outputs;
            next = self.follow_ups.pop_front();
        }
        self.ring();
    }

    fn carry_out(&mut self, output: MasterOutput) {
        match output {
            MasterOutput::Register { peer, .. } => self.register(peer),
            MasterOutput::Refuse { reason, .. } => self.refuse(&ToPeer::Refused(reason)),
            MasterOutput::Send { peer, message } => self.send(peer, &message),
            MasterOutput::Close { peer } => self.close(peer),
            MasterOutput::StartTimer { timer, after } => {
                let at = Instant::now() + after.min(FOREVER);
                self.timers.arm(Due::Machine(timer), at);
            }
            MasterOutput::StopTimer(timer) => self.timers.disarm(Due::Machine(timer)),
            MasterOutput::SolveTour {
                round,
                group,
                problem,
            } => self.solve(round, group, problem),
            MasterOutput::SearchTour {
                round,
                group,
                steps,
            } => self.searches.begin(round, group, steps),
            MasterOutput::EndSearch { round, group } => self.searches.end(round, group),
            MasterOutput::Moved { .. }
            | MasterOutput::Lost { .. }
            | MasterOutput::Inconsistent { .. } => {}
            MasterOutput::Stopped => self.stopped = true,
        }
    }

    fn register(&mut self, peer: PeerId) {
        let Some(newcomer) = self.newcomer.take() else {
            tracing::error!(%peer, "the machine registered a peer that nobody introduced");
            return;
        };
        let Newcomer {
            conn,
            identity,
            registered,
            outbox,
            pulse,
            granted,
            ..
        } = newcomer;
        if registered.send(peer).is_ok() {
            granted.register();
            outbox.open(self.terms(peer));
            let connected = Connected {
                conn: Some(conn),
                identity,
                // Its hello.
                heard: 1,
                has_spoken: true,
                attempt: 0,
                is_admitted: false,
                outbox,
                pulse,
                granted,
            };
            self.peers.insert(peer, connected);
        } else {
            // The connection ended while its hello waited; nobody else will report it.
            self.follow_ups
                .push_back(MasterInput::Disconnected { peer });
        }
    }

    fn refuse(&mut self, words: &ToPeer) {
        if let Some(newcomer) = self.newcomer.take() {
            // A refusal is short, and the first thing in its outbox.
            newcomer.outbox.push(words).ok();
            newcomer.outbox.close();
            self.touched.push(newcomer.outbox);
        }
    }

    fn send(&mut self, peer: PeerId, message: &ToPeer) {
        let Some(connected) = self.peers.get_mut(&peer) else {
            return;
        };
        if admits(message) {
            connected.is_admitted = true;
            connected.granted.admit();
        }
        if matches!(message, ToPeer::Heartbeat) {
            connected.outbox.has_received(connected.heard);
            connected.outbox.hears_nothing_from(&self.quiet);
        }
        self.touched.push(Arc::clone(&connected.outbox));
        if let Err(error) = connected.outbox.push(message) {
            self.missed(peer, error);
        }
    }

    /// The peer has missed a message, so its membership ends.
    fn missed(&mut self, peer: PeerId, error: PushError) {
        let fact = match error {
            PushError::Overflow => MasterInput::Misbehaved {
                peer,
                misdeed: Misdeed::SlowReader,
            },
            PushError::Encode(error) => {
                tracing::error!(%peer, %error, "a message to a peer cannot be encoded");
                self.close(peer);
                MasterInput::Disconnected { peer }
            }
        };
        self.follow_ups.push_back(fact);
    }

    fn close(&mut self, peer: PeerId) {
        self.timers.disarm(Due::Absence(peer));
        if let Some(Connected { outbox, .. }) = self.peers.remove(&peer) {
            outbox.close();
            self.touched.push(outbox);
        }
    }

    /// Releases the messages in all touched outboxes, unless a journal has to be written before.
    fn ring(&mut self) {
        if self.journal.is_none() {
            self.touched.drain(..).for_each(|outbox| outbox.ring());
        }
    }

    /// Runs the solver on another thread, because it takes long enough to delay everybody.
    fn solve(&mut self, round: Round, group: GroupId, problem: TourProblem) {
        let solve = move || {
            let mut quest = Quest::new(&problem)?;
            quest.run_first();
            Some(quest)
        };
        let has_threads = self.has_threads;
        self.solving.spawn(async move {
            let quest = match has_threads {
                true => spawn_blocking(solve).await.unwrap_or_else(|error| {
                    tracing::error!(%error, "the ring solver failed");
                    None
                }),
                false => solve(),
            };
            Answered {
                round,
                group,
                found: quest.as_ref().and_then(Quest::solved),
                quest: quest.filter(|quest| !quest.is_over()),
            }
        });
    }
}

/// Resolves after the deadline, and after every connection had its turn, so that all arrivals are in the queue.
async fn due_and_quiet(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
    yield_now().await;
}

/// Whether the timer limits how long a peer is waited for. The others are the master's own duties.
fn is_patience(due: &Due) -> bool {
    match due {
        Due::Absence(_) => true,
        Due::Machine(timer) => !matches!(
            timer,
            MasterTimer::HeartbeatDue | MasterTimer::MeasurementsAge | MasterTimer::RetryWiring(_)
        ),
    }
}

#[cfg(test)]
mod tests;
