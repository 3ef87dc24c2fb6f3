//! What encryption costs: `cargo run --release -p pccl-bench --bin encrypted`.

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use pccl::{Communicator, Error, Reduce, Tcp};
use pccl_bench::bytes::bytes;
use pccl_master::{MasterServer, RunningMaster, Security, Trust};
use rustix::time::{ClockId, clock_gettime};

/// Sums numbers between peers over plain TCP and over TLS, by turns in one run, and compares. All peers
/// are threads of this process, and talk over loopback: what either end spends on encryption, the other
/// end's core or the next peer's lacks. On a machine on which others work as well look at the CPU time.
/// Exit code 0 only if all results are right, and TLS has at least the aimed-at share of the throughput of plain
/// TCP where buffers are of 1 MiB or more.
#[derive(Clone, Debug, Parser)]
struct Arguments {
    /// Numbers of peers
    #[arg(long, value_delimiter = ',', default_value = "2,4")]
    peers: Vec<NonZeroUsize>,
    /// Sizes of a contribution: bytes, with K, M or G
    #[arg(long, value_delimiter = ',', default_value = "4K,64M,256M", value_parser = bytes)]
    bytes: Vec<usize>,
    /// Rounds, each of plain and of encrypted reduces by turns; the median counts
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Of the throughput of plain TCP
    #[arg(long, default_value_t = 0.65)]
    aim: f64,
}

/// A round lasts as long as so many bytes take, so that small reduces are many.
const ROUND_BYTES: usize = 1 << 20;

/// Most reduces of a round.
const REPEAT_MAX: usize = 250;

fn main() -> ExitCode {
    match compare(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("encrypted: {error}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("no master: {0}")]
    Master(#[from] pccl_master::ServeError),
    #[error("no keys or join string: {0}")]
    Trust(String),
    #[error(transparent)]
    Pccl(#[from] Error),
    #[error("a peer's thread has panicked")]
    Panicked,
    #[error("a result is wrong")]
    Wrong,
}

/// Was the aim reached everywhere?
fn compare(arguments: &Arguments) -> Result<bool, Trouble> {
    println!(
        "| peers | size | plain | TLS | ratio | plain Gbit/s a peer | TLS Gbit/s a peer | plain CPU ns/B | TLS CPU ns/B | CPU ratio |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let mut is_reached = true;
    for peers in arguments.peers.iter().copied().map(usize::from) {
        let mut plain = Run::plain(peers)?;
        let mut encrypted = Run::encrypted(peers)?;
        for bytes in arguments.bytes.iter().copied() {
            let mut rounds = Vec::new();
            // The first one finds cold caches.
            for round in 0..=arguments.rounds.max(1) {
                let turns = (plain.round(bytes)?, encrypted.round(bytes)?);
                if round > 0 {
                    rounds.push(turns);
                }
            }
            let ratio = report(peers, bytes, &rounds);
            is_reached &= bytes < 1 << 20 || ratio >= arguments.aim;
        }
    }
    Ok(is_reached)
}

/// Prints a line. The median of the ratios of the rounds.
fn report(peers: usize, bytes: usize, rounds: &[(Spent, Spent)]) -> f64 {
    let of = |value: fn(&(Spent, Spent)) -> f64| median(rounds.iter().map(value).collect());
    let (plain, encrypted) = (of(|(plain, _)| plain.wall), of(|(_, tls)| tls.wall));
    let (plain_cpu, tls_cpu) = (of(|(plain, _)| plain.cpu), of(|(_, tls)| tls.cpu));
    let ratio = of(|(plain, tls)| plain.wall / tls.wall);
    // In a ring each peer sends its share of every buffer twice, but for its own.
    let sent = 2.0 * (peers - 1) as f64 / peers as f64 * bytes as f64;
    let rate = |wall: f64| sent * 8.0 / wall / 1e9;
    let per_byte = |cpu: f64| cpu * 1e9 / (peers * bytes) as f64;
    println!(
        "| {peers} | {} | {:.3} ms | {:.3} ms | {ratio:.2} | {:.1} | {:.1} | {:.3} | {:.3} | {:.2} |",
        size(bytes),
        plain * 1e3,
        encrypted * 1e3,
        rate(plain),
        rate(encrypted),
        per_byte(plain_cpu),
        per_byte(tls_cpu),
        plain_cpu / tls_cpu,
    );
    ratio
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Seconds of one reduce.
struct Spent {
    wall: f64,
    /// Of all threads of this process.
    cpu: f64,
}

/// A master and its peers.
struct Run {
    peers: Vec<Communicator>,
    _master: RunningMaster,
}

impl Run {
    fn plain(peers: usize) -> Result<Self, Trouble> {
        let master = pccl_master::spawn("127.0.0.1:0")?;
        let address = master.local_addr().to_string();
        Self::join(master, &address, peers)
    }

    fn encrypted(peers: usize) -> Result<Self, Trouble> {
        let trust = Trust::ephemeral().map_err(|error| Trouble::Trust(error.to_string()))?;
        let security = Security::Proven(trust);
        let master = MasterServer::builder().security(security);
        let master = master.spawn("127.0.0.1:0")?;
        let join = master.join_string(&[]);
        let join = join.map_err(|error| Trouble::Trust(error.to_string()))?;
        let join = join.ok_or_else(|| Trouble::Trust("there is none".into()))?;
        Self::join(master, &join.to_word(), peers)
    }

    fn join(master: RunningMaster, to: &str, count: usize) -> Result<Self, Trouble> {
        let peers = on_threads(vec![(); count], |_, ()| {
            let builder = Communicator::builder(to).transport(Tcp::new());
            let mut peer = builder.first_port(0).connect()?;
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

    /// As many reduces as make a round.
    fn round(&mut self, bytes: usize) -> Result<Spent, Trouble> {
        let repeat = (ROUND_BYTES / bytes.max(1)).clamp(1, REPEAT_MAX);
        let count = bytes / size_of::<f32>();
        let expected: f32 = (1..=self.peers.len()).map(|peer| peer as f32).sum();
        let sources = (1..=self.peers.len()).map(|peer| vec![peer as f32; count]);
        // Written, so that no page of it comes into being while the clock runs.
        let results = self.peers.iter().map(|_| vec![f32::NAN; count]);
        let mut buffers: Vec<_> = sources.zip(results).collect();
        let each = self.peers.iter_mut().zip(&mut buffers).collect();
        let (begun, cpu) = (Instant::now(), cpu_time());
        on_threads(each, |_, (peer, (source, result))| {
            for _ in 0..repeat {
                peer.all_reduce_into(source, result, Reduce::sum())?;
            }
            Ok(())
        })?;
        let (wall, cpu) = (begun.elapsed(), cpu_time().saturating_sub(cpu));
        let mut results = buffers.iter().flat_map(|(_, result)| result);
        if !results.all(|number| *number == expected) {
            return Err(Trouble::Wrong);
        }
        Ok(Spent {
            wall: wall.as_secs_f64() / repeat as f64,
            cpu: cpu.as_secs_f64() / repeat as f64,
        })
    }
}

/// User and system time of this process so far.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(time.tv_sec.unsigned_abs(), nanos)
}

/// Does the same for each on a thread of its own.
fn on_threads<T: Send, R: Send>(
    each: Vec<T>,
    act: impl Fn(usize, T) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Trouble> {
    thread::scope(|scope| {
        let each = each.into_iter().enumerate();
        let act = &act;
        let threads: Vec<_> = each
            .map(|(index, one)| scope.spawn(move || act(index, one)))
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
