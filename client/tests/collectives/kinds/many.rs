//! Many collectives at once, of all kinds and sizes.

use std::sync::Arc;
use std::time::Duration;

use pccl::{Communicator, Error, PeerId, Quantization, Reduce};
use pccl::{ElementType, Scattered};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::ids;
use super::kind::{Kind, inputs, one_thread};
use crate::support::lanes::DISTANCES;
use crate::support::{LANES, Run, together_with};

/// Far beyond what any test takes; reached only by a hang.
const HANG: Duration = Duration::from_secs(60);

/// What all peers do under one tag.
struct Deed {
    tag: u64,
    kind: Kind,
    inputs: Vec<Vec<u64>>,
    /// What each of them is to end with.
    promised: Vec<Vec<u64>>,
}

impl Deed {
    fn any(random: &mut StdRng, tag: u64, (ids, sizes): (&[PeerId], &[usize])) -> Self {
        let root = ids[random.random_range(0..ids.len())];
        let [rest @ .., _barrier] = Kind::all(root);
        let kind = rest[random.random_range(0..rest.len())];
        let count = sizes[random.random_range(0..sizes.len())] + random.random_range(0..5);
        let inputs = inputs(ids.len(), count);
        let promised = kind.promised(ids, &inputs);
        Self {
            tag,
            kind,
            inputs,
            promised,
        }
    }

    fn check(&self, index: usize, buffer: &[u64], result: Result<usize, Error>) {
        let Self { tag, kind, .. } = self;
        assert_eq!(result, Ok(self.inputs.len()), "{kind:?}, tag {tag}");
        let is_promised = *buffer == self.promised[index];
        assert!(
            is_promised,
            "peer {index}, {kind:?} of {}, tag {tag}",
            buffer.len()
        );
    }
}

#[test]
fn all_kinds_run_side_by_side_on_threads_that_begin_in_any_order() {
    const SIZES: [usize; 6] = [0, 3, 900, 9000, 90_000, 400_000];
    for distance in DISTANCES {
        let run = Run::over(LANES, distance);
        let mut peers = run.peers(4);
        let ids = ids(&peers);
        let mut random = StdRng::seed_from_u64(1);
        let deeds = (0..40).map(|tag| Deed::any(&mut random, tag, (&ids, &SIZES)));
        let deeds: Vec<Deed> = deeds.collect();

        together_with(&mut peers, |index, peer| {
            let mut order: Vec<&Deed> = deeds.iter().collect();
            order.shuffle(&mut StdRng::seed_from_u64(index as u64));
            std::thread::scope(|scope| {
                let peer = &*peer;
                for deed in order {
                    scope.spawn(move || {
                        let mut buffer = deed.inputs[index].clone();
                        let result = deed.kind.call(peer, &mut buffer, deed.tag);
                        deed.check(index, &buffer, result.map(|report| report.world_size));
                    });
                }
                for _ in 0..10 {
                    peer.barrier().unwrap();
                }
            });
        });
    }
}

/// So many that some of them have to wait for others.
#[test]
fn more_futures_of_all_kinds_than_may_be_in_flight_all_end_with_what_they_promise() {
    const SIZES: [usize; 3] = [0, 1, 300];
    let run = Run::new();
    let peers = run.peers(3);
    let ids = ids(&peers);
    let mut random = StdRng::seed_from_u64(2);
    let deeds = (0..1100).map(|tag| Deed::any(&mut random, tag, (&ids, &SIZES)));
    let deeds: Arc<Vec<Deed>> = Arc::new(deeds.collect());
    let mut peers: Vec<Arc<Communicator>> = peers.into_iter().map(Arc::new).collect();

    std::thread::scope(|scope| {
        for (index, peer) in peers.iter_mut().enumerate() {
            let deeds = &deeds;
            scope.spawn(move || {
                let story = async {
                    let mut running = JoinSet::new();
                    for number in 0..deeds.len() {
                        let (peer, deeds) = (Arc::clone(peer), Arc::clone(deeds));
                        running.spawn(async move {
                            let deed = &deeds[number];
                            let mut buffer = deed.inputs[index].clone();
                            let result = deed.kind.call_async(&peer, &mut buffer, deed.tag).await;
                            deed.check(index, &buffer, result.map(|report| report.world_size));
                        });
                    }
                    while let Some(ended) = running.join_next().await {
                        ended.unwrap();
                    }
                };
                one_thread()
                    .block_on(async { timeout(HANG, story).await })
                    .unwrap();
            });
        }
    });
}

/// They share what may be on its way of all of them.
#[test]
fn many_quantized_shards_at_once_are_those_of_quantized_all_reduces() {
    const COUNTS: [usize; 4] = [2, 70_001, 400_003, 1_500_001];
    let quantizations = [
        Quantization::MinMax {
            to: ElementType::U8,
        },
        Quantization::MinMax {
            to: ElementType::U16,
        },
        Quantization::Blockwise4,
    ];
    for distance in DISTANCES {
        let run = Run::over(LANES, distance);
        let mut peers = run.peers(3);
        let ranks: Vec<usize> = peers.iter().map(Communicator::rank).collect();
        assert_eq!(ranks, [0, 1, 2], "shards are those of an all-reduce then");

        together_with(&mut peers, |index, peer| {
            std::thread::scope(|scope| {
                let peer = &*peer;
                for (tag, (count, quantization)) in (0..).zip(
                    COUNTS
                        .into_iter()
                        .flat_map(|count| quantizations.map(|to| (count, to))),
                ) {
                    scope.spawn(move || {
                        let mut random = StdRng::seed_from_u64(index as u64);
                        let own = (0..count).map(|_| random.random_range(-1.0_f32..1.0));
                        let own: Vec<f32> = own.collect();
                        let reduce = Reduce::avg().quantize(quantization);
                        let (mut whole, mut shards) = (own.clone(), own.clone());
                        peer.all_reduce(&mut whole, reduce.tag(2 * tag)).unwrap();
                        let reduce = reduce.tag(2 * tag + 1);
                        let scattered = peer.reduce_scatter(&mut shards, reduce).unwrap();
                        let Scattered { shard, .. } = scattered;

                        let mut expected = own;
                        shard
                            .of_mut(&mut expected)
                            .copy_from_slice(shard.of(&whole));
                        assert!(shards == expected, "{count}, {quantization}");
                    });
                }
            });
        });
    }
}
