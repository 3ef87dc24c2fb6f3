//! Rings of data planes in one process, and lanes whose other end is in the test's hand.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::{PeerId, Round, Seq};
use pccl_core::plan::Algorithm;
use pccl_core::site::Sites;
use pccl_core::topology::LinkId;
use pccl_core::transport::{Lane, LaneError, LaneRx, LaneTx};
use pccl_core::wire::FrameHeader;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

use super::reference::{OPS, expected, inputs};
use crate::{
    Backup, DataPlane, LanesInUse, LinkBroke, LinkInUse, OperationPort, PlaneConfig, Ranks,
    RunFailure, RunStats, UserBuffers,
};

/// Bytes that a lane in memory holds.
pub(super) const LANE_BYTES: usize = 3000;

/// What collectives take unless a test is about another algorithm.
pub(super) const AROUND: Algorithm = Algorithm::Ring;

/// The round in which the tests build their first links.
pub(super) const BUILT: Round = Round(1);

struct Tx(WriteHalf<DuplexStream>);

struct Rx(ReadHalf<DuplexStream>);

impl LaneTx for Tx {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        let part = parts.iter().find(|part| !part.is_empty());
        Pin::new(&mut self.0)
            .poll_write(cx, part.copied().unwrap_or_default())
            .map_err(|_| LaneError::Reset)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        Pin::new(&mut self.0)
            .poll_shutdown(cx)
            .map_err(|_| LaneError::Reset)
    }
}

/// A lane whose other end is on the same machine.
pub(super) struct Near(pub(super) Box<dyn LaneTx>);

impl LaneTx for Near {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        self.0.poll_send(cx, parts)
    }

    fn is_local(&self) -> bool {
        true
    }

    fn give_up_after(&mut self, limit: Duration) {
        self.0.give_up_after(limit);
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        self.0.poll_close(cx)
    }
}

impl LaneRx for Rx {
    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<usize, LaneError>> {
        let mut buffer = ReadBuf::new(into);
        let read = Pin::new(&mut self.0).poll_read(cx, &mut buffer);
        read.map_ok(|()| buffer.filled().len())
            .map_err(|_| LaneError::Reset)
    }
}

fn lane(stream: DuplexStream) -> Lane {
    let (rx, tx) = tokio::io::split(stream);
    Lane::new(Box::new(Tx(tx)), Box::new(Rx(rx)))
}

/// A lane, and its other end as plain bytes.
pub(super) fn raw_lane() -> (Lane, DuplexStream) {
    let (ours, theirs) = tokio::io::duplex(LANE_BYTES);
    (lane(ours), theirs)
}

/// Both ends of `count` lanes.
pub(super) fn lanes(count: u16) -> (Vec<Lane>, Vec<Lane>) {
    (0..count)
        .map(|_| tokio::io::duplex(LANE_BYTES))
        .map(|(one, other)| (lane(one), lane(other)))
        .unzip()
}

/// One peer of a ring.
pub(super) struct Member {
    pub(super) plane: DataPlane,
    pub(super) events: mpsc::UnboundedReceiver<LinkBroke>,
}

impl Member {
    pub(super) fn new(config: PlaneConfig) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        Self {
            plane: DataPlane::new(sender, config),
            events,
        }
    }

    /// What the plane has reported so far.
    pub(super) fn reports(&mut self) -> Vec<LinkBroke> {
        std::iter::from_fn(|| self.events.try_recv().ok()).collect()
    }
}

/// Frames of at most 1000 bytes, so that even small buffers take many.
pub(super) fn small_frames() -> PlaneConfig {
    PlaneConfig {
        frame_bytes: 1000,
        stripe_bytes: 16 * 1024,
        ..PlaneConfig::default()
    }
}

/// The link to this rank.
pub(super) const fn to(rank: usize) -> LinkId {
    LinkId::to(PeerId(rank as u64))
}

/// The link from this rank.
pub(super) const fn from(rank: usize) -> LinkId {
    LinkId::from(PeerId(rank as u64))
}

/// The links of a rank to its neighbours in a ring of so many: the same lanes of both.
pub(super) fn both(rank: usize, world: usize, lanes: LanesInUse) -> Vec<LinkInUse> {
    let links = match world {
        1 => vec![],
        _ => vec![to((rank + 1) % world), from((rank + world - 1) % world)],
    };
    let adopted = links.into_iter().map(|link| LinkInUse { link, lanes });
    adopted.collect()
}

