//! How long a newcomer needs to fetch the shared state, from one holder and from several:
//! `cargo run --release -p pccl-bench --bin newcomer -- --bytes 2G --holders 3 --mbit 1000 --reduces 100 --kill`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use pccl::{Communicator, Error, Next, Overlapped, Reduce, SharedState, SyncStrategy, Tcp};
use pccl_bench::bytes::bytes;
use pccl_core::id::Identity;
use pccl_core::transport::{Endpoint, Lane};
use pccl_subprocess::{Process, ProcessError, Processes, next_order, tell};
use pccl_transport_memory::throttle::Throttled;
use pccl_transport_memory::{Intercepted, Interceptor, on_recv};
use serde::{Deserialize, Serialize};

/// Lets a newcomer fetch the shared state from holders whose links are limited: from one, then from several, then, with
/// `--reduces`, from several that reduce meanwhile, and with `--kill` from several of which one is killed half-way. The
/// link of the newcomer is not limited. Every peer is a process of its own. The time is that of the newcomer's calls,
/// from the first to the success. It includes the hash of what the newcomer has, and not those of the holders, which
/// call earlier: on machines of their own, all would hash at the same time. Exit code 0 only if the newcomer holds the
/// right content each time, several holders are as many times as fast as is aimed at, those that reduce have made all
/// reduces before the newcomer's call ends, and a holder that is killed costs no more bytes than its share.
#[derive(Clone, Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    role: Option<Role>,
    /// Size of the shared state: bytes, with K, M or G
    #[arg(long, default_value = "2G", value_parser = bytes)]
    bytes: usize,
    /// Holders of the second fetch
    #[arg(long, default_value_t = 3)]
    holders: usize,
    /// Megabits per second out of each holder
    #[arg(long, default_value_t = 1000)]
    mbit: u64,
    /// Milliseconds from the admission of the newcomer, after which the holders call, to its own call: at least as long
    /// as all holders need to hash the state, on the cores that they share. Default: by the size, 3000 for three times
    /// 2 GiB
    #[arg(long)]
    later_ms: Option<u64>,
    /// Fetch once more, while the holders make so many all-reduces of 1 MiB among themselves, 20 ms after each other.
    /// They have a communicator of their own, with another master; its links are not limited
    #[arg(long, default_value_t = 0)]
    reduces: usize,
    /// Fetch once more, and kill one of the holders half-way
    #[arg(long)]
    kill: bool,
    /// So many times as fast as from one holder the fetch from several has to be
    #[arg(long, default_value_t = 2.5)]
    aim: f64,
}

/// What a child does.
#[derive(Clone, Debug, Subcommand)]
#[command(hide = true)]
enum Role {
    Holder {
        master: String,
        bytes: usize,
        mbit: u64,
        holders: usize,
        reduces: usize,
        /// That of the communicator of the holders alone.
        site_master: String,
    },
    Newcomer {
        master: String,
        bytes: usize,
        later_ms: u64,
    },
}

/// What a child tells.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Event {
    /// A holder has synchronized with the others, and waits for the order to admit a newcomer.
    Holds,
    /// A holder has made its reduces, which took so long in the median, and at most.
    Reduced {
        median: Duration,
        longest: Duration,
    },
    /// The newcomer is about to make its first call.
    Begins,
    /// The newcomer's last call has ended.
    Ended,
    Fetched(Fetched),
    Failed(String),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Fetched {
    took: Duration,
    /// From the first byte of content to the last.
    moving: Duration,
    /// Calls until one succeeded.
    calls: usize,
    bytes_received: u64,
    is_right: bool,
    /// The median and the longest reduce of each holder that had made all of its own by then.
    reduced: Vec<(Duration, Duration)>,
}

