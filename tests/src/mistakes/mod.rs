//! Mistakes that are made by hand, each with the check that has to see it: they prove that our checks can fail.
//!
//! A mistake is a change of a few words in one source file, as a careless hand might make it. The program `mistakes`
//! makes each of them in a copy of the workspace, builds the copy, and runs the check.
//!
//! | module | what goes wrong |
//! |---|---|
//! | [`drivers`] | the code around the machines: client, data plane, master; the simulator finds it |

pub mod drivers;

/// A mistake that is made by hand, and the check that has to see it.
#[derive(Clone, Copy, Debug)]
pub struct Mistake {
    /// What goes wrong, as a name of words with hyphens.
    pub name: &'static str,
    /// The source file, from the workspace's root.
    pub file: &'static str,
    /// What is replaced, and by what. Each text occurs exactly once in the file.
    pub edits: &'static [(&'static str, &'static str)],
    /// What has to find it.
    pub found_by: FoundBy,
}

/// What has to find a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// The program `simulate`, within [`SEEDS`] seeds.
    Simulator,
    /// A test that fails.
    Test {
        /// Its package.
        package: &'static str,
        /// `--lib`, or `--test NAME`.
        target: &'static str,
        /// Its name, as the test harness shows it.
        test: &'static str,
    },
}

/// Within so many seeds the simulator has to find a mistake.
pub const SEEDS: u64 = 2000;
