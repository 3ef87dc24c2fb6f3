//! A trace as a story: numbered sentences, and after each what was said and who changed its mind.
//!
//! ```text
//!  3. The master hears from peer 2: vote: start tag 1.
//!         to peer 1: start tag 1 as operation 1
//!         master about peer 2: Idle → CollectiveCommunicationsRunning, tag 1 Perform
//! ```

use std::collections::VecDeque;
use std::fmt;

use crate::journal::Loss;
use crate::scenario::Scenario;
use crate::script::{Do, Wish};
use crate::show::{doing, down_word, masters_beliefs, towards, up_word};
use crate::state::{RunState, Seat};
use crate::step::{Deadline, SeatNo, Step};
use crate::trace::Replay;

/// Tells a replay, with the claim that it breaks and the state in which it ends.
#[derive(Clone, Copy, Debug)]
pub struct Story<'a>(pub &'a Replay);

impl fmt::Display for Story<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let replay = self.0;
        let about = replay.model.scenario();
        writeln!(f, "{}: {}.", about.name, about.about)?;
        let first = replay.model.first_state();
        let later = replay.moments.iter().map(|(_, state)| state);
        let states: Vec<&RunState> = std::iter::once(first).chain(later).collect();
        let names = Names::of(&states);
        let mut before = replay.model.first_state();
        for (at, (step, after)) in replay.moments.iter().enumerate() {
            writeln!(
                f,
                "{:>3}. {}",
                at + 1,
                sentence(about, &names, before, *step)
            )?;
            for change in changes(&names, before, after, *step) {
                writeln!(f, "         {change}")?;
            }
            before = after;
        }
        for (number, step) in &replay.left_out {
            writeln!(f, "     (step {number}, `{step}`, was not possible)")?;
        }
        if let Some(claim) = replay.broken() {
            writeln!(f, "This is broken: {}.", claim.sentence())?;
        }
        let end = format!("{:?}", before);
        writeln!(f, "At the end:")?;
        for line in end.lines().filter(|line| !line.starts_with("BROKEN")) {
            writeln!(f, "    {line}")?;
        }
        Ok(())
    }
}

/// One step: what happens, and what changes.
pub(crate) fn moment(
    scenario: &Scenario,
    before: &RunState,
    step: Step,
    after: &RunState,
) -> String {
    let names = Names::of(&[before, after]);
    let mut lines = vec![sentence(scenario, &names, before, step)];
    lines.extend(changes(&names, before, after, step));
    lines.join("\n    ")
}

/// What happens in a step, as a sentence. `before` is the state in which it happens.
fn sentence(scenario: &Scenario, names: &Names, before: &RunState, step: Step) -> String {
    let what = match step {
        Step::Call(no) => format!("{} {}", names.at_first(no), wish(scenario, before, no)),
        Step::Up(no) => said_up(names, before, no),
        Step::Down(no) => said_down(names, before, no),
        step => event(names, before, step),
    };
    if step.is_fault() {
        format!("FAULT: {what}.")
    } else {
        format!("{what}.")
    }
}

fn said_up(names: &Names, before: &RunState, no: SeatNo) -> String {
    let first = before
        .seat(no)
        .and_then(|seat| seat.connection.up.queue.front().map(up_word));
    let word = first.unwrap_or_default();
    format!("The master hears from {}: {word}", names.within(no))
}

fn said_down(names: &Names, before: &RunState, no: SeatNo) -> String {
    let first = before
        .seat(no)
        .and_then(|seat| seat.connection.down.queue.front().map(down_word));
    let word = first.unwrap_or_default();
    format!("{} hears from the master: {word}", names.at_first(no))
}

