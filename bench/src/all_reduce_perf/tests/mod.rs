//! Does the benchmark measure what it says? Its checks notice wrong results, and the exchanges that it
//! compares with are right.

mod exchanges;
mod figures;
mod rings;

use std::net::SocketAddr;
use std::thread;

use bytemuck::{cast_slice, cast_slice_mut};
use clap::Parser;
use pccl::half::bf16;
use pccl::{ElementType, ReduceOp};
use pccl::{Tcp, Transport};
use pccl_core::transport::{Endpoint, Security, send_all};
use pccl_kernels::{divide, reduce};

use super::contribution::Contribution;
use super::memory::Memory;
use super::number::{Number, kernel_element, kernel_op};
#[cfg(target_os = "linux")]
use super::place;
use super::watch::watched;
use super::work::Work;

#[derive(Parser)]
struct WorkAlone {
    #[command(flatten)]
    work: Work,
}

fn work(arguments: &[&str]) -> Work {
    let program = ["all_reduce_perf"].iter();
    WorkAlone::parse_from(program.chain(arguments)).work
}

/// What all ranks contribute, reduced one after the other.
fn reduced<T: Number>(work: &Work, peers: usize, count: usize, iteration: u64) -> Vec<T> {
    let mut result = contributed(work, 0, peers, count, iteration);
    for rank in 1..peers {
        let other: Vec<T> = contributed(work, rank, peers, count, iteration);
        let (into, from) = (cast_slice_mut(&mut result), cast_slice(&other));
        reduce(kernel_element(T::TYPE), kernel_op(work.op), into, from).unwrap();
    }
    if work.op == ReduceOp::Avg {
        let sum = cast_slice_mut(&mut result);
        divide(kernel_element(T::TYPE), sum, peers as u32).unwrap();
    }
    result
}

fn contributed<T: Number>(
    work: &Work,
    rank: usize,
    peers: usize,
    count: usize,
    iteration: u64,
) -> Vec<T> {
    let mut buffer = vec![T::whole(0); count];
    Contribution::new(work, rank, peers).fill(&mut buffer, iteration);
    buffer
}

#[test]
fn a_right_result_has_no_wrong_element() {
    for op in ["sum", "avg", "prod", "max", "min"] {
        let work = work(&["--op", op]);
        for peers in [2, 3, 8] {
            let result: Vec<f32> = reduced(&work, peers, 10_000, 5);

            let wrong = Contribution::new(&work, 0, peers).wrong(&result, 5, false);

            assert_eq!(wrong, 0, "{op} of {peers}");
        }
    }
}

#[test]
fn peers_whose_sums_a_type_rounds_are_refused() {
    let exact = |of: &[&str], peers| work(of).is_exact(peers);

    assert!(exact(&["--type=bf16"], 18) && !exact(&["--type=bf16"], 19));
    assert!(exact(&["--type=bf16", "--op=max"], 64) && exact(&["--type=f16"], 64));
    assert!(exact(&["--type=u8"], 64) && exact(&[], 64));
    let counts = [18, 64].map(|peers| {
        let work = work(&["--type=bf16"]);
        let result: Vec<bf16> = reduced(&work, peers, 1000, 3);
        Contribution::new(&work, 0, peers).wrong(&result, 3, false)
    });
    assert!(counts[0] == 0 && counts[1] > 0, "{counts:?}");
}

#[test]
fn a_result_of_any_earlier_iteration_is_noticed() {
    const NEWEST: u64 = 1_000;
    for op in ["sum", "avg", "prod", "max", "min"] {
        let work = work(&["--op", op]);
        for peers in [2, 4] {
            let judge = Contribution::new(&work, 0, peers);
            for earlier in 0..NEWEST {
                let stale: Vec<i32> = reduced(&work, peers, 600, earlier);

                let wrong = judge.wrong(&stale, NEWEST, false);

                assert!(wrong > 300, "{op} of {peers}, {earlier}: {wrong} of 600");
            }
        }
    }
}

/// Elements of results that held what was right already and that nobody has written since.
fn wrong_of_untouched<T: Number>(work: &Work, peers: usize) -> u64 {
    let judge = Contribution::new(work, 0, peers);
    let mut memory = Memory::<T>::new();
    memory.make(500, 2, work.is_in_place());
    for ((_, result, _), iteration) in memory.buffers().zip(7..) {
        result.copy_from_slice(&reduced::<T>(work, peers, 500, iteration));
    }
    assert_eq!(memory.count_wrong(&judge, 7..9, false), 0);

    memory.fill(&judge, 7..9);

    memory.count_wrong(&judge, 7..9, false)
}

