//! Transfers of shared state, and measurements of bandwidth.

use pccl_core::id::{PeerId, Round};
use pccl_core::paths::Measurement;
use pccl_core::topology::{LaneOrder, LinkOrder, Way};

use super::machines::Fact;
use super::network::{Path, SeatNo};
use super::seat::Habit;
use super::time::{MILLISECOND, Micros, SECOND};
use super::world::{Happening, Process, World};

/// A measurement of a peer that cannot be reached ends after this, as in the client.
const PROBE_LIMIT: Micros = 15 * SECOND;

/// One process's part of a plan.
#[derive(Debug)]
pub(super) struct Moving {
    round: Round,
    /// Those that it moves content with, as a holder or as a requester.
    with: Vec<Partner>,
    /// What it fetches.
    content: Option<u128>,
    /// How long that is.
    bytes: u64,
}

#[derive(Debug)]
struct Partner {
    seat: SeatNo,
    lanes: u16,
    begun: bool,
    ended: bool,
}

impl World {
    pub(super) fn serve(&mut self, process: Process, round: Round, to: &[LaneOrder]) {
        self.move_state(process, round, to, None);
    }

    pub(super) fn fetch(
        &mut self,
        process: Process,
        round: Round,
        from: Option<LaneOrder>,
        content: Option<u128>,
    ) {
        self.move_state(process, round, from.as_slice(), content);
    }

    fn move_state(
        &mut self,
        process: Process,
        round: Round,
        orders: &[LaneOrder],
        content: Option<u128>,
    ) {
        let partners = orders.iter().filter_map(|order| {
            Some(Partner {
                seat: self.seat_of(order.with)?,
                lanes: order.lanes,
                begun: false,
                ended: false,
            })
        });
        let with = partners.collect();
        let seat = &mut self.seats[process.seat.0];
        let bytes = seat.memory.bytes;
        seat.moving = Some(Moving {
            round,
            with,
            content,
            bytes,
        });
        if orders.is_empty() {
            self.end_transfers(process, round, Ok(()));
        }
        for order in orders {
            if let Some(with) = self.seat_of(order.with) {
                self.open_transfer(process, round, with, order);
            }
        }
    }

    fn open_transfer(&mut self, process: Process, round: Round, with: SeatNo, order: &LaneOrder) {
        let pace = &self.pace;
        if order.dial.is_none() {
            self.after(pace.stall, Happening::TransferLate(process, round, with));
            return;
        }
        let (time, ok) = match self.path_to(process.seat, order.with) {
            Path::Good | Path::Mute => (pace.connect(), true),
            Path::Refused => (pace.round_trip, false),
            Path::Filtered | Path::Cut => (pace.dial_limit, false),
        };
        self.after(time, Happening::TransferAnswered(process, round, with, ok));
    }

    fn partner(&mut self, seat: SeatNo, round: Round, with: SeatNo) -> Option<&mut Partner> {
        let moving = self.seats[seat.0].moving.as_mut()?;
        let mut partners = moving.with.iter_mut();
        partners.find(|partner| moving.round == round && partner.seat == with)
    }

    pub(super) fn transfer_answered(
        &mut self,
        process: Process,
        round: Round,
        with: SeatNo,
        ok: bool,
    ) {
        if !self.runs(process) || self.partner(process.seat, round, with).is_none() {
            return;
        }
        if !ok {
            self.end_transfers(process, round, Err(with));
            return;
        }
        if self.partner(with, round, process.seat).is_none() {
            // Its order is on its way.
            let again = Happening::TransferAnswered(process, round, with, true);
            if self.process(with).is_some() {
                self.after(10 * MILLISECOND, again);
            } else {
                self.end_transfers(process, round, Err(with));
            }
            return;
        }
        self.begin_transfer(process.seat, with, round);
    }

    fn begin_transfer(&mut self, dialler: SeatNo, dialled: SeatNo, round: Round) {
        for (seat, with) in [(dialler, dialled), (dialled, dialler)] {
            if let Some(partner) = self.partner(seat, round, with) {
                partner.begun = true;
            }
        }
        let fetches = |seat: SeatNo| {
            let moving = self.seats[seat.0].moving.as_ref();
            moving.is_some_and(|moving| moving.content.is_some())
        };
        let (holder, requester) = if fetches(dialler) {
            (dialled, dialler)
        } else {
            (dialler, dialled)
        };
        let carries = self.network.path(dialler, dialled).carries();
        let of = |seat: SeatNo| self.seats[seat.0].moving.as_ref();
        let bytes = of(requester).map_or(0, |moving| moving.bytes);
        let shared_by = of(holder).map_or(1, |moving| moving.with.len() as u64);
        let lanes = self
            .partner(requester, round, holder)
            .map_or(1, |p| p.lanes);
        let time = if carries {
            self.pace.transfer_of(bytes, lanes.into(), shared_by)
        } else {
            self.pace.stall
        };
        let end = Happening::TransferEnds(round, holder, requester, carries);
        self.after(time, end);
    }

