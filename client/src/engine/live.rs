//! What a peer has while it is connected: its lanes, its timers, its door.

mod session;

use std::sync::Arc;
use std::time::Duration;

use pccl_core::element::CollectiveSpec;
use pccl_core::id::{PeerId, Round, Seq};
use pccl_core::lengths::Lengths;
use pccl_core::messages::{ToMaster, ToPeer};
use pccl_core::peer::{AdoptedLanes, AdoptedLink, PeerInput, PeerTimer};
use pccl_core::plan::Algorithm;
use pccl_core::shared_state::{SyncPlan, SyncRole};
use pccl_core::timers::{PAUSE, TimerQueue};
use pccl_core::topology::{LaneOrder, LinkOrder, Topology};
use pccl_core::transport::{Lane, LaneError, Listener, Transport};
use pccl_core::wire::{ControlError, DecodeError, HandshakeError, Purpose, recv_control};
use pccl_plane::{
    DataPlane, LanesInUse, LinkBroke, LinkInUse, OperationPort, PlaneConfig, Ranks, Sensor,
};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::command::MoveOrder;
use super::control::{Control, Wire};
use super::door::{Door, Knock};
use super::hearing::Hearing;
use super::probe::{Measurement, Probing};
use super::returning::{Home, Returned};
use super::upkeep::Upkeep;
use super::wiring::{Wired, Wiring};
use crate::calls::View;
use crate::suspects::Suspects;

/// How long leaving may take: the master has to be told, but nobody waits long for one that is gone.
const GOODBYE_LIMIT: Duration = Duration::from_secs(1);

/// A connected peer's possessions.
pub(super) struct Live {
    control: Control,
    hearing: Hearing,
    /// The limit of the run for a silence of the master.
    silence: Duration,
    /// When another connection is looked for, if nothing is heard over this one.
    doubted_at: Option<Instant>,
    home: Home,
    timers: TimerQueue<PeerTimer, Instant>,
    pub(super) data: DataPlane,
    data_events: mpsc::UnboundedReceiver<LinkBroke>,
    door: Door,
    wiring: Option<Wiring>,
    probing: Option<Probing>,
    pub(super) upkeep: Upkeep,
    suspects: Arc<Suspects>,
    transport: Arc<dyn Transport>,
    view: watch::Sender<View>,
    me: PeerId,
    seed: u64,
    sensor: Sensor,
}

/// Something that happened outside.
#[derive(Debug)]
pub(super) enum Happened {
    Said(Result<ToPeer, ControlError>),
    NotWritten(LaneError),
    Returned(Result<Returned, HandshakeError>),
    Data(LinkBroke),
    Knocked(Knock),
    Wired(Wired),
    Measured(Measurement),
    TimeIsUp,
}

impl Live {
    pub(super) fn new(
        (control, home): (Lane, Home),
        listener: Box<dyn Listener>,
        transport: Arc<dyn Transport>,
        view: watch::Sender<View>,
        seed: u64,
        data: PlaneConfig,
        (upkeep, suspects): (Upkeep, Arc<Suspects>),
    ) -> Self {
        let (events, data_events) = mpsc::unbounded_channel();
        let data = DataPlane::new(events, data);
        let hearing = Hearing::new();
        Self {
            control: Control::new(hearing.note(control)),
            hearing,
            silence: Duration::ZERO,
            doubted_at: None,
            home,
            timers: TimerQueue::new(),
            sensor: Sensor::new(data.progress().clone()),
            data,
            data_events,
            door: Door::open(listener, transport.lanes_per_edge()),
            wiring: None,
            probing: None,
            upkeep,
            suspects,
            transport,
            view,
            me: PeerId::default(),
            seed,
        }
    }

