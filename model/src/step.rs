//! Everything that can happen next in a run, and how it is written down.
//!
//! A step is written as a few words (`call 2`, `up 1`, `crash 3`), and read back from them: a trace is
//! a list of steps, and a file of them is a test.

use std::fmt;
use std::str::FromStr;

use pccl_core::id::PeerId;
use pccl_core::topology::{LinkId, Way};

use crate::journal::Loss;

/// A process's place in the run, from 0; written from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeatNo(pub u8);

impl SeatNo {
    /// For indexing.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for SeatNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", u16::from(self.0) + 1)
    }
}

/// A deadline that may pass although nothing hangs: somebody is only slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Deadline {
    /// Of one peer, for whose vote or part others wait.
    Peer,
    /// Of the reports about links.
    Wiring,
    /// Of the solver.
    Solver,
    /// Of what was measured.
    Measurements,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// A user makes the next call of its program.
    Call(SeatNo),
    /// The next message of a peer reaches the master.
    Up(SeatNo),
    /// The next message of the master reaches a peer.
    Down(SeatNo),
    /// The master learns that a peer's connection ended. What was still on its way is lost.
    UpEnds(SeatNo),
    /// A peer learns that its connection to the master ended. What was still on its way is lost.
    DownEnds(SeatNo),
    /// The master has not heard from a peer for too long.
    Silence(SeatNo),
    /// A peer has not heard from the master for too long.
    MasterSilence(SeatNo),
    /// The pause before a ring is attempted again is over: the oldest that runs.
    PauseEnds,
    /// The lanes of one ordered link come up, at both ends or at the end that is dialled; the seat is the
    /// one that dials.
    Dial(SeatNo, LinkId),
    /// They come up at the end that dials, after the other one.
    Opens(SeatNo, LinkId),
    /// An ordered link cannot come up because the other end is gone or hangs.
    DialFails(SeatNo, LinkId),
    /// A peer takes in the next frame for one of its executions, by tag.
    Frame(SeatNo, u8),
    /// A peer notices that the lanes of a link have ended, or that they stall.
    Notice(SeatNo, LinkId),
    /// A peer measures the bandwidths that it was told to.
    Measure(SeatNo),
    /// The solver has found a ring: the oldest question.
    Solve,
    /// A search that goes on has found a better ring: the oldest.
    Improve,
    /// A peer fetches the shared state that it was told to.
    Fetch(SeatNo),
    /// A peer learns that all whom it serves have what they asked for.
    Served(SeatNo),
    /// What a peer was told to fetch cannot be had: its holder is gone or hangs.
    FetchFails(SeatNo),
    /// The master has waited for too long for the part of a peer that never comes to its end, or for the vote
    /// of one that rests.
    Overdue(SeatNo),
    /// The master has waited for too long for the report about a link that a peer never opens.
    LinkOverdue(SeatNo),
    /// A frozen process goes on.
    Thaw(SeatNo),
    /// A peer shows the master that it lives.
    Beat(SeatNo),
    /// The master shows its peers that it lives.
    MasterBeats,

    // Faults, each of which uses up one of the budget.
    /// A process dies.
    Crash(SeatNo),
    /// A process stops without anybody being told.
    Freeze(SeatNo),
    /// A connection to the master breaks: each end may still get what was on its way, or part of it.
    Cut(SeatNo),
    /// A connection to the master carries nothing any more, and neither end is told.
    HalfOpen(SeatNo),
    /// The lanes of a link on which a peer sends break.
    BreakLink(SeatNo, LinkId),
    /// Whatever lanes there are from a peer to its next carry nothing from here on.
    BlackHole(SeatNo),
    /// Nobody can open lanes to a process any more.
    ClosePort(SeatNo),
    /// A process goes on, but never comes to the end of its own part of anything.
    Mute(SeatNo),
    /// An ordered link cannot be connected this time.
    RefuseDial(SeatNo, LinkId),
    /// A peer cannot measure.
    RefuseMeasure(SeatNo),
    /// A transfer of shared state breaks, and the one that fetches notices.
    BreakFetch(SeatNo),
    /// A transfer of shared state breaks, and the one that serves notices.
    BreakServe(SeatNo),
    /// A deadline passes although everybody works: of those of its kind that run, this one, from 0.
    Late(Deadline, u8),
    /// The master dies.
    CrashMaster,
    /// The operator ends the master.
    StopMaster,
    /// The master dies, and another process goes on from its journal.
    RestartMaster(Loss),
}

