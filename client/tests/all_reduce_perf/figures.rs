//! What the benchmark makes of what was measured.

use super::pieces::Search;
use super::row::{Findings, Row, Subject};
use super::samples::Samples;
use super::talk::Measured;
use super::work;

/// The search for sizes of pieces, where one takes as long as `time` says by its turn; trials in all.
fn searched(mut time: impl FnMut(u32, usize) -> f64) -> (Vec<usize>, usize) {
    let mut search = Search::new(64 << 20);
    let (mut trials, mut turn) = (0, 0);
    while !search.is_over() {
        let sizes = search.sizes();
        trials += sizes.len();
        let times: Vec<f64> = sizes.iter().map(|size| time(turn, *size)).collect();
        search.end_turn(&times);
        turn += 1;
    }
    (search.sizes(), trials)
}

/// Doublings between two sizes.
fn distance(one: usize, other: usize) -> f64 {
    (one as f64 / other as f64).log2().abs()
}

#[test]
fn the_best_size_of_pieces_is_found_in_few_trials() {
    for best in (13..=20).map(|bits| 1_usize << bits) {
        let (sizes, trials) = searched(|_, size| distance(size, best));

        assert_eq!((sizes[0], sizes.len(), trials), (best, 2, 28));
    }
}

#[test]
fn a_size_of_pieces_that_is_disturbed_twice_still_comes_into_the_measurement() {
    for best in (13..=20).map(|bits| 1_usize << bits) {
        for quiet in 0..3 {
            let disturbed = |turn, size| {
                if size == best && turn != quiet {
                    100.0
                } else {
                    0.0
                }
            };

            let (sizes, _) =
                searched(|turn, size| 1.0 + distance(size, best) + disturbed(turn, size));

            assert!(
                sizes.contains(&best),
                "{best}, quiet in turn {quiet}: {sizes:?}"
            );
        }
    }
}

#[test]
fn pieces_that_are_a_whole_chunk_anyway_are_tried_once() {
    let sizes = |chunk| Search::new(chunk).sizes();

    assert_eq!(sizes(1000), [8 << 10]);
    assert_eq!(sizes(8 << 10), [8 << 10]);
    assert_eq!(sizes(40 << 10), [8, 16, 32, 64].map(|kib| kib << 10));
    assert!(Search::new(1000).is_over() && !Search::new(16 << 10).is_over());
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

/// A row of 1000 bytes and one iteration of 10 us, beside floors of so many bytes a piece and us.
fn row(floors: &[(usize, u64)]) -> Row {
    let subject = Subject {
        peers: 2,
        lanes: 1,
        lanes_are_local: true,
        count: 250,
        element_bytes: 4,
        concurrent: 1,
    };
    let floors = floors
        .iter()
        .map(|(piece, us)| (*piece, samples(1, &[*us], 2000)));
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
    let row = row(&[(8192, 5)]);

    assert_eq!((row.cpu_s_per_gb, row.master_cpu_s_per_gb), (4.0, 1.0));
    assert_eq!(row.floor.cpu_s_per_gb, Some(2.0));
    assert_eq!(row.floor.cpu_ratio, Some(2.0));
}

#[test]
fn the_floor_counts_with_the_faster_of_its_sizes() {
    for floors in [[(8192, 5), (16_384, 7)], [(16_384, 7), (8192, 5)]] {
        let floor = row(&floors).floor;

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
