//! Sums in the order of the peers: the same bits by every algorithm, wherever the peers are. That the ring makes no
//! difference either, the tests of the plans in core show.

use pccl::{
    Algorithm, Communicator, Element, ElementType, Error, Pattern, Quantization, Reduce, SpecField,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::support::hosts::Hosts;
use crate::support::{Run, begin, together, together_with};

/// Elements of a buffer that travels whole, and of one that does not and is several stripes.
const SMALL: usize = 1025;
const LARGE: usize = 270_001;

/// At which site each of up to five peers is, in two layouts.
const LAYOUTS: [[u8; 5]; 2] = [[1; 5], [1, 2, 3, 1, 2]];

/// Peers of these sites, in the order of their ids, of which the master knows the paths.
fn peers_at(hosts: &mut Hosts, sites: &[u8]) -> Vec<Communicator> {
    let mut peers = hosts.peers_at(sites);
    assert!(peers.is_sorted_by_key(Communicator::peer_id));
    if sites.iter().any(|site| *site != sites[0]) {
        together(&mut peers, |peer| peer.optimize_topology().unwrap());
    }
    peers
}

/// Numbers of wildly different sizes and of either sign, so that each order of additions gives other bits.
fn wild(count: usize, peer: usize) -> Vec<f32> {
    let mut random = StdRng::seed_from_u64(peer as u64);
    let mut number = || {
        let fraction = random.random_range(-1.0..1.0_f32);
        fraction * f32::powi(2.0, random.random_range(-30..30))
    };
    (0..count).map(|_| number()).collect()
}

/// From left to right, in the order of the peers.
fn folded(own: &[Vec<f32>], is_average: bool) -> Vec<f32> {
    let element = |index: usize| {
        let terms = own.iter().map(|own| own[index]);
        let sum = terms.reduce(|sum, term| sum + term).unwrap();
        if is_average {
            sum / own.len() as f32
        } else {
            sum
        }
    };
    (0..own[0].len()).map(element).collect()
}

fn bits<T: Element>(elements: &[T]) -> &[u8] {
    bytemuck::cast_slice(elements)
}

/// What may be wished for, if anything.
const WISHES: [Option<Algorithm>; 8] = [
    None,
    Some(Algorithm::Whole(Pattern::Ring)),
    Some(Algorithm::Whole(Pattern::Mesh)),
    Some(Algorithm::Whole(Pattern::Circulant)),
    Some(Algorithm::Direct),
    Some(Algorithm::Relay),
    Some(Algorithm::Ring),
    Some(Algorithm::TwoLevel),
];

fn wish_for(reduce: Reduce, wish: Option<Algorithm>) -> Reduce {
    match wish {
        Some(wish) => reduce.algorithm(wish),
        None => reduce,
    }
}

/// Reduces and scatters by each algorithm that is wished for, and returns which were taken.
fn check(peers: &mut [Communicator], count: usize, is_average: bool) -> Vec<Algorithm> {
    let own: Vec<Vec<f32>> = (0..peers.len()).map(|peer| wild(count, peer)).collect();
    let expected = folded(&own, is_average);
    let reduce = if is_average {
        Reduce::avg()
    } else {
        Reduce::sum()
    };
    let mut taken = Vec::new();
    for wish in WISHES {
        let reduce = wish_for(reduce, wish).ordered();
        let what = format!("{wish:?} of {count} by {}", peers.len());
        let by = together_with(peers, |index, peer| {
            let mut buffer = own[index].clone();
            let report = peer.all_reduce(&mut buffer, reduce).unwrap();
            assert!(bits(&buffer) == bits(&expected), "{what}: {index}");

            let mut buffer = own[index].clone();
            let scattered = peer.reduce_scatter(&mut buffer, reduce).unwrap();
            let shard = scattered.shard.range();
            assert!(
                bits(&buffer[shard.clone()]) == bits(&expected[shard.clone()]),
                "{what}"
            );
            for rest in [0..shard.start, shard.end..count] {
                assert!(bits(&buffer[rest.clone()]) == bits(&own[index][rest]));
            }
            [report.algorithm, scattered.report.algorithm]
        });
        taken.extend(by.concat());
    }
    taken
}

#[test]
fn whatever_the_algorithm_and_the_sites_a_sum_has_the_bits_of_a_fold_in_the_order_of_the_peers() {
    let mut taken = Vec::new();
    for sites in LAYOUTS {
        // How many there are counts in one layout as in another.
        let worlds = if sites == LAYOUTS[0] { 2..=5 } else { 5..=5 };
        for world in worlds {
            let mut hosts = Hosts::new();
            let mut peers = peers_at(&mut hosts, &sites[..world]);
            taken.extend(check(&mut peers, SMALL, false));
            taken.extend(check(&mut peers, LARGE, true));
        }
    }

    for algorithm in WISHES.into_iter().flatten() {
        // In a world of two the ring is as good as any.
        let keeps_order = algorithm != Algorithm::TwoLevel;
        assert_eq!(taken.contains(&algorithm), keeps_order, "{algorithm}");
    }
}

#[test]
fn other_sites_give_other_bits_unless_the_sum_is_ordered() {
    let own: Vec<Vec<f32>> = (0..5).map(|peer| wild(LARGE, peer)).collect();
    let [plain, ordered] = [Reduce::sum(), Reduce::sum().ordered()];
    let results = LAYOUTS.map(|sites| {
        let mut hosts = Hosts::new();
        let mut peers = peers_at(&mut hosts, &sites);
        [plain, ordered].map(|reduce| {
            let reduced = together_with(&mut peers, |index, peer| {
                let mut buffer = own[index].clone();
                peer.all_reduce(&mut buffer, reduce).unwrap();
                buffer
            });
            bits(&reduced[0]).to_vec()
        })
    });

    let [[here, here_ordered], [there, there_ordered]] = &results;
    assert!(here != there);
    assert!(here_ordered == there_ordered);
}

#[test]
fn the_survivors_of_a_loss_have_the_bits_of_a_fold_of_their_own() {
    let mut hosts = Hosts::new();
    let mut peers = peers_at(&mut hosts, &LAYOUTS[1]);
    let own: Vec<Vec<f32>> = (0..5).map(|peer| wild(LARGE, peer)).collect();
    peers.remove(1).shutdown();

    let survivors = [&own[..1], &own[2..]].concat();
    let expected = folded(&survivors, false);
    for algorithm in [Algorithm::Direct, Algorithm::Relay] {
        let reduce = Reduce::sum().ordered().algorithm(algorithm);
        together_with(&mut peers, |index, peer| {
            let mut buffer = survivors[index].clone();
            // The first one learns of the loss.
            let report = loop {
                match peer.all_reduce(&mut buffer, reduce) {
                    Ok(report) => break report,
                    Err(error) => assert!(error.is_retryable(), "{error}"),
                }
            };
            assert_eq!(report.algorithm, algorithm);
            assert!(bits(&buffer) == bits(&expected));
        });
    }
}

#[test]
fn two_peers_get_one_nan_and_the_same_zeros_whichever_of_them_has_which() {
    let run = Run::new();
    let mut peers = run.peers(2);
    let special = [
        f32::NAN,
        -f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        0.0,
        -0.0,
        1.5e-45,
        3.0,
    ];
    let pairs = special
        .iter()
        .flat_map(|one| special.map(|other| (*one, other)));
    let (one, other): (Vec<f32>, Vec<f32>) = pairs.unzip();

    for wish in [
        Algorithm::Ring,
        Algorithm::Whole(Pattern::Ring),
        Algorithm::Relay,
    ] {
        let reduce = Reduce::avg().ordered().algorithm(wish);
        let results = [false, true].map(|swapped| {
            let results = together_with(&mut peers, |index, peer| {
                let has_one = (index == 0) != swapped;
                let mut buffer = if has_one { one.clone() } else { other.clone() };
                let report = peer.all_reduce(&mut buffer, reduce).unwrap();
                assert_eq!(report.algorithm, wish);
                buffer
            });
            assert!(bits(&results[0]) == bits(&results[1]));
            bits(&results[0]).to_vec()
        });
        assert!(results[0] == results[1], "{wish}");
    }
}

#[test]
fn peers_that_differ_about_the_order_are_told_so_and_go_on() {
    let run = Run::new();
    let mut peers = run.peers(3);

    together_with(&mut peers, |index, peer| {
        let mut buffer = [1.0_f32; 10];
        let reduce = Reduce::sum();
        let odd = if index == 1 { reduce.ordered() } else { reduce };
        let error = peer.all_reduce(&mut buffer, odd).unwrap_err();
        let Error::Disagreement { field, .. } = error else {
            panic!("{error}");
        };
        assert_eq!((field, buffer), (SpecField::Ordered, [1.0; 10]));
        peer.all_reduce(&mut buffer, reduce.ordered()).unwrap();
        assert_eq!(buffer, [3.0; 10]);
    });
}

#[test]
fn what_is_quantized_is_not_ordered() {
    let run = Run::new();
    let peer = begin(run.builder());
    let quantization = Quantization::MinMax {
        to: ElementType::U8,
    };
    let reduce = Reduce::sum().quantize(quantization).ordered();

    let refused = Error::OrderedQuantized { quantization };
    let mut buffer = [1.0_f32; 4];
    assert_eq!(peer.all_reduce(&mut buffer, reduce), Err(refused.clone()));
    let scattered = peer.reduce_scatter(&mut buffer, reduce);
    assert_eq!(scattered.map(|_| ()), Err(refused));
}
