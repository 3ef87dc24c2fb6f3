//! Holds what all peers tell against what must be true of it.

use std::collections::BTreeMap;

use super::finding::Finding;
use super::plan::Number;
use super::talk::{Done, Step, Synced, Verdict};
use super::work::{Work, work_of};

/// Revisions whose reports are remembered: a peer that is further behind has nothing to be compared with.
const REMEMBERED: u64 = 256;

/// Attempts whose verdicts are remembered.
const ATTEMPTS: u64 = 4096;

/// Findings that are kept; a mistake in every step would fill the memory.
const FINDINGS_MAX: usize = 50;

/// Compares what peers tell with what it must be, and with what others have told.
#[derive(Debug)]
pub struct Checker {
    seed: u64,
    elements: usize,
    states: BTreeMap<u64, (Number, String)>,
    results: BTreeMap<u64, (Number, Vec<Done>)>,
    verdicts: BTreeMap<u64, (Number, Verdict)>,
    findings: Vec<Finding>,
    /// A step may be done again by others than those who did it.
    is_lenient: bool,
}

impl Checker {
    /// Nothing was told yet. The run has this seed, and buffers of so many elements at most.
    #[must_use]
    pub const fn new(seed: u64, elements: usize) -> Self {
        Self {
            seed,
            elements,
            states: BTreeMap::new(),
            results: BTreeMap::new(),
            verdicts: BTreeMap::new(),
            findings: Vec::new(),
            is_lenient: false,
        }
    }

    /// The same for a run in which all who have done a step may be lost before anybody learns of it: the others do it
    /// again, and only results of the same contributors have to be the same.
    #[must_use]
    pub(crate) const fn lenient(mut self) -> Self {
        self.is_lenient = true;
        self
    }

    /// What was found.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Adds what somebody else has found.
    pub fn found(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }

    /// Nobody has what was agreed to as this revision any more.
    pub(crate) fn forget_state(&mut self, revision: u64) {
        self.states.remove(&revision);
    }

    /// A process has synchronized its state.
    pub fn synced(&mut self, number: Number, synced: &Synced) {
        let revision = synced.revision;
        if synced.had > revision && !self.is_lenient {
            let had = synced.had;
            self.found(Finding::StepLost {
                number,
                revision,
                had,
            });
        }
        if synced.entries_received > 0 && synced.had >= revision {
            self.found(Finding::Diverged {
                number,
                revision,
                entries: synced.entries_received,
            });
        }
        let known = self.states.entry(revision);
        let (one, state) = known.or_insert_with(|| (number, synced.state.clone()));
        if *state != synced.state {
            let (one, other) = (*one, number);
            self.found(Finding::StatesDiffer {
                one,
                other,
                revision,
            });
        }
        forget(&mut self.states, REMEMBERED);
    }

    /// A process has done a step.
    pub fn stepped(&mut self, number: Number, step: &Step) {
        let revision = step.revision;
        let work = work_of(self.seed, revision, self.elements);
        if work.len() != step.reduces.len() {
            let (got, expected) = (step.reduces.len(), work.len());
            self.found(Finding::OtherWork {
                number,
                revision,
                got,
                expected,
            });
        }
        for (work, done) in work.iter().zip(&step.reduces) {
            self.reduced(number, step.peer, work, done);
        }
        self.compare(number, step);
    }

    /// A process has heard a verdict. It may be dead by now.
    pub fn decided(&mut self, number: Number, verdict: &Verdict) {
        let seq = verdict.seq;
        let known = self.verdicts.entry(seq);
        let (one, known) = known.or_insert_with(|| (number, verdict.clone()));
        if (known.tag, &known.verdict) != (verdict.tag, &verdict.verdict) {
            let (one, other) = (*one, number);
            let (tag, first) = (known.tag, known.verdict.clone());
            self.found(Finding::VerdictsDiffer {
                one,
                other,
                seq,
                tag,
                first,
                second: verdict.verdict.clone(),
            });
        }
        forget(&mut self.verdicts, ATTEMPTS);
    }

