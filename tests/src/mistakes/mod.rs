//! Mistakes that are made by hand, each with the check that has to see it: they prove that our checks can fail.
//!
//! A mistake is a change of a few words in one source file, as a careless hand might make it. The program `mistakes`
//! makes each of them in a copy of the workspace, builds the copy, and runs the check.
//!
//! | module | what it is for |
//! |---|---|
//! | [`drivers`] | mistakes in the code around the machines: client, data plane, master; the simulator finds them |
//! | [`limits`] | limits of docs/hostile.md that are not there; the test of each finds it |
//! | [`copy`] | the copy of the workspace in which they are made |
//! | [`trial`] | making one, building, and running its check |
//! | [`child`] | running a program that may never end |

pub mod child;
pub mod copy;
pub mod drivers;
pub mod limits;
pub mod trial;

pub use drivers::DRIVERS;
pub use limits::LIMITS;

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

/// Why a mistake cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: the text to replace occurs {times} times in {file}, not once: {text:?}")]
pub struct NotOnce {
    /// The mistake.
    pub name: &'static str,
    /// The file.
    pub file: &'static str,
    /// What was looked for.
    pub text: &'static str,
    /// How often it is there.
    pub times: usize,
}

impl Mistake {
    /// The source with the mistake in it.
    ///
    /// # Errors
    /// A text that is to be replaced is not there, or not only once.
    pub fn make_in(&self, source: &str) -> Result<String, NotOnce> {
        let mut made = source.to_owned();
        for (text, by) in self.edits {
            let times = source.matches(text).count();
            if times != 1 {
                let (name, file) = (self.name, self.file);
                return Err(NotOnce {
                    name,
                    file,
                    text,
                    times,
                });
            }
            made = made.replacen(text, by, 1);
        }
        Ok(made)
    }
}
