//! What breaks, and what that does.

use pccl_core::id::Seq;

use super::network::{Path, SeatNo};
use super::seat::{Exit, Habit};
use super::world::{Happening, World};

/// Something that breaks, or becomes whole.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Connections from the first to the second, one way, become this.
    OneWay(SeatNo, SeatNo, Path),
    /// Connections between the two become this.
    Between(SeatNo, SeatNo, Path),
    /// Connections that anybody opens to this one become this.
    Towards(SeatNo, Path),
    /// All lanes that stand break at once.
    AllLanesBreak,
    /// The lanes on which this one sends break.
    LanesBreak(SeatNo),
    /// The process dies.
    Dies(SeatNo),
    /// The process is like this from now on.
    Becomes(SeatNo, Habit),
    /// All connections to the master break.
    MasterOffline,
}

impl World {
    pub(super) fn struck(&mut self, fault: Fault) {
        match fault {
            Fault::OneWay(from, to, path) => self.network.set(from, to, path),
            Fault::Between(one, other, path) => self.network.set_pair(one, other, path),
            Fault::Towards(to, path) => {
                for from in self.all() {
                    self.network.set(from, to, path);
                }
            }
            Fault::AllLanesBreak => {
                for seat in self.all() {
                    self.break_outgoing(seat);
                }
            }
            Fault::LanesBreak(seat) => self.break_outgoing(seat),
            Fault::Dies(seat) => self.end_process(seat, Exit::Killed),
            Fault::Becomes(seat, habit) => self.seats[seat.0].habit = habit,
            Fault::MasterOffline => {
                for seat in self.all() {
                    if let Some(process) = self.process(seat) {
                        self.end_up(process);
                        self.end_down(process);
                    }
                }
            }
        }
        let running: Vec<Seq> = self.reduces.keys().copied().collect();
        for seq in running {
            self.judge_reduce_again(seq);
        }
    }

    fn all(&self) -> Vec<SeatNo> {
        (0..self.seats.len()).map(SeatNo).collect()
    }

    fn break_outgoing(&mut self, seat: SeatNo) {
        for lanes in self.seats[seat.0].plane.outgoing() {
            if self.lanes.remove(&lanes).is_none() {
                continue;
            }
            for end in [lanes.from, lanes.to] {
                if let Some(process) = self.process(end) {
                    self.after(0, Happening::Notices(process, lanes));
                }
            }
        }
    }

    /// The process is gone: its connections end.
    pub(super) fn end_process(&mut self, seat: SeatNo, exit: Exit) {
        if let Some(process) = self.process(seat) {
            self.end_up(process);
            self.close(process);
        }
        let now = self.now();
        let record = &mut self.seats[seat.0].record;
        record.ended.get_or_insert((now, exit));
    }

    /// Drops everything that a process has of the run.
    pub(super) fn close(&mut self, process: super::world::Process) {
        let seat = process.seat;
        self.transfers_lose(process);
        let dropped = self.seats[seat.0].plane.drop_all();
        self.drop_lanes(seat, dropped);
        for reduce in self.reduces.values_mut() {
            reduce.lose(seat);
        }
        let gone = &mut self.seats[seat.0];
        (gone.desk, gone.moving, gone.staged) = (None, None, None);
        gone.knocks.clear();
    }
}
