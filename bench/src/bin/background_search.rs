//! What a search for a better ring in the background costs others: `cargo run --release -p pccl-bench --bin
//! background_search`.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use pccl::{Communicator, Error, Reduce, Tcp};
use pccl_bench::bytes::bytes;
use pccl_core::master::MasterConfig;
use pccl_master::{MasterServer, RunningMaster, Security, ServeError};

/// Two groups share a master. The ring of the large one is too large to be proven the best, so the master goes on
/// searching. Meanwhile the small one reduces, and then all peers ask `are_peers_pending`, which is answered when all
/// have asked. When the search is over the same is measured again, and nothing else has changed. Everything is one
/// process, so the search shares its cores. Exit code 0 only if both medians with a search are within the aim. Linux
/// only: elsewhere nobody knows whether a search runs.
#[derive(Clone, Copy, Debug, Parser)]
struct Arguments {
    /// Members of the large group
    #[arg(long, default_value_t = 56)]
    members: usize,
    /// Members of the small group
    #[arg(long, default_value_t = 2)]
    peers: usize,
    /// Size of a contribution of the small group: bytes, with K, M or G
    #[arg(long, default_value = "64K", value_parser = bytes)]
    bytes: usize,
    /// How long each turn measures with a search, and then without
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Searches beside which is measured
    #[arg(long, default_value_t = 3)]
    turns: usize,
    /// Steps of a search; some 3 million take a second, pauses included
    #[arg(long, default_value_t = 100_000_000)]
    steps: u64,
    /// How many times as long a call may take with a search
    #[arg(long, default_value_t = 1.1)]
    aim: f64,
}

/// A ring that is proven at once, or before a turn is over, leaves no search to measure beside. Another one, of other
/// measurements, may.
const TRIES: usize = 12;

/// The master's thread that searches is called so.
const SEARCH: &str = "pccl-search";

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("the master does not start: {0}")]
    Master(#[from] ServeError),
    #[error(transparent)]
    Pccl(#[from] Error),
    #[error("a peer's thread has ended")]
    PeerEnded,
    #[error(
        "{TRIES} searches were over before the turn was: more --members or --steps, or fewer --seconds"
    )]
    NoSearch,
    #[error("a search does not end")]
    Endless,
}

