//! What can happen next in a state, always in the same order: a path is a list of positions in it.

use pccl_core::master::{Master, MasterTimer};
use pccl_core::peer::{PeerPhase, PeerTimer};
use pccl_core::states::{CollectiveCommunicationState, ConnectionState};
use pccl_core::topology::{LinkId, Way};

use crate::connection::End;
use crate::journal::Loss;
use crate::lanes::{Dialling, dialling, noticeable};
use crate::plan_run::PlanRun;
use crate::plane::Order;
use crate::run::is_of;
use crate::scenario::{Fault, Frames, Scenario, Start};
use crate::script::Wish;
use crate::state::{Life, RunState, Seat};
use crate::step::{Deadline, SeatNo, Step};
use crate::transfer::{Fetching, fetching, has_served, is_serving};
use crate::watch::fewer_go_than_wait;

/// Who has so many messages on their way to the master waits before it says more.
const UP_MAX: usize = 3;

/// Everything that can happen, faults included.
pub(crate) fn steps(scenario: &Scenario, state: &RunState, out: &mut Vec<Step>) {
    if state.broken.is_some() {
        return;
    }
    progress(scenario, state, out);
    if state.faults > 0 {
        faults(scenario, state, out);
    }
}

/// Can nothing happen any more but faults, and the waking of the frozen?
pub(crate) fn is_at_rest(scenario: &Scenario, state: &RunState) -> bool {
    let mut steps = Vec::new();
    progress(scenario, state, &mut steps);
    steps
        .iter()
        .all(|step| matches!(step, Step::Thaw(_) | Step::Beat(_) | Step::MasterBeats))
}

fn progress(scenario: &Scenario, state: &RunState, out: &mut Vec<Step>) {
    for no in state.seat_numbers() {
        if let Some(seat) = state.seat(no) {
            of_link(scenario, state, no, seat, out);
            if seat.runs() {
                of_peer(scenario, state, no, seat, out);
            }
            if seat.life == Life::Frozen {
                out.push(Step::Thaw(no));
            }
        }
    }
    dials(scenario, state, out);
    frames(scenario, state, out);
    let has_timer = |is_meant: fn(&MasterTimer) -> bool| {
        let master = state.master.as_ref();
        master.is_some_and(|master| master.view().timers().any(|timer| is_meant(&timer)))
    };
    if has_timer(|timer| matches!(timer, MasterTimer::RetryWiring(_))) {
        out.push(Step::PauseEnds);
    }
    if !state.tours.is_empty() {
        out.push(Step::Solve);
    }
    if !state.searches.is_empty() {
        out.push(Step::Improve);
    }
    // One sign of life at a time is enough to meet everything else.
    let idle = |seat: &Seat| seat.connection.down.queue.is_empty();
    if scenario.heartbeats
        && state.seats.iter().all(|seat| idle(seat))
        && has_timer(|timer| *timer == MasterTimer::HeartbeatDue)
    {
        out.push(Step::MasterBeats);
    }
}

fn of_link(scenario: &Scenario, state: &RunState, no: SeatNo, seat: &Seat, out: &mut Vec<Step>) {
    let Some(master) = &state.master else {
        return;
    };
    if seat.connection.up.has_message() {
        out.push(Step::Up(no));
    }
    if seat.connection.up.may_end() {
        out.push(Step::UpEnds(no));
    }
    let runs =
        |timer: Option<MasterTimer>| master.view().timers().any(|known| Some(known) == timer);
    let is_silent = seat.connection.up.end == End::Silent || seat.life == Life::Frozen;
    if is_silent && !seat.connection.up.has_message() && runs(seat.id.map(MasterTimer::Silence)) {
        out.push(Step::Silence(no));
    }
    let is_late = seat.is_mute && lacks_its_part(master, seat)
        || rests(scenario, seat) && lacks_its_vote(master, seat);
    if is_late && runs(seat.id.map(MasterTimer::Late)) {
        out.push(Step::Overdue(no));
    }
    let order = seat.plane.order.as_ref().filter(|order| order.is_owed());
    if seat.is_mute && runs(order.map(|order| MasterTimer::Wiring(order.round))) {
        out.push(Step::LinkOverdue(no));
    }
}

/// Does its user stay without calling anything any more?
pub(crate) fn rests(scenario: &Scenario, seat: &Seat) -> bool {
    let plan = scenario.seats.get(usize::from(seat.plan));
    seat.runs() && plan.is_some_and(|plan| seat.user.rests(plan.program))
}

/// Do others wait for a peer that rests, and for more such than they are? Then nobody has to go, and they wait.
pub(crate) fn is_outnumbered(scenario: &Scenario, state: &RunState) -> bool {
    let Some(master) = &state.master else {
        return false;
    };
    let mut timers = master.view().timers();
    timers.any(|timer| {
        let MasterTimer::Late(peer) = timer else {
            return false;
        };
        let seat = state.seat_with(peer);
        seat.is_some_and(|seat| rests(scenario, seat)) && !fewer_go_than_wait(master, peer)
    })
}

