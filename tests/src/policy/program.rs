//! What users run: small programs of steps, with what they do when a call fails.

use super::machines::Trouble;
use super::time::Micros;

/// One line of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Computes, loads data, or rests.
    Think(Micros),
    /// `update_topology`
    Update,
    /// `sync_shared_state`
    Sync,
    /// `all_reduce` of so many bytes under a tag; then the revision grows by one.
    Reduce {
        /// The tag.
        tag: u64,
        /// The length of the buffer.
        bytes: u64,
    },
    /// A reduce after which the revision stays: one of several in a round.
    InnerReduce {
        /// The tag.
        tag: u64,
        /// The length of the buffer.
        bytes: u64,
    },
    /// Something that is done once, when the program comes by here after an instant.
    Once {
        /// The instant.
        from: Micros,
        /// What.
        what: Rarely,
    },
}

/// What a program does once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rarely {
    /// `optimize_topology`
    Optimize,
    /// `update_topology`, whose future is dropped at once.
    UpdateAndDrop,
    /// Leaves the run on purpose.
    Leave,
}

/// What follows a call that may be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The loop begins anew, as in the README.
    Top,
    /// A reduce is made again after `update_topology`, which is called until it succeeds, as in the
    /// documentation of the client; any other call begins the loop anew.
    UpdateFirst,
    /// The next step.
    NextStep,
}

/// A user's program: some steps once, then others again and again.
#[derive(Clone, Debug)]
pub struct Program {
    opening: Vec<Step>,
    body: Vec<Step>,
    recovery: Recovery,
    /// After a lost master it connects again, after so long.
    pub reconnects: Option<Micros>,
    /// After it was sent away it connects again, after so long.
    pub returns: Option<Micros>,
    at: usize,
    /// Updates before it makes its call again.
    detour: bool,
    /// What it does once is done.
    pub once_done: bool,
    /// What it runs instead when its loop begins anew after an instant.
    then: Option<(Micros, Box<Program>)>,
}

impl Program {
    /// Of steps that are repeated.
    #[must_use]
    pub fn of(body: impl Into<Vec<Step>>, recovery: Recovery) -> Self {
        Self {
            opening: Vec::new(),
            body: body.into(),
            recovery,
            reconnects: None,
            returns: None,
            at: 0,
            detour: false,
            once_done: false,
            then: None,
        }
    }

    /// The README's loop, which computes for so long: update, synchronize, compute, reduce.
    #[must_use]
    pub fn readme(compute: Micros) -> Self {
        let reduce = Step::Reduce {
            tag: 0,
            bytes: 1 << 20,
        };
        let body = [Step::Update, Step::Sync, Step::Think(compute), reduce];
        Self::of(body, Recovery::Top)
    }

    /// The same, with these steps once before.
    #[must_use]
    pub fn after(mut self, opening: impl Into<Vec<Step>>) -> Self {
        self.opening = opening.into();
        self
    }

    /// The same, with another recovery.
    #[must_use]
    pub fn recovering(mut self, recovery: Recovery) -> Self {
        self.recovery = recovery;
        self
    }

    /// The same, which connects again when it has lost the master.
    #[must_use]
    pub fn reconnecting(mut self, after: Micros) -> Self {
        self.reconnects = Some(after);
        self
    }

    /// The same, which connects again when it was sent away.
    #[must_use]
    pub fn returning(mut self, after: Micros) -> Self {
        self.returns = Some(after);
        self
    }

    /// The same until its loop begins anew after an instant; then another one.
    #[must_use]
    pub fn until(mut self, instant: Micros, then: Program) -> Self {
        self.then = Some((instant, Box::new(then)));
        self
    }

    /// Becomes the next program where it is time.
    pub fn turn(&mut self, now: Micros) {
        let is_at_top = self.at == self.opening.len() && !self.detour;
        let due = |(instant, _): &mut (Micros, Box<Program>)| is_at_top && *instant <= now;
        if let Some((_, then)) = self.then.take_if(due) {
            *self = *then;
        }
    }