fn main() -> ExitCode {
    if cfg!(not(target_os = "linux")) {
        println!("background_search: skipped: only Linux tells which threads there are");
        return ExitCode::SUCCESS;
    }
    match compare(Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("background_search: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Was the aim reached?
fn compare(arguments: Arguments) -> Result<bool, Trouble> {
    let peers = Peers::join(arguments)?;
    println!(
        "{} peers that reduce {} bytes beside a group of {}",
        arguments.peers, arguments.bytes, arguments.members
    );
    let span = Duration::from_secs(arguments.seconds);
    let (mut without, mut with) = (Times::default(), Times::default());
    for turn in 1..=arguments.turns {
        let begun = Instant::now();
        let busy = peers.measure_with_search(span)?;
        until_no_search()?;
        let took = begun.elapsed().as_secs_f64();
        let quiet = peers.measure(span)?;
        println!("turn {turn}: optimized, searched and measured for {took:.1} s");
        println!("turn {turn}, with:    {busy}\nturn {turn}, without: {quiet}");
        without.add(quiet);
        with.add(busy);
    }
    println!("all, without:    {without}\nall, with:       {with}");
    let of = |times: fn(&Times) -> &[f64]| median(times(&with)) / median(times(&without));
    let (reduces, questions) = (of(|times| &times.reduces), of(|times| &times.questions));
    let reached = reduces.max(questions) <= arguments.aim;
    println!(
        "with a search reduces take {reduces:.3} times as long, are_peers_pending {questions:.3} times: the aim, at \
         most {:.2} times, is {}",
        arguments.aim,
        if reached { "reached" } else { "MISSED" }
    );
    Ok(reached)
}

/// In microseconds, as one peer has measured them.
#[derive(Debug, Default)]
struct Times {
    reduces: Vec<f64>,
    /// `are_peers_pending`
    questions: Vec<f64>,
}

impl Times {
    fn add(&mut self, mut other: Self) {
        self.reduces.append(&mut other.reduces);
        self.questions.append(&mut other.questions);
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} reduces, median {:.1} us, mean {:.1} us; {} times are_peers_pending, median {:.1} us, mean {:.1} us",
            self.reduces.len(),
            median(&self.reduces),
            mean(&self.reduces),
            self.questions.len(),
            median(&self.questions),
            mean(&self.questions)
        )
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// What a peer's thread is told.
#[derive(Clone, Copy)]
enum Order {
    Optimize,
    /// Of the small group: reduce until so much time has passed for the first peer.
    Reduce(Duration),
    /// The same with questions of all peers.
    Ask(Duration),
}

/// How long calls took, in microseconds.
type Answer = Result<Vec<f64>, Error>;

/// Peers on threads of their own, with their master.
struct Peers {
    /// The small group comes first.
    threads: Vec<(Sender<Order>, Receiver<Answer>)>,
    small: usize,
    /// The number of the last call of an order, once it is known.
    last: Arc<AtomicU64>,
    _master: RunningMaster,
}

impl Peers {
    fn join(arguments: Arguments) -> Result<Self, Trouble> {
        let config = MasterConfig {
            search_steps: arguments.steps,
            ..MasterConfig::default()
        };
        let builder = MasterServer::builder().security(Security::Plain);
        let master = builder.config(config).spawn("127.0.0.1:0")?;
        let address = master.local_addr().to_string();
        let all = arguments.peers + arguments.members;
        let last = Arc::new(AtomicU64::new(u64::MAX));
        let start = |number: usize| {
            let (orders, heard) = channel();
            let (answers, said) = channel();
            let (address, is_small) = (address.clone(), number < arguments.peers);
            let last = Arc::clone(&last);
            thread::spawn(move || {
                let group = u32::from(!is_small);
                let peer = join(&address, group, all);
                let mut peer = match peer {
                    Ok(peer) => peer,
                    Err(error) => {
                        answers.send(Err(error)).ok();
                        return;
                    }
                };
                answers.send(Ok(Vec::new())).ok();
                let mut buffer = vec![0.0; arguments.bytes / size_of::<f32>() + 1];
                for order in heard {
                    let first = |span| (number == 0).then_some(span);
                    let answer = match order {
                        Order::Optimize => peer.optimize_topology().map(|_| Vec::new()),
                        Order::Reduce(span) => repeat(first(span), &last, || {
                            peer.all_reduce(&mut buffer, Reduce::sum()).map(drop)
                        }),
                        Order::Ask(span) => {
                            repeat(first(span), &last, || peer.are_peers_pending().map(drop))
                        }
                    };
                    answers.send(answer).ok();
                }
            });
            (orders, said)
        };
        let peers = Self {
            threads: (0..all).map(start).collect(),
            small: arguments.peers,
            last: Arc::clone(&last),
            _master: master,
        };
        peers.hear(all)?;
        Ok(peers)
    }

    /// What the first peer has measured while a search went on.
    fn measure_with_search(&self, span: Duration) -> Result<Times, Trouble> {
        for _ in 0..TRIES {
            self.tell(self.threads.len(), Order::Optimize)?;
            if !is_searching() {
                continue;
            }
            let measured = self.measure(span)?;
            if is_searching() {
                return Ok(measured);
            }
        }
        Err(Trouble::NoSearch)
    }

    /// What the first peer has measured in this time.
    fn measure(&self, span: Duration) -> Result<Times, Trouble> {
        let half = span / 2;
        let mut reduces = self.tell(self.small, Order::Reduce(half))?;
        let mut questions = self.tell(self.threads.len(), Order::Ask(half))?;
        Ok(Times {
            reduces: reduces.swap_remove(0),
            questions: questions.swap_remove(0),
        })
    }

    fn tell(&self, count: usize, order: Order) -> Result<Vec<Vec<f64>>, Trouble> {
        self.last.store(u64::MAX, Ordering::SeqCst);
        for (orders, _) in self.threads.iter().take(count) {
            orders.send(order).map_err(|_| Trouble::PeerEnded)?;
        }
        self.hear(count)
    }

    fn hear(&self, count: usize) -> Result<Vec<Vec<f64>>, Trouble> {
        let answers = self
            .threads
            .iter()
            .take(count)
            .map(|(_, said)| match said.recv() {
                Ok(answer) => answer.map_err(Trouble::Pccl),
                Err(_) => Err(Trouble::PeerEnded),
            });
        answers.collect()
    }
}

fn join(address: &str, group: u32, all: usize) -> Result<Communicator, Error> {
    let mut peer = Communicator::builder(address)
        .transport(Tcp::plain().lanes(1))
        .group(group)
        .listen(IpAddr::V4(Ipv4Addr::LOCALHOST))
        .first_port(0)
        .connect()?;
    // Those that came first admit the others.
    while peer.global_world_size() < all {
        peer.update_topology()?;
        thread::sleep(Duration::from_millis(2));
    }
    Ok(peer)
}

/// Makes a call as often as the other peers do. The first one has a `span`, after which it says which call is the last.
fn repeat(
    span: Option<Duration>,
    last: &AtomicU64,
    mut call: impl FnMut() -> Result<(), Error>,
) -> Answer {
    let mut times = Vec::new();
    let begun = Instant::now();
    for number in 1.. {
        let is_known = last.load(Ordering::SeqCst) != u64::MAX;
        if !is_known && span.is_some_and(|span| begun.elapsed() > span) {
            last.store(number, Ordering::SeqCst);
        }
        let before = Instant::now();
        call()?;
        times.push(before.elapsed().as_secs_f64() * 1e6);
        if number >= last.load(Ordering::SeqCst) {
            break;
        }
    }
    Ok(times)
}

/// Does a thread of this process search?
fn is_searching() -> bool {
    let Ok(threads) = fs::read_dir("/proc/self/task") else {
        return false;
    };
    let names =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    names.into_iter().any(|name| name.trim_end() == SEARCH)
}

fn until_no_search() -> Result<(), Trouble> {
    let end = Instant::now() + Duration::from_secs(300);
    while is_searching() {
        if Instant::now() > end {
            return Err(Trouble::Endless);
        }
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
