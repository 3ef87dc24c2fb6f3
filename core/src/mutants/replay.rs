//! Mistakes in replaying a journal. What they say is what the journal says, so that it can be replayed to its end.

use alloc::vec::Vec;

use crate::journal::Durable;
use crate::master::{MasterInput, MasterOutput};
use crate::messages::ToPeer;

impl Durable {
    /// The sessions take this step. If it is one of those that are meant, the machine does not, nor does its driver.
    pub(crate) fn step_but_if(
        &mut self,
        is_meant: impl FnOnce(&MasterInput, &[MasterOutput]) -> bool,
        input: MasterInput,
        out: &mut Vec<MasterOutput>,
    ) {
        let (before, said) = (self.clone(), out.len());
        self.handle(input.clone(), out);
        if is_meant(&input, out.get(said..).unwrap_or_default()) {
            (self.master, self.pending) = (before.master, before.pending);
        }
    }

    /// Takes this step, and another one if it is a hello: nobody hears what is said to whom it admits.
    pub(crate) fn step_and_admit_again(&mut self, input: MasterInput, out: &mut Vec<MasterOutput>) {
        let again = input.clone();
        self.handle(input, out);
        if matches!(again, MasterInput::Connected { .. }) {
            self.handle(again, &mut Vec::new());
        }
    }

    /// The same with a machine that has had no epoch yet.
    pub(crate) fn before_all_epochs(mut self) -> Self {
        self.master.forget_epochs();
        self
    }
}

/// Is this a message of a peer that says nothing to anybody?
pub(crate) fn is_silent(input: &MasterInput, out: &[MasterOutput]) -> bool {
    let is_heard = matches!(input, MasterInput::Message { .. });
    is_heard
        && !out
            .iter()
            .any(|said| matches!(said, MasterOutput::Send { .. }))
}

/// Is a collective decided?
pub(crate) fn decides(_: &MasterInput, out: &[MasterOutput]) -> bool {
    out.iter().any(|said| {
        matches!(
            said,
            MasterOutput::Send {
                message: ToPeer::Verdict { .. },
                ..
            }
        )
    })
}
