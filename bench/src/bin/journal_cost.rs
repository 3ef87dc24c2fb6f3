//! What a journal costs: `cargo run --release -p pccl-bench --bin journal_cost`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use std::{fs, thread};

use clap::Parser;
use pccl::{Communicator, Error, Reduce};
use pccl_bench::bytes::bytes;
use pccl_master::{MasterServer, RunningMaster, ServeError};

/// Reduces in a loop under three masters, by turns in one run: without a journal, with one that outlives the process,
/// and with one that outlives the machine as well (the default), and compares. All peers are threads of this process,
/// and talk over loopback, so a reduce takes less time than in any run of several machines. What a journal adds does
/// not depend on the size of a reduce. Exit code 0 only if all results are right.
#[derive(Clone, Debug, Parser)]
struct Arguments {
    /// Number of peers
    #[arg(long, default_value_t = 2)]
    peers: usize,
    /// Sizes of a contribution: bytes, with K, M or G
    #[arg(long, value_delimiter = ',', default_value = "4K,1M,16M,64M,256M", value_parser = bytes)]
    bytes: Vec<usize>,
    /// Rounds, each of all three by turns; the median counts
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Where the journals are: a directory on the disk to be measured
    #[arg(long, value_name = "DIR", default_value = "target/journal-cost")]
    directory: PathBuf,
}

/// A round lasts as long as so many bytes take, so that small reduces are many.
const ROUND_BYTES: usize = 64 << 20;

/// Most reduces of a round.
const REPEAT_MAX: usize = 100;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = compare(&arguments);
    // What is left of the journals.
    fs::remove_dir_all(&arguments.directory).ok();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("journal_cost: {error}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("no master: {0}")]
    Master(#[from] ServeError),
    #[error(transparent)]
    Pccl(#[from] Error),
    #[error("a peer's thread has panicked")]
    Panicked,
    #[error("a result is wrong")]
    Wrong,
}

fn compare(arguments: &Arguments) -> Result<(), Trouble> {
    let directory = |name| arguments.directory.join(name);
    let mut runs = [
        Run::new(arguments.peers, None, true)?,
        Run::new(arguments.peers, Some(&directory("process")), false)?,
        Run::new(arguments.peers, Some(&directory("machine")), true)?,
    ];
    println!(
        "| peers | size | no journal | process | machine | process/none | machine/none | machine adds |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for bytes in arguments.bytes.iter().copied() {
        let mut rounds: [Vec<f64>; 3] = Default::default();
        // The first one finds cold caches.
        for round in 0..=arguments.rounds.max(1) {
            for (run, seconds) in runs.iter_mut().zip(&mut rounds) {
                let spent = run.round(bytes)?;
                if round > 0 {
                    seconds.push(spent);
                }
            }
        }
        let [none, process, machine] = rounds.map(median);
        println!(
            "| {} | {} | {:.3} ms | {:.3} ms | {:.3} ms | {:.2} | {:.2} | {:.2} ms |",
            arguments.peers,
            size(bytes),
            none * 1e3,
            process * 1e3,
            machine * 1e3,
            process / none,
            machine / none,
            (machine - none) * 1e3,
        );
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A master and its peers.
struct Run {
    peers: Vec<Communicator>,
    _master: RunningMaster,
}

impl Run {
    fn new(count: usize, journal: Option<&Path>, syncs: bool) -> Result<Self, Trouble> {
        let mut master = MasterServer::builder();
        if let Some(directory) = journal {
            master = master.journal(directory).journal_sync(syncs);
        }
        let master = master.spawn("127.0.0.1:0")?;
        let address = master.local_addr().to_string();
        let peers = on_threads(vec![(); count], |()| {
            let mut peer = Communicator::builder(&address).first_port(0).connect()?;
            // Those that came first admit the others.
            while peer.global_world_size() < count {
                peer.update_topology()?;
            }
            Ok(peer)
        })?;
        Ok(Self {
            peers,
            _master: master,
        })
    }

    /// Seconds of one of the reduces that make a round.
    fn round(&mut self, bytes: usize) -> Result<f64, Trouble> {
        let repeat = (ROUND_BYTES / bytes.max(1)).clamp(1, REPEAT_MAX);
        let count = bytes / size_of::<f32>();
        let sources = (1..=self.peers.len()).map(|peer| vec![peer as f32; count]);
        // Written, so that no page of it comes into being while the clock runs.
        let results = self.peers.iter().map(|_| vec![f32::NAN; count]);
        let mut buffers: Vec<_> = sources.zip(results).collect();
        let each = self.peers.iter_mut().zip(&mut buffers).collect();
        let begun = Instant::now();
        on_threads(each, |(peer, (source, result))| {
            for _ in 0..repeat {
                peer.all_reduce_into(source, result, Reduce::sum())?;
            }
            Ok(())
        })?;
        let seconds = begun.elapsed().as_secs_f64() / repeat as f64;
        let expected: f32 = (1..=self.peers.len()).map(|peer| peer as f32).sum();
        let mut results = buffers.iter().flat_map(|(_, result)| result);
        match results.all(|number| *number == expected) {
            true => Ok(seconds),
            false => Err(Trouble::Wrong),
        }
    }
}

/// Does the same for each on a thread of its own.
fn on_threads<T: Send, R: Send>(
    each: Vec<T>,
    act: impl Fn(T) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Trouble> {
    thread::scope(|scope| {
        let act = &act;
        let threads: Vec<_> = each
            .into_iter()
            .map(|one| scope.spawn(move || act(one)))
            .collect();
        let results = threads.into_iter().map(|thread| match thread.join() {
            Ok(result) => result.map_err(Trouble::Pccl),
            Err(_) => Err(Trouble::Panicked),
        });
        results.collect()
    })
}

fn size(bytes: usize) -> String {
    match bytes {
        ..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}