impl Step {
    /// Does it use up a fault of the budget?
    #[must_use]
    pub fn is_fault(self) -> bool {
        match self {
            Self::Crash(_)
            | Self::Freeze(_)
            | Self::Cut(_)
            | Self::HalfOpen(_)
            | Self::BreakLink(_, _)
            | Self::BlackHole(_)
            | Self::ClosePort(_)
            | Self::Mute(_)
            | Self::RefuseDial(..)
            | Self::RefuseMeasure(_)
            | Self::BreakFetch(_)
            | Self::BreakServe(_)
            | Self::Late(..)
            | Self::CrashMaster
            | Self::StopMaster
            | Self::RestartMaster(_) => true,
            Self::Call(_)
            | Self::Up(_)
            | Self::Down(_)
            | Self::UpEnds(_)
            | Self::DownEnds(_)
            | Self::Silence(_)
            | Self::MasterSilence(_)
            | Self::PauseEnds
            | Self::Dial(..)
            | Self::Opens(..)
            | Self::Overdue(_)
            | Self::LinkOverdue(_)
            | Self::DialFails(..)
            | Self::Frame(..)
            | Self::Notice(..)
            | Self::Measure(_)
            | Self::Solve
            | Self::Improve
            | Self::Fetch(_)
            | Self::Served(_)
            | Self::FetchFails(_)
            | Self::Thaw(_)
            | Self::Beat(_)
            | Self::MasterBeats => false,
        }
    }
}

impl Step {
    /// Does it say no more than that somebody lives?
    #[must_use]
    pub fn is_beat(self) -> bool {
        matches!(self, Self::Beat(_) | Self::MasterBeats)
    }

    /// Does it bring the run forward, as no fault and no sign of life does?
    #[must_use]
    pub fn is_progress(self) -> bool {
        !self.is_fault() && !self.is_beat()
    }
}

/// A link as it is written in a trace: `to:3`.
fn link_word(link: LinkId) -> String {
    match link.way {
        Way::Out => format!("to:{}", link.with.0),
        Way::In => format!("from:{}", link.with.0),
    }
}

