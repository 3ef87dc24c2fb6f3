//! What an operation teaches about the paths that it takes: on how many lanes to send, with which congestion control.

use std::sync::Arc;

use pccl_core::plan::Algorithm;
use pccl_core::transport::CongestionControl;
use tokio::time::Instant;

use super::{OperationPort, Run, Sending};
use crate::handover::Registry;
use crate::pace::{ControlChoice, EndedHere, Load, Rate, TEACHES_FROM, Timed, rate};

/// What there is to be learned from an operation that runs.
#[derive(Debug, Default)]
pub(super) struct Teaching {
    /// `None`: nothing is learned about the number of lanes.
    of_lanes: Option<OfLanes>,
    /// `None`: the congestion control of its lanes cannot be chosen.
    of_control: Option<OfControl>,
}

/// An operation on one link of several lanes.
#[derive(Debug)]
struct OfLanes {
    begun: Instant,
    /// How often lanes had been given another congestion control by then.
    changes: u32,
}

#[derive(Debug)]
struct OfControl {
    timed: Timed,
    limit: Limit,
    /// How many operations have run at once, as far as that was looked at.
    at_once: usize,
    /// What lanes should have had when that was looked at.
    wanted: CongestionControl,
}

/// Whether an operation that takes long gives a loss-based one up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// It waits for others to be told, for which no path is to blame.
    Ahead,
    Limited,
    GaveUp,
}

impl Teaching {
    /// Of an operation of so many stripes that begins.
    pub(super) fn new(port: &OperationPort, sending: &[Sending], stripes: usize) -> Self {
        let has_control = OperationPort::has_control(sending);
        let has_lanes = OperationPort::has_choice(stripes, sending);
        if !has_control && !has_lanes {
            return Self::default();
        }
        let is_ahead = port.course.is_ahead();
        // The root of a broadcast is done when its last bytes are in buffers, and the others wait for it. So it is
        // with the one that contributes the most. In a relay ranks wait for sums on their way around.
        let is_comparable = !is_ahead
            && port.registry.is_alone(port.seq)
            && port.algorithm != Algorithm::Relay
            && port.spec.kind.root().is_none()
            && port.spec.kind.own_and_limit().is_none();
        let begun = Instant::now();
        let of_control = has_control.then(|| {
            let load = Load::new(&port.spec, port.algorithm);
            port.control.begins(port.seq, load);
            OfControl {
                timed: Timed {
                    seq: port.seq,
                    load,
                    begun,
                    is_comparable,
                },
                limit: match is_ahead {
                    true => Limit::Ahead,
                    false => Limit::Limited,
                },
                at_once: 1,
                wanted: port.control.wanted(),
            }
        });
        let of_lanes = || OfLanes {
            begun,
            changes: port.control.changes(),
        };
        Self {
            of_lanes: (has_lanes && is_comparable).then(of_lanes),
            of_control,
        }
    }
}

impl OfControl {
    /// All ranks run it from here on.
    fn confirmed(&mut self) {
        self.limit = Limit::Limited;
        self.timed.begun = Instant::now();
    }

    fn is_overdue(&mut self, control: &ControlChoice, registry: &Registry) -> bool {
        // Whether it is overdue takes a lock as well, and with the model it never is.
        if self.limit != Limit::Limited || self.wanted == CongestionControl::ModelBased {
            return false;
        }
        let is_over = |timed: &Timed, at_once| {
            let at = control.overdue_at(timed, at_once);
            at.is_some_and(|at| at <= Instant::now())
        };
        // Looking at the others takes a lock.
        if !is_over(&self.timed, self.at_once) {
            return false;
        }
        self.at_once = self.at_once.max(registry.at_once());
        is_over(&self.timed, self.at_once)
    }
}

impl Run<'_, '_> {
    /// Gives the lanes another congestion control if they should have one. An operation that takes much too long
    /// decides so for all.
    pub(super) fn steer(&mut self) {
        let (control, registry) = (&self.port.control, &self.port.registry);
        let Some(of_control) = &mut self.teaching.of_control else {
            return;
        };
        if of_control.limit == Limit::Ahead && !self.port.course.is_ahead() {
            of_control.confirmed();
        }
        if of_control.is_overdue(control, registry) {
            of_control.limit = Limit::GaveUp;
            control.give_up(self.port.seq);
        }
        let wanted = control.wanted();
        if wanted != of_control.wanted {
            of_control.wanted = wanted;
            self.outs.iter_mut().for_each(|out| out.work.steer());
        }
    }

    /// Learns from an operation that was alone, and has ended here.
    pub(super) fn note_what_was_carried(&self) {
        let (control, registry) = (&self.port.control, &self.port.registry);
        let seq = self.port.seq;
        let of_control = self.teaching.of_control.as_ref();
        if let Some(OfLanes { begun, changes }) = &self.teaching.of_lanes {
            let took = begun.elapsed();
            let is_settled = of_control.is_none() || control.is_settled();
            let is_undisturbed = is_settled && *changes == control.changes();
            if took >= TEACHES_FROM && is_undisturbed && registry.was_alone(seq) {
                self.note_lanes(rate(self.stats.bytes_sent, took), *changes);
            }
        }
        if let Some(of_control) = of_control.filter(|of| of.limit != Limit::GaveUp) {
            let slots = self.outs.iter().filter_map(|out| {
                let slots = &out.to.slots;
                slots.get(usize::from(out.lane)).cloned()
            });
            let slots: Vec<_> = slots.collect();
            let running = Arc::clone(registry);
            let ended_here = EndedHere {
                timed: of_control.timed,
                // What has begun ahead sends little, and has no limit until others are told.
                is_guarded: of_control.limit == Limit::Limited
                    && of_control.wanted == CongestionControl::LossBased,
                at_once: of_control.at_once,
            };
            let at_once = move || running.at_once();
            control.awaits(ended_here, at_once, move || {
                slots.iter().for_each(|slot| slot.steer_if_idle());
            });
            // It may have been stopped just before.
            if !registry.runs(seq) {
                control.stopped(seq, false);
            }
        }
    }

    fn note_lanes(&self, rate: Rate, changes: u32) {
        if let Some(out) = self.outs.first() {
            let lanes = u16::try_from(self.outs.len()).unwrap_or(u16::MAX);
            tracing::debug!(rank = out.to.rank, lanes, rate, "a reduce has ended");
            let mut choice = out.to.link.choice();
            choice.finds(changes);
            let stripes = u16::try_from(self.work.stripes()).unwrap_or(u16::MAX);
            choice.carried((self.port.bytes(), stripes), lanes, rate);
        }
    }
}
