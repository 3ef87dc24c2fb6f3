//! How fast is an all-reduce here, or another collective? The benchmark for those who know nccl-tests.
//!
//! ```text
//! cargo run --release -p pccl-bench --bin all_reduce_perf -- --peers 2,4,8 --min-bytes 4K \
//!     --max-bytes 256M --json perf.json --plot perf.svg
//! ```
//!
//! For every number of peers and of lanes it starts a master and that many peers as processes of this
//! machine, or of those that `--hosts` names, and measures one size after the other. Each result is
//! checked on every peer in every iteration; a wrong element makes the exit code a failure.
//!
//! Beside each row stands its *floor*, measured in turns with it by the same processes in the same
//! memory: the same collective by one thread over plain sockets, without any protocol. Three exchanges are
//! tried for each row, each in pieces of several sizes, and the fastest is the floor; the column *exchange*
//! says which it was (`floor_exchange` in the JSON file):
//!
//! - `ring`: a streaming ring that sleeps only when neither direction moves;
//! - `blocking`: the same ring, waiting in `recv` when it has nothing to send;
//! - `direct`: every rank sends every other one its part, adds what it has received in the order of the
//!   ranks, and sends what came of it to all others, which takes two latencies.
//!
//! What a machine can do at all changes from minute to minute; the ratio of the two does not.
//!
//! Within a machine a reduce uses one lane, whatever `--lanes` says. With `--far` the lanes deny that both
//! their ends are here, which shows what their number does between machines:
//! `--far --lanes 1,16 --min-bytes 128M --max-bytes 128M`.
//!
//! Several machines, with an account on each: `--hosts 10.0.0.1,10.0.0.2 --launch "ssh {host}"`. Standard input
//! and output of the processes lead to this one, as `ssh` does it.
//!
//! `--optimize` measures all sizes, lets the ranks call `optimize_topology`, and measures all sizes again. The ring
//! before it goes from each rank to the next one: ranks join one after the other.
//!
//! `--collective reduce-scatter`, `all-gather` and `broadcast` measure these, beside the same half of the rings above,
//! or a chain of them. An all-gather and a broadcast work in place.
//!
//! `--every-algorithm` shows how good the master's choice of the algorithm is: each size is measured with all that can
//! carry it.
//!
//! With `--transport tls` or `quic` (the feature `quic`, which is on by default) all lanes are encrypted, and every
//! rank checks that they are. The floor stays plain, so the ratio shows what encryption costs.
//!
//! | file | what it is for |
//! |---|---|
//! | `arguments`, `work` | the command line, and what of it each rank has to know |
//! | `plan`, `session`, `crew` | the parent: how often, in which order, and the processes it starts |
//! | `talk` | what parent and children tell each other, by `pccl_subprocess` |
//! | `hosts` | where the children run, and what starts them there |
//! | `master`, `rank`, `place`, `stopwatch`, `watch` | the children |
//! | `choice` | all algorithms beside the one that the master chooses |
//! | `collective` | which collective it is, and what it promises |
//! | `contribution`, `number`, `memory` | what each rank contributes, what must come out, and where |
//! | `floor`, `edges` | the three exchanges over plain sockets, and their connections |
//! | `pieces` | the search for the best of them |
//! | `optimized` | the rings before and after `optimize_topology` |
//! | `samples`, `row`, `table`, `notes`, `report`, `plot` | what comes of it |
//! | `over` | TCP, TLS or QUIC |
//! | `machine`, `congestion` | what it was measured on |

mod arguments;
mod choice;
mod collective;
mod congestion;
mod contribution;
mod crew;
mod edges;
mod floor;
// These two are shared with the examples of the client that start a run.
#[path = "../../../client/examples/support/hosts.rs"]
mod hosts;
mod machine;
mod master;
mod memory;
mod notes;
mod number;
mod optimized;
#[path = "../../../client/examples/support/over.rs"]
mod over;
mod pieces;
mod place;
mod plan;
mod plot;
mod rank;
mod report;
mod row;
mod samples;
mod session;
mod stopwatch;
mod table;
mod talk;
#[cfg(test)]
mod tests;
mod watch;
mod work;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Role};

/// The whole program: the benchmark, or one of the processes that it starts.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match &arguments.role {
        Some(Role::Master {
            host,
            transport,
            max_mesh,
            max_ahead,
        }) => master::run(*host, *transport, (*max_mesh, *max_ahead)),
        Some(Role::Rank(assignment)) => rank::run(assignment),
        None => benchmark(&arguments),
    }
}

/// Measures everything. Two kinds of failure: 1 where an element was wrong or a process was lost, 2
/// where the command line asks for what makes no sense.
fn benchmark(arguments: &Arguments) -> ExitCode {
    if let Err(problem) = arguments.check() {
        eprintln!("all_reduce_perf: {problem}");
        return ExitCode::from(2);
    }
    match report::measure_and_report(arguments) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(wrong) => {
            eprintln!("all_reduce_perf: {wrong} elements were wrong");
            ExitCode::FAILURE
        }
        Err(problem) => {
            eprintln!("all_reduce_perf: {problem}");
            ExitCode::FAILURE
        }
    }
}
