//! Reduces as they are carried out: how long they take, and how they end if a link is no good.

use std::collections::BTreeSet;

use pccl_core::id::Seq;
use pccl_core::topology::{LinkId, Way};

use super::machines::Fact;
use super::network::SeatNo;
use super::plane::{LaneKey, Member};
use super::seat::Habit;
use super::time::MILLISECOND;
use super::world::{Happening, Process, World};

/// One execution.
#[derive(Debug)]
pub(super) struct Reduce {
    bytes: u64,
    ring: Vec<Member>,
    started: BTreeSet<SeatNo>,
    /// Those whose part is not over.
    running: BTreeSet<SeatNo>,
    /// Counts what is planned for it: the last plan holds.
    plan: u32,
    /// Ends of links that are no good, and how they name them.
    bad: Vec<(SeatNo, LinkId)>,
    /// Everything has moved.
    ended: bool,
}

impl Reduce {
    pub(super) fn lose(&mut self, seat: SeatNo) {
        self.running.remove(&seat);
    }

    fn has_begun(&self) -> bool {
        let mut ring = self.ring.iter();
        ring.all(|member| self.started.contains(&member.seat))
    }
}

impl World {
    pub(super) fn run_plan(&mut self, process: Process, seq: Seq, bytes: u64) {
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
        let names_link = match self.seats[seat.0].habit {
            Habit::ReportsLoss => false,
            Habit::ReportsLossOfItsLink => true,
            Habit::Honest | Habit::NeverEndsReduces | Habit::NeverEndsTransfers => return,
        };
        self.after(100 * MILLISECOND, Happening::Lies(process, seq, names_link));
    }

    pub(super) fn stop_plan(&mut self, process: Process, seq: Seq) {
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

    /// Has a link ceased to carry?
    pub(super) fn judge_reduce_again(&mut self, seq: Seq) {
        let Some(reduce) = self.reduces.get(&seq).filter(|reduce| reduce.has_begun()) else {
            return;
        };
        if reduce.bad.is_empty() && !self.bad_ends(&reduce.ring).is_empty() {
            self.judge_reduce(seq);
        }
    }

    fn bad_ends(&self, ring: &[Member]) -> Vec<(SeatNo, LinkId)> {
        if ring.len() < 2 {
            return Vec::new();
        }
        let links = edges(ring).map(|(from, to)| both_ends(from, to));
        let lanes_of = |(seat, link): (SeatNo, LinkId)| self.seats[seat.0].plane.lanes_of(link);
        let bad = links.filter(|[sender, receiver]| {
            let lanes = lanes_of(*sender);
            let agreed = lanes.is_some() && lanes == lanes_of(*receiver);
            !agreed || !lanes.is_some_and(|lanes| self.carries(lanes))
        });
        bad.flatten().collect()
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
            let stuck: Vec<(SeatNo, LinkId)> = bad
                .into_iter()
                .filter(|(_, link)| link.way == Way::Out)
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
        if !self.runs(process) || !reduce.is_some_and(|r| r.running.contains(&process.seat)) {
            return;
        }
        let seat = process.seat;
        if let Some(link) = self.seats[seat.0].plane.from_previous() {
            self.report_link(seat, link);
        }
        self.part_ends(seat, seq, false);
    }

    /// Nothing moves: the ends of what does not carry report it.
    fn stalls(&mut self, seq: Seq, bad: &[(SeatNo, LinkId)]) {
        for (seat, link) in bad {
            self.report_link(*seat, *link);
        }
        for (seat, _) in bad {
            self.part_ends(*seat, seq, false);
        }
    }

    fn report_link(&mut self, seat: SeatNo, link: LinkId) {
        let lanes = self.seats[seat.0].plane.lanes_of(link);
        if let (Some(lanes), Some(process)) = (lanes, self.process(seat)) {
            let built = lanes.built;
            self.learn(process, Fact::LinkBroke { link, built });
        }
    }

    fn part_ends(&mut self, seat: SeatNo, seq: Seq, done: bool) {
        let reduce = self.reduces.get_mut(&seq);
        let ran = reduce.is_some_and(|reduce| reduce.running.remove(&seat));
        if let Some(process) = self.process(seat).filter(|_| ran) {
            self.learn(process, Fact::PlanEnded { seq, done });
        }
        self.forget_if_over(seq);
    }

    /// Some have not started: those beside them wait in vain.
    pub(super) fn reduce_late(&mut self, seq: Seq) {
        let Some(reduce) = self.reduces.get(&seq).filter(|reduce| !reduce.has_begun()) else {
            return;
        };
        let waiting = |member: Member| reduce.running.contains(&member.seat);
        let late = |member: Member| !reduce.started.contains(&member.seat);
        let mut bad = Vec::new();
        for (from, to) in edges(&reduce.ring) {
            let [sender, receiver] = both_ends(from, to);
            bad.extend((waiting(from) && late(to)).then_some(sender));
            bad.extend((waiting(to) && late(from)).then_some(receiver));
        }
        self.stalls(seq, &bad);
        self.reduces.remove(&seq);
    }

    pub(super) fn lies(&mut self, process: Process, seq: Seq, names_link: bool) {
        if self.runs(process) {
            let to_next = self.seats[process.seat.0].plane.to_next();
            if let Some(link) = to_next.filter(|_| names_link) {
                self.report_link(process.seat, link);
            }
            self.part_ends(process.seat, seq, false);
        }
    }

    /// Lanes at this end have broken: what runs on them is over here.
    pub(super) fn reduces_notice(&mut self, process: Process, lanes: LaneKey) {
        if !self.seats[process.seat.0].plane.carries_ring(lanes) {
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

/// Every member with the next one, and the last one with the first.
fn edges(ring: &[Member]) -> impl Iterator<Item = (Member, Member)> {
    let next = ring.iter().cycle().skip(1);
    ring.iter().copied().zip(next.copied())
}

/// The link from one member to another, as each of the two names it.
fn both_ends(from: Member, to: Member) -> [(SeatNo, LinkId); 2] {
    let sender = (from.seat, LinkId::to(to.peer));
    let receiver = (to.seat, LinkId::from(from.peer));
    [sender, receiver]
}
