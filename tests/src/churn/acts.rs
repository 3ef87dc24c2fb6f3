//! Carrying out the schedule of faults.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::driver::{Driver, Peer, command};
use super::plan::{Act, Number};
use super::report::SILENCE;
use super::roles::Role;
use super::talk::Order;
use crate::processes::Trouble;
use crate::talk as clock;

impl Driver<'_> {
    pub(super) fn carry_out(&mut self, act: Act) -> Result<(), Trouble> {
        self.live.note(|| format!("{act:?}"));
        self.faults.count(act);
        if !matches!(act, Act::Add(_)) {
            self.masters.stalls.disturbed(clock::now());
        }
        match act {
            Act::Add(number) => self.start_peer(number)?,
            Act::Kill(number) => self.kill(number)?,
            Act::Stop(number, time) => self.stop(number, time)?,
            Act::Leave(number) => self.order(number, Order::Leave),
            Act::LeaveMidway(number) => self.order(number, Order::LeaveMidway),
            Act::CutLanes(number) => self.order(number, Order::CutLanes),
            Act::CutAll(number) => {
                if let Some(peer) = self.peers.get_mut(&number) {
                    peer.may_be_evicted = true;
                }
                self.order(number, Order::CutAll);
            }
        }
        Ok(())
    }

    pub(super) fn start_peer(&mut self, number: Number) -> Result<(), Trouble> {
        let role = Role::Peer(self.peer_options());
        let process = self.processes.start(&mut command(self.program, &role))?;
        self.numbers.insert(process, number);
        self.peers.insert(number, Peer::of(process));
        Ok(())
    }

    /// One that has ended by itself is a finding already.
    fn kill(&mut self, number: Number) -> Result<(), Trouble> {
        let Some(peer) = self.peers.remove(&number) else {
            return Ok(());
        };
        self.masters.stalls.gone(number);
        if peer.goes_on_at.is_some() {
            self.pulse.continued();
        }
        if let Some(id) = peer.id {
            self.pulse.killed(id, Instant::now());
        }
        self.processes.kill(peer.process)?;
        self.tally.deaths += 1;
        Ok(())
    }

    /// A process that is stopped already stays so for the longer of the two times.
    fn stop(&mut self, number: Number, time: Duration) -> Result<(), Trouble> {
        self.signal(number, Signal::STOP)?;
        let Some(peer) = self.peers.get_mut(&number) else {
            return Ok(());
        };
        let until = Instant::now() + time;
        peer.may_be_evicted |= time > SILENCE;
        match &mut peer.goes_on_at {
            Some(at) => *at = until.max(*at),
            None => {
                peer.goes_on_at = Some(until);
                self.pulse.stopped();
            }
        }
        Ok(())
    }

    /// Lets those go on whose time has come, or all of them.
    pub(super) fn go_on(&mut self, all: bool) -> Result<(), Trouble> {
        let now = Instant::now();
        let is_due = |peer: &Peer| peer.goes_on_at.is_some_and(|at| all || at <= now);
        let due = self.peers.iter().filter(|(_, peer)| is_due(peer));
        let due: Vec<Number> = due.map(|(number, _)| *number).collect();
        for number in due {
            self.signal(number, Signal::CONT)?;
            if let Some(peer) = self.peers.get_mut(&number) {
                peer.goes_on_at = None;
                self.pulse.continued();
                self.masters.stalls.disturbed(clock::now());
            }
        }
        Ok(())
    }

    fn signal(&self, number: Number, signal: Signal) -> Result<(), Trouble> {
        let Some(peer) = self.peers.get(&number) else {
            return Ok(());
        };
        let id = self.processes.system_id(peer.process)?;
        let id = i32::try_from(id).ok().and_then(Pid::from_raw);
        let id = id.ok_or(Trouble::NotRunning(peer.process))?;
        Ok(kill_process(id, signal).map_err(std::io::Error::from)?)
    }

    pub(super) fn order(&mut self, number: Number, order: Order) {
        if let Some(peer) = self.peers.get(&number) {
            // Fails if the process has ended, which is noticed where its output ends.
            self.processes.tell(peer.process, &order).ok();
        }
    }
}