    /// Waits for what happens next, or until `wake_at`. Cancel-safe.
    pub(super) async fn next(&mut self, wake_at: Option<Instant>) -> Happened {
        let deadlines = [
            self.timers.next_deadline(),
            self.doubted_at,
            self.upkeep.next_look(),
            wake_at,
        ];
        let deadline = deadlines.into_iter().flatten().min();
        let wiring = self.wiring.as_mut();
        let probing = self.probing.as_mut();
        let Control {
            wire,
            reader,
            queue,
            ..
        } = &mut self.control;
        let (rx, unwritten, returning) = match wire {
            Wire::Up { rx, tx, beside } => (
                Some(rx),
                Some(queue.flush_for_ever(tx.as_mut())),
                beside.as_mut(),
            ),
            Wire::Down { returning, .. } => (None, None, Some(returning)),
            Wire::Ended => (None, None, None),
        };
        // As an argument of a function it would be copied, with room for what is received.
        let said = async {
            match rx {
                Some(rx) => recv_control(rx.as_mut(), reader).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(event) = self.data_events.recv() => Happened::Data(event),
            said = said => Happened::Said(said),
            returned = or_never(returning) => Happened::Returned(returned),
            Some(knock) = self.door.next_knock() => Happened::Knocked(knock),
            wired = next_or_never(wiring, Wiring::next) => Happened::Wired(wired),
            measured = next_or_never(probing, Probing::next) => Happened::Measured(measured),
            () = sleep_until_or_never(deadline) => Happened::TimeIsUp,
            error = or_never(unwritten) => Happened::NotWritten(error),
        }
    }

    /// Appends what it means to the machine.
    pub(super) fn note(&mut self, happened: Happened, inputs: &mut impl Extend<PeerInput>) {
        self.forgive(Instant::now());
        let input = match happened {
            Happened::Said(said) => self.heard(said),
            Happened::NotWritten(error) => self.disconnected(error.into()),
            Happened::Returned(returned) => self.returned(returned),
            Happened::Data(event) => Some(broke(event)),
            Happened::Knocked(knock) => {
                self.door.answer(knock);
                None
            }
            Happened::Wired(wired) => Some(self.wired(wired)),
            Happened::Measured(Measurement::Reached {
                round,
                to,
                measured,
            }) => Some(PeerInput::Measured {
                round,
                to,
                measured,
            }),
            Happened::Measured(Measurement::Over { round }) => {
                Some(PeerInput::ProbesEnded { round, ok: true })
            }
            Happened::TimeIsUp => {
                inputs.extend(self.expired());
                None
            }
        };
        inputs.extend(input);
    }

    fn heard(&mut self, said: Result<ToPeer, ControlError>) -> Option<PeerInput> {
        match said {
            Ok(message) => {
                if let Err(error) = self.control.take_notes() {
                    tracing::debug!(%error, "the master acknowledges what was not sent");
                    return Some(PeerInput::MasterMisbehaved);
                }
                self.control.look_no_further();
                let quiet = self.control.reader.take_quiet();
                if !quiet.is_empty() {
                    let topology = &self.view.borrow().topology;
                    self.suspects.are_silent(&quiet, topology);
                }
                tell(&message);
                Some(PeerInput::Message(message))
            }
            Err(
                error @ (ControlError::Ended
                | ControlError::Lane(_)
                | ControlError::Encode(_)
                | ControlError::Decode(DecodeError::Damaged)),
            ) => self.disconnected(error),
            Err(ControlError::Decode(error)) => {
                tracing::debug!(%error, "the master sent no message");
                Some(PeerInput::MasterMisbehaved)
            }
        }
    }

    /// Time in which this peer stood still is nobody's fault: what the others sent meanwhile is read
    /// before anybody is given up.
    fn forgive(&mut self, now: Instant) {
        let is_patience = |timer: &PeerTimer| *timer != PeerTimer::HeartbeatDue;
        if let Some(lost) = self.timers.forgive(now, PAUSE, is_patience) {
            tracing::warn!(?lost, "this peer stood still");
        }
    }

    fn expired(&mut self) -> Vec<PeerInput> {
        let now = Instant::now();
        self.upkeep.look(now, || self.data.trim());
        self.doubt(now);
        let mut inputs = Vec::new();
        while let Some(timer) = self.timers.pop_expired(now) {
            if timer == PeerTimer::MasterSilence
                && let Some(later) = self.reprieve(now)
            {
                self.timers.arm(timer, later);
                continue;
            }
            if timer == PeerTimer::HeartbeatDue && self.moved_since_last() {
                inputs.push(PeerInput::Moved);
            }
            inputs.push(PeerInput::TimerFired(timer));
        }
        inputs
    }

    fn wired(&mut self, wired: Wired) -> PeerInput {
        let Wired { round, link, lanes } = wired;
        match lanes {
            Ok(lanes) => {
                self.data.install(link, round, lanes);
                PeerInput::LinkUp { round, link }
            }
            Err(failure) => PeerInput::LinkFailed {
                round,
                link,
                failure,
            },
        }
    }

    /// Whether bytes of a collective, of shared state or of a measurement have moved since the last
    /// call of this.
    pub(super) fn moved_since_last(&mut self) -> bool {
        self.sensor.moved_since_last()
    }

    /// Begins an execution. The vote to start one that begins ahead within a machine is the last message: it leaves with
    /// the vote on the outcome, if that is soon. A message less for each peer is a good part of the time of a small
    /// collective there.
    pub(super) fn begin(
        &mut self,
        seq: Seq,
        (spec, lengths): (CollectiveSpec, &Lengths),
        algorithm: Algorithm,
        ahead: bool,
    ) -> OperationPort {
        self.upkeep.used();
        let port = self.data.begin_of(seq, spec, lengths, algorithm);
        if !ahead {
            return port;
        }
        if self.view.borrow().topology.within_machine {
            self.control.hold();
        }
        port.ahead()
    }

    /// All run what was begun ahead.
    pub(super) fn confirm(&mut self, seq: Seq) {
        self.data.confirm(seq);
    }

    /// The frames of an execution are nobody's, and whatever runs it ends.
    pub(super) fn stop(&mut self, seq: Seq) {
        self.upkeep.used();
        self.data.stop(seq);
    }

    /// Links that have broken and were not told of yet.
    pub(super) fn broken_links(&mut self) -> Vec<PeerInput> {
        std::iter::from_fn(|| self.data_events.try_recv().ok())
            .map(broke)
            .collect()
    }

    /// Who this peer is, once it was told.
    pub(super) fn is_known_as(&mut self, me: PeerId) {
        self.me = me;
    }

    /// Sends a message to the master, as soon as its connection takes it.
    pub(super) fn send(&mut self, message: &ToMaster) -> Option<PeerInput> {
        let encoded = self.control.push(message);
        encoded.err().map(|error| {
            // Limits on what the user hands in keep every message short enough; a connection that
            // misses one is of no more use.
            tracing::error!(%error, "a message to the master cannot be encoded");
            PeerInput::MasterDisconnected
        })
    }

    /// Connects links.
    pub(super) fn establish(&mut self, round: Round, links: &[LinkOrder]) {
        tracing::debug!(target: "pccl::event", kind = "links_ordered", round = round.0, links = links.len());
        // The attempt before gives up its lanes before the next one asks for some.
        self.data.abandon();
        self.end_attempt();
        let (me, door) = (self.me, &mut self.door);
        self.wiring = Some(Wiring::start(round, links, me, &self.transport, door));
    }

    /// Gives up what is not connected by now. A peer that is alone in its group and misses lanes may be the one that
    /// cannot be reached: only the other end has heard why, and is turned away with it.
    fn end_attempt(&mut self) {
        let Some(wiring) = self.wiring.take() else {
            return;
        };
        let is_alone = self.view.borrow().topology.ring.world_size() == 1;
        let port = self.door.port();
        for missing in wiring.missing() {
            if is_alone {
                tracing::warn!(
                    "{missing} was to connect to port {port} of this peer, and has not: if it is still there it does not \
                     reach that port; open it in the firewall, or say with Builder::advertise where others reach it"
                );
            } else {
                tracing::debug!(%missing, "a peer was to connect to this one, and has not");
            }
        }
    }

    /// Makes a ring the one in use.
    pub(super) fn adopt(&mut self, topology: Topology, links: &[AdoptedLink]) {
        self.end_attempt();
        let links: Vec<LinkInUse> = links.iter().map(in_use).collect();
        self.data.adopt(ranks(&topology, self.me), &links);
        tracing::debug!(
            target: "pccl::event",
            kind = "connected",
            peer = self.me.0,
            epoch = topology.epoch.0,
            world_size = topology.ring.world_size(),
        );
        tell_who_came_and_went(&self.view.borrow().topology, &topology, self.me);
        let me = self.me;
        self.view.send_replace(View { me, topology });
    }

    /// Measures, and drops what was measured before.
    pub(super) fn probe(&mut self, round: Round, probes: &[LinkOrder]) {
        tracing::debug!(target: "pccl::event", kind = "probes_ordered", round = round.0);
        self.probing = None;
        let (me, door) = (self.me, &mut self.door);
        let known = (self.seed, self.sensor.progress());
        let probing = Probing::start(round, probes, me, known, &self.transport, door);
        self.probing = Some(probing);
    }

    /// Nobody waits for these measurements any more.
    pub(super) fn stop_probes(&mut self, round: Round) {
        self.probing.take_if(|probing| probing.is_of(round));
    }

    pub(super) fn start_timer(&mut self, timer: PeerTimer, after: Duration) {
        if timer == PeerTimer::MasterSilence {
            self.silence = after;
            self.doubted_at = Some(self.hearing.doubted_from(after));
        }
        self.timers.arm(timer, Instant::now() + after);
    }

    pub(super) fn stop_timer(&mut self, timer: PeerTimer) {
        if timer == PeerTimer::MasterSilence {
            self.doubted_at = None;
        }
        self.timers.disarm(timer);
    }

    /// Expects the lanes that others open for a plan.
    pub(super) fn expect_transfers(&mut self, plan: SyncPlan) -> MoveOrder {
        let orders: Vec<LaneOrder> = match &plan.role {
            SyncRole::Distribute { to } => to.clone(),
            SyncRole::Request { from, .. } => from.clone(),
        };
        let expected = orders.iter().filter(|order| order.dial.is_none());
        let expected = expected
            .flat_map(|order| (0..order.lanes).map(move |number| (order, number)))
            .map(|(order, number)| {
                let number = (number, order.lanes);
                let lane = self.door.expect(Purpose::SharedState, order, number);
                (order.with, lane)
            })
            .collect();
        MoveOrder {
            me: self.me,
            plan,
            expected,
            progress: self.sensor.progress().clone(),
        }
    }

    /// Ends everything; the master is told first, if it still listens.
    pub(super) async fn close(mut self) {
        self.upkeep.end();
        let goodbye = timeout(GOODBYE_LIMIT, self.control.say_goodbye()).await;
        tracing::debug!(?goodbye, "left the run");
    }
}

/// The ranks of a topology are the places in its ring.
fn ranks(topology: &Topology, me: PeerId) -> Option<Ranks> {
    let Topology {
        ring,
        sites,
        lanes,
        within_machine,
        ..
    } = topology;
    let ranks = Ranks::new(ring.0.clone(), sites.sites(), me, *lanes)?;
    Some(ranks.within_machine(*within_machine))
}

const fn in_use(adopted: &AdoptedLink) -> LinkInUse {
    let AdoptedLink { link, lanes } = *adopted;
    let lanes = match lanes {
        AdoptedLanes::Keep => LanesInUse::Standing,
        AdoptedLanes::Use(built) => LanesInUse::Installed(built),
    };
    LinkInUse { link, lanes }
}

fn broke(broke: LinkBroke) -> PeerInput {
    let LinkBroke { link, built } = broke;
    PeerInput::LinkBroke { link, built }
}

async fn sleep_until_or_never(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

async fn or_never<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn next_or_never<S, T>(source: Option<&mut S>, next: impl AsyncFnOnce(&mut S) -> T) -> T {
    match source {
        Some(source) => next(source).await,
        None => std::future::pending().await,
    }
}

/// Says who is in the group from here on, and was not before, and the other way round.
fn tell_who_came_and_went(before: &Topology, after: &Topology, me: PeerId) {
    let peers = after.ring.world_size();
    let is_in = |topology: &Topology, peer| topology.ring.rank_of(peer).is_some();
    if !is_in(before, me) {
        tracing::info!("this is {me}, admitted to a group of {peers}");
        return;
    }
    for peer in after.ring.0.iter().filter(|peer| !is_in(before, **peer)) {
        tracing::info!("{peer} has joined: the group has {peers}");
    }
    for peer in before.ring.0.iter().filter(|peer| !is_in(after, **peer)) {
        tracing::info!("{peer} has left: the group has {peers}");
    }
}

/// Moments at which tests of whole processes act.
fn tell(message: &ToPeer) {
    match message {
        ToPeer::Verdict { tag, seq, verdict } => {
            tracing::debug!(
                target: "pccl::event",
                kind = "verdict",
                tag = tag.0,
                seq = seq.0,
                ?verdict
            );
        }
        ToPeer::SharedStatePlan(plan) => {
            tracing::debug!(target: "pccl::event", kind = "sync_plan", round = plan.round.0);
        }
        ToPeer::Welcome { .. }
        | ToPeer::Refused(_)
        | ToPeer::EstablishLinks { .. }
        | ToPeer::TopologyEstablished { .. }
        | ToPeer::CallFailed(_)
        | ToPeer::PeersPending { .. }
        | ToPeer::Probe { .. }
        | ToPeer::OptimizationConcluded { .. }
        | ToPeer::SharedStateConcluded { .. }
        | ToPeer::Commence { .. }
        | ToPeer::CollectiveRefused { .. }
        | ToPeer::Kicked(_)
        | ToPeer::Heartbeat
        | ToPeer::Awaited(_)
        | ToPeer::Stopping => {}
    }
}
