//! A state as a person reads it.

use std::fmt;

use pccl_core::master::MasterTimer;
use pccl_core::messages::{ToMaster, ToPeer};
use pccl_core::peer::{PeerPhase, PeerTimer};
use pccl_core::states::ConnectionPhase;
use pccl_core::topology::{LinkId, Way};

use crate::claim::Claim;
use crate::connection::{Direction, End};
use crate::state::{Life, RunState, Seat};
use crate::step::SeatNo;

impl fmt::Debug for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(claim) = self.broken {
            writeln!(f, "BROKEN: {}", claim.sentence())?;
        }
        self.show_master(f)?;
        for no in self.seat_numbers() {
            if let Some(seat) = self.seat(no) {
                show_seat(f, no, seat)?;
            }
        }
        for (from, to) in &self.black_holes {
            writeln!(f, "lanes from {from} to {to} carry nothing")?;
        }
        writeln!(f, "faults left: {}", self.faults)?;
        let of_timers = [
            Claim::Timers,
            Claim::Watched,
            Claim::SignsOfLife,
            Claim::Unmoved,
        ];
        match self.broken.filter(|claim| of_timers.contains(claim)) {
            Some(_) => self.show_timers(f),
            None => Ok(()),
        }
    }
}

impl RunState {
    fn show_master(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.master.is_none() {
            return writeln!(f, "master: dead");
        }
        writeln!(f, "master:")?;
        for (about, belief) in masters_beliefs(self) {
            writeln!(f, "  {about}: {belief}")?;
        }
        Ok(())
    }

    /// What runs, for the claims that say what should.
    fn show_timers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(master) = &self.master {
            let timers = master.view().timers().map(timer_word);
            let timers: Vec<String> = timers.collect();
            writeln!(f, "timers of the master: {}", timers.join(", "))?;
        }
        for no in self.seat_numbers() {
            let seat = self.seat(no);
            let timers = seat.into_iter().flat_map(|seat| &seat.timers);
            let timers: Vec<&str> = timers
                .map(|timer| match timer {
                    PeerTimer::HeartbeatDue => "sign of life",
                    PeerTimer::MasterSilence => "silence of the master",
                })
                .collect();
            writeln!(f, "timers of process {}: {}", no.0 + 1, timers.join(", "))?;
        }
        Ok(())
    }
}

/// A timer of the master, and whom it watches.
fn timer_word(timer: MasterTimer) -> String {
    match timer {
        MasterTimer::HeartbeatDue => "signs of life".to_owned(),
        MasterTimer::MeasurementsAge => "the age of measurements".to_owned(),
        MasterTimer::Silence(peer) => format!("silence of {peer}"),
        MasterTimer::Late(peer) => format!("late is {peer}"),
        MasterTimer::Wiring(round) => format!("connecting, {round}"),
        MasterTimer::RetryWiring(round) => format!("pause, {round}"),
        MasterTimer::Solver(round) => format!("solver, {round}"),
    }
}

/// What the master believes, by peer and by group: about whom, and what.
pub(crate) fn masters_beliefs(state: &RunState) -> Vec<(String, String)> {
    let Some(master) = &state.master else {
        return Vec::new();
    };
    let view = master.view();
    let peers = view.peers().map(|(id, peer)| {
        let phase = match peer.phase() {
            ConnectionPhase::Registered => "registered, ",
            ConnectionPhase::Accepted => "",
        };
        let mut belief = format!("{phase}{:?}", peer.state());
        for (tag, state) in peer.tags() {
            belief += &format!(", {tag} {state:?}");
        }
        (id.to_string(), belief)
    });
    let groups = view.groups().map(|group| {
        let ring = view
            .ring(group)
            .map(|ring| ring.0.iter().map(|peer| peer.0));
        let ring: Vec<u64> = ring.into_iter().flatten().collect();
        let stale = if view.is_ring_stale(group) {
            " (stale)"
        } else {
            ""
        };
        let mut belief = format!("ring {ring:?}{stale}");
        let epoch = view.epoch(group).map(|epoch| format!(", {epoch}"));
        let revision = view.revision(group).map(|known| format!(", {known}"));
        belief.extend(epoch.into_iter().chain(revision));
        for (tag, seq) in view.running(group) {
            belief += &format!(", {tag} runs as {seq}");
        }
        (group.to_string(), belief)
    });
    peers.chain(groups).collect()
}

