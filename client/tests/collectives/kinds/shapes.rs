//! Buffers of every element type, empty ones, some with fewer elements than peers; peers that are alone; rings in
//! another order than that of the ids.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use pccl::half::{bf16, f16};
use pccl::{
    Algorithm, Broadcast, Communicator, Element, ElementType, Error, Gather, PeerId, Quantization,
    Reduce, Tag,
};
use pccl_core::transport::Endpoint;
use pccl_transport_memory::{Intercepted, Interceptor};

use super::kind::{Kind, input, inputs, shards};
use crate::support::{Run, join_as, together, together_with};

/// A type that has all small whole numbers.
trait Number: Element + PartialEq + Debug {
    fn of(small: i8) -> Self;
}

macro_rules! numbers {
    ($($number:ty: $of:expr;)*) => {
        $(impl Number for $number {
            fn of(small: i8) -> Self {
                let of: fn(i8) -> Self = $of;
                of(small)
            }
        })*
    };
}

numbers! {
    u8: |small| small as u8;
    i8: |small| small;
    u16: |small| small as u16;
    i16: i16::from;
    u32: |small| small as u32;
    i32: i32::from;
    u64: |small| small as u64;
    i64: i64::from;
    f16: |small| f16::from_f32(f32::from(small));
    bf16: |small| bf16::from_f32(f32::from(small));
    f32: f32::from;
    f64: f64::from;
}

/// What a peer contributes: sums of all are small, and divided by their number without remainder.
fn contributed(world: usize, index: usize, element: usize) -> i8 {
    (world * (1 + (index + element) % 3)) as i8
}

/// What becomes of what all have contributed to an element.
type Op = fn(&[i8]) -> i8;

/// What each operation makes of it.
const OPS: [(Reduce, Op); 4] = [
    (Reduce::sum(), |all| all.iter().sum()),
    (Reduce::avg(), |all| {
        all.iter().sum::<i8>() / all.len() as i8
    }),
    (Reduce::max(), |all| *all.iter().max().unwrap()),
    (Reduce::min(), |all| *all.iter().min().unwrap()),
];

/// Reduces and scatters, gathers what was scattered, and broadcasts from each peer in turn.
fn check<T: Number>(peers: &mut [Communicator]) {
    let world = peers.len();
    let ids: Vec<PeerId> = peers.iter().map(Communicator::peer_id).collect();
    together_with(peers, |index, peer| {
        for (count, (reduce, op)) in [0, 1, world - 1, world, world + 1, 1025]
            .into_iter()
            .flat_map(|count| OPS.map(|op| (count, op)))
        {
            let own = |element| T::of(contributed(world, index, element));
            let reduced = |element| {
                let all = (0..world).map(|index| contributed(world, index, element));
                T::of(op(&all.collect::<Vec<_>>()))
            };
            let what = format!("{reduce:?} of {count} {}, {world} peers", T::TYPE);

            let mut buffer: Vec<T> = (0..count).map(own).collect();
            let scattered = peer.reduce_scatter(&mut buffer, reduce).expect(&what);
            let shard = scattered.shard;
            assert_eq!(shard.range(), shards(&ids, count)[index], "{what}");
            for (element, value) in buffer.iter().enumerate() {
                let is_reduced = shard.range().contains(&element);
                let expected = match is_reduced {
                    true => reduced(element),
                    false => own(element),
                };
                assert_eq!(*value, expected, "{element}, {what}");
            }

            peer.all_gather(&mut buffer, Gather::of(shard)).unwrap();
            let all: Vec<T> = (0..count).map(reduced).collect();
            assert_eq!(buffer, all, "{what}");

            for (root, id) in ids.iter().enumerate() {
                buffer.fill(T::of(index as i8));
                peer.broadcast(&mut buffer, Broadcast::from(*id)).unwrap();
                assert_eq!(buffer, vec![T::of(root as i8); count], "{what}");
            }
        }
    });
}

#[test]
fn every_element_type_is_scattered_gathered_and_broadcast_by_any_number_of_peers() {
    for world in [1, 2, 3, 5] {
        let run = Run::new();
        let mut peers = run.peers(world);
        check::<u8>(&mut peers);
        check::<i8>(&mut peers);
        check::<u16>(&mut peers);
        check::<i16>(&mut peers);
        check::<u32>(&mut peers);
        check::<i32>(&mut peers);
        check::<u64>(&mut peers);
        check::<i64>(&mut peers);
        check::<f16>(&mut peers);
        check::<bf16>(&mut peers);
        check::<f32>(&mut peers);
        check::<f64>(&mut peers);
    }
}

#[test]
fn integers_wrap_and_averages_of_them_truncate_towards_zero() {
    let run = Run::new();
    let mut peers = run.peers(3);

    let shards = together_with(&mut peers, |index, peer| {
        let mut bytes = [[100_u8, 1, 0, 200, 255, 7]; 3].concat();
        let mut signed = [[-1_i64, -2, -3, 5, i64::MAX, i64::MIN][index]; 6];
        let sum = peer.reduce_scatter(&mut bytes, Reduce::sum()).unwrap();
        let avg = peer.reduce_scatter(&mut signed, Reduce::avg()).unwrap();
        (
            sum.shard.of(&bytes).to_vec(),
            avg.shard.of(&signed).to_vec(),
        )
    });

    for (sums, averages) in shards {
        assert_eq!(sums, [44, 3, 0, 88, 253, 21]);
        assert_eq!(averages, [-2; 2]);
    }
}

