//! Three processes that run a program to its end, beside others that die.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use pccl_subprocess::{Process, Processes};

use super::{Death, Event, Life, Order, Program};

/// Far beyond what any test takes; reached only by a hang.
const HANG: Duration = Duration::from_secs(120);

/// The variable that says what a process is.
pub(crate) const LIFE: &str = "PCCL_TEST_LIFE";

/// The test that such a process runs.
const ENTRY: &str = "a_process_of_these_tests";

/// Those who have to survive.
struct Survivors {
    program: Program,
    master: String,
    processes: Processes<Event>,
    alive: Vec<Process>,
}

/// Runs the program on three peers, beside others that join and die, some of them at a time. Returns the
/// weights of the three.
pub(crate) fn survive(program: Program, deaths: &[Vec<Death>]) -> Vec<Vec<f32>> {
    let master = pccl_master::spawn("127.0.0.1:0").unwrap();
    let mut survivors = Survivors {
        program,
        master: master.local_addr().to_string(),
        processes: Processes::new(),
        alive: Vec::new(),
    };
    for _ in 0..3 {
        let peer = survivors.start(None);
        survivors.until(peer, &Event::TakesPart);
        survivors.alive.push(peer);
    }
    for deaths in deaths {
        survivors.see_die(deaths);
    }
    survivors.end()
}

impl Survivors {
    fn start(&mut self, death: Option<Death>) -> Process {
        let life = Life {
            program: self.program,
            master: self.master.clone(),
            death,
        };
        let mut command = Command::new(std::env::current_exe().unwrap());
        let command = command
            .args([ENTRY, "--exact", "--ignored", "--nocapture", "--quiet"])
            .env(LIFE, serde_json::to_string(&life).unwrap());
        self.processes.start(command).unwrap()
    }

    /// Starts peers, each of them when the one before takes part, and waits until all of them have died.
    fn see_die(&mut self, deaths: &[Death]) {
        let mut doomed = Vec::new();
        for death in deaths {
            if let Some(before) = doomed.last() {
                self.until(*before, &Event::TakesPart);
            }
            doomed.push(self.start(Some(death.clone())));
        }
        let mut alive: BTreeSet<Process> = doomed.into_iter().collect();
        while !alive.is_empty() {
            let (who, event) = self.next_of_going(&format!("one of {deaths:?}"));
            if event == Event::Dies {
                alive.remove(&who);
                let ended = self.processes.wait(who).unwrap();
                assert!(!ended.success(), "it died");
            }
        }
    }

    /// Waits until this process tells this.
    fn until(&mut self, process: Process, awaited: &Event) {
        loop {
            let (who, event) = self.next_of_going(&format!("{awaited:?} of {process}"));
            if who == process && event == *awaited {
                return;
            }
        }
    }

    /// What is told next, while nobody comes to the end of the program.
    fn next_of_going(&mut self, awaited: &str) -> (Process, Event) {
        let (who, event) = self.next(awaited);
        if let Event::Ended(ended) = event {
            let ended = ended.map(|weights| weights[0]);
            panic!("{who} ended before {awaited}: {ended:?}");
        }
        (who, event)
    }

    /// Lets the survivors come to the end of their program.
    fn end(mut self) -> Vec<Vec<f32>> {
        for peer in self.alive.clone() {
            self.processes.tell(peer, &Order::Hurry).unwrap();
        }
        let mut weights = Vec::new();
        while weights.len() < self.alive.len() {
            let (who, event) = self.next("the end");
            if let Event::Ended(ended) = event {
                weights.push(ended.unwrap_or_else(|error| panic!("{who} ended: {error}")));
            }
        }
        weights
    }

    fn next(&mut self, awaited: &str) -> (Process, Event) {
        let deadline = Instant::now() + HANG;
        loop {
            match self.processes.next_before(deadline) {
                Some((who, Some(event))) => return (who, event),
                Some((_, None)) => {}
                None => panic!("nothing happened in {HANG:?}, and {awaited} was awaited"),
            }
        }
    }
}
