//! The control connections, and what the master orders: what is sent first on one arrives first.

use pccl_core::id::ConnId;

use super::machines::{Decree, Down, Up, is_beat_up};
use super::network::SeatNo;
use super::time::{Micros, SECOND, show};
use super::world::{Happening, Process, World};

impl World {
    pub(super) fn arrives_up(&mut self, from: Process, message: Up) {
        let now = self.now();
        if self.tells && !is_beat_up(&message) {
            println!("{:>12} {:>4} -> {message:?}", show(now), from.seat.0);
        }
        let peer = self.seats[from.seat.0].peer_of(from.life);
        let decrees = match peer {
            Some(peer) => self.master.heard(now, peer, message),
            None => {
                let address = self.seats[from.seat.0].plan.address;
                self.master.connected(now, conn_of(from), message, address)
            }
        };
        self.obey_master(decrees);
    }

    pub(super) fn up_ends(&mut self, from: Process) {
        if let Some(peer) = self.seats[from.seat.0].peer_of(from.life) {
            let decrees = self.master.gone(self.agenda.now(), peer);
            self.obey_master(decrees);
        }
    }

    pub(super) fn obey_master(&mut self, decrees: Vec<Decree>) {
        for decree in decrees {
            match decree {
                Decree::Registered { conn, peer } => {
                    let process = process_of(conn);
                    self.processes.insert(peer, process);
                    self.seats[process.seat.0].peer = Some((process.life, peer));
                }
                Decree::TurnedAway { conn, words } => {
                    self.send_down(process_of(conn), words);
                    self.end_down(process_of(conn));
                }
                Decree::Send { peer, message } => {
                    if let Some(process) = self.processes.get(&peer).copied() {
                        let now = self.now();
                        self.log.sent(now, &message);
                        self.send_down(process, message);
                    }
                }
                Decree::Close(peer) => {
                    if let Some(process) = self.processes.get(&peer).copied() {
                        self.end_down(process);
                    }
                }
                Decree::Solve {
                    round,
                    group,
                    problem,
                } => {
                    let found = pccl_core::tour::solve(&problem);
                    self.after(SECOND, Happening::Solved(round, group, found));
                }
                Decree::Contradiction(what) => self.log.contradictions.push(what),
            }
        }
        self.see_to_master();
    }

    /// One way on a control connection: what was sent before arrives before.
    fn control_time(&mut self, clear: Micros) -> Micros {
        let jitter = self.draw(self.pace.control / 4);
        clear.max(self.now() + self.pace.control + jitter)
    }

    pub(super) fn send_up(&mut self, process: Process, message: Up) {
        let at = self.control_time(self.seats[process.seat.0].up_clear);
        self.seats[process.seat.0].up_clear = at;
        self.agenda.at(at, Happening::ArrivesUp(process, message));
    }

    pub(super) fn end_up(&mut self, process: Process) {
        let at = self.control_time(self.seats[process.seat.0].up_clear);
        self.agenda.at(at, Happening::UpEnds(process));
    }

    fn send_down(&mut self, process: Process, message: Down) {
        let at = self.control_time(self.seats[process.seat.0].down_clear);
        self.seats[process.seat.0].down_clear = at;
        self.agenda.at(at, Happening::ArrivesDown(process, message));
    }

    pub(super) fn end_down(&mut self, process: Process) {
        let at = self.control_time(self.seats[process.seat.0].down_clear);
        self.agenda.at(at, Happening::DownEnds(process));
    }
}

fn conn_of(process: Process) -> ConnId {
    ConnId((process.seat.0 as u64) << 32 | u64::from(process.life))
}

fn process_of(conn: ConnId) -> Process {
    Process {
        seat: SeatNo((conn.0 >> 32) as usize),
        life: (conn.0 & u64::from(u32::MAX)) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::super::machines::{number_of, numbered};
    use super::super::network::SeatNo;
    use super::super::seat::SeatPlan;
    use super::super::time::MILLISECOND;
    use super::*;

    #[test]
    fn what_a_connection_was_given_first_arrives_first_and_no_sooner_than_its_latency() {
        let mut world = World::new(1);
        world.pace.control = 20 * MILLISECOND;
        world.seat(SeatPlan::at(0));
        let process = Process {
            seat: SeatNo(0),
            life: 1,
        };
        for number in 0..100 {
            world.send_up(process, numbered(number));
        }
        let mut arrived = Vec::new();
        while let Some(happening) = world.agenda.next(Micros::MAX) {
            if let Happening::ArrivesUp(_, message) = happening {
                assert!(world.agenda.now() >= world.pace.control);
                arrived.extend(number_of(&message));
            }
        }

        assert_eq!(arrived, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn connections_of_two_peers_overtake_each_other() {
        let mut world = World::new(1);
        let process = |seat| Process {
            seat: SeatNo(seat),
            life: 1,
        };
        let mut first = std::collections::BTreeSet::new();
        for _ in 0..20 {
            world.seats.clear();
            for _ in 0..2 {
                world.seat(SeatPlan::at(Micros::MAX));
            }
            (0..2).for_each(|seat| world.end_up(process(seat)));
            while let Some(happening) = world.agenda.next(Micros::MAX - 1) {
                if let Happening::UpEnds(of) = happening {
                    first.insert(of.seat);
                    break;
                }
            }
            while world.agenda.next(Micros::MAX - 1).is_some() {}
        }

        assert_eq!(first.len(), 2);
    }
}
