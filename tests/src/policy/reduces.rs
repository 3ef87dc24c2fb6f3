//! Reduces as they are carried out: how long they take, and how they end where an edge is no good.

use std::collections::BTreeSet;

use pccl_core::id::Seq;
use pccl_core::topology::Edge;

use super::machines::Fact;
use super::network::SeatNo;
use super::plane::LaneKey;
use super::seat::Habit;
use super::time::MILLISECOND;
use super::world::{Happening, Process, World};

/// One execution.
#[derive(Debug)]
pub(super) struct Reduce {
    bytes: u64,
    ring: Vec<SeatNo>,
    started: BTreeSet<SeatNo>,
    /// Those whose part is not over.
    running: BTreeSet<SeatNo>,
    /// Counts what is planned for it: the last plan holds.
    plan: u32,
    /// Ends of edges that are no good, and which of their edges.
    bad: Vec<(SeatNo, Edge)>,
    /// Everything has moved.
    ended: bool,
}

impl Reduce {
    pub(super) fn lose(&mut self, seat: SeatNo) {
        self.running.remove(&seat);
    }

    fn has_begun(&self) -> bool {
        self.ring.iter().all(|seat| self.started.contains(seat))
    }
}

impl World {
    pub(super) fn run_ring(&mut self, process: Process, seq: Seq, bytes: u64) {
        let seat = process.seat;
        let ring = self.seats[seat.0].plane.ring.clone();
        if !self.reduces.contains_key(&seq) {
            self.after(self.pace.stall, Happening::ReduceLate(seq));
        }
        let reduce = self.reduces.entry(seq).or_insert_with(|| Reduce {
            bytes,
            ring,
            started: BTreeSet::new(),
            running: BTreeSet::new(),
            plan: 0,
            bad: Vec::new(),
            ended: false,
        });
        reduce.started.insert(seat);
        reduce.running.insert(seat);
        if reduce.has_begun() {
            self.judge_reduce(seq);
        }
        let names_edge = match self.seats[seat.0].habit {
            Habit::ReportsLoss => false,
            Habit::ReportsLossOfItsEdge => true,
            Habit::Honest | Habit::NeverEndsReduces | Habit::NeverEndsTransfers => return,
        };
        self.after(100 * MILLISECOND, Happening::Lies(process, seq, names_edge));
    }

    pub(super) fn stop_ring(&mut self, process: Process, seq: Seq) {
        if let Some(reduce) = self.reduces.get_mut(&seq) {
            reduce.running.remove(&process.seat);
        }
        self.forget_if_over(seq);
    }

    fn forget_if_over(&mut self, seq: Seq) {
        let over = |reduce: &Reduce| reduce.running.is_empty() && reduce.has_begun();
        if self.reduces.get(&seq).is_some_and(over) {
            self.reduces.remove(&seq);
        }
    }

    /// Everybody has started, or the network has changed: when it ends, and how.
    fn judge_reduce(&mut self, seq: Seq) {
        let Some(reduce) = self.reduces.get(&seq) else {
            return;
        };
        let bad = self.bad_ends(&reduce.ring);
        let time = if bad.is_empty() {
            self.pace.reduce_of(reduce.bytes, reduce.ring.len())
        } else {
            self.pace.stall
        };
        if let Some(reduce) = self.reduces.get_mut(&seq) {
            reduce.bad = bad;
            reduce.plan += 1;
            let plan = reduce.plan;
            self.after(time, Happening::ReduceEnds(seq, plan));
        }
    }

    /// Has an edge ceased to carry?
    pub(super) fn judge_reduce_again(&mut self, seq: Seq) {
        let Some(reduce) = self.reduces.get(&seq).filter(|reduce| reduce.has_begun()) else {
            return;
        };
        if reduce.bad.is_empty() && !self.bad_ends(&reduce.ring).is_empty() {
            self.judge_reduce(seq);
        }
    }

    fn bad_ends(&self, ring: &[SeatNo]) -> Vec<(SeatNo, Edge)> {
        if ring.len() < 2 {
            return Vec::new();
        }
        let edges = ring.iter().zip(ring.iter().cycle().skip(1));
        let bad = edges.filter(|(from, to)| {
            let lanes = self.seats[from.0].plane.next;
            let agreed = lanes.is_some() && lanes == self.seats[to.0].plane.previous;
            !agreed || !lanes.is_some_and(|lanes| self.carries(lanes))
        });
        bad.flat_map(|(from, to)| [(*from, Edge::ToNext), (*to, Edge::FromPrevious)])
            .collect()
    }

    fn carries(&self, lanes: LaneKey) -> bool {
        self.lanes.get(&lanes).is_some_and(|dialler| {
            let dialled = lanes.other_end(*dialler);
            self.network.path(*dialler, dialled).carries()
        })
    }

