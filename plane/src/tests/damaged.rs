//! Bits that flip on their way: each of them ends its lane, whichever frame and byte it is in, and none becomes part of
//! a result.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, Quantization, ReduceOp};
use pccl_core::id::{Identity, PeerId, Seq};
use pccl_core::plan::{Algorithm, Pattern};
use pccl_core::transport::{Lane, LaneError, LaneTx, Proven};
use pccl_core::wire::FRAME_HEADER_BYTES;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::test;

use super::kinds::{GATHER, SCATTER, of_kind};
use super::reference::random_bits;
use super::support::{
    AROUND, Ended, Member, Near, broke, from, mesh_of, raw_lane, run_all, small_frames, spec, stand,
};
use crate::{Checksums, PlaneConfig, RunFailure};

const WORLD: usize = 4;
const ELEMENT: ElementType = ElementType::F32;
const BROADCAST: CollectiveKind = CollectiveKind::Broadcast { root: PeerId(1) };

/// A bit of what is sent on a lane: the lane by its number, the byte by its position in all that is sent there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flip {
    lane: usize,
    byte: u64,
    bit: u32,
}

/// How many bytes were sent, by lane.
type Sent = Arc<Mutex<Vec<u64>>>;

/// The sending end of a lane that counts, and turns a bit over.
struct Tampered {
    tx: Box<dyn LaneTx>,
    lane: usize,
    flip: Option<Flip>,
    sent: Sent,
}

impl LaneTx for Tampered {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        let mut bytes = parts.concat();
        let already = self.sent.lock().unwrap()[self.lane];
        if let Some(Flip { byte, bit, .. }) = self.flip {
            let at = byte.checked_sub(already);
            let meant = at.and_then(|at| bytes.get_mut(usize::try_from(at).unwrap()));
            meant.into_iter().for_each(|byte| *byte ^= 1 << bit);
        }
        let taken = self.tx.poll_send(cx, &[&bytes]);
        if let Poll::Ready(Ok(taken)) = taken {
            self.sent.lock().unwrap()[self.lane] += taken as u64;
        }
        taken
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        self.tx.poll_close(cx)
    }
}

/// What runs, over which lanes.
#[derive(Clone, Copy, Debug)]
struct Case {
    spec: CollectiveSpec,
    algorithm: Algorithm,
    is_mesh: bool,
    lanes: u16,
}

impl Case {
    fn all() -> Vec<Self> {
        let of = |kind, count| of_kind(kind, spec(ReduceOp::Sum, ELEMENT, count));
        let all_reduce = |count| of(CollectiveKind::AllReduce, count);
        let encoded = CollectiveSpec {
            quantization: Quantization::Blockwise4,
            ..all_reduce(2000)
        };
        let ring = |spec, algorithm| Self {
            spec,
            algorithm,
            is_mesh: false,
            lanes: 2,
        };
        let mesh = |algorithm| Self {
            spec: all_reduce(1500),
            algorithm,
            is_mesh: true,
            lanes: 1,
        };
        vec![
            ring(all_reduce(9001), AROUND),
            ring(encoded, AROUND),
            ring(of(SCATTER, 2001), AROUND),
            ring(of(GATHER, 2001), AROUND),
            ring(all_reduce(500), Algorithm::Whole(Pattern::Ring)),
            ring(all_reduce(2001), Algorithm::Relay),
            ring(of(BROADCAST, 9001), Algorithm::Chain),
            mesh(Algorithm::Direct),
            mesh(Algorithm::Whole(Pattern::Mesh)),
            mesh(Algorithm::Whole(Pattern::Circulant)),
            mesh(Algorithm::Circulant),
            mesh(Algorithm::TwoLevel),
            mesh(Algorithm::TwoLevelRing),
            mesh(Algorithm::TwoLevelWhole),
        ]
    }

    /// Runs it over lanes of which one turns a bit over. How all ranks ended, and what was sent.
    async fn run(
        self,
        flip: Option<Flip>,
        checksums: Checksums,
        inputs: &[Vec<u8>],
    ) -> (Vec<Member>, Vec<Ended>, Vec<u64>) {
        let sent = Sent::default();
        let tampered = |lane: Lane| {
            let number = {
                let mut sent = sent.lock().unwrap();
                sent.push(0);
                sent.len() - 1
            };
            let tx = Box::new(Tampered {
                tx: lane.tx,
                lane: number,
                flip: flip.filter(|flip| flip.lane == number),
                sent: Arc::clone(&sent),
            });
            Lane { tx, ..lane }
        };
        let config = PlaneConfig {
            checksums,
            ..small_frames()
        };
        let members = (0..WORLD).map(|_| Member::new(config.clone())).collect();
        let mut members = match self.is_mesh {
            true => mesh_of(members, self.lanes, tampered),
            false => stand(members, self.lanes, tampered),
        };
        let ports = members.iter_mut();
        let ports = ports.map(|m| m.plane.begin(Seq(1), self.spec, self.algorithm));
        let ended = run_all(ports.collect(), inputs).await;
        let sent = sent.lock().unwrap().clone();
        (members, ended, sent)
    }