fn event(names: &Names, state: &RunState, step: Step) -> String {
    let who = |no| names.at_first(no);
    let whom = |no| names.within(no);
    match step {
        Step::Call(no) | Step::Up(no) | Step::Down(no) => who(no),
        Step::UpEnds(no) => format!(
            "The master learns that the connection of {} has ended{}",
            whom(no),
            lost(state.seat(no), |seat| words(
                &seat.connection.up.queue,
                up_word
            ))
        ),
        Step::DownEnds(no) => format!(
            "{} learns that its connection to the master has ended{}",
            who(no),
            lost(state.seat(no), |seat| words(
                &seat.connection.down.queue,
                down_word
            ))
        ),
        Step::Silence(no) => format!("The master has not heard from {} for too long", whom(no)),
        Step::MasterSilence(no) => {
            format!("{} has not heard from the master for too long", who(no))
        }
        Step::PauseEnds => {
            "The pause before the next attempt to connect the ring is over".to_owned()
        }
        Step::Dial(no, link) => format!("{} connects its lanes {}", who(no), towards(link)),
        Step::Opens(no, link) => format!(
            "The lanes of {} {} are up at its own end too",
            whom(no),
            towards(link)
        ),
        Step::LinkOverdue(no) => format!(
            "The master has waited for the links of {} for too long",
            whom(no)
        ),
        Step::Overdue(no) => format!("The master has waited for {} for too long", whom(no)),
        Step::DialFails(no, link) => format!(
            "{} cannot connect its lanes {}: nobody answers there",
            who(no),
            towards(link)
        ),
        Step::Frame(no, tag) => format!("{} takes the next frame of tag {tag} in", who(no)),
        Step::Notice(no, link) => {
            format!(
                "{} notices that its lanes {} are dead",
                who(no),
                towards(link)
            )
        }
        Step::Measure(no) => format!("{} measures its bandwidths", who(no)),
        Step::Solve => "The solver has found a ring".to_owned(),
        Step::Improve => "A search that goes on has found a better ring".to_owned(),
        Step::Served(no) => format!("{} has served all who asked", who(no)),
        Step::Fetch(no) => format!("{} fetches shared state", who(no)),
        Step::FetchFails(no) => format!("{} cannot fetch: its source does not answer", who(no)),
        Step::Thaw(no) => format!("{} goes on", who(no)),
        Step::Crash(no) => format!("{} dies", who(no)),
        Step::Freeze(no) => format!("{} stops without a word", who(no)),
        Step::Cut(no) => format!("The connection of {} to the master breaks", whom(no)),
        Step::HalfOpen(no) => format!(
            "The connection of {} to the master goes dead, and neither end is told",
            whom(no)
        ),
        Step::BreakLink(no, link) => format!("The lanes of {} {} break", whom(no), towards(link)),
        Step::BlackHole(no) => format!(
            "What {} sends to its next arrives no more, on no lanes",
            whom(no)
        ),
        Step::ClosePort(no) => format!("Nobody can open lanes to {} any more", whom(no)),
        Step::Mute(no) => format!(
            "{} lives on, but comes to the end of nothing any more",
            who(no)
        ),
        Step::RefuseDial(no, link) => format!(
            "{} cannot connect its lanes {} this time",
            who(no),
            towards(link)
        ),
        Step::RefuseMeasure(no) => format!("{} cannot measure", who(no)),
        Step::BreakServe(no) => format!("A transfer from {} breaks", whom(no)),
        Step::BreakFetch(no) => format!("A transfer to {} breaks", whom(no)),
        Step::Late(deadline, _) => format!("{} takes too long", late(deadline)),
        Step::CrashMaster => "The master dies".to_owned(),
        Step::StopMaster => "The operator stops the master".to_owned(),
        Step::RestartMaster(Loss::Process) => {
            "The master dies, and another process goes on from its journal".to_owned()
        }
        Step::RestartMaster(Loss::LastRecord) => {
            "The master's machine fails, and another process goes on without the last record"
                .to_owned()
        }
        Step::Beat(no) => format!("{} shows that it lives", who(no)),
        Step::MasterBeats => "The master shows everybody that it lives".to_owned(),
    }
}

fn late(deadline: Deadline) -> &'static str {
    match deadline {
        Deadline::Peer => "A peer for which others wait",
        Deadline::Wiring => "Connecting a ring",
        Deadline::Solver => "The solver",
        Deadline::Measurements => "What was measured",
    }
}

fn lost(seat: Option<&Seat>, words: impl Fn(&Seat) -> Vec<String>) -> String {
    let words = seat.map(words).unwrap_or_default();
    if words.is_empty() {
        return String::new();
    }
    format!("; this never arrives: {}", words.join(", "))
}

fn words<M>(queue: &VecDeque<M>, word: impl Fn(&M) -> String) -> Vec<String> {
    queue.iter().map(word).collect()
}

/// What every process is called in the whole story: by the number that the master gives it, sooner or
/// later, or by its place.
struct Names(Vec<String>);

impl Names {
    fn of(states: &[&RunState]) -> Self {
        let id = |no| states.iter().find_map(|state| state.seat(no)?.id);
        let name = |no| match id(no) {
            Some(peer) => peer.to_string(),
            None => format!("process {no}"),
        };
        let seats = states
            .first()
            .into_iter()
            .flat_map(|first| first.seat_numbers());
        Self(seats.map(name).collect())
    }

    fn within(&self, no: SeatNo) -> &str {
        self.0.get(no.index()).map_or("a process", String::as_str)
    }

    /// At the beginning of a sentence.
    fn at_first(&self, no: SeatNo) -> String {
        let name = self.within(no);
        let (first, rest) = name.split_at(1);
        first.to_uppercase() + rest
    }
}