    /// Goes to the first line.
    pub fn begin(&mut self) {
        (self.at, self.detour) = (0, false);
    }

    /// What to do now.
    #[must_use]
    pub fn step(&self) -> Step {
        if self.detour {
            return Step::Update;
        }
        let after_opening = self.at - self.at.min(self.opening.len());
        let of_body = || self.body[after_opening % self.body.len()];
        self.opening.get(self.at).copied().unwrap_or_else(of_body)
    }

    /// The step is done.
    pub fn done(&mut self) {
        if std::mem::take(&mut self.detour) {
            return;
        }
        self.at += 1;
        if self.at == self.opening.len() + self.body.len() {
            self.at = self.opening.len();
        }
    }

    /// The step's call failed. False: the program ends.
    pub fn failed(&mut self, trouble: &Trouble) -> bool {
        match trouble {
            Trouble::Again | Trouble::Conflict => {}
            Trouble::Final(_) | Trouble::Over => return false,
        }
        match self.recovery {
            _ if self.detour => {}
            Recovery::NextStep => self.done(),
            Recovery::UpdateFirst if is_reduce(self.step()) => self.detour = true,
            Recovery::UpdateFirst | Recovery::Top => self.at = self.at.min(self.opening.len()),
        }
        true
    }
}

fn is_reduce(step: Step) -> bool {
    match step {
        Step::Reduce { .. } | Step::InnerReduce { .. } => true,
        Step::Think(_) | Step::Update | Step::Sync | Step::Once { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REDUCE: Step = Step::Reduce { tag: 0, bytes: 1 };

    fn walk(program: &mut Program, steps: usize) -> Vec<Step> {
        let mut walked = Vec::new();
        for _ in 0..steps {
            walked.push(program.step());
            program.done();
        }
        walked
    }

    #[test]
    fn the_opening_comes_once_and_the_body_again_and_again() {
        let body = [Step::Update, REDUCE];
        let mut program = Program::of(body, Recovery::Top).after([Step::Think(5)]);

        let walked = walk(&mut program, 5);

        let expected = [Step::Think(5), Step::Update, REDUCE, Step::Update, REDUCE];
        assert_eq!(walked, expected);
    }

    #[test]
    fn a_loop_as_in_the_readme_begins_anew_when_a_call_fails() {
        let body = [Step::Update, Step::Sync, REDUCE];
        let mut program = Program::of(body, Recovery::Top);
        walk(&mut program, 2);

        assert!(program.failed(&Trouble::Again));
        assert_eq!(program.step(), Step::Update);
    }

    #[test]
    fn the_documented_retry_updates_until_it_may_reduce_again() {
        let body = [Step::Sync, REDUCE];
        let mut program = Program::of(body, Recovery::UpdateFirst);
        walk(&mut program, 1);

        assert!(program.failed(&Trouble::Again));
        assert!(program.failed(&Trouble::Conflict));
        let walked = walk(&mut program, 3);

        assert_eq!(walked, [Step::Update, REDUCE, Step::Sync]);
    }

    #[test]
    fn another_program_takes_over_when_the_loop_begins_anew() {
        let then = Program::of([REDUCE], Recovery::Top);
        let mut program = Program::of([Step::Update, Step::Sync], Recovery::Top).until(5, then);
        program.turn(4);
        program.done();
        program.turn(6);
        let in_the_middle = program.step();
        program.done();
        program.turn(6);

        assert_eq!((in_the_middle, program.step()), (Step::Sync, REDUCE));
    }

    #[test]
    fn a_program_ends_where_calling_again_is_no_use() {
        let mut program = Program::readme(5);

        assert!(!program.failed(&Trouble::Over));
        assert!(!program.failed(&Trouble::Final("no content".to_owned())));
    }
}
