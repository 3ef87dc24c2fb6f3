//! When each packet arrives, or why it does not. Pure: the clock is handed in, and all chance comes from a
//! seed and the order of a way's own packets.
//!
//! A packet passes the stages of its way one after the other. Stages that nobody else uses are passed at
//! once, with the instant at which the packet will be there; before one that ways share it waits in a line
//! until that instant, so that whoever comes first is served first. What comes out of a stage comes in the
//! order of time, therefore each line is first in, first out, and only their heads have to be compared.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::counts::{Counts, Drop};
use super::limit::{Gate, Limit};
use super::losses::{Losses, Lost};
use super::plan::{Plan, Way};
use super::units::Nanos;
use super::wander::Wander;

/// A packet, and what its driver knows it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    /// The index of its way.
    pub way: usize,
    /// Its bytes, with the header of IP.
    pub bytes: u32,
    /// Which packets belong together, for limits per flow.
    pub flow: u64,
    /// The driver's.
    pub load: T,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate<T> {
    /// It is where it goes to.
    Arrived(Packet<T>),
    /// It will never be.
    Dropped(Packet<T>, Drop),
}

/// All ways between the hosts of a plan.
#[derive(Debug)]
pub struct Wire<T> {
    ways: Vec<Path>,
    shared: Vec<Gate>,
    flows: Flows,
    lines: Vec<VecDeque<(Nanos, Moving<T>)>>,
    /// The head of each line that is not empty.
    heads: BinaryHeap<Head>,
    counts: Vec<Counts>,
}

/// When the first packet of a line is due, and the line; the earliest is the greatest.
type Head = Reverse<(Nanos, usize)>;

/// A packet under way.
#[derive(Clone, Copy, Debug)]
struct Moving<T> {
    packet: Packet<T>,
    /// The stage that it comes to next.
    stage: usize,
    sent: Nanos,
}

/// What a packet has to pass.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Flow(Limit),
    Shared(usize),
    Own,
    Travel,
}

/// A way at work.
#[derive(Debug)]
struct Path {
    stages: Vec<Stage>,
    own: Option<Gate>,
    delay: Nanos,
    wander: Wander,
    losses: Losses,
    cuts: Vec<(Nanos, Nanos)>,
    /// When the latest packet gets to the other end.
    last: Nanos,
}

/// Where a packet got to.
enum Step {
    /// It waits in that line until then.
    Waits(usize, Nanos),
    Dropped(Drop),
}

impl<T> Wire<T> {
    /// With nothing under way. The same plan, seed and packets give the same fates.
    pub fn new(plan: &Plan, seed: u64) -> Self {
        let ways = plan.ways.iter().zip(0..);
        let ways: Vec<_> = ways
            .map(|(way, index)| Path::new(way, mix(seed, index)))
            .collect();
        let lines = plan.shared.len() + ways.len();
        Self {
            shared: plan
                .shared
                .iter()
                .map(|shared| Gate::new(shared.limit))
                .collect(),
            flows: Flows::default(),
            lines: (0..lines).map(|_| VecDeque::new()).collect(),
            heads: BinaryHeap::new(),
            counts: vec![Counts::default(); ways.len()],
            ways,
        }
    }

    /// A packet leaves its host. Whatever was due before should have been taken: instants must not go back.
    ///
    /// # Errors
    /// It will not arrive.
    pub fn send(&mut self, now: Nanos, packet: Packet<T>) -> Result<(), (Packet<T>, Drop)> {
        let way = packet.way;
        let Some(counts) = self.counts.get_mut(way) else {
            return Err((packet, Drop::Nowhere));
        };
        counts.on_sent(packet.bytes);
        let moving = Moving {
            packet,
            stage: 0,
            sent: now,
        };
        self.go_on(now, moving)
    }

    /// The next packet whose fate is known by now.
    pub fn due(&mut self, now: Nanos) -> Option<Fate<T>> {
        loop {
            let Reverse((at, line)) = *self.heads.peek()?;
            if at > now {
                return None;
            }
            let moving = self.take_from(line)?;
            let way = moving.packet.way;
            if moving.stage >= self.ways.get(way)?.stages.len() {
                let counts = self.counts.get_mut(way)?;
                counts.on_arrived(now, moving.sent, moving.packet.bytes);
                return Some(Fate::Arrived(moving.packet));
            }
            if let Err((packet, why)) = self.go_on(at, moving) {
                return Some(Fate::Dropped(packet, why));
            }
        }
    }

    /// When something is due next.
    pub fn next_due(&self) -> Option<Nanos> {
        self.heads.peek().map(|Reverse((at, _))| *at)
    }

    /// What became of the packets of each way, by its index.
    pub fn counts(&self) -> &[Counts] {
        &self.counts
    }

    /// Packets under way.
    pub fn under_way(&self) -> usize {
        self.lines.iter().map(VecDeque::len).sum()
    }

    /// Takes the head of the line that is due first.
    fn take_from(&mut self, line: usize) -> Option<Moving<T>> {
        let waiting = self.lines.get_mut(line)?;
        let (_, moving) = waiting.pop_front()?;
        let head = self.heads.peek_mut()?;
        match waiting.front() {
            Some((next, _)) => replace(head, Reverse((*next, line))),
            None => drop(PeekMut::pop(head)),
        }
        Some(moving)
    }

