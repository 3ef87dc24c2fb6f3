//! One master and its peers: all sizes that are measured with the same processes.

use std::collections::BTreeMap;

use pccl::Algorithm;
use pccl_subprocess::Process;

use super::arguments::Arguments;
use super::choice::{Cell, Time};
use super::crew::{Crew, Trouble};
use super::floor::Way;
use super::optimized::{Optimized, Told};
use super::pieces::Search;
use super::plan::Plan;
use super::rank::Assignment;
use super::row::{Findings, Row, Subject};
use super::samples::Samples;
use super::table;
use super::talk::{Buffers, Contestant, Event, Measured, Order, Series};

/// The floor's best ways, by number of peers and bytes.
pub(crate) type BestWays = BTreeMap<(usize, usize), Vec<Way>>;

/// A master and its peers, connected.
pub(crate) struct Session<'a> {
    arguments: &'a Arguments,
    peers: usize,
    lanes: u16,
    /// Have all lanes of all ranks both their ends on this machine?
    lanes_are_local: bool,
    crew: Crew,
    master: Process,
    ranks: Vec<Process>,
    /// Was the topology optimized?
    is_optimized: bool,
    /// The number of the next iteration.
    next: u64,
}

impl<'a> Session<'a> {
    /// Starts all processes and waits until they are connected.
    pub(crate) fn start(
        arguments: &'a Arguments,
        peers: usize,
        lanes: u16,
    ) -> Result<Self, Trouble> {
        let mut crew = Crew::new();
        let over = arguments.transport;
        let hosts = &arguments.hosts;
        let host = hosts.of_master();
        let role = [
            "master".to_owned(),
            format!("--host={host}"),
            format!("--transport={over}"),
            format!("--max-mesh={}", arguments.max_mesh),
            format!("--max-ahead={}", arguments.max_ahead),
        ];
        let master = crew.start("the master".into(), hosts.command(host)?, &role)?;
        let (address, join) = crew.hear_one(master, "its address", service_in)?;
        let mut ranks = Vec::new();
        for rank in 0..peers {
            let assignment = Assignment {
                rank,
                peers,
                lanes,
                transport: over,
                host: hosts.of_rank(rank),
                master: address,
                site: arguments.site_of(rank).to_owned(),
                work: arguments.work.clone(),
            };
            let told = assignment.to_arguments();
            let command = hosts.command(assignment.host)?;
            ranks.push(crew.start(format!("rank {rank}"), command, &told)?);
        }
        let addresses = crew.hear(&ranks, "its address", address_in)?;
        // One after the other, as newcomers come to the end of the ring: so it goes in the order of the ranks.
        for rank in &ranks {
            let join = join.clone();
            crew.tell(&[*rank], &Order::Join { join });
            crew.hear_one(*rank, "its admission", admitted_in)?;
        }
        let connected = crew.hear(&ranks, "joining the run", lanes_in)?;
        if connected
            .iter()
            .any(|(_, proven)| *proven != over.is_proven())
        {
            return Err(Trouble::NotOver(over));
        }
        if !arguments.is_without_floor() {
            crew.tell(&ranks, &Order::JoinFloor { ranks: addresses });
            crew.hear(&ranks, "joining the floor", joined_in)?;
        }
        Ok(Self {
            arguments,
            peers,
            lanes,
            lanes_are_local: connected.into_iter().all(|(are_local, _)| are_local),
            crew,
            master,
            ranks,
            is_optimized: false,
            next: 0,
        })
    }

    /// For progress bars.
    pub(crate) fn name(&self) -> String {
        format!("{} peers, {} lanes", self.peers, self.lanes)
    }

    /// What stands above the rows of the ring that stands.
    pub(crate) fn heading(&self) -> String {
        if self.arguments.every_algorithm {
            let of = &self.arguments.work;
            return Cell::heading(of, (self.peers, self.lanes), self.is_optimized);
        }
        table::heading(self.arguments, self.peers, self.lanes, self.is_optimized)
    }