impl fmt::Display for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Peer => "peer",
            Self::Wiring => "wiring",
            Self::Solver => "solver",
            Self::Measurements => "measurements",
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(seat) => write!(f, "call {seat}"),
            Self::Up(seat) => write!(f, "up {seat}"),
            Self::Down(seat) => write!(f, "down {seat}"),
            Self::UpEnds(seat) => write!(f, "up-ends {seat}"),
            Self::DownEnds(seat) => write!(f, "down-ends {seat}"),
            Self::Silence(seat) => write!(f, "silence {seat}"),
            Self::MasterSilence(seat) => write!(f, "master-silence {seat}"),
            Self::PauseEnds => f.write_str("pause-ends"),
            Self::Dial(seat, link) => write!(f, "dial {seat} {}", link_word(*link)),
            Self::Opens(seat, link) => write!(f, "opens {seat} {}", link_word(*link)),
            Self::DialFails(seat, link) => write!(f, "dial-fails {seat} {}", link_word(*link)),
            Self::Frame(seat, tag) => write!(f, "frame {seat} {tag}"),
            Self::Notice(seat, link) => write!(f, "notice {seat} {}", link_word(*link)),
            Self::Measure(seat) => write!(f, "measure {seat}"),
            Self::Solve => f.write_str("solve"),
            Self::Improve => f.write_str("improve"),
            Self::Fetch(seat) => write!(f, "fetch {seat}"),
            Self::Served(seat) => write!(f, "served {seat}"),
            Self::FetchFails(seat) => write!(f, "fetch-fails {seat}"),
            Self::Overdue(seat) => write!(f, "overdue {seat}"),
            Self::LinkOverdue(seat) => write!(f, "link-overdue {seat}"),
            Self::Thaw(seat) => write!(f, "thaw {seat}"),
            Self::Crash(seat) => write!(f, "crash {seat}"),
            Self::Freeze(seat) => write!(f, "freeze {seat}"),
            Self::Cut(seat) => write!(f, "cut {seat}"),
            Self::HalfOpen(seat) => write!(f, "half-open {seat}"),
            Self::BreakLink(seat, link) => write!(f, "break-link {seat} {}", link_word(*link)),
            Self::BlackHole(seat) => write!(f, "black-hole {seat}"),
            Self::ClosePort(seat) => write!(f, "close-port {seat}"),
            Self::Mute(seat) => write!(f, "mute {seat}"),
            Self::RefuseDial(seat, link) => write!(f, "refuse-dial {seat} {}", link_word(*link)),
            Self::RefuseMeasure(seat) => write!(f, "refuse-measure {seat}"),
            Self::BreakFetch(seat) => write!(f, "break-fetch {seat}"),
            Self::BreakServe(seat) => write!(f, "break-serve {seat}"),
            Self::Late(deadline, 0) => write!(f, "late {deadline}"),
            Self::Late(deadline, number) => write!(f, "late {deadline} {number}"),
            Self::CrashMaster => f.write_str("crash-master"),
            Self::StopMaster => f.write_str("stop-master"),
            Self::RestartMaster(Loss::Process) => f.write_str("restart-master"),
            Self::RestartMaster(Loss::LastRecord) => f.write_str("restart-machine"),
            Self::Beat(seat) => write!(f, "beat {seat}"),
            Self::MasterBeats => f.write_str("master-beats"),
        }
    }
}

/// A text that is no step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAStep(pub String);

impl fmt::Display for NotAStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a step", self.0)
    }
}

impl std::error::Error for NotAStep {}

impl FromStr for Step {
    type Err = NotAStep;

