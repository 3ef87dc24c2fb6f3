//! A peer's machine: its inputs, its outputs, its timers.

use std::net::IpAddr;

use pccl_core::id::{CallId, GroupId};
use pccl_core::peer::{CallError, Peer, PeerConfig, PeerInput, PeerOutput, PeerTimer};
use pccl_core::site::SiteName;
use pccl_core::timers::TimerQueue;

use super::words::{called, heard_of, input_of, part_of};
use super::{Ask, Down, Fact, Order, Out, micros};
use crate::policy::time::Micros;

/// A peer's machine with its timers.
#[derive(Debug)]
pub struct PeerDesk {
    machine: Peer,
    timers: TimerQueue<PeerTimer, Micros>,
    last_call: CallId,
}

impl PeerDesk {
    /// Reached at an address and port, with so many lanes per link.
    #[must_use]
    pub fn new(group: u32, address: IpAddr, port: u16, lanes: u16) -> Self {
        let config = PeerConfig {
            group: GroupId(group),
            port,
            advertise: Some(address),
            lanes,
            site: SiteName::NONE,
            name: Default::default(),
            collectives_max: 16,
        };
        Self {
            machine: Peer::new(config),
            timers: TimerQueue::new(),
            last_call: CallId::default(),
        }
    }

    /// The user calls something.
    pub fn ask(&mut self, now: Micros, ask: Ask) -> Vec<Order> {
        let input = called(ask, self.last_call);
        if let PeerInput::Call { call, .. } = &input {
            self.last_call = *call;
        }
        self.take(now, input)
    }

    /// The master said something.
    pub fn heard(&mut self, now: Micros, message: Down) -> Vec<Order> {
        self.take(now, PeerInput::Message(message))
    }

    /// The connection to the master ended.
    pub fn lost_master(&mut self, now: Micros) -> Vec<Order> {
        self.take(now, PeerInput::MasterDisconnected)
    }

    /// The data plane has news.
    pub fn learn(&mut self, now: Micros, fact: Fact) -> Vec<Order> {
        self.take(now, input_of(fact))
    }

    /// When a timer runs out next.
    pub fn deadline(&self) -> Option<Micros> {
        self.timers.next_deadline()
    }

    /// Fires the first timer that has run out; `None`: there is none. `moves`: whether bytes have moved
    /// at this process since the last sign of life.
    pub fn fire(&mut self, now: Micros, moves: bool) -> Option<Vec<Order>> {
        let timer = self.timers.pop_expired(now)?;
        if timer == PeerTimer::HeartbeatDue && moves {
            self.take(now, PeerInput::Moved);
        }
        Some(self.take(now, PeerInput::TimerFired(timer)))
    }

    /// Why it is out of the run, if it is.
    #[must_use]
    pub fn out(&self) -> Option<Out> {
        self.machine.view().ended().map(|error| match error {
            CallError::Left => Out::Left,
            CallError::MasterLost => Out::MasterLost,
            other => Out::Because(other.to_string()),
        })
    }

    /// Lanes of each of its links, while it is on a ring.
    #[must_use]
    pub fn lanes(&self) -> Option<u16> {
        self.machine
            .view()
            .topology()
            .map(|topology| topology.lanes)
    }

    fn take(&mut self, now: Micros, input: PeerInput) -> Vec<Order> {
        let mut outputs = Vec::new();
        self.machine.handle(input, &mut outputs);
        outputs
            .into_iter()
            .filter_map(|output| self.order(now, output))
            .collect()
    }

    fn order(&mut self, now: Micros, output: PeerOutput) -> Option<Order> {
        Some(match output {
            PeerOutput::Send(message) => Order::Send(message),
            PeerOutput::Answer { answer, .. } => Order::Answer(heard_of(answer)?),
            PeerOutput::Establish { round, links } => Order::Connect { round, links },
            PeerOutput::AdoptRing { topology, links } => {
                let ring = topology.ring;
                Order::Adopt { ring, links }
            }
            PeerOutput::RunPlan { seq, spec, .. } => {
                let bytes = spec.count * spec.element.size() as u64;
                Order::Run { seq, bytes }
            }
            PeerOutput::StopPlan { seq } => Order::Stop(seq),
            PeerOutput::MoveState { plan, .. } => part_of(plan),
            PeerOutput::CommitState { .. } => Order::CommitState,
            PeerOutput::DropState { .. } => Order::DropState,
            PeerOutput::Probe { round, probes } => Order::Measure { round, probes },
            // What is measured all the same means nothing. Nothing here counts how long a plan takes to begin.
            PeerOutput::StopProbes { .. } | PeerOutput::Confirm { .. } | PeerOutput::Awaited(_) => {
                return None;
            }
            PeerOutput::Close => Order::Close,
            PeerOutput::StartTimer { timer, after } => {
                self.timers.arm(timer, now + micros(after));
                return None;
            }
            PeerOutput::StopTimer(timer) => {
                self.timers.disarm(timer);
                return None;
            }
        })
    }
}