    /// Measures one size.
    pub(crate) fn measure(&mut self, count: usize, best: &mut BestWays) -> Result<Row, Trouble> {
        let subject = Subject {
            peers: self.peers,
            lanes: self.lanes,
            lanes_are_local: self.lanes_are_local,
            count,
            element_bytes: self.arguments.work.element.size(),
            concurrent: self.arguments.work.concurrent,
            is_optimized: self.is_optimized,
        };
        let plan = Plan::new(self.arguments, subject.bytes_per_iteration());
        self.prepare(count, plan.batch)?;
        let ways = if self.arguments.is_without_floor() {
            Vec::new()
        } else {
            self.best_ways(&subject, &plan, best)?
        };
        let found = self.take_turns(&plan, &ways)?;
        Ok(Row::new(&subject, &self.arguments.work, &found))
    }

    /// Measures one size with every algorithm that can carry it.
    pub(crate) fn compare(&mut self, count: usize) -> Result<Cell, Trouble> {
        let work = &self.arguments.work;
        let bytes = count * work.element.size();
        let plan = Plan::new(self.arguments, bytes);
        self.prepare(count, plan.batch)?;
        let warm = self.warm_up(None, &plan)?;
        let chosen = warm.algorithm().ok_or(Trouble::NoAlgorithm)?;
        let mut wrong = warm.wrong;
        let mut all = Vec::new();
        for algorithm in Algorithm::ALL {
            let warm = self.warm_up(Some(algorithm), &plan)?;
            wrong += warm.wrong;
            // Another one was taken if this one cannot carry the buffer.
            if warm.algorithm() == Some(algorithm) {
                all.push((algorithm, Samples::new(plan.batch)));
            }
        }
        for iterations in &plan.turns {
            for (algorithm, samples) in &mut all {
                let wish = Contestant::Ours(Some(*algorithm));
                samples.add(&self.series(wish, *iterations)?);
            }
            // So that none of them always comes right after the same one.
            all.reverse();
        }
        all.sort_by_key(|(algorithm, _)| *algorithm != chosen);
        wrong += all.iter().map(|(_, samples)| samples.wrong).sum::<u64>();
        Ok(Cell {
            work: self.arguments.work.to_string(),
            peers: self.peers,
            lanes: self.lanes,
            bytes,
            optimized: self.is_optimized,
            chosen: chosen.to_string(),
            wrong,
            times: all
                .iter()
                .map(|(algorithm, samples)| Time {
                    algorithm: algorithm.to_string(),
                    time_us: samples.median_us(),
                })
                .collect(),
        })
    }

    /// Some iterations of ours whose times do not count.
    fn warm_up(&mut self, wish: Option<Algorithm>, plan: &Plan) -> Result<Samples, Trouble> {
        let mut samples = Samples::new(plan.batch);
        samples.add(&self.series(Contestant::Ours(wish), plan.warmup.max(1))?);
        Ok(samples)
    }

    /// Lets all ranks optimize the topology.
    pub(crate) fn optimize(&mut self) -> Result<Optimized, Trouble> {
        self.crew.tell(&self.ranks, &Order::Optimize);
        let told = self.crew.hear(&self.ranks, "the topology", told_in)?;
        self.is_optimized = true;
        Optimized::of(&told).ok_or(Trouble::Topology)
    }

    /// Ends all processes, the peers first.
    pub(crate) fn end(mut self) -> Result<(), Trouble> {
        self.crew.dismiss(&self.ranks)?;
        self.crew.dismiss(&[self.master])
    }

    fn prepare(&mut self, count: usize, batch: usize) -> Result<(), Trouble> {
        let buffers = Buffers { count, batch };
        self.crew.tell(&self.ranks, &Order::Prepare(buffers));
        let prepared = |event| matches!(event, Event::Prepared).then_some(());
        self.crew.hear(&self.ranks, "buffers", prepared)?;
        Ok(())
    }

    /// Tries ways of the floor, unless that was done for so many peers and bytes before.
    fn best_ways(
        &mut self,
        subject: &Subject,
        plan: &Plan,
        best: &mut BestWays,
    ) -> Result<Vec<Way>, Trouble> {
        let bytes = subject.bytes_per_iteration();
        let key = (self.peers, bytes);
        if let Some(ways) = best.get(&key) {
            return Ok(ways.clone());
        }
        let collective = self.arguments.work.collective;
        let mut search = Search::new(collective, collective.chunk_bytes(bytes, self.peers));
        if let Some(way) = search.ways().into_iter().next() {
            // Whoever is first touches the memory and the connections first.
            self.series(Contestant::Floor(way), plan.warmup)?;
        }
        while !search.is_over() {
            let mut times = Vec::new();
            for way in search.ways() {
                let mut trial = Samples::new(plan.batch);
                trial.add(&self.series(Contestant::Floor(way), plan.trial)?);
                times.push(trial.min_us());
            }
            search.end_turn(&times);
        }
        best.insert(key, search.ways());
        Ok(search.ways())
    }