/// Both were built in this round.
pub(super) fn built_in(rank: usize, world: usize, round: Round) -> Vec<LinkInUse> {
    both(rank, world, LanesInUse::Installed(round))
}

/// Each third rank is at another site.
pub(super) fn sites(world: u32) -> Sites {
    Sites::of((0..world).map(|rank| [0, 0, 1, 2][rank as usize % 4]))
}

/// Peers 0, 1, … `world`, of which this one has this rank.
pub(super) fn ranks(rank: usize, world: usize, lanes: u16) -> Option<Ranks> {
    let peers = (0..world as u64).map(PeerId);
    let sites = sites(u32::try_from(world).unwrap());
    Ranks::new(peers.collect(), sites, PeerId(rank as u64), lanes)
}

/// A ring that stands, over `lanes` lanes per edge.
pub(super) fn ring(world: usize, lane_count: u16) -> Vec<Member> {
    ring_of(world, lane_count, &small_frames())
}

/// The same, with planes of this configuration.
pub(super) fn ring_of(world: usize, lane_count: u16, config: &PlaneConfig) -> Vec<Member> {
    let members = (0..world).map(|_| Member::new(config.clone())).collect();
    stand(members, lane_count, |lane| lane)
}

/// A ring whose edges have so many lanes, beginning with the one that rank 0 sends on.
pub(super) fn uneven_ring(lane_counts: &[u16]) -> Vec<Member> {
    let members = lane_counts.iter().map(|_| Member::new(small_frames()));
    stand_unevenly(members.collect(), lane_counts, |lane| lane)
}

/// A ring within one machine.
pub(super) fn local_ring(world: usize, lane_count: u16) -> Vec<Member> {
    let members = (0..world).map(|_| Member::new(small_frames())).collect();
    stand(members, lane_count, |lane| Lane {
        tx: Box::new(Near(lane.tx)),
        ..lane
    })
}

/// Builds the ring of these members.
pub(super) fn stand(
    members: Vec<Member>,
    lane_count: u16,
    sends_on: impl Fn(Lane) -> Lane,
) -> Vec<Member> {
    let lane_counts = vec![lane_count; members.len()];
    stand_unevenly(members, &lane_counts, sends_on)
}

/// The same; each member sends on lanes of its own number.
fn stand_unevenly(
    mut members: Vec<Member>,
    lane_counts: &[u16],
    sends_on: impl Fn(Lane) -> Lane,
) -> Vec<Member> {
    let world = members.len();
    if world > 1 {
        for (rank, lane_count) in lane_counts.iter().enumerate() {
            let (sending, receiving) = lanes(*lane_count);
            let sending = sending.into_iter().map(&sends_on).collect();
            let next = (rank + 1) % world;
            members[rank].plane.install(to(next), BUILT, sending);
            members[next].plane.install(from(rank), BUILT, receiving);
        }
    }
    let most = lane_counts.iter().copied().max().unwrap_or(1);
    adopt(&mut members, most, BUILT);
    members
}

/// A group with links between all members, of so many lanes each.
pub(super) fn mesh(world: usize, lane_count: u16) -> Vec<Member> {
    let members = (0..world).map(|_| Member::new(small_frames()));
    mesh_of(members.collect(), lane_count, |lane| lane)
}

/// The same, of these members.
pub(super) fn mesh_of(
    mut members: Vec<Member>,
    lane_count: u16,
    mut sends_on: impl FnMut(Lane) -> Lane,
) -> Vec<Member> {
    let world = members.len();
    let others = |rank: usize| (0..world).filter(move |other| *other != rank);
    for rank in 0..world {
        for other in others(rank) {
            let (sending, receiving) = lanes(lane_count);
            let sending = sending.into_iter().map(&mut sends_on).collect();
            members[rank].plane.install(to(other), BUILT, sending);
            members[other].plane.install(from(rank), BUILT, receiving);
        }
    }
    for (rank, member) in members.iter_mut().enumerate() {
        let lanes = LanesInUse::Installed(BUILT);
        adopt_mesh(member, (rank, world), lane_count, lanes);
    }
    members
}

/// A member adopts these lanes as its links to all others.
pub(super) fn adopt_mesh(
    member: &mut Member,
    (rank, world): (usize, usize),
    lane_count: u16,
    lanes: LanesInUse,
) {
    let others = (0..world).filter(|other| *other != rank);
    let links = others.flat_map(|other| [to(other), from(other)]);
    let adopted = links.map(|link| LinkInUse { link, lanes });
    let adopted: Vec<LinkInUse> = adopted.collect();
    member.plane.adopt(ranks(rank, world, lane_count), &adopted);
}

