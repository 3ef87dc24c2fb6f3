//! Which congestion control lanes get whose transport leaves the choice.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, ReduceOp};
use pccl_core::id::{PeerId, Seq};
use pccl_core::plan::Algorithm;
use pccl_core::transport::CongestionControl::{LossBased, ModelBased};
use pccl_core::transport::{CongestionControl, Lane, LaneError, LaneTx, send_all};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::test;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::reference::{expected, inputs};
use super::support::{Member, adopt_mesh, mesh_of, run_all, small_frames, spec};
use crate::{LanesInUse, OperationPort, PlaneConfig};

const WORLD: usize = 3;

/// As many elements as make a reduce take long enough to be learned from.
const COUNT: usize = 6000;

/// What a lane carries on the better congestion control, in bytes per second.
const FAST: f64 = 100_000.0;

/// A path that carries bytes at a rate that follows from the congestion control.
#[derive(Clone, Copy)]
struct Rates {
    model_based: f64,
    loss_based: f64,
}

impl Rates {
    const CLEAN: Self = Self {
        model_based: FAST / 2.0,
        loss_based: FAST,
    };

    const LOSSY: Self = Self {
        model_based: FAST,
        loss_based: FAST / 50.0,
    };

    const fn of(self, control: CongestionControl) -> f64 {
        match control {
            ModelBased => self.model_based,
            LossBased => self.loss_based,
        }
    }
}

/// What a test knows of a lane.
struct Known {
    control: Option<CongestionControl>,
    /// How often it was changed.
    changes: usize,
    /// Bytes that were sent.
    sent: usize,
    rates: Rates,
}

/// A lane over such a path.
struct Steered {
    below: Box<dyn LaneTx>,
    known: Arc<Mutex<Known>>,
    free: Pin<Box<Sleep>>,
}

impl LaneTx for Steered {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        ready!(self.free.as_mut().poll(cx));
        let part = parts.iter().find(|part| !part.is_empty());
        let part = part.map_or(&[][..], |part| &part[..part.len().min(100)]);
        let sent = ready!(self.below.poll_send(cx, &[part]))?;
        let mut known = self.known.lock().unwrap();
        known.sent += sent;
        let rate = known.rates.of(known.control.unwrap_or(ModelBased));
        let takes = Duration::from_secs_f64(sent as f64 / rate);
        self.free.as_mut().reset(Instant::now() + takes);
        Poll::Ready(Ok(sent))
    }

    fn congestion_control(&self) -> Option<CongestionControl> {
        self.known.lock().unwrap().control
    }

    fn set_congestion_control(&mut self, control: CongestionControl) {
        let mut known = self.known.lock().unwrap();
        known.control = Some(control);
        known.changes += 1;
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        self.below.poll_close(cx)
    }
}

/// The same with a buffer that takes all bytes at once, as the system has one for each connection.
struct Buffered(mpsc::UnboundedSender<Vec<u8>>, Steered);

impl Buffered {
    fn new(mut lane: Steered) -> Self {
        let (sender, mut taken) = mpsc::unbounded_channel::<Vec<u8>>();
        let known = Arc::clone(&lane.known);
        let below = std::mem::replace(&mut lane.below, Box::new(Nowhere));
        let mut behind = Steered {
            below,
            known,
            free: Box::pin(sleep_until(Instant::now())),
        };
        tokio::spawn(async move {
            while let Some(bytes) = taken.recv().await {
                send_all(&mut behind, &bytes, &[]).await.unwrap();
            }
        });
        Self(sender, lane)
    }
}

impl LaneTx for Buffered {
    fn poll_send(
        &mut self,
        _: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        let bytes = parts.concat();
        let count = bytes.len();
        self.0.send(bytes).unwrap();
        Poll::Ready(Ok(count))
    }

    fn congestion_control(&self) -> Option<CongestionControl> {
        self.1.congestion_control()
    }

    fn set_congestion_control(&mut self, control: CongestionControl) {
        self.1.set_congestion_control(control);
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        Poll::Ready(Ok(()))
    }
}

/// In the place of a lane that is elsewhere.
struct Nowhere;

impl LaneTx for Nowhere {
    fn poll_send(&mut self, _: &mut Context<'_>, _: &[&[u8]]) -> Poll<Result<usize, LaneError>> {
        Poll::Ready(Err(LaneError::Closed))
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        Poll::Ready(Ok(()))
    }
}

