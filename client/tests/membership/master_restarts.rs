//! Masters that end in the middle of a run, and others that go on from their journals.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use pccl::{Communicator, Error, Reduce, SharedState, SyncStrategy};
use pccl_master::{JournalError, Limits, MasterServer, RunningMaster, Security, ServeError, Trust};

use crate::support::{begin, builder_for, together, together_with};

/// A run whose master may end at any time.
struct Lasting {
    directory: PathBuf,
    address: SocketAddr,
    restart: Duration,
    /// Whether it encrypts.
    is_invited: bool,
    master: Option<RunningMaster>,
}

impl Lasting {
    fn new(is_invited: bool, restart: Duration) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("pccl-restarts-{}-{number}", std::process::id());
        let mut run = Self {
            directory: std::env::temp_dir().join(name),
            address: "127.0.0.1:0".parse().unwrap(),
            restart,
            is_invited,
            master: None,
        };
        run.start();
        run
    }

    fn start(&mut self) {
        let master = self.start_at(self.address).unwrap();
        self.address = master.local_addr();
        self.master = Some(master);
    }

    fn start_at(&self, address: SocketAddr) -> Result<RunningMaster, ServeError> {
        let limits = Limits {
            restart: self.restart,
            ..Limits::default()
        };
        let mut builder = MasterServer::builder()
            .limits(limits)
            .journal(&self.directory);
        if self.is_invited {
            let trust = Trust::of_directory(&self.directory).unwrap();
            builder = builder.security(Security::Proven(trust));
        }
        builder.spawn(address)
    }

    /// The master ends, without a word to anybody.
    fn end(&mut self) {
        if let Some(master) = self.master.take() {
            master.handle().suspend();
            master.wait();
        }
    }

    fn reached_at(&self) -> String {
        let master = self.master.as_ref().unwrap();
        let join = master.join_string(&[]).unwrap();
        join.map_or_else(
            || self.address.to_string(),
            |join| join.to_word().to_string(),
        )
    }

    fn join(&self, peers: &mut Vec<Communicator>) {
        crate::support::join_as(builder_for(&self.reached_at()), peers);
    }

    fn peers(&self, count: usize) -> Vec<Communicator> {
        let mut peers = vec![begin(builder_for(&self.reached_at()))];
        while peers.len() < count {
            self.join(&mut peers);
        }
        peers
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        drop(self.master.take());
        std::fs::remove_dir_all(&self.directory).ok();
    }
}

/// How a training loop gets on.
#[derive(Default)]
struct Progress {
    is_over: AtomicBool,
    /// Steps that the first peer has made.
    steps: AtomicU64,
}

/// Steps of a training loop, until it is over for all; every call has to succeed, with the right result.
fn train_until(peers: &mut [Communicator], progress: &Progress) -> u64 {
    let world = peers.len() as u64;
    let steps = together_with(peers, |index, peer| {
        let mut step = 0;
        loop {
            let handles: Vec<_> = (0..3)
                .map(|tag| {
                    let own = vec![index as u64 + step + tag; 5000];
                    peer.start_all_reduce(own, Reduce::sum().tag(tag))
                })
                .collect();
            for (tag, handle) in (0..).zip(handles) {
                let sum: u64 = (0..world).map(|index| index + step + tag).sum();
                assert_eq!(handle.wait().unwrap().buffer, [sum; 5000]);
            }
            let mut weights = vec![step as f32; 1000];
            let mut state = SharedState::at(step);
            state.entry("weights", &mut weights).unwrap();
            let synced = peer.sync_shared_state(&mut state, SyncStrategy::EnforcePopular);
            synced.unwrap();
            peer.update_topology().unwrap();
            step += 1;
            if index == 0 {
                progress.steps.store(step, Ordering::SeqCst);
            }
            let mut end = [u64::from(progress.is_over.load(Ordering::SeqCst)); 1];
            peer.all_reduce(&mut end, Reduce::max()).unwrap();
            if end[0] == 1 {
                return step;
            }
        }
    });
    assert!(steps.iter().all(|count| *count == steps[0]), "{steps:?}");
    steps[0]
}