fn show_seat(f: &mut fmt::Formatter<'_>, no: SeatNo, seat: &Seat) -> fmt::Result {
    write!(f, "process {no}")?;
    if let Some(id) = seat.id {
        write!(f, " = {id}")?;
    }
    writeln!(f, ": {}", doing(seat))?;
    show_direction(f, "to the master", &seat.connection.up, up_word)?;
    show_direction(f, "from the master", &seat.connection.down, down_word)?;
    for link in seat.plane.links() {
        for lanes in seat.plane.lanes(link) {
            let name = towards(link);
            match (lanes.cut, lanes.noticed) {
                (_, true) => writeln!(f, "    lanes {name}: known to be broken")?,
                (true, false) => writeln!(f, "    lanes {name}: broken, unnoticed")?,
                (false, false) => {}
            }
        }
    }
    for run in &seat.plane.runs {
        writeln!(
            f,
            "    plan of tag {}: waits for step {} of {}",
            run.tag,
            run.at + 1,
            run.steps()
        )?;
    }
    for run in &seat.plane.whole {
        writeln!(f, "    tag {}: the whole result is here", run.tag)?;
    }
    Ok(())
}

/// What a process is doing.
pub(crate) fn doing(seat: &Seat) -> String {
    match seat.life {
        Life::Running => doing_by_itself(seat),
        Life::Frozen => format!("frozen while {}", doing_by_itself(seat)),
        Life::Departed => "gone".to_owned(),
    }
}

fn doing_by_itself(seat: &Seat) -> String {
    let view = seat.peer.view();
    let open = view.open_calls();
    let mut doing = Vec::new();
    doing.extend(seat.is_mute.then(|| "never done".to_owned()));
    match view.phase() {
        PeerPhase::Unconnected => doing.push("not connected".to_owned()),
        PeerPhase::AwaitingWelcome => doing.push("awaits its welcome".to_owned()),
        PeerPhase::Registered => doing.push("waits to be admitted".to_owned()),
        PeerPhase::Gone => doing.push("out of the run".to_owned()),
        PeerPhase::Accepted => {}
    }
    doing.extend(open.major.map(|major| format!("in {major}")));
    doing.extend(
        open.query
            .then(|| "asks whether peers are pending".to_owned()),
    );
    doing.extend(
        view.tags()
            .map(|tag| format!("{} {:?}", tag.tag, tag.state)),
    );
    if doing.is_empty() {
        doing.push("idle".to_owned());
    }
    doing.join(", ")
}

fn show_direction<M>(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    direction: &Direction<M>,
    word: impl Fn(&M) -> String,
) -> fmt::Result {
    let end = match direction.end {
        End::Open => None,
        End::Closed => Some("then the end"),
        End::Cut => Some("broken: the end may come first"),
        End::Silent => Some("silent for ever"),
        End::Over => None,
    };
    if direction.queue.is_empty() && end.is_none() {
        return Ok(());
    }
    let words: Vec<String> = direction.queue.iter().map(word).collect();
    write!(f, "    {name}: {}", words.join(", "))?;
    if let Some(end) = end {
        write!(f, " ({end})")?;
    }
    writeln!(f)
}

/// Which link of a peer, in words.
pub(crate) fn towards(link: LinkId) -> String {
    match link.way {
        Way::Out => format!("to {}", link.with),
        Way::In => format!("from {}", link.with),
    }
}