/// Peers with links between all, three unless it is said otherwise.
struct Mesh {
    members: Vec<Member>,
    lanes: Vec<Arc<Mutex<Known>>>,
    seq: Seq,
}

impl Mesh {
    fn new(control: Option<CongestionControl>, rates: Rates) -> Self {
        Self::over((WORLD, 1), control, rates, |lane| Box::new(lane))
    }

    /// So many peers, with so many lanes on each link.
    fn over(
        (world, lanes_per_link): (usize, u16),
        control: Option<CongestionControl>,
        rates: Rates,
        sends_on: impl Fn(Steered) -> Box<dyn LaneTx>,
    ) -> Self {
        let lanes = RefCell::new(Vec::new());
        // Several stripes, which is as many lanes as a reduce may take.
        let config = PlaneConfig {
            stripe_bytes: 4096,
            ..small_frames()
        };
        let members = (0..world).map(|_| Member::new(config.clone()));
        let members = mesh_of(members.collect(), lanes_per_link, |lane| {
            let known = Arc::new(Mutex::new(Known {
                control,
                changes: 0,
                sent: 0,
                rates,
            }));
            lanes.borrow_mut().push(Arc::clone(&known));
            let tx = Steered {
                below: lane.tx,
                known,
                free: Box::pin(sleep_until(Instant::now())),
            };
            Lane {
                tx: sends_on(tx),
                ..lane
            }
        });
        Self {
            members,
            lanes: lanes.into_inner(),
            seq: Seq(0),
        }
    }

    /// Begins a reduce at all peers.
    fn begin(
        &mut self,
        seq: Seq,
        algorithm: Algorithm,
        port: impl Fn(OperationPort) -> OperationPort,
    ) -> impl Future<Output = ()> + Send + 'static {
        let inputs = inputs(ElementType::F32, COUNT, self.members.len());
        let spec = spec(ReduceOp::Sum, ElementType::F32, COUNT);
        let members = self.members.iter_mut();
        let ports = members.map(|m| port(m.plane.begin(seq, spec, algorithm)));
        let ports = ports.collect();
        async move {
            let ended = run_all(ports, &inputs).await;
            let expected = expected(ElementType::F32, ReduceOp::Sum, &inputs);
            assert!(ended.iter().all(|ended| ended.data == expected));
        }
    }

    fn stop(&mut self, seq: Seq) {
        self.members.iter_mut().for_each(|m| m.plane.stop(seq));
    }

    /// Reduces once. Returns how long it took.
    async fn reduce(&mut self) -> Duration {
        self.reduce_by(Algorithm::Direct).await
    }

    async fn reduce_by(&mut self, algorithm: Algorithm) -> Duration {
        self.seq = self.seq.next();
        let seq = self.seq;
        let begun = Instant::now();
        self.begin(seq, algorithm, |port| port).await;
        self.stop(seq);
        begun.elapsed()
    }

    async fn reduces(&mut self, count: usize) -> Vec<Duration> {
        let mut took = Vec::new();
        for _ in 0..count {
            took.push(self.reduce().await);
        }
        took
    }

    fn controls(&self) -> Vec<Option<CongestionControl>> {
        let lanes = self.lanes.iter();
        lanes.map(|lane| lane.lock().unwrap().control).collect()
    }

    /// How many lanes have sent something since this was last asked.
    fn lanes_used(&self) -> usize {
        let lanes = self.lanes.iter();
        let used = lanes.filter(|lane| std::mem::take(&mut lane.lock().unwrap().sent) > 0);
        used.count()
    }

    fn changes(&self) -> usize {
        let lanes = self.lanes.iter();
        lanes.map(|lane| lane.lock().unwrap().changes).sum()
    }

    /// The paths are others from here on.
    fn change_to(&mut self, rates: Rates) {
        let lanes = self.lanes.iter();
        lanes.for_each(|lane| lane.lock().unwrap().rates = rates);
    }
}

fn broadcast() -> CollectiveSpec {
    CollectiveSpec {
        kind: CollectiveKind::Broadcast { root: PeerId(0) },
        ..spec(ReduceOp::Sum, ElementType::F32, COUNT)
    }
}

