//! The machine that is measured.

use std::{fs, thread};

use serde::Serialize;

/// What decides how fast a reduce can be here.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    /// As many threads run at once.
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    /// What a connection uses that asks for nothing else.
    pub(crate) congestion_control: String,
    /// Processes that ran or waited to run in the last minute before the benchmark, on average: where
    /// this is not small beside the cores, the times are those of a busy machine.
    pub(crate) load_average: Option<f64>,
}

impl Machine {
    /// This one. What it does not tell is "unknown".
    pub(crate) fn of_this_process() -> Self {
        Self {
            processor: processor().unwrap_or_else(unknown),
            cores: thread::available_parallelism().map_or(1, usize::from),
            kernel: line_of("/proc/version").unwrap_or_else(unknown),
            congestion_control: line_of("/proc/sys/net/ipv4/tcp_congestion_control")
                .unwrap_or_else(unknown),
            load_average: load_average(),
        }
    }
}

fn unknown() -> String {
    "unknown".into()
}

fn processor() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().into())
}

fn load_average() -> Option<f64> {
    let averages = fs::read_to_string("/proc/loadavg").ok()?;
    averages.split_whitespace().next()?.parse().ok()
}

fn line_of(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    // The version names whoever built the kernel, too; the first three words say which it is.
    let words: Vec<&str> = text.split_whitespace().take(3).collect();
    Some(words.join(" "))
}