/// What a user is about to call.
fn wish(scenario: &Scenario, state: &RunState, no: SeatNo) -> String {
    let Some(seat) = state.seat(no) else {
        return String::new();
    };
    let plan = scenario.seats.get(usize::from(seat.plan));
    match plan.and_then(|plan| seat.user.wish(plan.program)) {
        Some(Wish::Connect) => "connects".to_owned(),
        Some(Wish::Leave) => "leaves".to_owned(),
        Some(Wish::Again(tag)) => format!("starts tag {tag} again"),
        Some(Wish::Do(what)) => match what {
            Do::Start(tag) => format!("starts tag {tag}"),
            Do::StartTwice(tag) => format!("starts tag {tag}, which is in use"),
            Do::StartOdd(tag) => format!("starts tag {tag} with another operation than the rest"),
            Do::StartLonger(tag) => format!("starts tag {tag} with more numbers than the rest"),
            Do::Cancel(tag) => format!("gives tag {tag} up"),
            Do::AskBack(tag) => format!("asks for its vote to start tag {tag} back"),
            Do::Drop => "gives its call up".to_owned(),
            Do::Update | Do::UpdateIfPending => "calls update_topology".to_owned(),
            Do::Ask => "calls are_peers_pending".to_owned(),
            Do::Optimize => "calls optimize_topology".to_owned(),
            Do::Sync(strategy) => format!("calls sync_shared_state ({strategy:?})"),
            Do::Finish(_) | Do::Advance | Do::Leave => "goes on".to_owned(),
        },
        None => "calls".to_owned(),
    }
}

/// What was said in the step, and who changed its mind.
fn changes(names: &Names, before: &RunState, after: &RunState, step: Step) -> Vec<String> {
    let mut changes = sent(names, before, after, step);
    let whose = |(about, belief)| (format!("master about {about}"), belief);
    let old = masters_beliefs(before).into_iter().map(whose).collect();
    let new = masters_beliefs(after).into_iter().map(whose).collect();
    if after.master.is_some() {
        differences(old, new, &mut changes);
    }
    let (old, new) = (processes(names, before), processes(names, after));
    differences(old, new, &mut changes);
    changes
}

/// Who, and what of it.
type Beliefs = Vec<(String, String)>;

fn processes(names: &Names, state: &RunState) -> Beliefs {
    let mut all = Vec::new();
    for no in state.seat_numbers() {
        let Some(seat) = state.seat(no) else {
            continue;
        };
        let name = names.within(no);
        all.push((name.to_owned(), doing(seat)));
        for run in &seat.plane.runs {
            let steps = run.steps();
            let about = format!("{name}, tag {}", run.tag);
            all.push((about, format!("step {} of {steps}", run.at + 1)));
        }
        for run in &seat.plane.whole {
            let about = format!("{name}, tag {}", run.tag);
            all.push((about, "holds the whole result".to_owned()));
        }
    }
    all
}

fn differences(old: Beliefs, new: Beliefs, out: &mut Vec<String>) {
    let of = |beliefs: &Beliefs, about: &str| {
        let mut known = beliefs.iter().filter(|(known, _)| known == about);
        known.next().map(|(_, belief)| belief.clone())
    };
    for (about, belief) in &new {
        match of(&old, about) {
            Some(known) if known == *belief => {}
            Some(known) => out.push(format!("{about}: {known} → {belief}")),
            None => out.push(format!("{about}: {belief}")),
        }
    }
    let gone = old.iter().filter(|(about, _)| of(&new, about).is_none());
    out.extend(gone.map(|(about, _)| format!("{about}: no more")));
}

/// Messages that set out in the step.
fn sent(names: &Names, before: &RunState, after: &RunState, step: Step) -> Vec<String> {
    let mut sent = Vec::new();
    for no in after.seat_numbers() {
        let (Some(old), Some(new)) = (before.seat(no), after.seat(no)) else {
            continue;
        };
        let taken = usize::from(step == Step::Up(no));
        if matches!(step, Step::RestartMaster(_)) {
            let more = new.connection.up.queue.len();
            let more = more.saturating_sub(old.connection.up.queue.len());
            let again = new.connection.up.queue.iter().take(more).map(up_word);
            let again = again.map(|word| format!("{} says again: {word}", names.within(no)));
            sent.extend(again);
            continue;
        }
        for word in added(
            &old.connection.up.queue,
            &new.connection.up.queue,
            taken,
            up_word,
        ) {
            sent.push(format!("{} says: {word}", names.within(no)));
        }
        let taken = usize::from(step == Step::Down(no));
        for word in added(
            &old.connection.down.queue,
            &new.connection.down.queue,
            taken,
            down_word,
        ) {
            sent.push(format!("the master says to {}: {word}", names.within(no)));
        }
    }
    sent
}

fn added<M>(
    old: &VecDeque<M>,
    new: &VecDeque<M>,
    taken: usize,
    word: impl Fn(&M) -> String,
) -> Vec<String> {
    let known = old.len().saturating_sub(taken);
    new.iter().skip(known).map(word).collect()
}