#[test]
fn an_element_that_nobody_writes_is_wrong_even_where_the_right_one_was() {
    for op in ["sum", "avg", "prod", "max", "min"] {
        let plain = work(&["--op", op]);
        let compressed = work(&["--op", op, "--quantize", "4bit"]);
        for peers in [2, 8] {
            let untouched = [
                wrong_of_untouched::<f32>(&plain, peers),
                wrong_of_untouched::<f32>(&compressed, peers),
                wrong_of_untouched::<bf16>(&plain, peers),
                wrong_of_untouched::<u8>(&plain, peers),
                wrong_of_untouched::<i64>(&plain, peers),
            ];
            assert_eq!(untouched, [1000; 5], "{op} of {peers}");
        }
    }
}

/// Places of a buffer, by iteration: does a rank's own contribution differ from the result there?
fn tells_of_untouched<T: Number>(work: &Work, rank: usize, peers: usize) -> Vec<Vec<bool>> {
    const COUNT: usize = 240;
    let judge = Contribution::new(work, rank, peers);
    let of_iteration = |iteration| {
        let own: Vec<T> = contributed(work, rank, peers, COUNT, iteration);
        assert!(judge.wrong(&own, iteration, true) >= COUNT as u64 / 4);
        let result: Vec<T> = reduced(work, peers, COUNT, iteration);
        own.iter()
            .zip(&result)
            .map(|(a, b)| a.approximate() != b.approximate())
            .collect()
    };
    (0..64).map(of_iteration).collect()
}

#[test]
fn in_place_an_element_that_nobody_writes_does_not_pass_for_the_result() {
    for op in ["sum", "avg", "prod", "max", "min"] {
        let work = work(&["--op", op]);
        for (peers, rank) in [2, 3, 4, 8]
            .map(|n| (0..n).map(move |rank| (n, rank)))
            .into_iter()
            .flatten()
        {
            let tell = [
                tells_of_untouched::<f32>(&work, rank, peers),
                tells_of_untouched::<u8>(&work, rank, peers),
                tells_of_untouched::<i64>(&work, rank, peers),
            ];

            for tell in tell {
                for iteration in &tell {
                    let everywhere = iteration.chunks(12).all(|few| few.contains(&true));
                    assert!(everywhere, "{op}, rank {rank} of {peers}");
                }
                // A maximum is always somebody's, a sum and a product need not be.
                let nobodys = ["sum", "prod"].contains(&op);
                assert!(
                    !nobodys || tell.iter().flatten().all(|tells| *tells),
                    "{op}"
                );
                let each_at_times = (0..240).all(|place| tell.iter().any(|i| i[place]));
                assert!(each_at_times, "{op}, rank {rank} of {peers}");
            }
        }
    }
}

#[test]
fn a_contribution_that_is_lost_or_counted_twice_is_noticed() {
    let work = work(&[]);
    let judge = Contribution::new(&work, 0, 4);
    let right: Vec<f64> = reduced(&work, 4, 10_000, 0);
    for rank in 0..4 {
        let share: Vec<f64> = contributed(&work, rank, 4, 10_000, 0);
        let lost: Vec<f64> = right.iter().zip(&share).map(|(a, b)| a - b).collect();
        let doubled: Vec<f64> = right.iter().zip(&share).map(|(a, b)| a + b).collect();

        let wrong = [&lost, &doubled].map(|result| judge.wrong(result, 0, false));

        assert_eq!(wrong, [10_000, 10_000], "rank {rank}");
    }
}

#[test]
fn a_piece_in_the_wrong_place_and_a_single_wrong_element_are_noticed() {
    let work = work(&[]);
    let judge = Contribution::new(&work, 0, 3);
    let right: Vec<f32> = reduced(&work, 3, 65_536, 0);
    let mut shifted = right.clone();
    shifted.rotate_left(16_384);
    let mut off_by_one = right;
    off_by_one[40_000] += 1.0;

    let wrong = [&shifted, &off_by_one].map(|result| judge.wrong(result, 0, false));

    assert!(wrong[0] > 30_000, "{}", wrong[0]);
    assert_eq!(wrong[1], 1);
}

#[test]
fn a_compressed_result_may_be_off_by_the_bound_and_no_more() {
    let work = work(&["--quantize", "u8"]);
    let judge = Contribution::new(&work, 0, 2);
    let promised = work.reduce(0).error_bound(ElementType::F32, 2, 14.0);
    let bound = promised.unwrap() as f32;
    let right: Vec<f32> = reduced(&work, 2, 1000, 0);
    let moved = |by: f32| -> Vec<f32> { right.iter().map(|value| value + by).collect() };

    let wrong = [0.99 * bound, 1.1 * bound, f32::NAN].map(|by| judge.wrong(&moved(by), 0, false));

    assert_eq!(wrong, [0, 1000, 1000]);
    assert_eq!(judge.wrong(&moved(0.5 * bound), 0, true), 1000, "exact");
}

