//! Plays a plan: the processes begin, things go wrong, all is healed, and the survivors have to get on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pccl_master::{JournalError, Limits, MasterConfig, MasterServer, Security, StopHandle};
use pccl_transport_memory::MemoryHost;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::acts::{self, Act};
use super::life::Life;
use super::world::World;
use crate::churn::numbers::mixed;
use crate::recordings::Recordings;

/// The port of the master.
const PORT: u16 = 48148;

/// How often the driver looks whether the survivors get on, and what everything holds.
const LOOK: Duration = Duration::from_secs(1);

/// Steps with all members that each survivor has to make after the healing.
const WHOLE_STEPS: u32 = 2;

/// How long after the end everything may take to be given back.
const CLEARING: Duration = Duration::from_secs(120);

/// Plays the plan of the world to its end, or to the first thing that is found.
pub(super) async fn play(world: &Arc<World>) {
    let mut driver = Driver::start(world).await;
    driver.begin().await;
    driver.disturb().await;
    driver.heal().await;
    driver.get_on().await;
    driver.clear().await;
}

/// Starts processes, and ends them.
pub(super) struct Driver {
    pub(super) world: Arc<World>,
    pub(super) begun: Instant,
    host: MemoryHost,
    master: Option<(StopHandle, JoinHandle<Result<(), JournalError>>)>,
    /// Where the master keeps its journal.
    journal: Option<Recordings>,
}

impl Driver {
    async fn start(world: &Arc<World>) -> Self {
        let (_, host) = world.add_host(u32::MAX, true);
        let mut driver = Self {
            world: Arc::clone(world),
            begun: Instant::now(),
            host,
            master: None,
            journal: None,
        };
        if world.plan.has_journal {
            match Recordings::new() {
                Ok(journal) => driver.journal = Some(journal),
                Err(error) => world.found(&format!("there is no place for a journal: {error}")),
            }
        }
        driver.start_master().await;
        driver
    }

