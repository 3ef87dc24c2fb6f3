//! Gathers and broadcasts that travel encoded: every rank, also the one that contributes, ends with what the frames
//! decode to.

use std::ops::Range;

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, ReduceOp};
use pccl_core::id::{PeerId, Seq};
use pccl_core::plan::{Algorithm, Shards, stripes_for};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::test;

use super::kinds::{GATHER, can_be_put_back, of_kind};
use super::quantized::{FLOATS, QUANTIZATIONS, encoded, normal, numbers};
use super::support::{Member, mesh, ring, run_all, small_frames, spec};
use crate::work::codec_of;
use crate::{RunFailure, encoding_error_bound};

/// Elements: none, fewer than ranks, and more than a frame holds for each rank.
const COUNTS: [usize; 5] = [0, 1, 3, 1025, 700_001];

/// Elements of a frame.
const FRAME: usize = 65_536;

/// What each rank has before.
fn inputs(element: ElementType, count: usize, world: usize) -> Vec<Vec<u8>> {
    let mut random = StdRng::seed_from_u64(count as u64);
    let mut of_rank = || (0..count).map(|_| normal(&mut random)).collect::<Vec<_>>();
    (0..world).map(|_| encoded(element, &of_rank())).collect()
}

/// Whose elements each rank ends with, frame by frame.
fn frames(spec: &CollectiveSpec, world: usize, lanes: u16) -> Vec<(usize, Range<usize>)> {
    let least = small_frames().stripe_bytes;
    let stripes = stripes_for(spec.count, spec.element, lanes, least);
    let shards = Shards::of_ranks(spec.count, world as u32);
    let parts = (0..stripes).flat_map(|number| {
        let stripe = shards.stripe(stripes, number);
        let parts: Vec<(usize, Range<u64>)> = match spec.kind {
            CollectiveKind::Broadcast { root } => vec![(root.0 as usize, stripe.whole())],
            _ => (0..world).map(|of| (of, stripe.chunk(of as u32))).collect(),
        };
        parts
    });
    let frames = parts.flat_map(|(of, part)| {
        let starts = (part.start as usize..part.end as usize).step_by(FRAME);
        starts.map(move |start| (of, start..(start + FRAME).min(part.end as usize)))
    });
    frames.collect()
}

/// What all ranks end with.
fn promised(spec: &CollectiveSpec, inputs: &[Vec<u8>], lanes: u16) -> Vec<u8> {
    let codec = codec_of(spec.element, spec.quantization).flatten().unwrap();
    let size = spec.element.size();
    let mut all = vec![0; inputs[0].len()];
    for (of, frame) in frames(spec, inputs.len(), lanes) {
        let mut coded = vec![0; codec.encoded_len(frame.len())];
        let bytes = frame.start * size..frame.end * size;
        codec
            .encode(&inputs[of][bytes.clone()], &mut coded)
            .unwrap();
        codec.decode(&coded, &mut all[bytes]).unwrap();
    }
    all
}

/// Runs all types and quantizations. `lanes`: of each link.
async fn all_end_with_the_same(
    mut members: Vec<Member>,
    lanes: u16,
    (kinds, algorithm): (&[CollectiveKind], Algorithm),
) {
    let world = members.len();
    let mut seq = Seq(0);
    // Each type, each quantization and each count with each of the others, but many elements of `f32` alone.
    let types = FLOATS.into_iter();
    let pairs = types.flat_map(|element| QUANTIZATIONS.map(|quantization| (element, quantization)));
    let cases = pairs.flat_map(|pair| COUNTS.map(|count| (pair, count)));
    let is_moderate = |&((element, _), count): &((ElementType, _), usize)| {
        count < FRAME || element == ElementType::F32
    };
    for kind in kinds {
        for ((element, quantization), count) in cases.clone().filter(is_moderate) {
            seq = seq.next();
            let inputs = inputs(element, count, world);
            let spec = CollectiveSpec {
                quantization,
                ..of_kind(*kind, spec(ReduceOp::Sum, element, count))
            };
            let ports = members.iter_mut();
            let ports = ports.map(|member| member.plane.begin(seq, spec, algorithm));

            let ended = run_all(ports.collect(), &inputs).await;

            let promised = promised(&spec, &inputs, lanes);
            for (rank, (mut ended, input)) in ended.into_iter().zip(&inputs).enumerate() {
                let what = format!(
                    "rank {rank} of {world}, {kind} of {count} {element}, {quantization}, {algorithm:?}"
                );
                assert!(ended.outcome.is_ok(), "{what}: {:?}", ended.outcome);
                assert!(ended.data == promised, "{what}");
                // The others may fail after this one is done.
                ended.backup.restore(&mut ended.data);
                assert!(ended.data == *input, "{what}, put back");
            }
            is_near(&spec, &inputs, &promised);
            members.iter_mut().for_each(|m| m.plane.stop(seq));
        }
    }
    assert!(members.iter_mut().all(|m| m.reports().is_empty()));
}