    fn reduced(&mut self, number: Number, peer: u64, work: &Work, done: &Done) {
        let (revision, tag) = (work.key.revision, work.key.tag);
        let contributors = done.contributors.clone();
        if !contributors.contains(&peer) {
            self.found(Finding::NotAContributor {
                number,
                revision,
                tag,
                contributors,
            });
            return;
        }
        let expected = work.digest(&contributors).unwrap_or(done.digest);
        if expected != done.digest || done.tag != tag {
            self.found(Finding::WrongResult {
                number,
                revision,
                tag,
                contributors,
                digest: done.digest,
                expected,
            });
        }
    }

    /// All peers have the same results, also where they are quantized.
    fn compare(&mut self, number: Number, step: &Step) {
        let revision = step.revision;
        let known = self.results.entry(revision);
        let (one, known) = known.or_insert_with(|| (number, step.reduces.clone()));
        let pairs = known.iter().zip(&step.reduces);
        let may_differ =
            |one: &Done, other: &Done| self.is_lenient && one.contributors != other.contributors;
        let differing = pairs.filter(|(one, other)| one != other && !may_differ(one, other));
        let tags: Vec<u64> = differing.map(|(_, done)| done.tag).collect();
        let (one, other) = (*one, number);
        for tag in tags {
            self.found(Finding::ResultsDiffer {
                one,
                other,
                revision,
                tag,
            });
        }
        forget(&mut self.results, REMEMBERED);
    }
}