/// Trains while masters follow one another, each of which has seen a step.
fn train_through(run: &mut Lasting, peers: &mut [Communicator], masters: u32) -> u64 {
    let progress = Progress::default();
    let steps = || progress.steps.load(Ordering::SeqCst);
    thread::scope(|scope| {
        let training = scope.spawn(|| train_until(peers, &progress));
        let see_a_step = || {
            let before = steps();
            while steps() == before && !training.is_finished() {
                thread::sleep(Duration::from_millis(1));
            }
        };
        for number in 0..masters {
            see_a_step();
            // Each of them ends at another point of the next step.
            thread::sleep(Duration::from_millis(u64::from(number) * 5));
            run.end();
            run.start();
        }
        see_a_step();
        progress.is_over.store(true, Ordering::SeqCst);
        training.join().unwrap()
    })
}

#[test]
fn no_call_fails_while_one_master_follows_the_other() {
    for is_invited in [false, true] {
        let mut run = Lasting::new(is_invited, Duration::from_secs(60));
        let mut peers = run.peers(3);
        let ids: Vec<_> = peers.iter().map(Communicator::peer_id).collect();

        let steps = train_through(&mut run, &mut peers, 12);

        assert!(steps > 12, "{steps} steps");
        assert!(peers.iter().all(|peer| peer.world_size() == 3));
        let after: Vec<_> = peers.iter().map(Communicator::peer_id).collect();
        assert_eq!(after, ids);
    }
}

#[test]
fn a_newcomer_joins_a_run_whose_master_is_another_one() {
    let mut run = Lasting::new(false, Duration::from_secs(60));
    let mut peers = run.peers(2);
    run.end();
    run.start();

    run.join(&mut peers);

    let sums = together(&mut peers, |peer| {
        let mut one = [1_u32];
        peer.all_reduce(&mut one, Reduce::sum()).map(|_| one[0])
    });
    assert_eq!(sums, [Ok(3), Ok(3), Ok(3)]);
}

#[test]
fn who_dies_while_there_is_no_master_is_missed_by_the_next_one() {
    let mut run = Lasting::new(false, Duration::from_secs(60));
    let mut peers = run.peers(3);
    run.end();
    drop(peers.pop());
    run.start();

    let sizes = together(&mut peers, |peer| {
        loop {
            let mut one = [1_u32];
            match peer.all_reduce(&mut one, Reduce::sum()) {
                Ok(report) => return (report.world_size, one[0]),
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
    });

    assert_eq!(sizes, [(2, 2), (2, 2)]);
}

#[test]
fn a_master_that_does_not_come_back_is_lost_when_its_time_is_over() {
    let mut run = Lasting::new(false, Duration::from_millis(300));
    let mut peers = run.peers(2);
    run.end();

    let lost = together(&mut peers, |peer| {
        peer.all_reduce(&mut [1_u32], Reduce::sum()).unwrap_err()
    });

    assert_eq!(lost, [Error::MasterLost, Error::MasterLost]);
}

#[test]
fn a_run_that_was_stopped_is_over() {
    let mut run = Lasting::new(false, Duration::from_secs(60));
    let mut peers = run.peers(2);
    drop(run.master.take());

    let lost = together(&mut peers, |peer| {
        peer.all_reduce(&mut [1_u32], Reduce::sum()).unwrap_err()
    });

    assert!(
        lost.iter().all(|error| *error == Error::MasterStopped),
        "{lost:?}"
    );
    run.start();
    let peers = run.peers(1);
    assert_eq!(peers[0].world_size(), 1, "another run has begun");
}

#[test]
fn a_second_master_of_the_same_directory_is_refused() {
    let run = Lasting::new(false, Duration::from_secs(60));

    let refused = run.start_at("127.0.0.1:0".parse().unwrap()).unwrap_err();

    let in_use = matches!(refused, ServeError::Journal(JournalError::InUse { .. }));
    assert!(in_use, "{refused}");
}