/// Each element is within the bound of what was contributed.
fn is_near(spec: &CollectiveSpec, inputs: &[Vec<u8>], result: &[u8]) {
    let result = numbers(spec.element, result);
    let inputs = inputs.iter().map(|input| numbers(spec.element, input));
    let inputs: Vec<Vec<f64>> = inputs.collect();
    let all = inputs.iter().flatten().copied();
    let largest = all.fold(0.0, |most: f64, number| most.max(number.abs()));
    let bound = encoding_error_bound((spec.element, spec.quantization), largest).unwrap();
    for (of, frame) in frames(spec, inputs.len(), 1) {
        for at in frame {
            let error = (result[at] - inputs[of][at]).abs();
            assert!(error <= bound, "element {at}: {error} of {bound}");
        }
    }
}

#[test(start_paused = true)]
async fn around_the_ring_all_ranks_gather_what_the_frames_decode_to() {
    for (world, lanes) in [(2, 1), (3, 3), (5, 2)] {
        let how = (&[GATHER][..], Algorithm::Ring);
        all_end_with_the_same(ring(world, lanes), lanes, how).await;
    }
}

#[test(start_paused = true)]
async fn over_a_mesh_all_ranks_gather_what_the_frames_decode_to() {
    let all = [
        (Algorithm::Direct, 2),
        (Algorithm::Direct, 5),
        (Algorithm::TwoLevel, 3),
        (Algorithm::TwoLevel, 8),
        (Algorithm::TwoLevelRing, 5),
        (Algorithm::TwoLevelRing, 8),
    ];
    for (algorithm, world) in all {
        // Directly a buffer is one stripe, whatever the lanes.
        let lanes = if algorithm == Algorithm::Direct { 1 } else { 2 };
        let how = (&[GATHER][..], algorithm);
        all_end_with_the_same(mesh(world, lanes), lanes, how).await;
    }
}

#[test(start_paused = true)]
async fn the_root_of_a_broadcast_ends_with_what_all_others_get() {
    let roots = [0, 2].map(|root| CollectiveKind::Broadcast { root: PeerId(root) });
    for (world, lanes) in [(3, 1), (4, 3)] {
        let how = (&roots[..], Algorithm::Chain);
        all_end_with_the_same(ring(world, lanes), lanes, how).await;
        for algorithm in [Algorithm::Tree, Algorithm::TwoLevel] {
            let members = mesh(world, lanes);
            all_end_with_the_same(members, lanes, (&roots, algorithm)).await;
        }
    }
}

#[test(start_paused = true)]
async fn whatever_is_stopped_in_the_middle_can_be_put_back() {
    let root = CollectiveKind::Broadcast { root: PeerId(0) };
    let inputs = inputs(ElementType::F32, 400_000, 3);
    for (kind, algorithm) in [(GATHER, Algorithm::Ring), (root, Algorithm::Chain)] {
        let mut members = ring(3, 1);
        let spec = CollectiveSpec {
            quantization: QUANTIZATIONS[0],
            ..of_kind(kind, spec(ReduceOp::Sum, ElementType::F32, 400_000))
        };
        can_be_put_back(&mut members, (spec, algorithm), &inputs, 1..60).await;
    }
}

#[test(start_paused = true)]
async fn what_has_no_encoded_form_is_refused_before_anything_moves() {
    let root = CollectiveKind::Broadcast { root: PeerId(0) };
    let cases = [
        (GATHER, ElementType::I32, Algorithm::Ring),
        (GATHER, ElementType::F32, Algorithm::Circulant),
        (root, ElementType::U8, Algorithm::Tree),
    ];
    for (kind, element, algorithm) in cases {
        let spec = CollectiveSpec {
            quantization: QUANTIZATIONS[0],
            ..of_kind(kind, spec(ReduceOp::Sum, element, 100))
        };
        let mut members = mesh(3, 1);
        let ports = members.iter_mut();
        let ports = ports.map(|member| member.plane.begin(Seq(1), spec, algorithm));

        let ended = run_all(ports.collect(), &vec![vec![0; 100 * element.size()]; 3]).await;

        for ended in ended {
            let is_refused = matches!(ended.outcome, Err(RunFailure::Defect(_)));
            assert!(is_refused, "{kind} of {element}, {algorithm:?}");
        }
    }
}