#[test]
fn integers_are_not_quantized_and_nobody_but_the_caller_hears_of_it() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let to_bytes = Quantization::MinMax {
        to: ElementType::U8,
    };
    let reduce = Reduce::sum().quantize(to_bytes);

    let results = together_with(&mut peers, |index, peer| {
        let mut buffer = [1_u16; 8];
        if index == 0 {
            for count in [0, 8] {
                let error = peer.reduce_scatter(&mut buffer[..count], reduce);
                let element = ElementType::U16;
                let refused = Error::NotSupported {
                    element,
                    quantization: to_bytes,
                };
                assert_eq!(error, Err(refused));
            }
        }
        let scattered = peer.reduce_scatter(&mut buffer, Reduce::sum()).unwrap();
        scattered.shard.of(&buffer).to_vec()
    });

    assert_eq!(results, [[2; 4]; 2]);
}

#[test]
fn a_peer_that_is_alone_has_all_shards_is_every_root_and_waits_for_nobody() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let before = peers[0].shard(100);
    let (root, me) = (peers[1].peer_id(), peers[0].peer_id());
    peers.remove(1).shutdown();
    let peer = peers.remove(0);
    let mut buffer = input(0, 100);
    let quantized = Reduce::avg().quantize(Quantization::Blockwise4);
    let mut floats = [0.1_f32, f32::NAN, f32::INFINITY];

    let tag = Tag(0);
    let gathered = peer.all_gather(&mut buffer, Gather::of(before));
    assert_eq!(gathered, Err(Error::WorldChanged { tag }));
    let broadcast = peer.broadcast(&mut buffer, Broadcast::from(root));
    assert_eq!(broadcast, Err(Error::NoSuchRoot { tag, root }));
    for kind in Kind::all(me) {
        let report = kind.call(&peer, &mut buffer, 0).unwrap();
        assert_eq!(report.contributors, [me], "{kind:?}");
        assert_eq!((report.bytes_sent, report.bytes_received), (0, 0));
        assert_eq!(buffer, input(0, 100), "{kind:?}");
    }
    let scattered = peer.reduce_scatter(&mut floats, quantized).unwrap();

    assert_eq!(scattered.shard.range(), 0..3);
    let bits = floats.map(f32::to_bits);
    assert_eq!(bits, [0.1, f32::NAN, f32::INFINITY].map(f32::to_bits));
}

/// Two or more ends that cannot open lanes to each other.
#[derive(Clone, Default)]
struct Apart(Arc<Mutex<BTreeSet<SocketAddr>>>);

impl Apart {
    fn ends(&self) -> std::sync::MutexGuard<'_, BTreeSet<SocketAddr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Interceptor for Apart {
    fn listening(&self, at: SocketAddr) {
        self.ends().insert(at);
    }

    fn destination(&self, to: &Endpoint) -> Endpoint {
        match to {
            // Nobody listens there.
            Endpoint::Address(address) if self.ends().contains(address) => {
                Endpoint::Address(SocketAddr::from(([127, 0, 0, 1], 1)))
            }
            Endpoint::Address(_) | Endpoint::Name(_) => to.clone(),
        }
    }
}

/// So many peers in the order of their ids, on a ring in another one. Each can be reached by each, or not.
fn in_disorder(run: &Run, world: usize, all_reach_all: bool) -> Vec<Communicator> {
    let apart = Apart::default();
    let kept_apart = || {
        let transport = Intercepted::over(Arc::new(run.under().clone()), apart.clone());
        run.builder().transport(transport)
    };
    let mut peers = vec![crate::support::begin(kept_apart())];
    run.join(&mut peers);
    run.join(&mut peers);
    // It comes between the second and the third, because it cannot be beside the first.
    join_as(kept_apart(), &mut peers);
    while peers.len() < world + usize::from(all_reach_all) {
        run.join(&mut peers);
    }
    if all_reach_all {
        peers.remove(0).shutdown();
    }
    together(&mut peers, |peer| peer.barrier().unwrap());
    let ranks: Vec<usize> = peers.iter().map(Communicator::rank).collect();
    let first = ranks[0];
    let from_first = ranks.iter().map(|rank| (rank + world - first) % world);
    assert!(!from_first.is_sorted(), "{ranks:?}");
    peers
}

/// Who has which shard is no matter of the ring, in whichever way it travels.
#[test]
fn on_a_ring_in_another_order_shards_are_in_the_order_of_the_ids_and_chunks_find_their_ways() {
    let mut algorithms = BTreeSet::new();
    for (world, all_reach_all) in [(3, true), (4, false), (4, true), (6, false)] {
        let run = Run::new();
        let mut peers = in_disorder(&run, world, all_reach_all);
        let ids: Vec<PeerId> = peers.iter().map(Communicator::peer_id).collect();
        for count in [1, world - 1, 1000, 300_001] {
            let kinds = Kind::others(ids[1]);
            let results = together_with(&mut peers, |index, peer| {
                kinds.map(|kind| {
                    let mut buffer = input(index, count);
                    let report = kind.call(peer, &mut buffer, 0).unwrap();
                    (report.algorithm, buffer)
                })
            });

            for (place, kind) in kinds.iter().enumerate() {
                let promised = kind.promised(&ids, &inputs(world, count));
                for (result, promised) in results.iter().zip(promised) {
                    let (algorithm, buffer) = &result[place];
                    algorithms.insert(*algorithm);
                    assert!(*buffer == promised, "{kind:?} of {count}, {world} peers");
                }
            }
        }
    }

    let all = [
        Algorithm::Ring,
        Algorithm::Chain,
        Algorithm::Direct,
        Algorithm::Circulant,
    ];
    assert_eq!(algorithms, all.into());
}