#[test(start_paused = true)]
async fn over_clean_paths_all_lanes_end_with_the_loss_based_control() {
    let mut mesh = Mesh::new(Some(ModelBased), Rates::CLEAN);

    let took = mesh.reduces(8).await;

    assert_eq!(mesh.controls(), [Some(LossBased); WORLD * (WORLD - 1)]);
    assert!(took[7] < took[0] * 6 / 10, "{took:?}");
}

#[test(start_paused = true)]
async fn over_lossy_paths_a_trial_is_given_up_within_the_reduce() {
    let mut mesh = Mesh::new(Some(ModelBased), Rates::LOSSY);

    let took = mesh.reduces(5).await;

    assert_eq!(mesh.controls(), [Some(ModelBased); WORLD * (WORLD - 1)]);
    // To and fro.
    assert_eq!(mesh.changes(), 2 * mesh.lanes.len());
    assert!(took[3] > took[2], "{took:?}");
    assert!(took[3] < took[2] * 3, "{took:?}");
}

#[test(start_paused = true)]
async fn paths_that_begin_to_lose_packets_get_the_model_back_within_a_reduce() {
    let mut mesh = Mesh::new(Some(ModelBased), Rates::CLEAN);
    let before = mesh.reduces(8).await;

    mesh.change_to(Rates::LOSSY);
    let took = mesh.reduce().await;

    assert_eq!(mesh.controls(), [Some(ModelBased); WORLD * (WORLD - 1)]);
    assert!(took < before[7] * 9, "{took:?} after {before:?}");
}

/// The root of a broadcast is done when its bytes are in buffers.
#[test(start_paused = true)]
async fn bytes_that_wait_in_the_buffers_of_an_ended_run_get_the_model_back() {
    let mut mesh = Mesh::over((WORLD, 1), Some(ModelBased), Rates::CLEAN, |lane| {
        Box::new(Buffered::new(lane))
    });
    mesh.reduces(8).await;
    assert_eq!(mesh.controls(), [Some(LossBased); WORLD * (WORLD - 1)]);

    mesh.change_to(Rates::LOSSY);
    let buffer = inputs(ElementType::F32, COUNT, 1).remove(0);
    let begun = Instant::now();
    let members = mesh.members.iter_mut();
    let ports = members.map(|m| m.plane.begin(Seq(9), broadcast(), Algorithm::Chain));
    let contents = [buffer.clone(), vec![0; buffer.len()], vec![0; buffer.len()]];
    let ended = run_all(ports.collect(), &contents).await;

    assert!(ended.iter().all(|ended| ended.data == buffer));
    // Over one link after the other: all bytes on the loss-based one, 12 s.
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
}

/// The first one has begun alone.
#[test(start_paused = true)]
async fn reduces_that_share_the_paths_give_nothing_up() {
    let mut mesh = Mesh::new(Some(ModelBased), Rates::CLEAN);
    mesh.reduces(8).await;
    let changes = mesh.changes();

    let mut runs = JoinSet::new();
    for seq in (9..17).map(Seq) {
        let run = mesh.begin(seq, Algorithm::Direct, |port| port);
        runs.spawn(async move {
            run.await;
            seq
        });
        sleep(Duration::from_millis(10)).await;
    }
    while let Some(ended) = runs.join_next().await {
        mesh.stop(ended.unwrap());
    }

    assert_eq!(mesh.changes(), changes);
    assert_eq!(mesh.controls(), [Some(LossBased); WORLD * (WORLD - 1)]);
}

#[test(start_paused = true)]
async fn other_links_begin_with_the_model() {
    let mut mesh = Mesh::new(Some(ModelBased), Rates::CLEAN);
    mesh.reduces(8).await;

    for (rank, member) in mesh.members.iter_mut().enumerate() {
        adopt_mesh(member, (rank, WORLD), 1, LanesInUse::Standing);
    }
    mesh.reduce().await;

    assert_eq!(mesh.controls(), [Some(ModelBased); WORLD * (WORLD - 1)]);
}

#[test(start_paused = true)]
async fn lanes_without_a_choice_are_left_alone() {
    let mut mesh = Mesh::new(None, Rates::CLEAN);

    mesh.reduces(20).await;

    assert_eq!(mesh.changes(), 0);
}

#[test(start_paused = true)]
async fn what_waits_for_others_to_be_told_teaches_nothing() {
    let mut mesh = Mesh::new(Some(ModelBased), Rates::CLEAN);

    for seq in (1..=8).map(Seq) {
        mesh.begin(seq, Algorithm::Direct, OperationPort::ahead)
            .await;
        mesh.stop(seq);
    }

    assert_eq!(mesh.changes(), 0);
}