/// All members adopt the lanes of this round as the links of their ring.
pub(super) fn adopt(members: &mut [Member], lanes: u16, built: Round) {
    let world = members.len();
    for (rank, member) in members.iter_mut().enumerate() {
        let links = built_in(rank, world, built);
        member.plane.adopt(ranks(rank, world, lanes), &links);
    }
}

/// Rank 0 of a ring of two; rank 1 is the test.
pub(super) struct Alone {
    pub(super) member: Member,
    pub(super) from_previous: DuplexStream,
    pub(super) to_next: DuplexStream,
}

impl Alone {
    pub(super) fn new(config: PlaneConfig) -> Self {
        let mut member = Member::new(config);
        let (sending, to_next) = raw_lane();
        let (receiving, from_previous) = raw_lane();
        member.plane.install(to(1), BUILT, vec![sending]);
        member.plane.install(from(1), BUILT, vec![receiving]);
        let links = built_in(0, 2, BUILT);
        member.plane.adopt(ranks(0, 2, 1), &links);
        Self {
            member,
            from_previous,
            to_next,
        }
    }

    pub(super) async fn send(&mut self, header: FrameHeader, payload: &[u8]) {
        let head = header.encode();
        self.from_previous.write_all(&head).await.unwrap();
        self.from_previous.write_all(payload).await.unwrap();
    }
}

pub(super) fn broke(link: LinkId) -> LinkBroke {
    LinkBroke { link, built: BUILT }
}

pub(crate) fn spec(op: ReduceOp, element: ElementType, count: usize) -> CollectiveSpec {
    CollectiveSpec {
        kind: CollectiveKind::AllReduce,
        op,
        element,
        count: count as u64,
        quantization: Quantization::None,
        algorithm: None,
        ordered: false,
    }
}

/// How a run in place ended, with the buffer and its backup.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) outcome: Result<RunStats, RunFailure>,
    pub(super) data: Vec<u8>,
    pub(super) backup: Backup,
}

pub(super) async fn run_in_place(mut port: OperationPort, mut data: Vec<u8>) -> Ended {
    let mut backup = Backup::default();
    let buffers = UserBuffers::InPlace {
        data: &mut data,
        backup: &mut backup,
    };
    let outcome = port.run(buffers).await;
    Ended {
        outcome,
        data,
        backup,
    }
}

/// Runs one operation in place on every port, each in a task of its own.
pub(super) async fn run_all(ports: Vec<OperationPort>, inputs: &[Vec<u8>]) -> Vec<Ended> {
    let tasks: Vec<_> = ports
        .into_iter()
        .zip(inputs.to_vec())
        .map(|(port, data)| tokio::spawn(run_in_place(port, data)))
        .collect();
    let mut ended = Vec::new();
    for task in tasks {
        ended.push(in_time(task).await.unwrap());
    }
    ended
}

/// Each rank ends with the result of every type and operation, of so many elements by operation, and nobody has
/// anything to report.
pub(super) async fn all_end_right(
    mut members: Vec<Member>,
    algorithm: Algorithm,
    counts: [usize; OPS.len()],
) {
    let world = members.len();
    let mut seq = Seq(0);
    for element in ElementType::ALL {
        for (op, count) in OPS.into_iter().zip(counts) {
            seq = seq.next();
            let inputs = inputs(element, count, world);
            let spec = spec(op, element, count);
            let ports = members.iter_mut();
            let ports = ports.map(|m| m.plane.begin(seq, spec, algorithm));

            let ended = run_all(ports.collect(), &inputs).await;

            let expected = expected(element, op, &inputs);
            for (rank, ended) in ended.iter().enumerate() {
                assert_eq!(
                    (ended.outcome.is_ok(), &ended.data),
                    (true, &expected),
                    "rank {rank} of {world}, {op} of {element}"
                );
            }
            members.iter_mut().for_each(|m| m.plane.stop(seq));
        }
    }
    assert!(members.iter_mut().all(|m| m.reports().is_empty()));
}

/// Guards a test against hanging. With paused time a hang shows at once.
pub(super) async fn in_time<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(600), future)
        .await
        .expect("nothing moves any more")
}

/// Lets everything else go on for a number of turns.
pub(super) async fn turns(count: usize) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}
