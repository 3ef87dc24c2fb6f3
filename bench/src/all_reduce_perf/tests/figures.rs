//! What the benchmark makes of what was measured.

use super::super::collective::Collective;
use super::super::floor::{Exchange, Way};
use super::super::pieces::Search;
use super::super::row::{Findings, Row, Subject};
use super::super::samples::Samples;
use super::super::talk::Measured;
use super::work;

/// The search for the floor's best way, where one takes as long as `time` says by its turn; trials in all.
fn searched(mut time: impl FnMut(u32, Way) -> f64) -> (Vec<Way>, usize) {
    let mut search = Search::new(Collective::AllReduce, 64 << 20);
    let (mut trials, mut turn) = (0, 0);
    while !search.is_over() {
        let ways = search.ways();
        trials += ways.len();
        let times: Vec<f64> = ways.iter().map(|way| time(turn, *way)).collect();
        search.end_turn(&times);
        turn += 1;
    }
    (search.ways(), trials)
}

/// Doublings between the sizes of two ways, and one step more between two exchanges.
fn distance(one: Way, other: Way) -> f64 {
    let doublings = (one.piece_bytes as f64 / other.piece_bytes as f64).log2();
    let is_other = one.exchange != other.exchange;
    doublings.abs() + f64::from(u8::from(is_other))
}

fn all_ways() -> Vec<Way> {
    Search::new(Collective::AllReduce, 64 << 20).ways()
}

#[test]
fn the_best_way_is_found_in_few_trials() {
    for best in all_ways() {
        let (ways, trials) = searched(|_, way| distance(way, best));

        assert_eq!((ways[0], ways.len(), trials), (best, 2, 60));
    }
}

#[test]
fn a_way_that_is_disturbed_twice_still_comes_into_the_measurement() {
    for best in all_ways() {
        for quiet in 0..3 {
            let disturbed = |turn, way| {
                if way == best && turn != quiet {
                    100.0
                } else {
                    0.0
                }
            };

            let (ways, _) = searched(|turn, way| 1.0 + distance(way, best) + disturbed(turn, way));

            assert!(
                ways.contains(&best),
                "{best:?}, quiet in turn {quiet}: {ways:?}"
            );
        }
    }
}

#[test]
fn pieces_that_are_a_whole_chunk_anyway_are_tried_once() {
    let sizes = |chunk| {
        let ways = Search::new(Collective::AllReduce, chunk).ways();
        [Exchange::Ring, Exchange::Blocking, Exchange::Direct].map(|exchange| -> Vec<usize> {
            let of_exchange = ways.iter().filter(|way| way.exchange == exchange);
            of_exchange.map(|way| way.piece_bytes >> 10).collect()
        })
    };

    assert_eq!(sizes(1000), [[8], [8], [8]]);
    assert_eq!(sizes(8 << 10), [[8], [8], [8]]);
    let [ring, blocking, direct] = sizes(40 << 10);
    assert_eq!(ring, [8, 16, 32, 64]);
    assert_eq!((blocking, direct), (vec![64, 16], vec![64, 16]));
}

#[test]
fn the_bus_factors_are_those_of_nccl_tests() {
    let factors = [
        Collective::AllReduce,
        Collective::ReduceScatter,
        Collective::AllGather,
        Collective::Broadcast,
    ]
    .map(|collective| collective.bus_factor(4));

    assert_eq!(factors, [1.5, 0.75, 0.75, 1.0]);
}

/// What a rank measured in iterations of so many microseconds.
fn measured(times_us: &[u64], cpu_ns: u64) -> Measured {
    Measured {
        times_ns: times_us.iter().map(|us| us * 1000).collect(),
        cpu_ns,
        ..Measured::default()
    }
}

/// A series of two ranks.
fn samples(batch: usize, times_us: &[u64], cpu_ns: u64) -> Samples {
    let mut samples = Samples::new(batch);
    samples.add(&[measured(times_us, cpu_ns), measured(times_us, cpu_ns)]);
    samples
}

const RING: Way = Way {
    exchange: Exchange::Ring,
    piece_bytes: 16_384,
};
const DIRECT: Way = Way {
    exchange: Exchange::Direct,
    piece_bytes: 8192,
};

/// A row of 1000 bytes and one iteration of 10 us, beside floors of these ways and us.
fn row(floors: &[(Way, u64)]) -> Row {
    let subject = Subject {
        peers: 2,
        lanes: 1,
        lanes_are_local: true,
        count: 250,
        element_bytes: 4,
        concurrent: 1,
        is_optimized: false,
    };
    let floors = floors
        .iter()
        .map(|(way, us)| (*way, samples(1, &[*us], 2000)));
    let found = Findings {
        ours: samples(1, &[10], 3000),
        master_cpu_ns: 2000,
        floors: floors.collect(),
        iterations: 1,
        batch: 1,
    };
    Row::new(&subject, &work(&[]), &found)
}

#[test]
fn the_masters_cpu_time_counts_as_ours() {
    let row = row(&[(RING, 5)]);

    assert_eq!((row.cpu_s_per_gb, row.master_cpu_s_per_gb), (4.0, 1.0));
    assert_eq!(row.floor.cpu_s_per_gb, Some(2.0));
    assert_eq!(row.floor.cpu_ratio, Some(2.0));
}

#[test]
fn the_floor_counts_with_the_faster_of_its_ways() {
    for floors in [[(DIRECT, 5), (RING, 7)], [(RING, 7), (DIRECT, 5)]] {
        let floor = row(&floors).floor;

        assert_eq!(floor.exchange, Some(Exchange::Direct));
        assert_eq!((floor.piece_bytes, floor.time_us), (Some(8192), Some(5.0)));
        assert_eq!((floor.ratio, floor.ratio_min), (Some(0.5), Some(0.5)));
    }
    assert_eq!(row(&[]).floor.time_us, None);
}

#[test]
fn a_batch_tells_the_mean_of_its_iterations() {
    let mut samples = samples(2, &[1, 3, 10], 0);
    samples.add(&[measured(&[5, 7], 0)]);

    assert_eq!(samples.batches_us(), &[2.0, 10.0, 6.0]);
    assert_eq!(samples.median_us(), 5.0);
}

#[test]
fn an_iteration_whose_result_differs_between_ranks_is_wrong() {
    let rank = |checksums: &[u32]| Measured {
        checksums: checksums.to_vec(),
        ..Measured::default()
    };
    let wrong = |ranks: &[Measured]| {
        let (mut counted, mut warm_up) = (Samples::new(1), Samples::new(1));
        counted.add(ranks);
        warm_up.add_wrong(ranks);
        [counted.wrong, warm_up.wrong]
    };

    assert_eq!(wrong(&[rank(&[1, 2, 3]), rank(&[1, 2, 3])]), [0, 0]);
    assert_eq!(
        wrong(&[rank(&[1, 2, 3]), rank(&[1, 9, 3]), rank(&[1, 2, 4])]),
        [2, 2]
    );
    assert_eq!(
        wrong(&[rank(&[1]), rank(&[1, 2])]),
        [1, 1],
        "a checksum is missing"
    );
}