    fn from_str(text: &str) -> Result<Self, NotAStep> {
        parse(text).ok_or_else(|| NotAStep(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Step> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["pause-ends"] => Some(Step::PauseEnds),
        ["solve"] => Some(Step::Solve),
        ["improve"] => Some(Step::Improve),
        ["crash-master"] => Some(Step::CrashMaster),
        ["stop-master"] => Some(Step::StopMaster),
        ["restart-master"] => Some(Step::RestartMaster(Loss::Process)),
        ["restart-machine"] => Some(Step::RestartMaster(Loss::LastRecord)),
        ["master-beats"] => Some(Step::MasterBeats),
        ["late", which] => deadline(which).map(|which| Step::Late(which, 0)),
        ["late", which, number] => Some(Step::Late(deadline(which)?, number.parse().ok()?)),
        [verb, seat] => of_seat(verb, parse_seat(seat)?),
        ["frame", seat, tag] => Some(Step::Frame(parse_seat(seat)?, tag.parse().ok()?)),
        [verb, seat, which] => of_link(verb, parse_seat(seat)?, parse_link(which)?),
        _ => None,
    }
}

fn of_seat(verb: &str, seat: SeatNo) -> Option<Step> {
    Some(match verb {
        "call" => Step::Call(seat),
        "up" => Step::Up(seat),
        "down" => Step::Down(seat),
        "up-ends" => Step::UpEnds(seat),
        "down-ends" => Step::DownEnds(seat),
        "silence" => Step::Silence(seat),
        "master-silence" => Step::MasterSilence(seat),
        "measure" => Step::Measure(seat),
        "fetch" => Step::Fetch(seat),
        "served" => Step::Served(seat),
        "fetch-fails" => Step::FetchFails(seat),
        "overdue" => Step::Overdue(seat),
        "link-overdue" => Step::LinkOverdue(seat),
        "thaw" => Step::Thaw(seat),
        "beat" => Step::Beat(seat),
        "crash" => Step::Crash(seat),
        "freeze" => Step::Freeze(seat),
        "cut" => Step::Cut(seat),
        "half-open" => Step::HalfOpen(seat),
        "black-hole" => Step::BlackHole(seat),
        "close-port" => Step::ClosePort(seat),
        "mute" => Step::Mute(seat),
        "refuse-measure" => Step::RefuseMeasure(seat),
        "break-serve" => Step::BreakServe(seat),
        "break-fetch" => Step::BreakFetch(seat),
        _ => return None,
    })
}

fn of_link(verb: &str, seat: SeatNo, link: LinkId) -> Option<Step> {
    Some(match verb {
        "dial" => Step::Dial(seat, link),
        "dial-fails" => Step::DialFails(seat, link),
        "opens" => Step::Opens(seat, link),
        "notice" => Step::Notice(seat, link),
        "refuse-dial" => Step::RefuseDial(seat, link),
        "break-link" => Step::BreakLink(seat, link),
        _ => return None,
    })
}

fn deadline(word: &str) -> Option<Deadline> {
    Some(match word {
        "peer" => Deadline::Peer,
        "wiring" => Deadline::Wiring,
        "solver" => Deadline::Solver,
        "measurements" => Deadline::Measurements,
        _ => return None,
    })
}

fn parse_seat(word: &str) -> Option<SeatNo> {
    word.parse::<u8>().ok()?.checked_sub(1).map(SeatNo)
}

fn parse_link(word: &str) -> Option<LinkId> {
    let (way, with) = word.split_once(':')?;
    let with = PeerId(with.parse().ok()?);
    match way {
        "to" => Some(LinkId::to(with)),
        "from" => Some(LinkId::from(with)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_read_back_from_what_it_is_written_as() {
        let seat = SeatNo(2);
        let steps = [
            Step::Call(seat),
            Step::Up(seat),
            Step::Down(seat),
            Step::UpEnds(seat),
            Step::DownEnds(seat),
            Step::Silence(seat),
            Step::MasterSilence(seat),
            Step::PauseEnds,
            Step::Dial(seat, LinkId::to(PeerId(2))),
            Step::DialFails(seat, LinkId::from(PeerId(7))),
            Step::Opens(seat, LinkId::to(PeerId(2))),
            Step::Overdue(seat),
            Step::LinkOverdue(seat),
            Step::BlackHole(seat),
            Step::ClosePort(seat),
            Step::Mute(seat),
            Step::Frame(seat, 7),
            Step::Notice(seat, LinkId::to(PeerId(2))),
            Step::Measure(seat),
            Step::Solve,
            Step::Improve,
            Step::Fetch(seat),
            Step::Served(seat),
            Step::FetchFails(seat),
            Step::Thaw(seat),
            Step::Crash(seat),
            Step::Freeze(seat),
            Step::Cut(seat),
            Step::HalfOpen(seat),
            Step::BreakLink(seat, LinkId::to(PeerId(1))),
            Step::RefuseDial(seat, LinkId::from(PeerId(7))),
            Step::RefuseMeasure(seat),
            Step::BreakFetch(seat),
            Step::BreakServe(seat),
            Step::Late(Deadline::Peer, 0),
            Step::Late(Deadline::Wiring, 1),
            Step::Late(Deadline::Solver, 2),
            Step::Late(Deadline::Measurements, 0),
            Step::CrashMaster,
            Step::StopMaster,
            Step::RestartMaster(Loss::Process),
            Step::RestartMaster(Loss::LastRecord),
            Step::Beat(seat),
            Step::MasterBeats,
        ];

        for step in steps {
            assert_eq!(step.to_string().parse(), Ok(step));
        }
    }

    #[test]
    fn what_is_no_step_is_said_to_be_none() {
        for text in [
            "",
            "call",
            "call 0",
            "call x",
            "dial 1 up",
            "dial 1 to:x",
            "break-link 1",
            "frame 1",
            "jump 1",
        ] {
            assert_eq!(text.parse::<Step>(), Err(NotAStep(text.to_owned())));
        }
    }
}