#[test]
fn compressed_results_that_may_be_off_by_anything_are_refused() {
    let products = work(&["--op=prod", "--quantize=u8", "--type=f16"]);

    assert!(products.is_bounded(4) && !products.is_bounded(64));
    assert!(work(&["--op=prod"]).is_bounded(64));
}

#[test]
fn results_that_differ_in_a_bit_have_other_checksums() {
    let work = work(&[]);
    let mut memory = Memory::<f32>::new();
    memory.make(1000, 3, true);
    memory.fill(&Contribution::new(&work, 0, 2), 0..3);
    let before: Vec<u32> = memory.checksums(3).collect();

    let (_, second, _) = memory.buffers().nth(1).unwrap();
    second[999] = f32::from_bits(second[999].to_bits() ^ 1);

    let after: Vec<u32> = memory.checksums(3).collect();
    let same: Vec<bool> = before.iter().zip(&after).map(|(a, b)| a == b).collect();
    assert_eq!(same, [true, false, true]);
    assert_eq!(memory.checksums(2).count(), 2);
}

#[tokio::test]
async fn a_lane_counts_as_used_where_it_has_carried_bytes_to_a_peer() {
    let tcp = Tcp::new();
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let (master, peer) = (
        tcp.listen(any_port, Security::Plain).await.unwrap(),
        tcp.listen(any_port, Security::Plain).await.unwrap(),
    );
    let (watched, watch) = watched(tcp, master.local_addr().to_string(), false);
    assert!(!watch.are_all_local(), "none is known yet");
    let to_master = Endpoint::Name(master.local_addr().to_string());
    let to_peer = Endpoint::Address(peer.local_addr());
    let control = watched.open(&to_master, None).await.unwrap();
    let mut lanes = Vec::new();
    for _ in 0..3 {
        lanes.push(watched.open(&to_peer, None).await.unwrap());
    }
    // As a preamble does, before anything is measured.
    for lane in &mut lanes {
        send_all(&mut *lane.tx, b"head", b"").await.unwrap();
    }
    let before = watch.sent();

    lanes.remove(1);
    lanes.push(control);
    for lane in &mut lanes {
        send_all(&mut *lane.tx, b"head", b"body").await.unwrap();
    }

    assert_eq!(before, [4, 4, 4]);
    assert_eq!(watch.sent(), [12, 4, 12]);
    assert_eq!(watch.used_since(&before), 2);
    assert_eq!(watch.used_since(&watch.sent()), 0);
    assert!(watch.are_all_local() && lanes[0].tx.is_local());
}

#[tokio::test]
async fn a_lane_that_is_to_be_far_denies_that_it_stays_on_this_machine() {
    let tcp = Tcp::new().lanes(3);
    let listener = tcp.listen(SocketAddr::from(([127, 0, 0, 1], 0)), Security::Plain);
    let listener = listener.await.unwrap();
    let peer = Endpoint::Address(listener.local_addr());
    let (near, near_watch) = watched(tcp.clone(), String::new(), false);
    let (far, far_watch) = watched(tcp, String::new(), true);

    let (near_lane, far_lane) = (
        near.open(&peer, None).await.unwrap(),
        far.open(&peer, None).await.unwrap(),
    );

    assert!(near_lane.tx.is_local() && near_watch.are_all_local());
    assert!(!far_lane.tx.is_local() && !far_watch.are_all_local());
    assert_eq!(far.lanes_per_edge(), 3);
}

#[cfg(target_os = "linux")]
#[test]
fn a_rank_that_is_bound_stays_on_one_core_and_the_next_one_on_the_next() {
    use rustix::thread::{CpuSet, sched_getaffinity};

    let cores_of = |set: &CpuSet| -> Vec<usize> {
        let all = 0..CpuSet::MAX_CPU;
        all.filter(|core| set.is_set(*core)).collect()
    };
    let allowed = cores_of(&sched_getaffinity(None).unwrap());
    // In a thread of its own, because it stays bound.
    let bound = |rank| {
        let bound = thread::spawn(move || {
            place::bind(rank).unwrap();
            // As the library's are.
            let started = thread::spawn(|| sched_getaffinity(None).unwrap());
            [sched_getaffinity(None).unwrap(), started.join().unwrap()]
        });
        bound.join().unwrap().map(|set| cores_of(&set))
    };

    for rank in 0..2 * allowed.len() {
        let core = allowed[rank % allowed.len()];
        assert_eq!(bound(rank), [vec![core], vec![core]], "rank {rank}");
    }
}