/// Does the vote of this peer end a wait, and is nothing of it on its way? As long as more would have to go
/// than wait for them, nothing happens when the time is over.
fn lacks_its_vote(master: &Master, seat: &Seat) -> bool {
    let all_arrived = !seat.connection.up.has_message();
    all_arrived && seat.id.is_some_and(|peer| fewer_go_than_wait(master, peer))
}

/// Does something run that lacks the part of this peer, as the master has it?
fn lacks_its_part(master: &Master, seat: &Seat) -> bool {
    let Some(peer) = seat.id.and_then(|id| master.view().peer(id)) else {
        return false;
    };
    let performs = CollectiveCommunicationState::Perform;
    let part = [
        ConnectionState::OptimizeTopology,
        ConnectionState::DistributeSharedState,
        ConnectionState::RequestSharedState,
    ];
    part.contains(&peer.state()) || peer.tags().any(|(_, state)| state == performs)
}

fn of_peer(scenario: &Scenario, state: &RunState, no: SeatNo, seat: &Seat, out: &mut Vec<Step>) {
    // A connection that takes no more makes its sender wait.
    if seat.connection.up.queue.len() < UP_MAX {
        if seat.connection.down.has_message() {
            out.push(Step::Down(no));
        }
        of_user(scenario, state, no, seat, out);
        of_plane(state, no, seat, out);
    }
    if seat.connection.down.may_end() {
        out.push(Step::DownEnds(no));
    }
    let runs = |timer| seat.timers.contains(&timer);
    if runs(PeerTimer::MasterSilence) && seat.connection.down.end == End::Silent {
        out.push(Step::MasterSilence(no));
    }
    if scenario.heartbeats && runs(PeerTimer::HeartbeatDue) && seat.connection.up.queue.is_empty() {
        out.push(Step::Beat(no));
    }
}

fn of_user(scenario: &Scenario, state: &RunState, no: SeatNo, seat: &Seat, out: &mut Vec<Step>) {
    let Some(plan) = scenario.seats.get(usize::from(seat.plan)) else {
        return;
    };
    match seat.user.wish(plan.program) {
        Some(Wish::Connect) => {
            // Which of several alike connects first makes no difference.
            let earlier = state.seats.iter().take(no.index());
            let waits = |other: &Seat| other.plan == seat.plan && is_outside(scenario, other);
            if state.master.is_some() && !earlier.into_iter().any(|other| waits(other)) {
                out.push(Step::Call(no));
            }
        }
        Some(Wish::Do(_) | Wish::Again(_) | Wish::Leave) => out.push(Step::Call(no)),
        None => {}
    }
}

/// Has it not connected yet?
pub(crate) fn is_outside(scenario: &Scenario, seat: &Seat) -> bool {
    let plan = scenario.seats.get(usize::from(seat.plan));
    seat.runs()
        && seat.peer.view().phase() == PeerPhase::Unconnected
        && plan.is_some_and(|plan| plan.start == Start::Outside)
}

fn of_plane(state: &RunState, no: SeatNo, seat: &Seat, out: &mut Vec<Step>) {
    for link in seat.plane.links() {
        match dialling(state, no, link) {
            Dialling::Fails => out.push(Step::DialFails(no, link)),
            // In turn, see below.
            Dialling::Works(_) | Dialling::Opens | Dialling::NotNow => {}
        }
        if noticeable(state, no, link).next().is_some() {
            out.push(Step::Notice(no, link));
        }
    }
    if seat.plane.probing.is_some() && !seat.is_mute {
        out.push(Step::Measure(no));
    }
    if has_served(seat) {
        out.push(Step::Served(no));
    }
    match fetching(state, no) {
        Fetching::Works(_) => out.push(Step::Fetch(no)),
        Fetching::Fails => out.push(Step::FetchFails(no)),
        Fetching::NotNow => {}
    }
}

/// The processes that run and are not held up, by the peers' numbers, which the symmetry of the search leaves
/// as they are.
fn in_turn(state: &RunState) -> impl Iterator<Item = (SeatNo, &Seat)> {
    let mut in_turn: Vec<SeatNo> = state.seat_numbers().collect();
    in_turn.sort_by_key(|no| state.seat(*no).and_then(|seat| seat.id));
    let seats = in_turn.into_iter();
    let seats = seats.filter_map(|no| Some((no, state.seat(no)?)));
    seats.filter(|(_, seat)| seat.runs() && seat.connection.up.queue.len() < UP_MAX)
}

/// The links that a process was told to connect.
fn ordered(seat: &Seat) -> impl Iterator<Item = LinkId> + '_ {
    let ordered = seat.plane.order.iter().flat_map(|order| &order.links);
    ordered.map(|ordered| ordered.link)
}

fn dials(scenario: &Scenario, state: &RunState, out: &mut Vec<Step>) {
    for (no, seat) in in_turn(state) {
        for link in ordered(seat) {
            match dialling(state, no, link) {
                Dialling::Works(_) => out.push(Step::Dial(no, link)),
                Dialling::Opens => out.push(Step::Opens(no, link)),
                Dialling::Fails | Dialling::NotNow => continue,
            }
            if scenario.frames == Frames::InTurn {
                return;
            }
        }
    }
}