    /// Begins a life of the master.
    pub(super) async fn start_master(&mut self) {
        let plan = &self.world.plan;
        let life = self.world.with(|state| {
            if state.lives_of_master == 0 || !plan.has_journal {
                state.lives_of_master += 1;
            }
            state.lives_of_master
        });
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&mixed(plan.seed, u64::from(life)).to_le_bytes());
        let builder = MasterServer::builder()
            .security(Security::Plain)
            .transport(self.host.clone())
            .config(self.config())
            .limits(self.limits())
            .seed(seed)
            .without_threads();
        let builder = match &self.journal {
            Some(journal) => builder.journal(journal.directory()).journal_sync(false),
            None => builder,
        };
        let bound = builder.bind((self.host.ip(), PORT).into()).await;
        let server = match bound {
            Ok(server) => server,
            Err(error) => {
                return self
                    .world
                    .found(&format!("the master does not begin: {error}"));
            }
        };
        self.world
            .with(|state| state.master_at = Some(server.local_addr()));
        self.world.trace.tell("the master begins");
        self.master = Some((server.handle(), tokio::spawn(server.run())));
    }

    /// Ends the master where it stands.
    pub(super) async fn kill_master(&mut self) {
        let Some((_, task)) = self.master.take() else {
            return;
        };
        self.world.trace.tell("the master is dead");
        self.world.net.kill(self.host.ip());
        task.abort();
        // Its port is free then.
        let _ = task.await;
        self.world.with(|state| state.voted.clear());
    }

    pub(super) async fn revive_master(&mut self) {
        if self.master.is_none() {
            self.world.net.revive(self.host.ip());
            self.start_master().await;
        }
    }

    fn config(&self) -> MasterConfig {
        let plan = &self.world.plan;
        MasterConfig {
            late: plan.late(),
            stalled: Duration::from_secs(40),
            search_steps: 500_000,
            ..MasterConfig::default()
        }
    }

    fn limits(&self) -> Limits {
        let usual = Limits {
            reconnect: self.world.plan.reconnect,
            ..Limits::default()
        };
        match self.world.plan.is_tight {
            false => usual,
            true => Limits {
                strangers_max: 2,
                strangers_per_address_max: 1,
                newcomers_per_address_max: 2,
                long_messages_bytes_max: 64 * 1024,
                outbox_bytes_max: 64 * 1024,
                ..usual
            },
        }
    }

    async fn begin(&mut self) {
        let groups = self.world.plan.groups.clone();
        for (index, group) in groups.iter().enumerate() {
            let is_keeper = groups.iter().position(|other| other == group) == Some(index);
            self.start_peer(*group, is_keeper);
        }
    }

    /// Starts another peer.
    pub(super) fn start_peer(&mut self, group: u32, is_keeper: bool) {
        let (number, host) = self.world.add_host(group, is_keeper);
        let life = Life::new(&self.world, number, group, host);
        let task = tokio::spawn(life.live()).abort_handle();
        self.world
            .with(|state| state.processes[number].task = Some(task));
        self.world
            .trace
            .tell(&format!("peer {number} of group {group} begins"));
    }

    async fn disturb(&mut self) {
        let mut agenda: BTreeMap<(Duration, usize), Act> = BTreeMap::new();
        for (place, fault) in self.world.plan.faults.iter().enumerate() {
            agenda.insert((fault.at, place), Act::Begins(fault.what));
        }
        let mut planned = agenda.len();
        while let Some(((at, _), act)) = agenda.pop_first() {
            if !self.wait_until(self.begun + at).await {
                return;
            }
            if let Some((after, act)) = acts::carry_out(self, act).await {
                agenda.insert((self.begun.elapsed() + after, planned), act);
                planned += 1;
            }
        }
        self.wait_until(self.begun + self.world.plan.eventful).await;
    }

    /// False: something was found.
    async fn wait_until(&self, at: Instant) -> bool {
        while Instant::now() < at {
            sleep_until(at.min(Instant::now() + LOOK)).await;
            if self.look() {
                return false;
            }
        }
        !self.look()
    }

    /// Notes what everything holds. Whether something was found.
    fn look(&self) -> bool {
        let tasks = Handle::current().metrics().num_alive_tasks() as u64;
        let (pipes, _) = self.world.net.holdings();
        let living = self.world.living().len() as u64;
        let has_found = self.world.with(|state| {
            state.counts.tasks = state.counts.tasks.max(tasks);
            state.counts.pipes = state.counts.pipes.max(pipes as u64);
            !state.findings.is_empty()
        });
        // Lanes to each other member, and what each of them needs.
        let bound = 60 + living * (30 + 12 * living * u64::from(self.world.plan.lanes));
        if tasks > bound && !has_found {
            self.world
                .found(&format!("{tasks} tasks for {living} peers"));
            return true;
        }
        has_found
    }

    async fn heal(&mut self) {
        self.world.trace.tell("all is healed");
        acts::heal_all(&self.world);
        self.revive_master().await;
        self.world.with(|state| {
            state.armed.clear();
            state
                .processes
                .iter_mut()
                .for_each(|process| process.whole = 0);
        });
    }

    /// Waits until every survivor has made steps with all others.
    async fn get_on(&self) {
        let end = Instant::now() + self.world.plan.patience() * 2;
        while !self.gets_on() {
            sleep(LOOK).await;
            if self.look() {
                return;
            }
            if Instant::now() > end {
                let doing = self.world.with(|state| {
                    let living: Vec<usize> = state.living().collect();
                    let doing = living.iter().map(|number| {
                        let process = &state.processes[*number];
                        format!("peer {number}: {} ({} whole)", process.doing, process.whole)
                    });
                    doing.collect::<Vec<_>>().join(", ")
                });
                return self
                    .world
                    .found(&format!("the survivors do not get on: {doing}"));
            }
        }
    }

    fn gets_on(&self) -> bool {
        self.world.with(|state| {
            let living: Vec<usize> = state.living().collect();
            living
                .iter()
                .all(|number| state.processes[*number].whole >= WHOLE_STEPS)
        })
    }

    /// All leave, the master stops, and nothing is left.
    async fn clear(mut self) {
        self.world.end();
        if self.look() {
            return;
        }
        self.world.trace.tell("all leave");
        let end = Instant::now() + self.world.plan.patience();
        while self.has_running() {
            sleep(LOOK).await;
            if Instant::now() > end {
                return self.world.found("a peer does not end");
            }
        }
        if let Some((stop, task)) = self.master.take() {
            stop.stop();
            if timeout(CLEARING, task).await.is_err() {
                return self.world.found("the master does not stop");
            }
        }
        sleep(CLEARING).await;
        let tasks = Handle::current().metrics().num_alive_tasks();
        let (pipes, listeners) = self.world.net.holdings();
        if (tasks, pipes, listeners) != (0, 0, 0) {
            self.world.found(&format!(
                "after the end there are {tasks} tasks, {pipes} directions of lanes, {listeners} listeners"
            ));
        }
    }

    fn has_running(&self) -> bool {
        self.world.with(|state| {
            let tasks = state
                .processes
                .iter()
                .filter_map(|process| process.task.as_ref());
            tasks.into_iter().any(|task| !task.is_finished())
        })
    }
}
