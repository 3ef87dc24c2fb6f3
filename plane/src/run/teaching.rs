//! What an operation teaches about the paths that it takes: on how many lanes to send, with which congestion control.

use pccl_core::plan::Algorithm;
use tokio::time::Instant;

use super::{OperationPort, Run, Sending};
use crate::pace::{Load, Rate, TEACHES_FROM, Timed, rate};

/// What there is to be learned from an operation that runs.
#[derive(Debug, Default)]
pub(super) struct Teaching {
    /// When it began, on one link of several lanes. `None`: nothing is learned about the number of lanes.
    of_lanes: Option<Instant>,
    /// `None`: the congestion control of its lanes cannot be chosen, or the operation is not alone.
    of_control: Option<Timed>,
}

impl Teaching {
    /// Of an operation of so many stripes that begins.
    pub(super) fn new(port: &OperationPort, sending: &[Sending], stripes: usize) -> Self {
        let has_control = OperationPort::has_control(sending);
        let has_lanes = OperationPort::has_choice(stripes, sending);
        if !has_control && !has_lanes {
            return Self::default();
        }
        // It may wait for others to be told, for which no path is to blame.
        let is_alone = !port.course.is_ahead() && port.registry.is_alone(port.seq);
        // The root of a broadcast is done when its last bytes are in buffers, and the others wait for it. So it is
        // with the one that contributes the most. In a relay ranks wait for sums on their way around.
        let is_comparable = is_alone
            && port.algorithm != Algorithm::Relay
            && port.spec.kind.root().is_none()
            && port.spec.kind.own_and_limit().is_none();
        let load = Load::new(&port.spec, port.algorithm);
        if has_control {
            port.control.begins(is_comparable.then_some(load));
        }
        let begun = Instant::now();
        let timed = Timed {
            seq: port.seq,
            load,
            begun,
            is_comparable,
        };
        Self {
            of_lanes: (has_lanes && is_comparable).then_some(begun),
            of_control: (has_control && is_alone).then_some(timed),
        }
    }
}

impl Run<'_, '_> {
    /// An operation that takes much too long, though it is alone, gives its lanes the safer congestion control.
    pub(super) fn steer_if_overdue(&mut self) {
        let Some(timed) = &self.teaching.of_control else {
            return;
        };
        let overdue_at = self.port.control.overdue_at(timed);
        if overdue_at.is_none_or(|at| Instant::now() < at) {
            return;
        }
        if self.was_alone() {
            self.port.control.give_up(self.port.seq);
            self.outs.iter_mut().for_each(|out| out.work.steer());
        }
        self.teaching = Teaching::default();
    }

    fn was_alone(&self) -> bool {
        self.port.registry.was_alone(self.port.seq)
    }

    /// Learns from an operation that was alone, and has ended here.
    pub(super) fn note_what_was_carried(&self) {
        let Teaching {
            of_lanes,
            of_control,
        } = &self.teaching;
        if (of_lanes.is_none() && of_control.is_none()) || !self.was_alone() {
            return;
        }
        let control = &self.port.control;
        let took = of_lanes.map(|begun| begun.elapsed());
        let took = took.filter(|took| *took >= TEACHES_FROM);
        if let Some(took) = took.filter(|_| of_control.is_none() || control.is_settled()) {
            self.note_lanes(rate(self.stats.bytes_sent, took));
        }
        if let Some(timed) = of_control {
            let link = self.outs.first().filter(|_| of_lanes.is_some());
            let may_try = link.is_none_or(|out| !out.to.link.choice().is_trying());
            let slots: Vec<_> = self.outs.iter().map(|out| out.to.slots.clone()).collect();
            control.awaits(*timed, may_try, move || {
                slots
                    .iter()
                    .flat_map(|slots| slots.iter())
                    .for_each(|slot| slot.steer_if_idle());
            });
        }
    }

    fn note_lanes(&self, rate: Rate) {
        if let Some(out) = self.outs.first() {
            let lanes = u16::try_from(self.outs.len()).unwrap_or(u16::MAX);
            tracing::debug!(rank = out.to.rank, lanes, rate, "a reduce has ended");
            let mut choice = out.to.link.choice();
            let stripes = u16::try_from(self.work.stripes()).unwrap_or(u16::MAX);
            choice.carried((self.port.bytes(), stripes), lanes, rate);
        }
    }
}