#[test(start_paused = true)]
async fn numbers_of_lanes_are_tried_when_the_control_is_decided() {
    let mut mesh = Mesh::over((2, 2), Some(ModelBased), Rates::CLEAN, |lane| {
        Box::new(lane)
    });

    let mut used = Vec::new();
    for _ in 0..40 {
        mesh.reduce_by(Algorithm::Ring).await;
        used.push(mesh.lanes_used());
    }

    // Both lanes of both links, and both links try one.
    assert_eq!(used[..16], [4; 16]);
    assert!(used[16..].contains(&2), "{used:?}");
    assert_eq!(mesh.controls(), [Some(LossBased); 4]);
}

#[test(start_paused = true)]
async fn what_has_waited_for_others_is_limited_once_they_are_told() {
    let mut mesh = Mesh::new(Some(ModelBased), Rates::CLEAN);
    mesh.reduces(8).await;
    assert_eq!(mesh.controls(), [Some(LossBased); WORLD * (WORLD - 1)]);
    mesh.change_to(Rates::LOSSY);

    let seq = Seq(9);
    let begun = Instant::now();
    let run = tokio::spawn(mesh.begin(seq, Algorithm::Direct, OperationPort::ahead));
    sleep(Duration::from_millis(10)).await;
    mesh.members.iter_mut().for_each(|m| m.plane.confirm(seq));
    run.await.unwrap();

    assert_eq!(mesh.controls(), [Some(ModelBased); WORLD * (WORLD - 1)]);
    // All on the loss-based one: 16 s.
    assert!(begun.elapsed() < Duration::from_secs(4), "{begun:?}");
}

/// What is left of the frames of a reduce that is stopped is sent in any case.
#[test(start_paused = true)]
async fn frames_that_are_finished_for_a_stopped_reduce_get_the_model_back() {
    let mut mesh = Mesh::new(Some(ModelBased), Rates::CLEAN);
    mesh.reduces(8).await;
    mesh.change_to(Rates::LOSSY);

    let seq = Seq(9);
    let members = mesh.members.iter_mut();
    let ports = members.map(|m| {
        m.plane.begin(
            seq,
            spec(ReduceOp::Sum, ElementType::F32, COUNT),
            Algorithm::Direct,
        )
    });
    let contents = inputs(ElementType::F32, COUNT, WORLD);
    let ports: Vec<OperationPort> = ports.collect();
    let run = tokio::spawn(async move { run_all(ports, &contents).await });
    sleep(Duration::from_millis(10)).await;
    mesh.stop(seq);
    run.await.unwrap();
    for (rank, member) in mesh.members.iter_mut().enumerate() {
        adopt_mesh(member, (rank, WORLD), 1, LanesInUse::Standing);
    }
    // As long as a hundred bytes take on the loss-based one.
    sleep(Duration::from_millis(100)).await;

    assert_eq!(mesh.controls(), [Some(ModelBased); WORLD * (WORLD - 1)]);
}

#[test(start_paused = true)]
async fn what_a_root_is_done_with_early_teaches_nothing() {
    let mut mesh = Mesh::new(Some(ModelBased), Rates::CLEAN);
    let buffer = inputs(ElementType::F32, COUNT, WORLD);

    for seq in (1..=8).map(Seq) {
        let members = mesh.members.iter_mut();
        let ports = members.map(|m| m.plane.begin(seq, broadcast(), Algorithm::Chain));
        run_all(ports.collect(), &buffer).await;
        mesh.stop(seq);
    }

    assert_eq!(mesh.changes(), 0);
}

/// Of two reduces, the one has begun alone, and the other one ends alone.
#[test(start_paused = true)]
async fn a_reduce_beside_another_one_teaches_nothing() {
    let mut mesh = Mesh::new(Some(ModelBased), Rates::CLEAN);

    for seq in (1..=16).step_by(2).map(Seq) {
        let first = tokio::spawn(mesh.begin(seq, Algorithm::Direct, |port| port));
        sleep(Duration::from_millis(100)).await;
        let second = tokio::spawn(mesh.begin(seq.next(), Algorithm::Direct, |port| port));
        first.await.unwrap();
        mesh.stop(seq);
        second.await.unwrap();
        mesh.stop(seq.next());
    }

    assert_eq!(mesh.changes(), 0);
}
