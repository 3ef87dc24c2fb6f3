//! Processes that stand still for ten seconds, as machines do that are suspended or starved: nobody is lost
//! for it.

use std::path::Path;
use std::thread;
use std::time::Duration;

use pccl_tests::processes::{Member, Process, Swarm};
use pccl_tests::roles::MasterOptions;
use pccl_tests::scripted::PeerOptions;
use pccl_tests::talk::{Event, Nanos, now};

const STANDSTILL: Duration = Duration::from_secs(10);

/// Rounds of each peer after the standstill.
const ROUNDS: usize = 5;

/// Who stands still while the others go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Still {
    All,
    Master,
    Peers,
}

/// A run of three peers that share a state.
struct Run {
    still: Still,
    swarm: Swarm,
    master: Process,
    members: Vec<Member>,
}

impl Run {
    /// With the usual limit of silence where everybody stands still, and a longer one than the
    /// standstill where somebody is there to hear the silence.
    fn start(still: Still) -> Self {
        let mut swarm = Swarm::recorded(Path::new(env!("CARGO_BIN_EXE_test_peer"))).unwrap();
        let options = MasterOptions {
            silence_ms: (still != Still::All).then_some(20_000),
            ..MasterOptions::default()
        };
        let (master, address) = swarm.start_master(&options).unwrap();
        let options = PeerOptions {
            sync: true,
            tell_every: 5,
            ..PeerOptions::of(address)
        };
        let members = swarm.join_all(&options, 3).unwrap();
        Self {
            still,
            swarm,
            master,
            members,
        }
    }

    fn signal(&mut self, name: &str) {
        let master = (self.still != Still::Peers).then_some(self.master);
        let peers = self.members.iter().map(|member| member.process);
        let peers = peers.filter(|_| self.still != Still::Master);
        let all: Vec<Process> = master.into_iter().chain(peers).collect();
        self.swarm.signal_all(&all, name).unwrap();
    }

    /// Waits until each peer has reduced with all others, so often since then.
    fn goes_on(&mut self, since: Nanos) {
        let mut rounds = vec![0; self.members.len()];
        let still = self.still;
        let what = format!("rounds of everybody after a standstill of {still:?}");
        self.swarm
            .until(&what, |process, event| {
                let of = self.members.iter().position(|m| m.process == process)?;
                match event {
                    Event::Committed(commit) if commit.at > since => {
                        assert_eq!(commit.rounds.len(), rounds.len(), "{still:?}: {commit:?}");
                        rounds[of] += 1;
                    }
                    Event::GaveUp { error, .. } => panic!("{still:?}: {process:?}: {error}"),
                    _ => {}
                }
                rounds.iter().all(|done| *done >= ROUNDS).then_some(())
            })
            .unwrap();
        println!("{}", self.swarm.conform().unwrap());
    }
}

#[test]
fn a_run_goes_on_with_everybody_after_all_its_master_or_its_peers_stood_still_for_ten_seconds() {
    let mut runs = [Still::All, Still::Master, Still::Peers].map(Run::start);
    for run in &mut runs {
        run.signal("STOP");
    }
    // The standstill itself.
    thread::sleep(STANDSTILL);
    for run in &mut runs {
        run.signal("CONT");
    }
    let since = now();

    for run in &mut runs {
        run.goes_on(since);
    }
}
