//! A timer that was stopped a moment ago, and an answer of the solver to a question that is over, change nothing
//! when they arrive. That is between the master and itself, whoever else takes part in the run.

use pccl_core::id::{GroupId, Round};
use pccl_core::master::{Master, MasterInput, MasterOutput, MasterTimer};

/// Whether that holds of this step of a master.
pub(crate) fn means_nothing(
    before: &Master,
    heard: &MasterInput,
    out: &[MasterOutput],
    after: &Master,
) -> bool {
    let does_nothing = || out.is_empty() && before == after;
    let ran = |timer| before.view().timers().any(|known| known == timer);
    let is_right = match heard {
        MasterInput::TourSolved { round, .. } => ran(MasterTimer::Solver(*round)) || does_nothing(),
        MasterInput::TourImproved { round, group, .. } => {
            is_search(before, *round, *group) || does_nothing()
        }
        MasterInput::Connected { .. }
        | MasterInput::Message { .. }
        | MasterInput::Misbehaved { .. }
        | MasterInput::Disconnected { .. }
        | MasterInput::TimerFired(_)
        | MasterInput::Stop => true,
    };
    is_right && stopped_timers_mean_nothing(before, heard, after)
}

/// Whether a search goes on for this group by that question.
fn is_search(master: &Master, round: Round, group: GroupId) -> bool {
    let mut searches = master.view().searches();
    searches.any(|(known, of, _)| (known, of) == (round, group))
}

fn stopped_timers_mean_nothing(before: &Master, heard: &MasterInput, after: &Master) -> bool {
    let fired = |timer: &MasterTimer| *heard == MasterInput::TimerFired(*timer);
    let runs = |timer: &MasterTimer| after.view().timers().any(|known| known == *timer);
    let ran = before.view().timers();
    let mut stopped = ran.filter(|timer| !fired(timer) && !runs(timer)).peekable();
    if stopped.peek().is_none() {
        return true;
    }
    let (mut later, mut out) = (after.clone(), Vec::new());
    for timer in stopped {
        later.handle(MasterInput::TimerFired(timer), &mut out);
    }
    out.is_empty() && later == *after
}