    pub(super) fn reduce_ends(&mut self, seq: Seq, plan: u32) {
        let Some(reduce) = self.reduces.get(&seq).filter(|reduce| reduce.plan == plan) else {
            return;
        };
        if reduce.bad.is_empty() {
            let running = reduce.running.clone();
            if let Some(reduce) = self.reduces.get_mut(&seq) {
                reduce.ended = true;
            }
            for seat in running {
                if self.seats[seat.0].habit != Habit::NeverEndsReduces {
                    self.part_ends(seat, seq, true);
                }
            }
        } else if self.pace.all_report_stalls {
            // Whose frame is stuck says so first; who starves waits half as long again, and looks at its
            // own clock.
            let (running, bad) = (reduce.running.clone(), reduce.bad.clone());
            let stuck: Vec<(SeatNo, Edge)> = bad
                .into_iter()
                .filter(|(_, edge)| *edge == Edge::ToNext)
                .collect();
            for seat in running {
                let time = self.pace.stall / 2 + self.draw(100 * MILLISECOND);
                if let Some(process) = self.process(seat) {
                    self.after(time, Happening::Stalls(process, seq));
                }
            }
            self.stalls(seq, &stuck);
        } else {
            let bad = reduce.bad.clone();
            self.stalls(seq, &bad);
        }
    }

    /// Whether bytes of a reduce move here.
    pub(super) fn moves_reduce(&self, seat: SeatNo) -> bool {
        let moves = |reduce: &Reduce| {
            let carries = reduce.has_begun() && reduce.bad.is_empty() && !reduce.ended;
            carries && reduce.running.contains(&seat)
        };
        self.reduces.values().any(moves)
    }

    /// This rank has waited for its neighbour for too long.
    pub(super) fn rank_stalls(&mut self, process: Process, seq: Seq) {
        let reduce = self.reduces.get(&seq);
        if self.runs(process) && reduce.is_some_and(|r| r.running.contains(&process.seat)) {
            self.stalls(seq, &[(process.seat, Edge::FromPrevious)]);
        }
    }

    /// Nothing moves: the ends of what does not carry report it.
    fn stalls(&mut self, seq: Seq, bad: &[(SeatNo, Edge)]) {
        for (seat, edge) in bad {
            self.report_edge(*seat, *edge);
        }
        for (seat, _) in bad {
            self.part_ends(*seat, seq, false);
        }
    }

    fn report_edge(&mut self, seat: SeatNo, edge: Edge) {
        let plane = &self.seats[seat.0].plane;
        let lanes = match edge {
            Edge::ToNext => plane.next,
            Edge::FromPrevious => plane.previous,
        };
        if let (Some(lanes), Some(process)) = (lanes, self.process(seat)) {
            let built = lanes.built;
            self.learn(process, Fact::EdgeBroke { edge, built });
        }
    }

    fn part_ends(&mut self, seat: SeatNo, seq: Seq, done: bool) {
        let reduce = self.reduces.get_mut(&seq);
        let ran = reduce.is_some_and(|reduce| reduce.running.remove(&seat));
        if let Some(process) = self.process(seat).filter(|_| ran) {
            self.learn(process, Fact::RingEnded { seq, done });
        }
        self.forget_if_over(seq);
    }

    /// Some have not started: those beside them wait in vain.
    pub(super) fn reduce_late(&mut self, seq: Seq) {
        let Some(reduce) = self.reduces.get(&seq).filter(|reduce| !reduce.has_begun()) else {
            return;
        };
        let edges = reduce.ring.iter().zip(reduce.ring.iter().cycle().skip(1));
        let waiting = |seat: &SeatNo| reduce.running.contains(seat);
        let late = |seat: &SeatNo| !reduce.started.contains(seat);
        let mut bad = Vec::new();
        for (from, to) in edges {
            bad.extend((waiting(from) && late(to)).then_some((*from, Edge::ToNext)));
            bad.extend((waiting(to) && late(from)).then_some((*to, Edge::FromPrevious)));
        }
        self.stalls(seq, &bad);
        self.reduces.remove(&seq);
    }

    pub(super) fn lies(&mut self, process: Process, seq: Seq, names_edge: bool) {
        if self.runs(process) {
            if names_edge {
                self.report_edge(process.seat, Edge::ToNext);
            }
            self.part_ends(process.seat, seq, false);
        }
    }

    /// Lanes at this end have broken: what runs on them is over here.
    pub(super) fn reduces_notice(&mut self, process: Process, lanes: LaneKey) {
        let plane = &self.seats[process.seat.0].plane;
        if plane.next != Some(lanes) && plane.previous != Some(lanes) {
            return;
        }
        let here = self
            .reduces
            .iter()
            .filter(|(_, r)| r.running.contains(&process.seat));
        let concerned: Vec<Seq> = here.map(|(seq, _)| *seq).collect();
        for seq in concerned {
            self.part_ends(process.seat, seq, false);
        }
    }
}