/// A message to the master, in a few words.
#[must_use]
pub fn up_word(message: &ToMaster) -> String {
    match message {
        ToMaster::Hello(_) => "hello".to_owned(),
        ToMaster::UpdateTopology { .. } => "vote: update the topology".to_owned(),
        ToMaster::LinkUp { round, link } => format!("the link {} is up ({round})", towards(*link)),
        ToMaster::LinkFailed { round, link, .. } => format!("no link {} ({round})", towards(*link)),
        ToMaster::ArePeersPending => "does anybody wait?".to_owned(),
        ToMaster::OptimizeTopology => "vote: optimize".to_owned(),
        ToMaster::Measured { to, .. } => format!("what it measured to {to}"),
        ToMaster::ProbesDone { ok: true, .. } => "has measured".to_owned(),
        ToMaster::ProbesDone { ok: false, .. } => "could not measure".to_owned(),
        ToMaster::SyncSharedState(vote) => format!("vote: synchronize {}", vote.revision),
        ToMaster::SharedStateDone { ok: true, .. } => "transfers are done".to_owned(),
        ToMaster::SharedStateDone { ok: false, .. } => "transfers failed".to_owned(),
        ToMaster::InitiateCollective { tag, .. } => format!("vote: start {tag}"),
        ToMaster::CompleteCollective { seq, outcome, .. } => format!("{seq} ended: {outcome:?}"),
        ToMaster::Withdraw { tag } => format!("takes its vote to start {tag} back"),
        ToMaster::Heartbeat { .. } => "heartbeat".to_owned(),
        ToMaster::Leave => "leaves".to_owned(),
        ToMaster::WhoIsAwaited => "who is awaited?".to_owned(),
    }
}

/// A message to a peer, in a few words.
#[must_use]
pub fn down_word(message: &ToPeer) -> String {
    match message {
        ToPeer::Welcome { peer, .. } => format!("welcome, {peer}"),
        ToPeer::Refused(refusal) => format!("refused: {refusal}"),
        ToPeer::EstablishLinks { round, .. } => format!("connect links ({round})"),
        ToPeer::TopologyEstablished { topology, .. } => {
            let ring: Vec<u64> = topology.ring.0.iter().map(|peer| peer.0).collect();
            format!("the ring {ring:?} stands in {}", topology.epoch)
        }
        ToPeer::CallFailed(failure) => format!("the call gives way: {failure:?}"),
        ToPeer::PeersPending { pending: true } => "peers are pending".to_owned(),
        ToPeer::PeersPending { pending: false } => "nobody is pending".to_owned(),
        ToPeer::Probe { .. } => "measure".to_owned(),
        ToPeer::OptimizationConcluded { report: Some(_) } => "optimized".to_owned(),
        ToPeer::OptimizationConcluded { report: None } => "could not optimize".to_owned(),
        ToPeer::SharedStatePlan(_) => "what to move".to_owned(),
        ToPeer::SharedStateConcluded {
            result: Ok(revision),
            ..
        } => {
            format!("everybody holds {revision}")
        }
        ToPeer::SharedStateConcluded {
            result: Err(why), ..
        } => format!("not synchronized: {why}"),
        ToPeer::Commence { tag, seq, .. } => format!("start {tag} as {seq}"),
        ToPeer::CollectiveRefused { tag, .. } => format!("{tag} does not start"),
        ToPeer::Verdict { seq, verdict, .. } => match verdict {
            pccl_core::messages::Verdict::Committed { .. } => format!("{seq} is committed"),
            pccl_core::messages::Verdict::Aborted(cause) => format!("{seq} is aborted: {cause}"),
        },
        ToPeer::Kicked(misdeed) => format!("kicked: {misdeed}"),
        ToPeer::Heartbeat => "heartbeat".to_owned(),
        ToPeer::Stopping => "the master stops".to_owned(),
        ToPeer::Awaited(awaited) => format!("it waits for {} calls", awaited.waits.len()),
    }
}
