//! A communicator that is recorded: its log has everything that its machine heard and said.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use pccl::{Communicator, Reduce, SharedState, SyncStrategy};
use pccl_core::log::{Log, open};
use pccl_core::peer::{PeerInput, PeerTimer};
use pccl_master::{MasterConfig, MasterServer};
use pccl_recording::conform;

use crate::support::{Run, admit, begin, together, together_with};

/// A directory of one test, which is gone when the test is over.
struct Directory(PathBuf);

impl Directory {
    fn new(test: &str) -> Self {
        let name = format!("client-{test}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// The bytes of each log.
    fn logs(&self) -> Vec<Vec<u8>> {
        let entries = fs::read_dir(&self.0).unwrap();
        let logs = entries.map(|entry| fs::read(entry.unwrap().path()).unwrap());
        logs.collect()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Two peers and their master, all recorded.
fn recorded_run(directory: &Directory) -> (Run, Vec<Communicator>) {
    recorded_run_of(directory, MasterConfig::default())
}

fn recorded_run_of(directory: &Directory, config: MasterConfig) -> (Run, Vec<Communicator>) {
    let builder = MasterServer::builder().config(config).record(&directory.0);
    let master = builder.spawn("127.0.0.1:0").unwrap();
    let run = Run::of(master);
    let recorded = || run.builder().record(&directory.0);
    let mut peers = vec![begin(recorded())];
    let newcomer = recorded();
    let joining = thread::spawn(move || begin(newcomer));
    admit(&mut peers);
    peers.push(joining.join().unwrap());
    (run, peers)
}

#[test]
fn all_that_a_run_can_do_comes_out_the_same_when_it_is_replayed() {
    let directory = Directory::new("replayed");
    let (run, mut peers) = recorded_run(&directory);

    together_with(&mut peers, |index, peer| {
        let mut weights = vec![index as f32; 1000];
        peer.all_reduce(&mut weights, Reduce::sum()).unwrap();
        let mut state = SharedState::at(0);
        let mut own = vec![index as u64; 10];
        state.entry("weights", &mut own).unwrap();
        peer.sync_shared_state(&mut state, SyncStrategy::EnforcePopular)
            .unwrap();
        peer.optimize_topology().unwrap();
    });
    together(&mut peers, |peer| {
        assert!(!peer.are_peers_pending().unwrap())
    });
    drop(peers);
    run.master.stop();

    let summary = conform(&directory.0).unwrap();
    assert!(summary.is_equal(), "{summary}");
    assert_eq!(summary.equal_logs_of("master"), 1, "{summary}");
    assert_eq!(summary.equal_logs_of("peer"), 2, "{summary}");
}

#[test]
fn the_log_of_a_peer_has_what_its_user_called_and_what_its_lanes_did() {
    let directory = Directory::new("told");
    let (run, mut peers) = recorded_run(&directory);

    together(&mut peers, |peer| {
        peer.all_reduce(&mut [1.0_f32; 8], Reduce::sum()).unwrap();
    });
    drop(peers);
    run.master.stop();

    let mut peers_logs = 0;
    for log in directory.logs() {
        let Ok(Log::Peer { records, .. }) = open(&log) else {
            continue;
        };
        peers_logs += 1;
        let inputs: Vec<PeerInput> = records.map(|record| record.unwrap().input).collect();
        let has = |wanted: fn(&PeerInput) -> bool| inputs.iter().any(wanted);
        assert!(has(|input| matches!(input, PeerInput::Call { .. })));
        assert!(has(|input| matches!(input, PeerInput::Message(_))));
        assert!(has(|input| matches!(input, PeerInput::LinkUp { .. })));
        assert!(has(|input| matches!(input, PeerInput::PlanEnded { .. })));
    }
    assert_eq!(peers_logs, 2);
}

/// The master judges by this whom the others wait for.
#[test]
fn with_a_sign_of_life_the_master_hears_whether_bytes_have_moved() {
    let directory = Directory::new("moved");
    let config = MasterConfig {
        heartbeat: Duration::from_millis(5),
        ..MasterConfig::default()
    };
    let (run, mut peers) = recorded_run_of(&directory, config);

    together(&mut peers, |peer| {
        for _ in 0..500 {
            peer.all_reduce(&mut [1.0_f32; 8], Reduce::sum()).unwrap();
        }
    });
    drop(peers);
    run.master.stop();

    let sign = PeerInput::TimerFired(PeerTimer::HeartbeatDue);
    let mut peers_logs = 0;
    for log in directory.logs() {
        let Ok(Log::Peer { records, .. }) = open(&log) else {
            continue;
        };
        peers_logs += 1;
        let inputs: Vec<PeerInput> = records.map(|record| record.unwrap().input).collect();
        let mut pairs = inputs.windows(2);
        assert!(pairs.any(|pair| pair == [PeerInput::Moved, sign.clone()]));
        let mut moved = inputs.windows(2).filter(|pair| pair[0] == PeerInput::Moved);
        assert!(moved.all(|pair| pair[1] == sign));
    }
    assert_eq!(peers_logs, 2);
}
