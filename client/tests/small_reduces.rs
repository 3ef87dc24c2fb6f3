//! What a small reduce costs beside plain messages of the same size over the same loopback.

mod support;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pccl::{Communicator, Reduce};
use support::lanes::{DISTANCES, Distance};
use support::{Run, together};

/// What is compared is compared alone.
static ALONE: Mutex<()> = Mutex::new(());

/// Lanes of each edge.
const LANES: u16 = 4;

const REDUCES: usize = 200;

const ELEMENTS: usize = BYTES / size_of::<f32>();

const BYTES: usize = 4096;

/// Messages of which each has to wait for the one before: both peers call, the master lets them begin,
/// each sends the other its buffer, both have ended, the master says that all have.
const HOPS: usize = 5;

/// Times are compared by the quickest of so many: whatever else this machine does only adds.
const REPETITIONS: usize = 5;

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long it takes two peers to reduce [`REDUCES`] times.
fn time_of_reduces(peers: &mut [Communicator]) -> Duration {
    let begun = Instant::now();
    together(peers, |peer| {
        let mut buffer = [1.0_f32; ELEMENTS];
        for _ in 0..REDUCES {
            peer.all_reduce(&mut buffer, Reduce::max()).unwrap();
        }
    });
    begun.elapsed()
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

/// How long both take, the quickest of some times each, in turns.
fn quickest(peers: &mut [Communicator]) -> (Duration, Duration) {
    let both = (0..REPETITIONS).map(|_| (time_of_reduces(peers), time_of_messages()));
    let (reduces, messages): (Vec<_>, Vec<_>) = both.unzip();
    let least = |times: Vec<Duration>| times.into_iter().min().unwrap();
    (least(reduces), least(messages))
}

#[test]
fn small_reduces_wait_for_no_timer_of_tcp() {
    let _alone = alone();
    for distance in DISTANCES {
        let run = Run::over(LANES, distance);
        let mut peers = run.peers(2);

        let (reduces, messages) = quickest(&mut peers);

        println!("{distance:?}: {reduces:?}, and {messages:?} for messages");
        // Some five times as long. Acknowledgements that are held back for 40 ms make it a thousand.
        assert!(
            reduces < messages * 100,
            "{distance:?}: {reduces:?} for reduces, {messages:?} for messages"
        );
    }
}

#[test]
fn a_small_reduce_asks_its_lanes_a_few_times_however_many_they_are() {
    let _alone = alone();
    for distance in DISTANCES {
        let run = Run::over(LANES, distance);
        let mut peers = run.peers(2);
        time_of_reduces(&mut peers);

        let before = run.traffic.calls();
        time_of_reduces(&mut peers);
        let calls = (run.traffic.calls() - before) as usize;

        println!("{distance:?}: {calls} calls for {REDUCES} reduces");
        // Each of two peers: sends two messages and a frame, and receives as many in up to three calls
        // each, of which one finds that nothing is left.
        let most = 2 * (3 + 3 * 3 + 3);
        assert!(calls >= REDUCES * 2 * 6, "{calls} calls: not all counted");
        assert!(calls <= REDUCES * most, "{distance:?}: {calls} calls");
    }
}

/// How often the threads of this process have waited for something.
#[cfg(target_os = "linux")]
fn waits() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let of_thread = threads.map(|thread| {
        let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        let mut lines = status.lines();
        let waits = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        waits.unwrap().trim().parse::<u64>().unwrap()
    });
    of_thread.sum()
}

#[cfg(target_os = "linux")]
#[test]
fn a_small_reduce_switches_threads_no_more_often_than_messages_have_to_be_waited_for() {
    let _alone = alone();
    let run = Run::over(LANES, Distance::Near);
    let mut peers = run.peers(2);
    let all_here = Barrier::new(peers.len());

    let waits = together(&mut peers, |peer| {
        let mut buffer = [1.0_f32; ELEMENTS];
        let waits_so_far = || {
            // Nobody reduces while it is counted.
            all_here.wait();
            let so_far = waits();
            all_here.wait();
            so_far
        };
        let before = waits_so_far();
        for _ in 0..REDUCES {
            peer.all_reduce(&mut buffer, Reduce::max()).unwrap();
        }
        waits_so_far() - before
    })[0] as usize;

    println!("{waits} waits for {REDUCES} reduces");
    // Each peer for the word to begin, the other's buffer and the verdict; the master for the calls and
    // the ends of both.
    let needed = 2 * 3 + 2 * 2;
    assert!(waits <= REDUCES * needed, "{waits} waits");
}