    /// Ours, the floor in each of these ways, ours, the floor, and so on.
    fn take_turns(&mut self, plan: &Plan, ways: &[Way]) -> Result<Findings, Trouble> {
        let mut found = Findings {
            ours: Samples::new(plan.batch),
            master_cpu_ns: 0,
            floors: Vec::new(),
            iterations: plan.iterations(),
            batch: plan.batch,
        };
        let warm = self.series(Contestant::Ours(None), plan.warmup)?;
        found.ours.add_wrong(&warm);
        for way in ways.iter().copied() {
            self.series(Contestant::Floor(way), plan.warmup)?;
            found.floors.push((way, Samples::new(plan.batch)));
        }
        for iterations in &plan.turns {
            let before = self.master_cpu_ns()?;
            let ours = self.series(Contestant::Ours(None), *iterations)?;
            found.ours.add(&ours);
            found.master_cpu_ns += self.master_cpu_ns()?.saturating_sub(before);
            for (way, samples) in &mut found.floors {
                samples.add(&self.series(Contestant::Floor(*way), *iterations)?);
            }
            // So that none of them always comes right after ours.
            found.floors.reverse();
        }
        Ok(found)
    }

    /// Some iterations on all ranks. Each batch begins when all are ready for it, and nobody checks it
    /// before all are done.
    fn series(&mut self, of: Contestant, iterations: u32) -> Result<Vec<Measured>, Trouble> {
        let series = Series {
            of,
            first: self.next,
            iterations,
        };
        self.next += u64::from(iterations);
        self.crew.tell(&self.ranks, &Order::Measure(series));
        loop {
            let answers = self
                .crew
                .hear(&self.ranks, "an iteration", |event| match event {
                    Event::Ready => Some(None),
                    Event::Measured(measured) => Some(Some(measured)),
                    Event::Serving { .. }
                    | Event::Listening { .. }
                    | Event::Connected { .. }
                    | Event::Admitted
                    | Event::Joined
                    | Event::Prepared
                    | Event::Optimized(_)
                    | Event::CpuTime { .. }
                    | Event::Failed { .. } => None,
                })?;
            // All ranks make the same batches, so all are ready or all are done.
            match answers.into_iter().collect() {
                Some(measured) => return checked(of, measured),
                None => self.crew.tell(&self.ranks, &Order::Go),
            }
        }
    }

    fn master_cpu_ns(&mut self) -> Result<u64, Trouble> {
        self.crew.tell(&[self.master], &Order::TellCpuTime);
        self.crew
            .hear_one(self.master, "its CPU time", |event| match event {
                Event::CpuTime { ns } => Some(ns),
                _ => None,
            })
    }
}

/// The floor is there to compare with, and has to be right.
fn checked(of: Contestant, measured: Vec<Measured>) -> Result<Vec<Measured>, Trouble> {
    let wrong = measured.iter().map(|rank| rank.wrong).sum();
    match of {
        Contestant::Floor(_) if wrong > 0 => Err(Trouble::WrongFloor(wrong)),
        Contestant::Floor(_) | Contestant::Ours(_) => Ok(measured),
    }
}

fn address_in(event: Event) -> Option<std::net::SocketAddr> {
    match event {
        Event::Listening { address } => Some(address),
        _ => None,
    }
}

fn service_in(event: Event) -> Option<(std::net::SocketAddr, String)> {
    match event {
        Event::Serving { address, join } => Some((address, join)),
        _ => None,
    }
}

fn admitted_in(event: Event) -> Option<()> {
    matches!(event, Event::Admitted).then_some(())
}

fn told_in(event: Event) -> Option<Told> {
    match event {
        Event::Optimized(told) => Some(*told),
        _ => None,
    }
}

/// Are its lanes local, and are they proven?
fn lanes_in(event: Event) -> Option<(bool, bool)> {
    match event {
        Event::Connected {
            lanes_are_local,
            lanes_are_proven,
        } => Some((lanes_are_local, lanes_are_proven)),
        _ => None,
    }
}

fn joined_in(event: Event) -> Option<()> {
    matches!(event, Event::Joined).then_some(())
}
