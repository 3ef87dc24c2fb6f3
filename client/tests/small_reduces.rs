//! What a small reduce costs beside plain messages of the same size over the same loopback.

mod support;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pccl::{Communicator, Reduce};
use support::lanes::DISTANCES;
use support::{Run, together};

/// What is compared is compared alone.
static ALONE: Mutex<()> = Mutex::new(());

/// Lanes of each edge.
const LANES: u16 = 4;

const REDUCES: usize = 200;

const ELEMENTS: usize = BYTES / size_of::<f32>();

const BYTES: usize = 4096;

/// Messages of which each has to wait for the one before: both peers call, the master lets them begin,
/// each sends the other its buffer, both have ended, the master says that all have. If they begin ahead, two less.
const HOPS: usize = 5;

/// Reduces may take as long as so many times the messages that they wait for. They take some five times as long, and
/// some twenty times where the system lets the two ends of a connection take turns on one core, with 2.5 µs for a
/// message. A timer of TCP of 40 ms in each reduce makes it several hundred times.
const MOST_MESSAGES: f64 = 80.0;

/// So many, so that a machine that is busy for a while does not fail. A timer makes all of them slow.
const ATTEMPTS: usize = 12;

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long it takes all peers to act.
fn time_of<T: Send>(
    peers: &mut [Communicator],
    act: impl Fn(&mut Communicator) -> T + Sync,
) -> Duration {
    let begun = Instant::now();
    together(peers, act);
    begun.elapsed()
}

/// Reduces [`REDUCES`] times.
fn one_by_one(peer: &mut Communicator) {
    let mut buffer = [1.0_f32; ELEMENTS];
    for _ in 0..REDUCES {
        peer.all_reduce(&mut buffer, Reduce::max()).unwrap();
    }
}

/// The same, two at a time: what there is to say to the master does not wait for its answers.
fn two_by_two(peer: &mut Communicator) {
    for _ in 0..REDUCES / 2 {
        let both = [1, 2].map(|tag| {
            let buffer = vec![1.0_f32; ELEMENTS];
            peer.start_all_reduce(buffer, Reduce::max().tag(tag))
        });
        for handle in both {
            handle.wait().unwrap();
        }
    }
}

/// How long as many hops take over one connection.
fn time_of_messages() -> Duration {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let there_and_back = REDUCES * HOPS / 2;
    let begun = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (stream, _) = listener.accept().unwrap();
            bounce(stream, there_and_back, [Action::Receive, Action::Send]);
        });
        let stream = TcpStream::connect(address).unwrap();
        bounce(stream, there_and_back, [Action::Send, Action::Receive]);
    });
    begun.elapsed()
}

#[derive(Clone, Copy)]
enum Action {
    Send,
    Receive,
}

fn bounce(mut stream: TcpStream, times: usize, actions: [Action; 2]) {
    stream.set_nodelay(true).unwrap();
    let mut buffer = [0; BYTES];
    for _ in 0..times {
        for action in actions {
            match action {
                Action::Send => stream.write_all(&buffer).unwrap(),
                Action::Receive => stream.read_exact(&mut buffer).unwrap(),
            }
        }
    }
}

/// Reduces near and far, and compares with messages. Whatever else the machine does can make one slow and
/// not the other, but not every time; a timer does.
fn waits_for_no_timer(act: impl Fn(&mut Communicator) + Sync) {
    let _alone = alone();
    for distance in DISTANCES {
        let run = Run::over(LANES, distance);
        let mut peers = run.peers(2);

        let mut ratios = (0..ATTEMPTS).map(|_| {
            let (reduces, messages) = (time_of(&mut peers, &act), time_of_messages());
            println!("{distance:?}: {reduces:?} for reduces, {messages:?} for messages");
            reduces.as_secs_f64() / messages.as_secs_f64()
        });

        assert!(ratios.any(|ratio| ratio < MOST_MESSAGES), "{distance:?}");
    }
}

#[test]
fn small_reduces_wait_for_no_timer_of_tcp() {
    waits_for_no_timer(one_by_one);
}

#[test]
fn small_reduces_at_the_same_time_wait_for_no_timer_of_tcp() {
    waits_for_no_timer(two_by_two);
}

#[test]
fn a_small_reduce_asks_its_lanes_a_few_times_however_many_they_are() {
    let _alone = alone();
    for distance in DISTANCES {
        let run = Run::over(LANES, distance);
        let mut peers = run.peers(2);
        time_of(&mut peers, one_by_one);

        let before = run.traffic.calls();
        time_of(&mut peers, one_by_one);
        let calls = (run.traffic.calls() - before) as usize;

        println!("{distance:?}: {calls} calls for {REDUCES} reduces");
        // Each of two peers: sends two messages, if they do not leave together, and a frame, and receives as many in up
        // to three calls each, of which one finds that nothing is left.
        let most = 2 * (3 + 3 * 3 + 3);
        assert!(calls >= REDUCES * 2 * 6, "{calls} calls: not all counted");
        assert!(calls <= REDUCES * most, "{distance:?}: {calls} calls");
    }
}

/// How often the threads of this process have waited for something.
#[cfg(target_os = "linux")]
fn waits() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let of_thread = threads.filter_map(|thread| {
        // A thread of the test before may end under our eyes.
        let status = std::fs::read_to_string(thread.ok()?.path().join("status")).ok()?;
        let mut lines = status.lines();
        let waits = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        Some(waits?.trim().parse::<u64>().unwrap())
    });
    of_thread.sum()
}

/// How often threads wait while all peers reduce one by one.
#[cfg(target_os = "linux")]
fn waits_of(peers: &mut [Communicator]) -> usize {
    let all_here = std::sync::Barrier::new(peers.len());
    let waits = together(peers, |peer| {
        let waits_so_far = || {
            // Nobody reduces while it is counted.
            all_here.wait();
            let so_far = waits();
            all_here.wait();
            so_far
        };
        let before = waits_so_far();
        one_by_one(peer);
        waits_so_far() - before
    });
    waits[0] as usize
}

#[cfg(target_os = "linux")]
#[test]
fn a_small_reduce_switches_threads_no_more_often_than_messages_have_to_be_waited_for() {
    let _alone = alone();
    let run = Run::over(LANES, support::lanes::Distance::Near);
    let mut peers = run.peers(2);

    // The machine may have other things to do, too.
    let waits = (0..ATTEMPTS).map(|_| waits_of(&mut peers)).min();
    let waits = waits.unwrap_or(usize::MAX);

    println!("{waits} waits for {REDUCES} reduces");
    // Each peer for the word to begin, the other's buffer and the verdict; the master for the calls and
    // the ends of both. One more for what is beside: the threads that look whether calls go on.
    let most = 2 * 3 + 2 * 2 + 1;
    assert!(waits <= REDUCES * most, "{waits} waits");
}