fn frames(scenario: &Scenario, state: &RunState, out: &mut Vec<Step>) {
    for (no, seat) in in_turn(state) {
        for run in &seat.plane.runs {
            if seat.plane.expected(run.tag).is_some() {
                out.push(Step::Frame(no, run.tag));
                if scenario.frames == Frames::InTurn {
                    return;
                }
            }
        }
    }
}

fn faults(scenario: &Scenario, state: &RunState, out: &mut Vec<Step>) {
    for no in state.seat_numbers() {
        if let Some(seat) = state.seat(no).filter(|seat| seat.runs()) {
            if seat.peer.view().phase() != PeerPhase::Unconnected {
                faults_of_process(scenario, no, seat, out);
            }
            faults_of_plane(scenario, state, no, seat, out);
        }
    }
    let Some(master) = &state.master else {
        return;
    };
    if scenario.allows(Fault::Late) {
        let deadlines = [
            Deadline::Peer,
            Deadline::Wiring,
            Deadline::Solver,
            Deadline::Measurements,
        ];
        for deadline in deadlines {
            let running = master
                .view()
                .timers()
                .filter(|timer| is_of(timer, deadline));
            let numbers = 0..u8::try_from(running.count()).unwrap_or(u8::MAX);
            out.extend(numbers.map(|number| Step::Late(deadline, number)));
        }
    }
    if scenario.allows(Fault::CrashMaster) {
        out.push(Step::CrashMaster);
    }
    if scenario.allows(Fault::StopMaster) && master.view().peers().next().is_some() {
        out.push(Step::StopMaster);
    }
    if let Some(journal) = state.journal.as_ref() {
        out.push(Step::RestartMaster(Loss::Process));
        if journal.may_lose(&state.ghost).is_some() {
            out.push(Step::RestartMaster(Loss::LastRecord));
        }
    }
}

fn faults_of_process(scenario: &Scenario, no: SeatNo, seat: &Seat, out: &mut Vec<Step>) {
    let whole = seat.connection.up.end == End::Open && seat.connection.down.end == End::Open;
    let kinds = [
        (Fault::Crash, Step::Crash(no), true),
        (Fault::Freeze, Step::Freeze(no), true),
        (Fault::Cut, Step::Cut(no), whole),
        (Fault::HalfOpen, Step::HalfOpen(no), whole),
    ];
    for (kind, step, possible) in kinds {
        if possible && scenario.allows(kind) {
            out.push(step);
        }
    }
}

/// Has it a part in anything, of which it may never come to the end?
fn may_fall_mute(scenario: &Scenario, seat: &Seat) -> bool {
    let order = seat.plane.order.as_ref();
    let works = scenario.allows(Fault::Mute) && seat.plane.is_at_work();
    let dials = scenario.allows(Fault::MuteDialler) && order.is_some_and(Order::is_owed);
    !seat.is_mute && (works || dials)
}

fn faults_of_plane(
    scenario: &Scenario,
    state: &RunState,
    no: SeatNo,
    seat: &Seat,
    out: &mut Vec<Step>,
) {
    for link in seat.plane.links().filter(|link| link.way == Way::Out) {
        let mut lanes = seat.plane.lanes(link);
        if scenario.allows(Fault::BreakLink) && lanes.any(|lanes| !lanes.cut) {
            out.push(Step::BreakLink(no, link));
        }
    }
    for link in ordered(seat) {
        let works = match dialling(state, no, link) {
            Dialling::Works(_) | Dialling::Opens => true,
            Dialling::NotNow | Dialling::Fails => false,
        };
        if works && scenario.allows(Fault::RefuseDial) {
            out.push(Step::RefuseDial(no, link));
        }
    }
    let to_next = seat.id.and_then(|me| seat.plane.to_next(me));
    // One at most, where a plan runs: before that it makes no difference. Of four peers, one that has taken in
    // nothing yet: the rest is seen with three.
    let is_early = |run: &PlanRun| run.at == 0 || state.seats.len() < 4;
    let first = seat.plane.runs.first();
    let in_use = to_next.zip(first.filter(|run| is_early(run)));
    if in_use.is_some() && scenario.allows(Fault::BlackHole) && state.black_holes.is_empty() {
        out.push(Step::BlackHole(no));
    }
    if scenario.allows(Fault::ClosePort) && !seat.is_closed && seat.id.is_some() {
        out.push(Step::ClosePort(no));
    }
    if may_fall_mute(scenario, seat) {
        out.push(Step::Mute(no));
    }
    if seat.plane.probing.is_some() && scenario.allows(Fault::RefuseMeasure) {
        out.push(Step::RefuseMeasure(no));
    }
    if scenario.allows(Fault::BreakFetch) {
        if matches!(fetching(state, no), Fetching::Works(_)) {
            out.push(Step::BreakFetch(no));
        }
        if is_serving(seat) {
            out.push(Step::BreakServe(no));
        }
    }
}
