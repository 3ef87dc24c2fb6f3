//! The rows as people who know nccl-tests read them.

use std::fmt::Write;

use super::arguments::Arguments;
use super::machine::Machine;
use super::row::Row;

/// What is measured where, and what the columns mean.
pub(crate) fn preamble(arguments: &Arguments, machine: &Machine) -> String {
    let work = &arguments.work;
    let lanes = work.congestion.as_deref();
    let lanes = lanes.unwrap_or("the library's choice per lane (reno within a machine)");
    let mut text = String::new();
    let mut line = |what: &str, is: &str| writeln!(text, "# {what:<8} {is}").ok();
    line(
        "machine",
        &format!("{}, {} cores", machine.processor, machine.cores),
    );
    line(
        "kernel",
        &format!(
            "{}, default congestion control {}",
            machine.kernel, machine.congestion_control
        ),
    );
    line("lanes", &format!("congestion control: {lanes}"));
    if !arguments.no_floor {
        line(
            "floor",
            &format!(
                "plain single-threaded ring, no protocol, uncompressed; congestion control: {}",
                work.floor_congestion()
            ),
        );
    }
    line(
        "time",
        "median over the iterations; of each iteration the mean over the peers",
    );
    line(
        "algbw",
        "bytes of one peer's contribution / time; busbw = algbw * 2(n-1)/n; GB are 10^9 bytes",
    );
    line(
        "cpu",
        "user and system seconds of all peers / GB contributed by all peers (= ns per byte)",
    );
    line(
        "ratio",
        "throughput of ours / of the floor; cpu: CPU time of ours / of the floor",
    );
    if work.concurrent > 1 {
        line(
            "size",
            &format!(
                "of one of {} reduces at once; algbw counts all of them",
                work.concurrent
            ),
        );
    }
    text
}

/// What stands above the rows of one session.
pub(crate) fn heading(arguments: &Arguments, peers: usize, lanes: u16) -> String {
    let work = &arguments.work;
    let place = if work.is_in_place() {
        "in place"
    } else {
        "out of place"
    };
    let compressed = work
        .quantize
        .map_or_else(String::new, |by| format!(", quantized to {}", by.name));
    let columns = format!(
        "#{:>11} {:>11} {:>6} {:>6} {:>11} {:>9} {:>9} {:>7} {:>9}",
        "size", "count", "type", "redop", "time", "algbw", "busbw", "#wrong", "cpu"
    );
    let units = format!(
        "#{:>11} {:>11} {:>6} {:>6} {:>11} {:>9} {:>9} {:>7} {:>9}",
        "(B)", "(elements)", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(s/GB)"
    );
    let (of_floor, floor_units) = if arguments.no_floor {
        (String::new(), String::new())
    } else {
        (
            format!(
                " |{:>11} {:>9} {:>9} {:>7} {:>6} {:>6}",
                "floor", "algbw", "cpu", "piece", "ratio", "cpu"
            ),
            format!(
                " |{:>11} {:>9} {:>9} {:>7} {:>6} {:>6}",
                "(us)", "(GB/s)", "(s/GB)", "(KiB)", "", ""
            ),
        )
    };
    format!(
        "#\n# {peers} peers, lanes: {lanes}, {place}{compressed}\n{columns}{of_floor}\n{units}{floor_units}"
    )
}

/// One row.
pub(crate) fn line(row: &Row) -> String {
    let mut line = format!(
        "{:>12} {:>11} {:>6} {:>6} {:>11.1} {:>9.3} {:>9.3} {:>7} {:>9.3}",
        row.bytes,
        row.count,
        row.r#type,
        row.redop,
        row.time_us,
        row.algbw_gb_s,
        row.busbw_gb_s,
        row.wrong,
        row.cpu_s_per_gb
    );
    let floor = row.floor;
    if let (Some(time), Some(algbw), Some(cpu), Some(piece), Some(ratio), Some(cpu_ratio)) = (
        floor.time_us,
        floor.algbw_gb_s,
        floor.cpu_s_per_gb,
        floor.piece_bytes,
        floor.ratio,
        floor.cpu_ratio,
    ) {
        let piece = piece >> 10;
        write!(
            line,
            " |{time:>11.1} {algbw:>9.3} {cpu:>9.3} {piece:>7} {ratio:>6.2} {cpu_ratio:>6.2}"
        )
        .ok();
    }
    line
}
