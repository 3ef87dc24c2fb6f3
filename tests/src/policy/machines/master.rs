//! The master's machine: its inputs, its outputs, its timers.

use std::net::IpAddr;

use pccl_core::id::{ConnId, GroupId, PeerId, Round};
use pccl_core::master::{Master, MasterConfig, MasterInput, MasterOutput, MasterTimer};
use pccl_core::timers::TimerQueue;
use pccl_core::tour::Solved;

use super::{Decree, Down, Up, micros};
use crate::policy::time::Micros;

/// The master's machine with its timers.
#[derive(Debug)]
pub struct MasterDesk {
    machine: Master,
    timers: TimerQueue<MasterTimer, Micros>,
}

impl Default for MasterDesk {
    /// With the default limits of a master, and links of rings only.
    fn default() -> Self {
        Self {
            machine: Master::new(MasterConfig::rings_only()),
            timers: TimerQueue::new(),
        }
    }
}

impl MasterDesk {
    /// A connection said something before it had a number.
    pub fn connected(&mut self, now: Micros, conn: ConnId, up: Up, from: IpAddr) -> Vec<Decree> {
        match up {
            Up::Hello(hello) => self.take(
                now,
                MasterInput::Connected {
                    conn,
                    hello,
                    from,
                    identity: None,
                },
            ),
            // A driver ends such a connection; peers of the simulator say hello first.
            _ => vec![Decree::Contradiction(format!("{conn} began with {up:?}"))],
        }
    }

    /// A peer said something.
    pub fn heard(&mut self, now: Micros, peer: PeerId, message: Up) -> Vec<Decree> {
        self.take(now, MasterInput::Message { peer, message })
    }

    /// A peer's connection ended.
    pub fn gone(&mut self, now: Micros, peer: PeerId) -> Vec<Decree> {
        self.take(now, MasterInput::Disconnected { peer })
    }

    /// The ring solver has answered.
    pub fn solved(
        &mut self,
        now: Micros,
        round: Round,
        group: GroupId,
        found: Option<Solved>,
    ) -> Vec<Decree> {
        let solved = MasterInput::TourSolved {
            round,
            group,
            found,
        };
        self.take(now, solved)
    }

    /// When a timer runs out next.
    pub fn deadline(&self) -> Option<Micros> {
        self.timers.next_deadline()
    }

    /// Fires the first timer that has run out; `None`: there is none.
    pub fn fire(&mut self, now: Micros) -> Option<Vec<Decree>> {
        let timer = self.timers.pop_expired(now)?;
        Some(self.take(now, MasterInput::TimerFired(timer)))
    }

    fn take(&mut self, now: Micros, input: MasterInput) -> Vec<Decree> {
        let mut outputs = Vec::new();
        self.machine.handle(input, &mut outputs);
        outputs
            .into_iter()
            .filter_map(|output| self.decree(now, output))
            .collect()
    }

    fn decree(&mut self, now: Micros, output: MasterOutput) -> Option<Decree> {
        Some(match output {
            MasterOutput::Register { conn, peer } => Decree::Registered { conn, peer },
            MasterOutput::Refuse { conn, reason } => Decree::TurnedAway {
                conn,
                words: Down::Refused(reason),
            },
            MasterOutput::Send { peer, message } => Decree::Send { peer, message },
            MasterOutput::Close { peer } => Decree::Close(peer),
            MasterOutput::SolveTour {
                round,
                group,
                problem,
            } => Decree::Solve {
                round,
                group,
                problem,
            },
            MasterOutput::Inconsistent { peer, state, event } => {
                Decree::Contradiction(format!("{event:?} of {peer} in {state:?}"))
            }
            MasterOutput::StartTimer { timer, after } => {
                self.timers.arm(timer, now + micros(after));
                return None;
            }
            MasterOutput::StopTimer(timer) => {
                self.timers.disarm(timer);
                return None;
            }
            // Nobody searches on.
            MasterOutput::SearchTour { .. }
            | MasterOutput::EndSearch { .. }
            | MasterOutput::Moved { .. }
            | MasterOutput::Lost { .. }
            | MasterOutput::Stopped => {
                return None;
            }
        })
    }
}
