//! How long the survivors of a kill need until their next reduce is committed.
//!
//! Peers in processes of their own reduce in a loop. One of them is stopped in the middle of a reduce
//! and killed. The clock runs from the kill until the last survivor has the result of a reduce of the
//! survivors. Then a new peer is admitted and the next one is killed.

use std::collections::{BTreeMap, BTreeSet};

use pccl_tests::over::Over;
use pccl_tests::processes::{Member, Process, Swarm, Trouble};
use pccl_tests::roles::MasterOptions;
use pccl_tests::scripted::PeerOptions;
use pccl_tests::talk::{Commit, Event, Moment, Nanos};

/// Reduces of the survivors alone that are watched after each kill, besides the first.
const WATCHED: usize = 8;

/// One setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Setting {
    /// Peers before each kill.
    pub peers: usize,
    /// Elements of f32.
    pub elements: usize,
}

/// What one kill led to, in nanoseconds.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Recovery {
    /// From the kill to the next committed reduce of the last survivor.
    pub total: Nanos,
    /// From the kill to the end of the killed process: until then the system is busy with it, and at
    /// some point of that closes its connections.
    pub exit: Nanos,
    /// Where the time went, at the last survivor: each stage, in the order of [`STAGES`].
    pub stages: Vec<Nanos>,
}

/// What happens after a kill, with the event that ends each stage.
pub const STAGES: [(&str, &str); 6] = [
    ("kill to abort verdict", "verdict"),
    ("to new vote sent", "collective_initiated"),
    ("to new ring connected", "connected"),
    ("to plan started", "plan_started"),
    ("to plan done", "plan_done"),
    ("to commit returned", ""),
];

/// All kills of one setting.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Outcome {
    /// Of which setting.
    pub setting: Setting,
    /// What the run went over.
    pub over: Over,
    /// One for each kill.
    pub recoveries: Vec<Recovery>,
    /// How long undisturbed reduces of the survivors alone took in the same run, from call to return.
    pub undisturbed: Vec<Nanos>,
}

/// Starts a run in an empty swarm and kills so many of its peers, one after the other. Tells `progress`
/// after each.
///
/// # Errors
/// What went wrong with the processes; a wrong result is among it.
pub fn measure(
    swarm: &mut Swarm,
    setting: Setting,
    kills: usize,
    mut progress: impl FnMut(usize),
) -> Result<Outcome, Trouble> {
    let (_, master) = swarm.start_master(&MasterOptions::default())?;
    let options = PeerOptions {
        elements: setting.elements,
        tell_every: 50,
        ..PeerOptions::of(&master)
    };
    let mut members = swarm.join_all(&options, setting.peers)?;
    let mut outcome = Outcome {
        setting,
        over: swarm.is_over(),
        recoveries: Vec::new(),
        undisturbed: Vec::new(),
    };
    for kill in 0..kills {
        let victim = members.remove(kill % members.len());
        swarm.stand_still_at(victim.process, Moment::FrameSent)?;
        swarm.until_still(victim.process)?;
        let (killed_at, gone_at) = swarm.kill(victim.process)?;
        let exit = gone_at.saturating_sub(killed_at);
        let mut recovery = watch(swarm, &members, killed_at, &mut outcome.undisturbed)?;
        recovery.exit = exit;
        outcome.recoveries.push(recovery);
        members.push(swarm.join(&options)?);
        swarm.until_all_commit(&members)?;
        progress(kill + 1);
    }
    Ok(outcome)
}

/// Waits for the first reduce of the survivors and for some more, whose durations it notes.
fn watch(
    swarm: &mut Swarm,
    survivors: &[Member],
    killed_at: Nanos,
    undisturbed: &mut Vec<Nanos>,
) -> Result<Recovery, Trouble> {
    let peers: BTreeSet<u64> = survivors.iter().map(|member| member.peer).collect();
    let mut commits: BTreeMap<Process, Vec<Commit>> = BTreeMap::new();
    swarm.until("the recovery", |process, event| {
        if let Event::Committed(commit) = event
            && commit.at > killed_at
            && commit.rounds.keys().eq(peers.iter())
        {
            commits.entry(process).or_default().push(commit.clone());
        }
        let all = commits.len() == survivors.len();
        (all && commits.values().all(|told| told.len() > WATCHED)).then_some(())
    })?;
    let later = commits.values().flat_map(|told| told.iter().skip(1));
    undisturbed.extend(later.map(|commit| commit.took));
    let firsts = commits.values().filter_map(|told| told.first());
    let last = firsts.max_by_key(|commit| commit.at);
    Ok(last.map_or_else(Recovery::default, |last| Recovery {
        total: last.at.saturating_sub(killed_at),
        exit: 0,
        stages: stages(last, killed_at),
    }))
}

/// Cuts the time from the kill to the commit where the events of [`STAGES`] first came, in order. A
/// stage whose event did not come is empty.
fn stages(commit: &Commit, killed_at: Nanos) -> Vec<Nanos> {
    let mut since = killed_at;
    let mut rest = commit.trail.iter().filter(|(_, at)| *at >= killed_at);
    let ends = STAGES.map(|(_, ends_with)| {
        if ends_with.is_empty() {
            return Some(commit.at);
        }
        let mut ahead = rest.clone();
        let found = ahead.find(|(kind, _)| kind == ends_with).map(|(_, at)| *at);
        if found.is_some() {
            rest = ahead;
        }
        found
    });
    let cut = |end: Option<Nanos>| {
        let end = end.unwrap_or(since).max(since);
        let took = end - since;
        since = end;
        took
    };
    ends.into_iter().map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_add_up_to_the_whole() {
        let trail = [
            ("collective_initiated", 5),
            ("verdict", 20),
            ("collective_initiated", 22),
        ];
        let trail = trail.map(|(kind, at)| (kind.to_owned(), at)).to_vec();
        let commit = Commit {
            rounds: BTreeMap::new(),
            revision: 0,
            checksum: 0,
            at: 40,
            took: 0,
            failures: 1,
            trail,
        };

        let stages = stages(&commit, 10);

        assert_eq!(stages, vec![10, 2, 0, 0, 0, 18]);
    }
}
