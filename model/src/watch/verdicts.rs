//! What the master decides about collectives.

use std::collections::BTreeMap;

use pccl_core::id::{GroupId, PeerId, Seq, Tag};
use pccl_core::master::{Master, MasterOutput};
use pccl_core::messages::{AbortCause, ToPeer, Verdict};

use super::source::Source;
use crate::claim::Claim;
use crate::milestone::Milestone;

/// Who is told which verdict.
type Told<'a> = Vec<(PeerId, &'a Verdict)>;

/// Agreement and unanimity: one verdict per execution, told to everybody who took part and is still
/// there, and a commit exactly when every vote is in.
pub(super) fn verdicts(
    run: &mut impl Source,
    before: &Master,
    after: &Master,
    out: &[MasterOutput],
) {
    at_once(run, before, after, out);
    for group in before.view().groups() {
        for (tag, seq) in before.view().running(group) {
            let runs_on = after.view().running(group).any(|known| known == (tag, seq));
            let told: Told<'_> = out
                .iter()
                .filter_map(|output| match output {
                    MasterOutput::Send {
                        peer,
                        message:
                            ToPeer::Verdict {
                                seq: s, verdict, ..
                            },
                    } if *s == seq => Some((*peer, verdict)),
                    _ => None,
                })
                .collect();
            verdict_of_one(run, before, after, group, (tag, seq), &told, runs_on);
        }
    }
}

/// Those on executions that commence in the same step: all participants have voted ahead.
fn at_once(run: &mut impl Source, before: &Master, after: &Master, out: &[MasterOutput]) {
    let mut told: BTreeMap<_, Told<'_>> = BTreeMap::new();
    for output in out {
        let MasterOutput::Send {
            peer,
            message: ToPeer::Verdict { tag, seq, verdict },
        } = output
        else {
            continue;
        };
        let view = before.view();
        let group = view.peer(*peer).map(|known| known.group());
        let fresh = group.filter(|group| !view.running(*group).any(|(_, one)| one == *seq));
        if let Some(group) = fresh {
            let told = told.entry((group, *tag, *seq)).or_default();
            told.push((*peer, verdict));
        }
    }
    for ((group, tag, seq), told) in told {
        let runs_on = after.view().running(group).any(|known| known == (tag, seq));
        verdict_of_one(run, before, after, group, (tag, seq), &told, runs_on);
    }
}

fn verdict_of_one(
    run: &mut impl Source,
    before: &Master,
    after: &Master,
    group: GroupId,
    (tag, seq): (Tag, Seq),
    told: &[(PeerId, &Verdict)],
    runs_on: bool,
) {
    // The ring of the group is the one that it runs on, the departed included.
    let ring = before.view().ring(group).map_or(&[][..], |ring| &ring.0);
    let members: Vec<PeerId> = ring
        .iter()
        .filter(|peer| after.view().peer(**peer).is_some())
        .copied()
        .collect();
    let done = run.ghost().done.iter();
    let done = done.filter(|(known, _)| *known == seq);
    let done: Vec<PeerId> = done.map(|(_, peer)| *peer).collect();
    let all_done = |peers: &[PeerId]| peers.iter().all(|peer| done.contains(peer));
    let Some((_, first)) = told.first() else {
        // With nobody left there is nobody to tell.
        if !runs_on && !members.is_empty() {
            run.breaks(Claim::Agreement);
        }
        if runs_on && all_done(&members) && !members.is_empty() {
            run.breaks(Claim::Unanimity);
        }
        return;
    };
    let same = told.iter().all(|(_, verdict)| verdict == first);
    let everybody = members
        .iter()
        .all(|peer| told.iter().any(|(known, _)| known == peer));
    if !same || !everybody || runs_on {
        run.breaks(Claim::Agreement);
    }
    match first {
        Verdict::Committed { epoch, .. } => {
            if !all_done(ring) || before.view().epoch(group) != Some(*epoch) {
                run.breaks(Claim::Unanimity);
            }
            run.reach(Milestone::Committed);
            if ring.len() > told.len() {
                run.reach(Milestone::CommittedWithoutOne);
            }
        }
        Verdict::Aborted(cause) => {
            // A vote that was cast stands when its caster dies, and where all are cast nothing aborts.
            let stands = match cause {
                AbortCause::PeerLost(peer) => all_done(&[*peer]),
                AbortCause::LaneLost { .. } | AbortCause::Cancelled(_) | AbortCause::TimedOut => {
                    false
                }
            };
            if stands || all_done(ring) {
                run.breaks(Claim::Unanimity);
            }
            run.reach(Milestone::Aborted);
        }
    }
    let verdict = (*first).clone();
    let ghost = run.edit_ghost();
    ghost.done.retain(|(known, _)| *known != seq);
    ghost.verdicts.insert((group, tag), (seq, verdict));
}
