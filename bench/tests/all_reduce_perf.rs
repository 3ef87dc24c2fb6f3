//! The whole program `all_reduce_perf`: what it writes, and what it refuses.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs the whole program.
fn run_program(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_all_reduce_perf"))
        .args(arguments)
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
    let (document, picture, table) = short_run_of(extra);
    (document["rows"].as_array().unwrap().clone(), picture, table)
}

/// What a short run writes, its picture and its table.
fn short_run_of(extra: &[&str]) -> (Value, String, String) {
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
    let table = String::from_utf8(output.stdout).unwrap();
    (document, fs::read_to_string(&plot.0).unwrap(), table)
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
        let exchange = row["floor_exchange"].as_str().unwrap();
        assert!(["ring", "blocking", "direct"].contains(&exchange), "{row}");
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
    for phase in ["start_us", "transfer_us", "commit_us"] {
        for row in &rows {
            let (phase, time) = (row[phase].as_f64(), row["time_max_us"].as_f64());
            assert!(phase > Some(0.0) && phase < time, "{row}");
        }
    }
    for lanes in [
        "# lanes    1 (at most 1 used: both",
        "# lanes    2 (at most ",
    ] {
        assert!(table.contains(lanes), "{table}");
    }
    for note in ["# spread ", "# phases "] {
        let notes = table.lines().filter(|line| line.starts_with(note));
        assert_eq!(notes.count(), 2, "{table}");
    }
}

#[test]
fn several_reduces_at_once_count_together() {
    let (rows, picture, table) = short_run(&["--concurrent=3", "--no-floor"]);

    for row in rows {
        let number = |column: &str| row[column].as_f64().unwrap();
        let algbw = 3.0 * number("bytes") / number("time_us") / 1e3;
        assert!((number("algbw_gb_s") / algbw - 1.0).abs() < 1e-9, "{row}");
        assert_eq!((&row["wrong"], &row["in_place"]), (&0.into(), &true.into()));
        assert!(row["floor_time_us"].is_null(), "{row}");
    }
    assert!(table.contains("of one of 3 reduces at once"), "{table}");
    assert!(picture.contains("of all reduces at once"));
    // Three times 1 MiB is beyond it, one is not.
    assert!(picture.contains("\n2M\n"), "{picture}");
}

#[test]
fn an_optimized_ring_is_measured_beside_that_of_the_ranks() {
    let json = TemporaryFile::new("optimized.json");
    let mut arguments = vec!["--peers=3", "--lanes=1", "--no-floor", "--optimize"];
    arguments.extend(["--min-bytes=4K", "--max-bytes=16K", "--iters=3"]);
    arguments.extend(["--json", json.path()]);

    let output = run_program(&arguments);

    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let document: Value = serde_json::from_slice(&fs::read(&json.0).unwrap()).unwrap();
    let rows = document["rows"].as_array().unwrap();
    let keys = rows.iter().map(|row| (&row["bytes"], &row["optimized"]));
    let sizes = [4096, 16384].map(Value::from);
    let optimized = [false, true].map(Value::from);
    let expected = optimized
        .iter()
        .flat_map(|o| sizes.iter().map(move |s| (s, o)));
    assert!(keys.eq(expected), "{document}");
    assert!(rows.iter().all(|row| row["wrong"] == 0), "{document}");
    let found = &document["optimizations"][0];
    assert_eq!(found["before"], serde_json::json!(["0", "1", "2"]));
    assert_eq!(found["after"][0], "0");
    assert!(found["slowest_after"].as_u64() > Some(1_000_000), "{found}");
    let table = String::from_utf8(output.stdout).unwrap();
    for line in [
        "# before   0 1 2: slowest edge ",
        "# gap      proven",
        "# gain  ",
    ] {
        assert!(table.contains(line), "{line}: {table}");
    }
}

#[test]
fn lanes_that_are_to_be_far_are_all_used() {
    let (document, _, table) = short_run_of(&["--far", "--bind"]);

    let settings = &document["settings"];
    assert_eq!(
        (&settings["far"], &settings["bind"]),
        (&true.into(), &true.into())
    );
    for row in document["rows"].as_array().unwrap() {
        assert_eq!(
            (&row["lanes_are_local"], &row["wrong"]),
            (&false.into(), &0.into())
        );
        if row["bytes"] == 1 << 20 {
            assert_eq!(row["lanes_used"], row["lanes"], "{row}");
        }
    }
    assert!(
        table.contains("# far ") && table.contains("each rank is kept on one"),
        "{table}"
    );
}

#[test]
fn a_congestion_control_that_the_system_refuses_is_not_said_to_be_in_force() {
    let (document, _, table) = short_run_of(&["--no-floor", "--congestion=no-such-thing"]);

    let settings = &document["settings"];
    assert_eq!(settings["congestion"], "no-such-thing");
    assert_ne!(settings["congestion_in_force"], "no-such-thing");
    assert!(
        table.contains("no-such-thing; in force on loopback: "),
        "{table}"
    );
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
    let inexact = run_program(&["--peers=2,19", "--type=bf16"]);
    let unknown = run_program(&["--peers=2", "--max-bytes=4K", "--congestion=no-such-thing"]);

    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(inexact.status.code(), Some(2));
    assert_eq!(unknown.status.code(), Some(1));
    let said = String::from_utf8_lossy(&unknown.stderr);
    assert!(said.contains("for the floor"), "{said}");
}
