//! The rows as people who know nccl-tests read them.

use std::fmt::Write;

use super::arguments::Arguments;
use super::machine::Machine;
use super::over::Over;
use super::row::Row;
use super::work::Work;

/// What is measured where, and what the columns mean.
/// `in_force`: the congestion control of lanes within this machine.
pub(crate) fn preamble(arguments: &Arguments, machine: &Machine, in_force: Option<&str>) -> String {
    let work = &arguments.work;
    let mut text = String::new();
    let mut line = |what: &str, is: String| {
        writeln!(text, "# {what:<8} {is}").ok();
    };
    let load = machine.load_average;
    let load = load.map_or_else(String::new, |load| format!(", load average {load} before"));
    line(
        "machine",
        format!("{}, {} cores{load}", machine.processor, machine.cores),
    );
    line(
        "kernel",
        format!(
            "{}, default congestion control {}",
            machine.kernel, machine.congestion_control
        ),
    );
    let over = arguments.transport;
    line(
        "over",
        format!("{over}: {}", if over.is_proven() { PROVEN } else { PLAIN }),
    );
    if over != Over::Quic {
        line("tcp", lanes_congestion(work, in_force));
    }
    if work.far {
        line("far", FAR.into());
    }
    line("cores", if work.bind { BOUND } else { UNBOUND }.into());
    if !arguments.is_without_floor() {
        let congestion = work.local_congestion();
        line(
            "floor",
            format!("{FLOOR}; congestion control: {congestion}"),
        );
    }
    if work.concurrent > 1 {
        let concurrent = work.concurrent;
        line(
            "size",
            format!("of one of {concurrent} reduces at once; algbw counts all of them"),
        );
        if !arguments.is_without_floor() {
            line("", "the floor reduces all of them as one buffer".into());
        }
    }
    text.push_str(if arguments.every_algorithm {
        COLUMNS_OF_CHOICES
    } else {
        COLUMNS
    });
    text
}

/// Asked for, and in force.
fn lanes_congestion(work: &Work, in_force: Option<&str>) -> String {
    let asked = work.congestion.as_deref();
    let asked = asked.unwrap_or("the library's choice per lane (reno within a machine)");
    let in_force = in_force.unwrap_or("unknown");
    format!("congestion control of the lanes: {asked}; in force on loopback: {in_force}")
}

const PLAIN: &str = "nothing is encrypted";
const PROVEN: &str = "all lanes are encrypted, and both ends of each have proved their keys";

const FAR: &str =
    "lanes deny that both ends are on this machine: as many are used as between machines";

const BOUND: &str = "each rank is kept on one, by turns";
const UNBOUND: &str = "ranks are kept on none: small reduces, the floor's too, take half as long again where two \
                       ranks run on two as where they share one; with --bind that is fixed";

const FLOOR: &str = "the best of several bare exchanges: one thread, no protocol, uncompressed, with the best size \
                     of pieces";

/// What the columns mean.
const COLUMNS: &str = "\
# time     median over the iterations; of each iteration the mean over the peers; the spread stands below
# lanes    of an edge that carried bytes, as counted; how many were asked for stands above the rows
# algbw    bytes of the buffer / time; busbw = algbw * 2(n-1)/n for an all-reduce, (n-1)/n for its halves, 1 for a
#          broadcast; GB are 10^9 bytes
# #wrong   wrong elements, and one for each iteration whose result was not the same bits on all peers
# cpu      user and system seconds of all peers and the master / GB of the buffers of all peers (= ns per byte)
# exchange of the floor that was the fastest in this row: ring (sleeps when neither direction moves),
#          blocking (a ring that waits in recv), direct (every rank with every other, two latencies)
# ratio    throughput of ours / of the floor; the cpu beside it: CPU time of ours, master included, / of
#          the floor, which has no master
";

/// What the columns of choices mean.
const COLUMNS_OF_CHOICES: &str = "\
# chosen   by the master, if nobody asks for an algorithm; it stands first behind the other columns, too
# time     median over the iterations; of each iteration the mean over the peers
# over     time of the choice / of the fastest algorithm
";

/// What stands above the rows of one session.
pub(crate) fn heading(
    arguments: &Arguments,
    peers: usize,
    lanes: u16,
    is_optimized: bool,
) -> String {
    let work = &arguments.work;
    let place = match (work.is_in_place(), work.is_backed_up()) {
        (true, true) => "in place",
        (true, false) => "in place without a backup",
        (false, _) => "out of place",
    };
    let quantized = work
        .quantize
        .map(|by| format!(", quantized to {}", by.name));
    let quantized = quantized.unwrap_or_default();
    let optimized = if is_optimized { ", optimized ring" } else { "" };
    let mut text = format!(
        "#\n# {}, {peers} peers, lanes asked for: {lanes}, {place}{quantized}{optimized}\n",
        work.collective
    );
    let names = [
        "size", "count", "type", "redop", "algo", "lanes", "time", "algbw", "busbw", "#wrong",
        "cpu",
    ];
    let units = [
        "(B)",
        "(elements)",
        "",
        "",
        "",
        "(used)",
        "(us)",
        "(GB/s)",
        "(GB/s)",
        "",
        "(s/GB)",
    ];
    let floor_names = ["floor", "algbw", "cpu", "exchange", "piece", "ratio", "cpu"];
    let floor_units = ["(us)", "(GB/s)", "(s/GB)", "", "(KiB)", "", ""];
    for (ours, floor) in [(names, floor_names), (units, floor_units)] {
        text.push_str(&columns(&ours, &WIDTHS).replacen(' ', "#", 1));
        if !arguments.is_without_floor() {
            text.push_str(SEPARATOR);
            text.push_str(&columns(&floor, &FLOOR_WIDTHS));
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}

const WIDTHS: [usize; 11] = [12, 12, 7, 7, 16, 7, 12, 10, 10, 8, 10];
const FLOOR_WIDTHS: [usize; 7] = [11, 10, 10, 10, 8, 7, 7];
pub(crate) const SEPARATOR: &str = " |";

/// Right-aligned.
pub(crate) fn columns<T: AsRef<str>>(texts: &[T], widths: &[usize]) -> String {
    let columns = texts.iter().zip(widths);
    columns
        .map(|(text, width)| format!("{:>width$}", text.as_ref()))
        .collect()
}

/// One row.
pub(crate) fn line(row: &Row) -> String {
    let ours = [
        row.bytes.to_string(),
        row.count.to_string(),
        row.r#type.clone(),
        row.redop.clone(),
        row.algorithm.clone(),
        row.lanes_used.to_string(),
        format!("{:.1}", row.time_us),
        format!("{:.3}", row.algbw_gb_s),
        format!("{:.3}", row.busbw_gb_s),
        row.wrong.to_string(),
        format!("{:.3}", row.cpu_s_per_gb),
    ];
    let mut line = columns(&ours, &WIDTHS);
    let (Some(exchange), Some(piece_bytes)) = (row.floor.exchange, row.floor.piece_bytes) else {
        return line;
    };
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(String::new, |value| format!("{value:.digits$}"))
    };
    let floor = [
        number(row.floor.time_us, 1),
        number(row.floor.algbw_gb_s, 3),
        number(row.floor.cpu_s_per_gb, 3),
        exchange.to_string(),
        (piece_bytes >> 10).to_string(),
        number(row.floor.ratio, 2),
        number(row.floor.cpu_ratio, 2),
    ];
    line.push_str(SEPARATOR);
    line.push_str(&columns(&floor, &FLOOR_WIDTHS));
    line
}
