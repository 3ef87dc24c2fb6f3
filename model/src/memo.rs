//! Steps of masters that were taken before.
//!
//! A run has many more states than its master: peers and what is on its way to them differ. A master is a value,
//! so it answers the same input in the same state in the same way. Each thread remembers some of these steps, and
//! what is looked at in a step whoever else takes part in the run.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use pccl_core::master::{Master, MasterInput, MasterOutput};

use crate::hashed::{Hashed, hasher};
use crate::watch::late;

/// A thread remembers at most so many steps: a power of two.
const STEPS_MAX: usize = 1 << 11;

/// What a master does.
#[derive(Debug)]
pub(crate) struct MasterStep {
    pub(crate) before: Hashed<Master>,
    pub(crate) heard: MasterInput,
    /// Under which mistakes. See [`mistakes`].
    mistakes: u64,
    pub(crate) after: Hashed<Master>,
    pub(crate) out: Vec<MasterOutput>,
    /// See [`late`].
    pub(crate) is_unmoved_by_what_is_late: bool,
}

thread_local! {
    /// Each at a place that its state and its input say; the last of several that share one.
    static STEPS: RefCell<Vec<Option<Rc<MasterStep>>>> = const { RefCell::new(Vec::new()) };
}

/// What a master in this state does when it hears this. `None`: it panics.
pub(crate) fn step(before: &Hashed<Master>, heard: &MasterInput) -> Option<Rc<MasterStep>> {
    let mistakes = mistakes();
    let number = hasher().hash_one((before.fingerprint(), heard, mistakes));
    let place = usize::try_from(number).unwrap_or_default() % STEPS_MAX;
    STEPS.with_borrow_mut(|steps| {
        if steps.is_empty() {
            steps.resize(STEPS_MAX, None);
        }
        let known = steps.get_mut(place)?;
        let is_it = |step: &&Rc<MasterStep>| {
            step.before.fingerprint() == before.fingerprint()
                && step.heard == *heard
                && step.mistakes == mistakes
        };
        if let Some(step) = known.as_ref().filter(is_it) {
            return Some(Rc::clone(step));
        }
        let step = Rc::new(taken(before, heard, mistakes)?);
        Some(Rc::clone(known.insert(step)))
    })
}

fn taken(before: &Hashed<Master>, heard: &MasterInput, mistakes: u64) -> Option<MasterStep> {
    let (mut after, mut out) = (before.clone(), Vec::new());
    let master = after.edit();
    catch_unwind(AssertUnwindSafe(|| master.handle(heard.clone(), &mut out))).ok()?;
    after.seal();
    Some(MasterStep {
        before: before.clone(),
        heard: heard.clone(),
        mistakes,
        is_unmoved_by_what_is_late: late::means_nothing(before, heard, &out, &after),
        after,
        out,
    })
}

/// A number for the mistakes that are made at the moment: a step under others says nothing.
fn mistakes() -> u64 {
    #[cfg(feature = "mutants")]
    return pccl_core::mutants::times_switched();
    #[cfg(not(feature = "mutants"))]
    0
}

#[cfg(test)]
mod tests {
    use pccl_core::id::{ConnId, GroupId, ProtocolVersion};
    use pccl_core::master::MasterConfig;
    use pccl_core::messages::Hello;

    use super::*;

    fn connected(conn: u64) -> MasterInput {
        MasterInput::Connected {
            conn: ConnId(conn),
            hello: Hello {
                protocol: ProtocolVersion::CURRENT,
                group: GroupId(0),
                port: 48149,
                advertise: None,
                lanes: 1,
                site: Default::default(),
                name: Default::default(),
            },
            from: [192, 0, 2, 1].into(),
            identity: None,
        }
    }

    /// What it does if nothing is remembered.
    fn anew(before: &Hashed<Master>, heard: &MasterInput) -> (Master, Vec<MasterOutput>) {
        let (mut master, mut out) = (Master::clone(before), Vec::new());
        master.handle(heard.clone(), &mut out);
        (master, out)
    }

    #[test]
    fn a_step_that_is_remembered_is_what_the_master_does_there() {
        let first = Hashed::new(Master::new(MasterConfig::default()));
        let mut state = first.clone();
        let mut steps = Vec::new();
        for conn in 0..4 {
            let heard = connected(conn);
            steps.push((state.clone(), heard.clone()));
            state = step(&state, &heard).unwrap().after.clone();
        }

        // Once more, and another input in each state.
        for (before, heard) in &steps {
            for heard in [heard, &MasterInput::Stop] {
                let known = step(before, heard).unwrap();
                let (after, out) = anew(before, heard);

                assert_eq!((&*known.after, &known.out), (&after, &out));
                assert_eq!(known.after.fingerprint(), Hashed::new(after).fingerprint());
                assert!(known.is_unmoved_by_what_is_late);
            }
        }
    }
}