/// Keeps what belongs to the newest revisions or attempts.
fn forget<T>(all: &mut BTreeMap<u64, T>, remembered: u64) {
    let newest = all.last_key_value().map_or(0, |(newest, _)| *newest);
    while let Some(oldest) = all.first_entry()
        && *oldest.key() + remembered < newest
    {
        oldest.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 3;
    const ELEMENTS: usize = 5000;

    /// A revision whose step has reduces that are quantized, and others.
    fn revision() -> u64 {
        let is_quantized = |work: &Work| work.digest(&[0]).is_none();
        let has_both = |revision: &u64| {
            let work = work_of(SEED, *revision, ELEMENTS);
            work.iter().any(is_quantized) && !work.iter().all(is_quantized)
        };
        (1..).find(has_both).expect("both kinds")
    }

    fn step(peer: u64, contributors: &[u64]) -> Step {
        let work = work_of(SEED, revision(), ELEMENTS);
        let reduces = work.iter().map(|work| Done {
            tag: work.key.tag,
            contributors: contributors.to_vec(),
            digest: work.digest(contributors).unwrap_or(77),
        });
        Step {
            peer,
            revision: revision(),
            reduces: reduces.collect(),
            aborts: 0,
            retries: 0,
        }
    }

    /// The place of the first reduce of the step that is quantized, or of the first that is not.
    fn first(is_quantized: bool) -> usize {
        let work = work_of(SEED, revision(), ELEMENTS);
        let is = |work: &Work| work.digest(&[0]).is_none() == is_quantized;
        work.iter().position(is).expect("both kinds")
    }

    fn synced(state: &str) -> Synced {
        Synced {
            revision: revision(),
            state: state.into(),
            entries_received: 0,
            had: revision(),
        }
    }

    #[test]
    fn what_is_right_is_not_found() {
        let mut checker = Checker::new(SEED, ELEMENTS);
        for number in 0..3 {
            checker.synced(number, &synced("a"));
            checker.stepped(number, &step(number + 10, &[10, 11, 12]));
        }
        assert_eq!(checker.findings(), []);
    }

    #[test]
    fn a_wrong_sum_is_found() {
        let mut checker = Checker::new(SEED, ELEMENTS);
        let mut wrong = step(10, &[10, 11]);
        let exact = first(false);
        wrong.reduces[exact].digest += 1;
        checker.stepped(0, &wrong);
        let [Finding::WrongResult { number: 0, tag, .. }] = checker.findings() else {
            panic!("{:?}", checker.findings());
        };
        assert_eq!(*tag, exact as u64 + 1);
    }

    #[test]
    fn a_sum_of_others_than_it_names_is_found() {
        let mut checker = Checker::new(SEED, ELEMENTS);
        let mut wrong = step(10, &[10, 11, 12]);
        for done in &mut wrong.reduces {
            done.contributors.pop();
        }
        checker.stepped(0, &wrong);
        let all = |finding: &Finding| matches!(finding, Finding::WrongResult { .. });
        assert!(!checker.findings().is_empty() && checker.findings().iter().all(all));

        let mut checker = Checker::new(SEED, ELEMENTS);
        checker.stepped(0, &step(10, &[11, 12]));
        let all = |finding: &Finding| matches!(finding, Finding::NotAContributor { .. });
        assert!(!checker.findings().is_empty() && checker.findings().iter().all(all));
    }

    #[test]
    fn quantized_results_that_differ_are_found() {
        let mut checker = Checker::new(SEED, ELEMENTS);
        checker.stepped(0, &step(10, &[10, 11]));
        let mut wrong = step(11, &[10, 11]);
        let quantized = first(true);
        wrong.reduces[quantized].digest += 1;
        checker.stepped(1, &wrong);
        let found = checker.findings();
        assert!(
            matches!(
                found,
                [Finding::ResultsDiffer {
                    one: 0,
                    other: 1,
                    ..
                }]
            ),
            "{found:?}"
        );
    }

    #[test]
    fn a_step_that_lacks_a_reduce_is_found() {
        let mut checker = Checker::new(SEED, ELEMENTS);
        let mut wrong = step(10, &[10, 11]);
        wrong.reduces.pop();
        checker.stepped(0, &wrong);
        let found = checker.findings();
        assert!(matches!(found, [Finding::OtherWork { .. }]), "{found:?}");
    }

    #[test]
    fn a_differing_hash_is_found() {
        let mut checker = Checker::new(SEED, ELEMENTS);
        checker.synced(0, &synced("a"));
        checker.synced(1, &synced("b"));
        let found = checker.findings();
        let expected = Finding::StatesDiffer {
            one: 0,
            other: 1,
            revision: revision(),
        };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn a_state_that_was_replaced_though_it_had_the_revision_is_found() {
        let mut checker = Checker::new(SEED, ELEMENTS);
        let replaced = Synced {
            entries_received: 1,
            ..synced("a")
        };
        let behind = Synced {
            had: revision() - 1,
            ..replaced.clone()
        };
        checker.synced(0, &behind);
        assert_eq!(checker.findings(), []);
        checker.synced(1, &replaced);
        let found = checker.findings();
        assert!(matches!(found, [Finding::Diverged { .. }]), "{found:?}");
    }

    #[test]
    fn a_group_that_goes_back_is_found() {
        let mut checker = Checker::new(SEED, ELEMENTS);
        let had = revision() + 1;
        checker.synced(0, &Synced { had, ..synced("a") });
        let found = checker.findings();
        assert!(matches!(found, [Finding::StepLost { .. }]), "{found:?}");
    }

    #[test]
    fn a_split_verdict_is_found() {
        let verdict = |seq, tag, verdict: &str| Verdict {
            seq,
            tag,
            is_commit: verdict == "Committed",
            verdict: verdict.into(),
            at: seq,
        };
        let mut checker = Checker::new(SEED, ELEMENTS);
        checker.decided(0, &verdict(7, 1, "Committed"));
        checker.decided(1, &verdict(7, 1, "Committed"));
        checker.decided(0, &verdict(8, 1, "Aborted"));
        assert_eq!(checker.findings(), []);

        checker.decided(2, &verdict(7, 1, "Aborted"));
        checker.decided(1, &verdict(8, 2, "Aborted"));
        let found = checker.findings();
        let split = |finding: &Finding| matches!(finding, Finding::VerdictsDiffer { .. });
        assert!(found.len() == 2 && found.iter().all(split), "{found:?}");
    }

    #[test]
    fn old_revisions_are_forgotten() {
        let mut checker = Checker::new(SEED, ELEMENTS);
        for revision in 0..3 * REMEMBERED {
            let state = Synced {
                revision,
                had: revision,
                ..synced("a")
            };
            checker.synced(0, &state);
        }
        assert!(checker.states.len() as u64 <= REMEMBERED + 1);
    }
}
