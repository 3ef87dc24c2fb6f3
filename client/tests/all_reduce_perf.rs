//! Does the benchmark measure what it says? Its checks notice wrong results, the ring that it compares
//! with is right, and the whole program writes what was asked for.

#![allow(dead_code, reason = "the modules of the example are used in part")]

#[path = "../examples/all_reduce_perf/contribution.rs"]
mod contribution;
#[path = "../examples/all_reduce_perf/edges.rs"]
mod edges;
#[path = "../examples/all_reduce_perf/floor.rs"]
mod floor;
#[path = "../examples/all_reduce_perf/memory.rs"]
mod memory;
#[path = "../examples/all_reduce_perf/number.rs"]
mod number;
#[path = "../examples/all_reduce_perf/pieces.rs"]
mod pieces;
#[path = "../examples/all_reduce_perf/watch.rs"]
mod watch;
#[path = "../examples/all_reduce_perf/work.rs"]
mod work;

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread;

use bytemuck::{cast_slice, cast_slice_mut};
use clap::Parser;
use contribution::Contribution;
use edges::Edges;
use floor::Floor;
use memory::Memory;
use number::{Number, kernel_element, kernel_op};
use pccl::ReduceOp;
use pccl::half::bf16;
use pccl::{Tcp, Transport};
use pccl_core::transport::{Endpoint, send_all};
use pccl_kernels::{divide, reduce};
use pieces::Search;
use serde_json::Value;
use watch::Watched;
use work::Work;

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
    let refused = run_program(&["--peers=2,19", "--type=bf16"]);
    assert_eq!(refused.status.code(), Some(2));
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
    for ((_, result), iteration) in memory.buffers().zip(7..) {
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

#[test]
fn the_best_size_of_pieces_is_found_in_few_trials() {
    for best in (13..=20).map(|bits| 1_usize << bits) {
        let mut search = Search::new(64 << 20);
        let mut trials = 0;
        while search.found().is_none() {
            let sizes = search.sizes();
            trials += sizes.len();
            let far = |size: &usize| (*size as f64 / best as f64).log2().abs();
            search.end_turn(&sizes.iter().map(far).collect::<Vec<f64>>());
        }

        assert_eq!((search.found(), trials), (Some(best), 22));
    }
}

#[test]
fn pieces_that_are_a_whole_chunk_anyway_are_tried_once() {
    let sizes = |chunk| Search::new(chunk).sizes();

    assert_eq!(sizes(1000), [8 << 10]);
    assert_eq!(sizes(8 << 10), [8 << 10]);
    assert_eq!(sizes(40 << 10), [8, 16, 32, 64].map(|kib| kib << 10));
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
    // Two hops: a range of 13, then one of 26, half a step of 255 each and a little for rounding.
    let bound = (13.0 + 26.0) / 255.0 / 2.0 * (1.0 + 1.0 / 128.0);
    let right: Vec<f32> = reduced(&work, 2, 1000, 0);
    let moved = |by: f32| -> Vec<f32> { right.iter().map(|value| value + by).collect() };

    let wrong = [0.99 * bound, 1.1 * bound, f32::NAN].map(|by| judge.wrong(&moved(by), 0, false));

    assert_eq!(wrong, [0, 1000, 1000]);
    assert_eq!(judge.wrong(&moved(0.5 * bound), 0, true), 1000, "exact");
}

/// Runs the floor's ring with a thread for each rank; the wrong elements of all of them.
fn run_floor<T: Number>(work: &Work, peers: usize, count: usize, piece: usize) -> u64 {
    let bind = |_| TcpListener::bind("127.0.0.1:0").unwrap();
    let listeners: Vec<TcpListener> = (0..peers).map(bind).collect();
    let addresses: Vec<SocketAddr> = listeners
        .iter()
        .map(|listener| listener.local_addr().unwrap())
        .collect();
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..)
            .zip(&listeners)
            .map(|(rank, listener)| {
                let next = addresses[(rank + 1) % peers];
                scope.spawn(move || {
                    let edges = Edges::join(listener, next, "reno").unwrap();
                    let mut floor = Floor::<T>::new(rank, peers, edges);
                    let run = |iteration| {
                        run_rank(&mut floor, work, rank, peers, count, piece, iteration)
                    };
                    (0..3).map(run).sum::<u64>()
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).sum()
    })
}

fn run_rank<T: Number>(
    floor: &mut Floor<T>,
    work: &Work,
    rank: usize,
    peers: usize,
    count: usize,
    piece: usize,
    iteration: u64,
) -> u64 {
    let mine: Vec<T> = contributed(work, rank, peers, count, iteration);
    let (mut in_place, mut result) = (mine.clone(), vec![T::whole(0); count]);
    floor
        .all_reduce(work.op, Some(&mine), &mut result, piece)
        .unwrap();
    floor
        .all_reduce(work.op, None, &mut in_place, piece)
        .unwrap();
    let judge = Contribution::new(work, rank, peers);
    judge.wrong(&result, iteration, true) + judge.wrong(&in_place, iteration, true)
}

#[test]
fn the_ring_that_is_compared_with_computes_the_same() {
    for peers in [2, 3, 5] {
        for count in [1, peers - 1, peers, 1025, 203_530] {
            for piece in [1024, 16_384] {
                let wrong = run_floor::<f32>(&work(&[]), peers, count, piece);
                assert_eq!(wrong, 0, "{peers} peers, {count} elements, {piece} a piece");
            }
        }
    }
    for op in ["avg", "prod", "max", "min"] {
        let work = work(&["--op", op]);
        assert_eq!(run_floor::<i16>(&work, 4, 50_001, 4096), 0, "{op} of i16");
        assert_eq!(run_floor::<bf16>(&work, 4, 50_001, 4096), 0, "{op} of bf16");
        assert_eq!(run_floor::<f64>(&work, 4, 50_001, 4096), 0, "{op} of f64");
    }
}

#[tokio::test]
async fn a_lane_counts_as_used_where_it_has_carried_bytes_to_a_peer() {
    let tcp = Tcp::new();
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let (master, peer) = (
        tcp.listen(any_port).await.unwrap(),
        tcp.listen(any_port).await.unwrap(),
    );
    let watched = Watched::new(tcp, master.local_addr().to_string());
    let watch = watched.watch();
    assert!(!watch.are_all_local(), "none is known yet");
    let to_master = Endpoint::Name(master.local_addr().to_string());
    let to_peer = Endpoint::Address(peer.local_addr());
    let control = watched.open(&to_master).await.unwrap();
    let mut lanes = Vec::new();
    for _ in 0..3 {
        lanes.push(watched.open(&to_peer).await.unwrap());
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

/// Runs the whole program.
fn run_program(arguments: &[&str]) -> Output {
    let mut cargo = Command::new(env!("CARGO"));
    // Built like this test, so that it is built already.
    let profile = if cfg!(debug_assertions) {
        "dev"
    } else {
        "release"
    };
    cargo
        .args(["run", "--quiet", "--package", "pccl"])
        .args(["--profile", profile, "--example", "all_reduce_perf", "--"])
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap()
}

/// A file of this test's own, removed at its end.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn new(name: &str) -> Self {
        let name = format!("pccl-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}

/// The rows of a short run, its picture and its table.
fn short_run(extra: &[&str]) -> (Vec<Value>, String, String) {
    let tag = extra.join("");
    let json = TemporaryFile::new(&format!("perf{tag}.json"));
    let plot = TemporaryFile::new(&format!("perf{tag}.svg"));
    let mut arguments = vec![
        "--peers=2",
        "--lanes=1,2",
        "--min-bytes=4K",
        "--max-bytes=1M",
    ];
    arguments.extend(["--step-factor=256", "--iters=5", "--warmup=1"]);
    arguments.extend(["--json", json.path(), "--plot", plot.path()]);
    arguments.extend(extra);

    let output = run_program(&arguments);

    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let document: Value = serde_json::from_slice(&fs::read(&json.0).unwrap()).unwrap();
    let rows = document["rows"].as_array().unwrap().clone();
    let table = String::from_utf8(output.stdout).unwrap();
    (rows, fs::read_to_string(&plot.0).unwrap(), table)
}

#[test]
fn a_short_run_writes_the_rows_and_the_picture_that_were_asked_for() {
    let (rows, picture, _) = short_run(&[]);

    let key = |row: &Value| ["peers", "lanes", "bytes", "count", "wrong"].map(|k| row[k].as_u64());
    let keys: Vec<_> = rows.iter().map(key).collect();
    let expected = |lanes, bytes: u64| [2, lanes, bytes, bytes / 4, 0].map(Some);
    let sizes = [4096, 1 << 20];
    assert_eq!(keys[..2], sizes.map(|bytes| expected(1, bytes)));
    assert_eq!(keys[2..], sizes.map(|bytes| expected(2, bytes)));
    for row in &rows {
        assert_eq!(row["iterations"], 5);
        let positive = [
            "time_us",
            "algbw_gb_s",
            "cpu_s_per_gb",
            "floor_time_us",
            "ratio",
        ];
        for column in positive {
            assert!(row[column].as_f64().unwrap() > 0.0, "{column} of {row}");
        }
    }
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    for curve in ["2 peers, lanes: 1", "2 peers, lanes: 2", "2 peers, floor"] {
        assert!(picture.contains(curve), "{curve}");
    }
}

#[test]
fn a_short_run_tells_the_spread_and_the_lanes_that_were_used() {
    let (rows, _, table) = short_run(&["--op=max"]);

    for row in &rows {
        let rises = |columns: &[&str]| {
            let numbers = columns.iter().map(|column| row[column].as_f64().unwrap());
            numbers.is_sorted()
        };
        assert!(rises(&["time_min_us", "time_us", "time_max_us"]), "{row}");
        let floor = ["floor_time_min_us", "floor_time_us", "floor_time_max_us"];
        assert!(rises(&floor), "{row}");
        assert!(rises(&["ratio_min", "ratio_max"]), "{row}");
        let (asked_for, used) = (row["lanes"].as_u64(), row["lanes_used"].as_u64());
        assert!(Some(1) <= used && used <= asked_for, "{row}");
        assert_eq!(row["lanes_are_local"], true);
    }
    for lanes in [
        "# lanes    1 (at most 1 used: both",
        "# lanes    2 (at most ",
    ] {
        assert!(table.contains(lanes), "{table}");
    }
    let notes = table.lines().filter(|line| line.starts_with("# spread "));
    assert_eq!(notes.count(), 2, "{table}");
}

#[test]
fn several_reduces_at_once_count_together() {
    let (rows, ..) = short_run(&["--concurrent=3", "--no-floor"]);

    for row in rows {
        let number = |column: &str| row[column].as_f64().unwrap();
        let algbw = 3.0 * number("bytes") / number("time_us") / 1e3;
        assert!((number("algbw_gb_s") / algbw - 1.0).abs() < 1e-9, "{row}");
        assert_eq!((&row["wrong"], &row["in_place"]), (&0.into(), &true.into()));
        assert!(row["floor_time_us"].is_null(), "{row}");
    }
}

#[test]
fn compressed_reduces_of_halves_stay_within_the_bound() {
    for compression in ["--quantize=u8", "--quantize=4bit"] {
        let (rows, ..) = short_run(&[compression, "--type=bf16"]);

        for row in rows {
            assert_eq!((&row["wrong"], &row["type"]), (&0.into(), &"bf16".into()));
            assert_eq!(row["quantization"], compression["--quantize=".len()..]);
        }
    }
}

#[test]
fn what_cannot_be_measured_is_said_and_fails() {
    let refused = run_program(&["--type=i32", "--quantize=u8"]);
    let unknown = run_program(&["--peers=2", "--max-bytes=4K", "--congestion=no-such-thing"]);

    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(unknown.status.code(), Some(1));
    let said = String::from_utf8_lossy(&unknown.stderr);
    assert!(said.contains("the floor's ring"), "{said}");
}