    /// Whether bytes of shared state move here.
    pub(super) fn moves_state(&self, seat: SeatNo) -> bool {
        let moving = self.seats[seat.0].moving.as_ref();
        moving.is_some_and(|moving| {
            let mut with = moving.with.iter().filter(|p| p.begun && !p.ended);
            with.any(|p| self.network.path(seat, p.seat).carries())
        })
    }

    /// A lane that the other end should have opened is not there.
    pub(super) fn transfer_late(&mut self, process: Process, round: Round, with: SeatNo) {
        let missing = self
            .partner(process.seat, round, with)
            .is_some_and(|partner| !partner.begun);
        if missing {
            self.end_transfers(process, round, Err(with));
        }
    }

    pub(super) fn transfer_ends(
        &mut self,
        round: Round,
        holder: SeatNo,
        requester: SeatNo,
        ok: bool,
    ) {
        for (seat, with) in [(requester, holder), (holder, requester)] {
            let Some(partner) = self.partner(seat, round, with) else {
                continue;
            };
            partner.ended = true;
            let moving = self.seats[seat.0].moving.as_ref();
            let all = moving.is_some_and(|moving| moving.with.iter().all(|p| p.ended));
            let keeps_quiet =
                seat == requester && self.seats[seat.0].habit == Habit::NeverEndsTransfers && ok;
            if let Some(process) = self.process(seat)
                && (all || !ok)
                && !keeps_quiet
            {
                let result = if ok { Ok(()) } else { Err(with) };
                self.end_transfers(process, round, result);
            }
        }
    }

    /// Fails: with this one.
    fn end_transfers(&mut self, process: Process, round: Round, result: Result<(), SeatNo>) {
        let with = result.err().and_then(|with| self.peer_at(with));
        let ok = result.is_ok();
        let seat = &mut self.seats[process.seat.0];
        if let Some(moving) = seat.moving.take_if(|moving| moving.round == round) {
            seat.staged = moving.content.filter(|_| ok);
            self.learn(process, Fact::TransfersEnded { round, ok, with });
        }
    }

    /// A process is gone: those that move content with it notice.
    pub(super) fn transfers_lose(&mut self, process: Process) {
        let partners = self.seats.iter().filter_map(|seat| {
            let moving = seat.moving.as_ref()?;
            let concerned = moving
                .with
                .iter()
                .any(|p| p.seat == process.seat && !p.ended);
            concerned.then_some((seat.no(), moving.round))
        });
        let concerned: Vec<(SeatNo, Round)> = partners.collect();
        for (seat, round) in concerned {
            if let Some(at) = self.process(seat) {
                let gone = Happening::TransferAnswered(at, round, process.seat, false);
                self.after(self.pace.round_trip / 2, gone);
            }
        }
    }

    pub(super) fn commit_state(&mut self, no: SeatNo) {
        let now = self.now();
        let seat = &mut self.seats[no.0];
        if let Some(content) = seat.staged.take() {
            seat.memory.content = content;
            seat.record.overwritten.push(now);
        }
    }

    /// Measures all edges at the same time.
    pub(super) fn measure(&mut self, process: Process, round: Round, probes: &[LinkOrder]) {
        let mut time = self.pace.round_trip;
        for probe in probes {
            let with = probe.lanes.with;
            if self.path_to(process.seat, with) == Path::Good {
                time = time.max(self.pace.round_trip + self.pace.probe);
            } else {
                time = time.max(PROBE_LIMIT);
            }
            if probe.way == Way::Out && self.path_to(process.seat, with) == Path::Good {
                let fact = Fact::Measured {
                    round,
                    to: with,
                    measured: measured(process.seat, with),
                };
                let measured = self.pace.round_trip + self.pace.probe;
                self.after(measured, Happening::Learns(process, fact));
            }
        }
        self.after(time, Happening::Learns(process, Fact::ProbesEnded(round)));
    }
}

/// Some number that is the same each time, between 100 Mbit/s and 1 Gbit/s.
fn measured(from: SeatNo, to: PeerId) -> Measurement {
    let mixed = (from.0 as u64 + 1).wrapping_mul(0x9e37_79b9) ^ to.0.wrapping_mul(0x85eb_ca6b);
    Measurement {
        bytes_per_s: 12_500_000 + mixed % 112_500_000,
        round_trip_us: 10_000,
    }
}