    /// Lets a packet pass what it can pass.
    fn go_on(&mut self, now: Nanos, mut moving: Moving<T>) -> Result<(), (Packet<T>, Drop)> {
        match self.pass(now, &mut moving) {
            Step::Waits(line, at) => {
                let waiting = &mut self.lines[line];
                if waiting.is_empty() {
                    self.heads.push(Reverse((at, line)));
                }
                waiting.push_back((at, moving));
                Ok(())
            }
            Step::Dropped(why) => {
                let way = moving.packet.way;
                if let Some(counts) = self.counts.get_mut(way) {
                    counts.on_dropped(why);
                }
                Err((moving.packet, why))
            }
        }
    }

    /// Moves it to the stage before which it has to wait, or to the end.
    fn pass(&mut self, now: Nanos, moving: &mut Moving<T>) -> Step {
        let way = moving.packet.way;
        let bytes = moving.packet.bytes;
        let mut line = self.shared.len() + way;
        let mut at = now;
        let Some(path) = self.ways.get_mut(way) else {
            return Step::Dropped(Drop::Nowhere);
        };
        while let Some(stage) = path.stages.get(moving.stage).copied() {
            let passed = match stage {
                Stage::Shared(_) if at > now => break,
                Stage::Shared(shared) => {
                    line = shared;
                    self.shared[shared].admit(at, bytes).ok_or(Drop::Queue)
                }
                Stage::Flow(limit) => {
                    let flow = (way, moving.packet.flow);
                    let (gate, its_line) = self.flows.of(flow, limit, now, &mut self.lines);
                    line = its_line;
                    gate.admit(at, bytes).ok_or(Drop::Queue)
                }
                // Flows come from their limits in no order among them.
                Stage::Own if at > now && is_behind_flows(path, moving.stage) => break,
                Stage::Own => path.own(at, bytes),
                Stage::Travel if at > now && is_behind_flows(path, moving.stage) => break,
                Stage::Travel => {
                    line = self.shared.len() + way;
                    path.travel(at)
                }
            };
            match passed {
                Ok(then) => at = then,
                Err(why) => return Step::Dropped(why),
            }
            moving.stage += 1;
        }
        Step::Waits(line, at)
    }
}

/// Whether the stage in front of it is the limit of a flow.
fn is_behind_flows(path: &Path, stage: usize) -> bool {
    let before = stage
        .checked_sub(1)
        .and_then(|before| path.stages.get(before));
    matches!(before, Some(Stage::Flow(_)))
}

impl Path {
    fn new(way: &Way, seed: u64) -> Self {
        let mut stages = Vec::new();
        stages.extend(way.per_flow.map(Stage::Flow));
        stages.extend(way.out.iter().copied().map(Stage::Shared));
        stages.extend(way.own.map(|_| Stage::Own));
        stages.push(Stage::Travel);
        stages.extend(way.into.iter().copied().map(Stage::Shared));
        Self {
            stages,
            own: way.own.map(Gate::new),
            delay: way.delay,
            wander: Wander::new(way.jitter, mix(seed, 1)),
            losses: Losses::new(way.loss, mix(seed, 2)),
            cuts: way.cuts.clone(),
            last: 0,
        }
    }

    fn own(&mut self, at: Nanos, bytes: u32) -> Result<Nanos, Drop> {
        match &mut self.own {
            Some(gate) => gate.admit(at, bytes).ok_or(Drop::Queue),
            None => Ok(at),
        }
    }

    fn travel(&mut self, at: Nanos) -> Result<Nanos, Drop> {
        if self
            .cuts
            .iter()
            .any(|(from, until)| (*from..*until).contains(&at))
        {
            return Err(Drop::Cut);
        }
        match self.losses.of_next() {
            Some(Lost::Alone) => return Err(Drop::Lost),
            Some(Lost::InBurst) => return Err(Drop::Burst),
            None => {}
        }
        let delay = self.delay.saturating_add_signed(self.wander.at(at));
        self.last = self.last.max(at + delay);
        Ok(self.last)
    }
}

/// The limits of flows, each with a line.
#[derive(Debug, Default)]
struct Flows {
    of: BTreeMap<(usize, u64), (Gate, usize)>,
    /// Lines of flows that have ended.
    spare: Vec<usize>,
    /// So many may be known before those that rest are forgotten.
    most: usize,
}

/// A wire remembers so many flows in any case.
const FLOWS: usize = 1024;

impl Flows {
    /// The gate of a flow, and its line.
    fn of<T>(
        &mut self,
        flow: (usize, u64),
        limit: Limit,
        now: Nanos,
        lines: &mut Vec<VecDeque<T>>,
    ) -> (&mut Gate, usize) {
        if self.of.len() > self.most.max(FLOWS) {
            self.forget(now, lines);
        }
        let spare = &mut self.spare;
        let (gate, line) = self.of.entry(flow).or_insert_with(|| {
            let line = spare.pop().unwrap_or_else(|| {
                lines.push(VecDeque::new());
                lines.len() - 1
            });
            (Gate::new(limit), line)
        });
        (gate, *line)
    }

    /// Forgets flows of which nothing is under way.
    fn forget<T>(&mut self, now: Nanos, lines: &[VecDeque<T>]) {
        let spare = &mut self.spare;
        self.of.retain(|_, (gate, line)| {
            let rests = gate.is_idle(now) && lines.get(*line).is_none_or(VecDeque::is_empty);
            if rests {
                spare.push(*line);
            }
            !rests
        });
        // Where all are busy the next look comes later, so that it costs little per packet.
        self.most = self.of.len() * 2;
    }
}

fn replace(mut head: PeekMut<'_, Head>, with: Head) {
    *head = with;
}

/// Another seed, for something that has a number.
fn mix(seed: u64, number: u64) -> u64 {
    // The finalizer of SplitMix64, whose outputs for neighbouring inputs have nothing in common.
    let mut z = seed.wrapping_add((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