    /// From which rank to which a lane leads.
    fn ends(self, lane: usize) -> (usize, usize) {
        let link = lane / usize::from(self.lanes);
        if !self.is_mesh {
            return (link, (link + 1) % WORLD);
        }
        let (sender, nth) = (link / (WORLD - 1), link % (WORLD - 1));
        (sender, nth + usize::from(nth >= sender))
    }

    fn inputs(self) -> Vec<Vec<u8>> {
        // Small whole numbers, whose sums are exact.
        let count = self.spec.count;
        let of_rank = |rank: u64| {
            let elements = (0..count).map(move |at| (at * 7 + rank * 3) % 101);
            elements.flat_map(|n| (n as f32).to_le_bytes()).collect()
        };
        (0..WORLD as u64).map(of_rank).collect()
    }
}

/// Bits of every kind: of each field of the first header, of the payload's first, last and some other bytes.
fn flips(sent: &[u64], random: &mut StdRng) -> Vec<Flip> {
    const FIELDS: [u64; 8] = [0, 8, 16, 20, 24, 26, 28, 36];
    let mut flips = Vec::new();
    for (lane, sent) in sent.iter().enumerate().filter(|(_, sent)| **sent > 0) {
        let first = FRAME_HEADER_BYTES as u64;
        let others: Vec<u64> = (0..5).map(|_| random.next_u64() % sent).collect();
        let bytes = FIELDS.into_iter().chain([first, sent - 1]).chain(others);
        flips.extend(bytes.map(|byte| Flip {
            lane,
            byte,
            bit: random.next_u32() % 8,
        }));
    }
    flips
}

#[test(start_paused = true)]
async fn a_flipped_bit_ends_its_lane_and_is_in_nobodys_result_whatever_the_algorithm() {
    let mut random = StdRng::seed_from_u64(16);
    for case in Case::all() {
        let inputs = case.inputs();
        let (_, sound, sent) = case.run(None, Checksums::default(), &inputs).await;
        assert!(sound.iter().all(|ended| ended.outcome.is_ok()), "{case:?}");

        let flips = flips(&sent, &mut random);
        assert!(flips.len() >= 15 * (WORLD - 1), "{case:?}: {sent:?}");
        for flip in flips {
            let (mut members, ended, _) = case.run(Some(flip), Checksums::default(), &inputs).await;

            let what = format!("{flip:?} of {case:?}");
            let (sender, receiver) = case.ends(flip.lane);
            let outcomes: Vec<_> = ended.iter().map(|ended| ended.outcome).collect();
            assert_eq!(outcomes[receiver], Err(RunFailure::LaneLost), "{what}");
            let reports = members[receiver].reports();
            assert_eq!(reports.first(), Some(&broke(from(sender))), "{what}");
            for (rank, mut ended) in ended.into_iter().enumerate() {
                let expected = match ended.outcome {
                    Ok(_) => &sound[rank].data,
                    Err(_) => {
                        ended.backup.restore(&mut ended.data);
                        &inputs[rank]
                    }
                };
                assert!(ended.data == *expected, "rank {rank}, {what}");
            }
        }
    }
}

#[test(start_paused = true)]
async fn without_checksums_a_flipped_bit_is_in_everybodys_result() {
    let case = Case::all()[0];
    let inputs = case.inputs();
    let flip = Flip {
        lane: 0,
        byte: FRAME_HEADER_BYTES as u64,
        bit: 6,
    };

    let (_, sound, _) = case.run(None, Checksums::Never, &inputs).await;
    let (_, ended, _) = case.run(Some(flip), Checksums::Never, &inputs).await;

    assert!(ended.iter().all(|ended| ended.outcome.is_ok()));
    assert!(ended.iter().all(|ended| ended.data != sound[0].data));
}

#[test(start_paused = true)]
async fn ranks_that_send_checksums_and_ranks_that_do_not_work_together() {
    let inputs = random_bits(40_000, WORLD, 5);
    let config = |rank: usize| PlaneConfig {
        checksums: [Checksums::Never, Checksums::Always][rank % 2],
        ..small_frames()
    };
    let mut members = (0..WORLD).map(|rank| Member::new(config(rank))).collect();
    members = stand(members, 2, |lane| lane);
    let spec = spec(ReduceOp::Max, ELEMENT, 10_000);
    let ports = members.iter_mut();
    let ports = ports.map(|m| m.plane.begin(Seq(1), spec, AROUND));

    let ended = run_all(ports.collect(), &inputs).await;

    assert!(ended.iter().all(|ended| ended.outcome.is_ok()));
    assert!(ended.iter().all(|other| other.data == ended[0].data));
}

#[test]
async fn payloads_are_summed_on_plain_lanes_to_other_machines_unless_it_is_said_otherwise() {
    let plain = || raw_lane().0;
    let near = || Lane {
        tx: Box::new(Near(plain().tx)),
        ..plain()
    };
    let proven = || {
        plain().with_proof(Some(Proven {
            own: Identity([1; 32]),
            identity: Identity([2; 32]),
            binding: [3; 32],
        }))
    };

    let summed =
        |checksums: Checksums| [plain(), near(), proven()].map(|lane| checksums.apply_to(&lane));

    assert_eq!(summed(Checksums::Never), [false, false, false]);
    assert_eq!(summed(Checksums::default()), [true, false, false]);
    assert_eq!(summed(Checksums::Always), [true, true, false]);
}
