//! Why collectives were aborted, and whether any was not.

use std::collections::{BTreeMap, BTreeSet};

use pccl_core::id::{PeerId, Seq, Tag};
use pccl_core::master::{MasterInput, MasterOutput, MasterTimer};
use pccl_core::messages::{AbortCause, PlanOutcome, ToMaster, ToPeer, Verdict};
use pccl_core::peer::{Call, Peer, PeerInput};

use super::compare::Logs;
use super::log::Logged;
use super::rule::{Finding, Rule};

/// How the collectives of a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectiveOutcomes {
    /// Executions that were committed.
    pub committed: u64,
    /// Executions that were aborted.
    pub aborted: u64,
}

/// What is known of the causes by some record of the master.
#[derive(Default)]
struct Known {
    /// Who is gone, and in which record the master let it go.
    gone: BTreeMap<PeerId, usize>,
    /// How a peer's part of an execution ended, and whether it named a broken edge.
    parts: BTreeMap<(Seq, PeerId), (PlanOutcome, bool)>,
    /// Something went wrong that may hold others up: a death, a lane, a call that gave way.
    trouble: bool,
    late: bool,
}

/// A verdict, and the first record that has it.
struct Decided {
    record: usize,
    tag: Tag,
    seq: Seq,
    cause: AbortCause,
    /// What the logs show of it.
    shown: Shown,
}

/// What the logs show of a cause.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Yes,
    /// The deadline did pass, and nothing shows why.
    ButNotWhy,
    No,
}

/// Looks for the causes of all that was aborted in the run of this master.
pub(super) fn causes(logs: &Logs, master: usize, found: &mut Vec<Finding>) -> CollectiveOutcomes {
    let mut known = Known {
        trouble: had_trouble(logs, master),
        ..Known::default()
    };
    let mut decided: BTreeMap<Seq, Option<Decided>> = BTreeMap::new();
    for (at, record) in logs.masters[master].records.iter().enumerate() {
        known.hears(&record.input);
        for output in &record.outputs {
            known.says(at, output);
            if let MasterOutput::Send { message, .. } = output
                && let ToPeer::Verdict { tag, seq, verdict } = message
                && !decided.contains_key(seq)
            {
                let aborted = match verdict {
                    Verdict::Committed { .. } => None,
                    Verdict::Aborted(cause) => Some(Decided {
                        record: at,
                        tag: *tag,
                        seq: *seq,
                        cause: *cause,
                        shown: known.shows(logs, (master, at), (*tag, *seq), *cause),
                    }),
                };
                decided.insert(*seq, aborted);
            }
        }
    }
    let aborted: Vec<&Decided> = decided.values().flatten().collect();
    let ends = CollectiveOutcomes {
        committed: (decided.len() - aborted.len()) as u64,
        aborted: aborted.len() as u64,
    };
    report(&logs.masters[master].name, ends, &aborted, found);
    ends
}

fn report(name: &str, ends: CollectiveOutcomes, aborted: &[&Decided], found: &mut Vec<Finding>) {
    let without = aborted.iter().filter(|one| one.shown == Shown::No);
    if let Some(first) = without.clone().next() {
        let Decided {
            tag, seq, cause, ..
        } = first;
        let count = without.count();
        found.push(Finding {
            log: name.to_owned(),
            record: Some(first.record + 1),
            rule: Rule::Causes,
            what: format!(
                "{count} of {} collectives that were aborted have no cause; the first is {seq}, {tag}: {cause}, which no log shows",
                ends.aborted
            ),
        });
    }
    let none_has = aborted.iter().all(|one| one.shown != Shown::Yes);
    if ends.committed == 0
        && none_has
        && let Some(first) = aborted.first()
    {
        found.push(Finding {
            log: name.to_owned(),
            record: Some(first.record + 1),
            rule: Rule::Progress,
            what: format!(
                "of {} collectives none was committed, and nobody died, no lane was lost, and nothing was refused",
                ends.aborted
            ),
        });
    }
}

/// Whether a lane was lost, or could not be built, in any log of the run.
fn had_trouble(logs: &Logs, master: usize) -> bool {
    let pairs = logs.pairs.iter().filter(|pair| pair.master == master);
    let mut inputs = pairs.flat_map(|pair| &logs.peers[pair.peer].records);
    inputs.any(|record| {
        matches!(
            record.input,
            PeerInput::LinkBroke { .. } | PeerInput::LinkFailed { .. }
        )
    })
}

impl Known {
    fn hears(&mut self, input: &MasterInput) {
        self.late = matches!(input, MasterInput::TimerFired(MasterTimer::Late(_)));
        if let MasterInput::Message {
            peer,
            message:
                ToMaster::CompleteCollective {
                    seq,
                    outcome,
                    broken,
                },
        } = input
        {
            self.parts.insert((*seq, *peer), (*outcome, broken.any()));
        }
    }

    fn says(&mut self, at: usize, output: &MasterOutput) {
        match output {
            MasterOutput::Lost { peer, .. } => {
                self.gone.insert(*peer, at);
                self.trouble = true;
            }
            MasterOutput::Send {
                message: ToPeer::CollectiveRefused { .. } | ToPeer::CallFailed(_),
                ..
            } => self.trouble = true,
            _ => {}
        }
    }

    fn shows(
        &self,
        logs: &Logs,
        (master, at): (usize, usize),
        (tag, seq): (Tag, Seq),
        cause: AbortCause,
    ) -> Shown {
        let is_shown = match cause {
            // What it took part in ends when it goes, and what begins later does without it.
            AbortCause::PeerLost(peer) => self.gone.get(&peer) == Some(&at),
            AbortCause::LaneLost { by: peer, .. } => {
                // Who has no log may be anybody, and say anything.
                let names_it = |names: bool| names || log_of(logs, master, peer).is_none();
                let part = self.parts.get(&(seq, peer));
                part.is_some_and(|(how, names)| *how == PlanOutcome::LaneLost && names_it(*names))
            }
            AbortCause::Cancelled(peer) => {
                let part = self.parts.get(&(seq, peer));
                let has_said_so = part.is_some_and(|(how, _)| *how == PlanOutcome::Cancelled);
                has_said_so && gave_up(logs, master, peer, (tag, seq))
            }
            AbortCause::TimedOut if self.late && !self.trouble => return Shown::ButNotWhy,
            AbortCause::TimedOut => self.late,
        };
        if is_shown { Shown::Yes } else { Shown::No }
    }
}

/// Whether the user of this peer gave the collective up, as far as there is a log.
fn gave_up(logs: &Logs, master: usize, peer: PeerId, (tag, seq): (Tag, Seq)) -> bool {
    let Some(log) = log_of(logs, master, peer) else {
        return true;
    };
    let mut calls = BTreeSet::new();
    let mut records = log.records.iter();
    records.any(|record| match &record.input {
        PeerInput::Call {
            call,
            what: Call::Initiate { tag: of, .. },
        } if *of == tag => {
            calls.insert(*call);
            false
        }
        PeerInput::GiveUp { call } => calls.contains(call),
        PeerInput::PlanEnded {
            seq: ended,
            outcome: PlanOutcome::Cancelled,
        } => *ended == seq,
        _ => false,
    })
}

fn log_of(logs: &Logs, master: usize, peer: PeerId) -> Option<&Logged<Peer>> {
    let mut pairs = logs.pairs.iter();
    let pair = pairs
        .find(|pair| pair.master == master && logs.visits[master][pair.visit].peer == Some(peer))?;
    logs.peers.get(pair.peer)
}