/// The order to admit a newcomer.
#[derive(Debug, Serialize, Deserialize)]
struct Admit;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let ended = match &arguments.role {
        Some(role) => {
            if let Err(error) = play(role) {
                tell(&Event::Failed(error.to_string()));
            }
            return ExitCode::SUCCESS;
        }
        None => compare(&arguments),
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("newcomer: {error}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("the master does not start: {0}")]
    Master(#[from] pccl_master::ServeError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    System(#[from] std::io::Error),
    #[error("{0:?} where something else was expected")]
    Child(Option<Event>),
}

/// One fetch.
#[derive(Clone, Copy, Debug)]
struct Setting {
    holders: usize,
    /// Made by the holders meanwhile.
    reduces: usize,
    /// So long after the newcomer's first call, a holder is killed.
    kill_after: Option<Duration>,
}

impl Setting {
    const fn of(holders: usize) -> Self {
        Self {
            holders,
            reduces: 0,
            kill_after: None,
        }
    }
}

/// Was all as it should be?
fn compare(arguments: &Arguments) -> Result<bool, Trouble> {
    let Arguments {
        bytes,
        holders,
        mbit,
        aim,
        ..
    } = *arguments;
    println!("{bytes} bytes of shared state, {mbit} Mbit/s out of each holder");
    let one = fetch(arguments, Setting::of(1))?;
    print("1 holder", &one);
    let several = fetch(arguments, Setting::of(holders))?;
    print(&format!("{holders} holders"), &several);
    let ratio = one.took.as_secs_f64() / several.took.as_secs_f64();
    let reached = ratio >= aim;
    let verdict = if reached { "reached" } else { "MISSED" };
    let moving = one.moving.as_secs_f64() / several.moving.as_secs_f64();
    println!(
        "{holders} holders are {ratio:.2} times as fast, and move content {moving:.2} times as fast; the aim, \
         at least {aim} times as fast, is {verdict}"
    );
    let mut is_well = reached && one.is_right && several.is_right;
    if arguments.reduces > 0 {
        let busy = Setting {
            reduces: arguments.reduces,
            ..Setting::of(holders)
        };
        let busy = fetch(arguments, busy)?;
        print(&format!("{holders} holders that reduce"), &busy);
        is_well &= busy.is_right && print_reduces(arguments, &busy);
    }
    if arguments.kill {
        let killed = Setting {
            kill_after: Some(several.took / 2),
            ..Setting::of(holders)
        };
        let killed = fetch(arguments, killed)?;
        print(&format!("{holders} holders, one killed"), &killed);
        let again = killed.bytes_received.saturating_sub(bytes as u64);
        let share = (bytes / holders) as u64;
        let is_bounded = again <= share;
        let verdict = if is_bounded { "no more" } else { "MORE" };
        println!("{again} bytes were fetched again, {verdict} than the share of the one, {share}");
        is_well &= is_bounded && killed.is_right;
    }
    Ok(is_well)
}

fn print(what: &str, fetched: &Fetched) {
    let Fetched {
        calls,
        bytes_received,
        ..
    } = fetched;
    let (took, moving) = (fetched.took.as_secs_f64(), fetched.moving.as_secs_f64());
    let rate = *bytes_received as f64 * 8e-6 / moving;
    let verdict = if fetched.is_right { "right" } else { "WRONG" };
    println!(
        "{what}: {took:.2} s, of which content moved for {moving:.2} s at {rate:.0} Mbit/s; calls {calls}, bytes \
         received {bytes_received}, {verdict}"
    );
}

/// Whether every holder had made its reduces when the newcomer's call ended.
fn print_reduces(arguments: &Arguments, fetched: &Fetched) -> bool {
    let reduced = &fetched.reduced;
    let ms = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64() * 1e3;
    let median = ms(reduced.iter().map(|(median, _)| *median).max());
    let longest = ms(reduced.iter().map(|(_, longest)| *longest).max());
    println!(
        "{} of {} holders had made {} reduces of 1 MiB meanwhile, {median:.1} ms in the median and {longest:.1} ms at \
         most",
        reduced.len(),
        arguments.holders,
        arguments.reduces,
    );
    reduced.len() == arguments.holders
}

/// Bytes that even a slow machine hashes in a second.
const HASHED_A_SECOND: u64 = 2 << 30;

/// How long a child may take to say something.
const PATIENCE: Duration = Duration::from_secs(300);

fn next(children: &mut Processes<Event>) -> Option<(Process, Option<Event>)> {
    children.next_before(Instant::now() + PATIENCE)
}

/// One fetch in a run of its own.
fn fetch(arguments: &Arguments, setting: Setting) -> Result<Fetched, Trouble> {
    let Setting {
        holders,
        reduces,
        kill_after,
    } = setting;
    let master = pccl_master::spawn("127.0.0.1:0")?;
    let site_master = pccl_master::spawn("127.0.0.1:0")?;
    let address = master.local_addr().to_string();
    let bytes = arguments.bytes.to_string();
    let mut children = Processes::new();
    let program = std::env::current_exe()?;
    let mut holding = Vec::new();
    for _ in 0..holders {
        let mut command = Command::new(&program);
        command.args(["holder", &address, &bytes, &arguments.mbit.to_string()]);
        command.args([holders.to_string(), reduces.to_string()]);
        let site_master = site_master.local_addr().to_string();
        holding.push(children.start(command.arg(site_master))?);
    }
    for _ in 0..holders {
        match next(&mut children) {
            Some((_, Some(Event::Holds))) => {}
            other => return Err(Trouble::Child(other.and_then(|(_, event)| event))),
        }
    }
    let by_size = (arguments.bytes * arguments.holders) as u64 * 1000 / HASHED_A_SECOND;
    let later_ms = arguments.later_ms.unwrap_or(by_size).to_string();
    children.start(Command::new(&program).args(["newcomer", &address, &bytes, &later_ms]))?;
    for holder in &holding {
        children.tell(*holder, &Admit)?;
    }
    let mut kill_at = None;
    let (mut reduced, mut has_ended) = (Vec::new(), false);
    loop {
        let deadline = kill_at.unwrap_or_else(|| Instant::now() + PATIENCE);
        match (children.next_before(deadline), kill_at) {
            (Some((_, Some(Event::Begins))), _) => {
                kill_at = kill_after.map(|after| Instant::now() + after);
            }
            (Some((_, Some(Event::Reduced { median, longest }))), _) => {
                if !has_ended {
                    reduced.push((median, longest));
                }
            }
            (Some((_, Some(Event::Ended))), _) => has_ended = true,
            (Some((_, Some(Event::Fetched(fetched)))), _) => {
                return Ok(Fetched { reduced, ..fetched });
            }
            (None, Some(_)) => {
                kill_at = None;
                if let Some(victim) = holding.pop() {
                    children.kill(victim)?;
                }
            }
            // A holder that is done.
            (Some((_, None)), _) => {}
            (other, _) => return Err(Trouble::Child(other.and_then(|(_, event)| event))),
        }
    }
}

fn play(role: &Role) -> Result<(), Error> {
    match role {
        Role::Holder {
            master,
            bytes,
            mbit,
            holders,
            reduces,
            site_master,
        } => hold(
            [master, site_master],
            content(*bytes),
            *mbit,
            [*holders, *reduces],
        ),
        Role::Newcomer {
            master,
            bytes,
            later_ms,
        } => {
            // Initialized, as weights are before they are fetched.
            let mut fetched = vec![1; *bytes];
            let arrived = arrive(master, &mut fetched, Duration::from_millis(*later_ms))?;
            tell(&Event::Ended);
            tell(&Event::Fetched(Fetched {
                is_right: fetched == content(*bytes),
                ..arrived
            }));
            Ok(())
        }
    }
}

/// What the holders hold: nowhere the same.
fn content(bytes: usize) -> Vec<u8> {
    let words = (0..bytes as u64 / 8).map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut content: Vec<u8> = Vec::with_capacity(bytes);
    words.for_each(|word| content.extend_from_slice(&word.to_le_bytes()));
    content.resize(bytes, 1);
    content
}

fn builder(master: &str) -> pccl::Builder {
    Communicator::builder(master)
        .listen(IpAddr::V4(Ipv4Addr::LOCALHOST))
        .first_port(0)
}

/// What the queue of a holder's link has: it goes on while the holder's process waits for a core that it shares. A
/// socket of Linux buffers up to 4 MiB, which are 34 ms at a gigabit per second.
const QUEUE: Duration = Duration::from_millis(25);

fn hold(
    [master, site_master]: [&str; 2],
    mut content: Vec<u8>,
    mbit: u64,
    [holders, reduces]: [usize; 2],
) -> Result<(), Error> {
    let link = Throttled::with_burst(Tcp::new(), mbit * 1_000_000 / 8, QUEUE);
    let mut comm = builder(master).transport(link).connect()?;
    grow(&mut comm, holders)?;
    let mut state = SharedState::at(1);
    state.entry("weights", &mut content)?;
    comm.sync_shared_state(&mut state, SyncStrategy::EnforcePopular)?;
    let mut among_holders = builder(site_master).connect()?;
    grow(&mut among_holders, holders)?;
    tell(&Event::Holds);
    if next_order::<Admit>().is_none() {
        return Ok(());
    }
    grow(&mut comm, holders + 1)?;
    if reduces == 0 {
        return synchronize(&mut comm, &mut state).map(|_| ());
    }
    let strategy = SyncStrategy::EnforcePopular;
    let Overlapped { work, synced } =
        comm.sync_shared_state_overlapped(&mut state, strategy, |_| {
            reduce(&mut among_holders, reduces)
        });
    if let Some(reduced) = work {
        reduced?;
    }
    synced.map(|_| ())
}

/// Until the group has so many members.
fn grow(comm: &mut Communicator, members: usize) -> Result<(), Error> {
    while comm.world_size() < members {
        comm.update_topology()?;
    }
    Ok(())
}

/// Makes so many reduces, and tells how long they took.
fn reduce(comm: &mut Communicator, reduces: usize) -> Result<(), Error> {
    let mut gradients = vec![1.0_f32; 1 << 18];
    let mut times = Vec::with_capacity(reduces);
    for _ in 0..reduces {
        std::thread::sleep(Duration::from_millis(20));
        let begun = Instant::now();
        comm.all_reduce(&mut gradients, Reduce::avg())?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    if let (Some(median), Some(longest)) = (times.get(reduces / 2), times.last()) {
        tell(&Event::Reduced {
            median: *median,
            longest: *longest,
        });
    }
    Ok(())
}

/// Everything but whether the content is right.
fn arrive(master: &str, content: &mut [u8], later: Duration) -> Result<Fetched, Error> {
    let arrivals = Arc::new(Mutex::default());
    let counted = Counted(Arc::clone(&arrivals));
    let link = Intercepted::over(Arc::new(Tcp::new()), counted);
    let mut comm = builder(master).transport(link).connect()?;
    let mut state = SharedState::at(0);
    state.entry("weights", content)?;
    std::thread::sleep(later);
    // What came to connect the ring does not count.
    *lock(&arrivals) = Arrivals::default();
    tell(&Event::Begins);
    let begun = Instant::now();
    let calls = synchronize(&mut comm, &mut state)?;
    let took = begun.elapsed();
    let arrivals = lock(&arrivals);
    Ok(Fetched {
        took,
        moving: arrivals.moving(),
        calls,
        bytes_received: arrivals.bytes,
        is_right: false,
        reduced: Vec::new(),
    })
}

/// All that arrives on the lanes of a peer, also what a transfer that failed has brought.
#[derive(Clone, Copy, Debug, Default)]
struct Arrivals {
    bytes: u64,
    first_and_last: Option<(Instant, Instant)>,
}

impl Arrivals {
    fn note(&mut self, bytes: usize) {
        let now = Instant::now();
        self.bytes += bytes as u64;
        let first = self.first_and_last.map_or(now, |(first, _)| first);
        self.first_and_last = Some((first, now));
    }

    /// From the first byte to the last.
    fn moving(&self) -> Duration {
        let moving = self.first_and_last.map(|(first, last)| last - first);
        moving.unwrap_or_default()
    }
}

fn lock(arrivals: &Mutex<Arrivals>) -> MutexGuard<'_, Arrivals> {
    arrivals.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes what arrives.
struct Counted(Arc<Mutex<Arrivals>>);

impl Counted {
    fn on(&self, lane: Lane) -> Lane {
        let arrivals = Arc::clone(&self.0);
        let rx = on_recv(lane.rx, move |rx, cx, into| {
            let received = ready!(rx.poll_recv(cx, into))?;
            lock(&arrivals).note(received);
            Poll::Ready(Ok(received))
        });
        Lane { rx, ..lane }
    }
}

impl Interceptor for Counted {
    fn opened(&self, lane: Lane, _: &Endpoint, _: Option<Identity>) -> Lane {
        self.on(lane)
    }

    fn accepted(&self, lane: Lane, _: SocketAddr) -> Lane {
        self.on(lane)
    }
}

/// Until it succeeds: how many calls that took.
fn synchronize(comm: &mut Communicator, state: &mut SharedState<'_>) -> Result<usize, Error> {
    let mut calls = 1;
    loop {
        match comm.sync_shared_state(state, SyncStrategy::EnforcePopular) {
            Ok(_) => return Ok(calls),
            Err(error) if error.next() == Next::CallAgain => calls += 1,
            Err(error) => return Err(error),
        }
    }
}
