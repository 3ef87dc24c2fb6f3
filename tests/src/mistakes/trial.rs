//! Making one mistake, building, and running its check.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use super::child::{self, Ended};
use super::copy::Copy;
use super::{FoundBy, Mistake, NotOnce, SEEDS};
use crate::simulator::hangs::HANGS;

/// How tests are built: every mistake is built once, and its test is short. What the workspace optimises is built
/// without, and in parts of which only those with the mistake are built again.
const QUICKLY_BUILT: [&str; 5] = [
    "profile.dev.opt-level=0",
    "profile.dev.package.\"*\".opt-level=1",
    "profile.dev.package.pccl-core.opt-level=0",
    "profile.dev.package.pccl-kernels.opt-level=0",
    "profile.dev.package.pccl-model.opt-level=0",
];

/// How long a build may take.
const BUILD_LIMIT: Duration = Duration::from_secs(3600);

/// How long a test may take. One that takes longer hangs.
const TEST_LIMIT: Duration = Duration::from_secs(300);

/// How long all seeds may take. Each of them has a limit of its own.
const SEEDS_LIMIT: Duration = Duration::from_secs(3600);

/// The place where mistakes are made, and how they are built.
#[derive(Debug)]
pub struct Bench {
    /// The copy in which they are made.
    pub copy: Copy,
    /// Where the copy is built.
    pub target: PathBuf,
    /// Whether simulations are built with optimization.
    pub is_release: bool,
    /// What builds.
    pub cargo: OsString,
}

/// What came of one mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The check has seen it.
    Found {
        /// Simulations are numbered, and this one was the first to fail.
        seed: Option<u64>,
        /// What was wrong.
        what: String,
    },
    /// The check did not come to an end.
    Hangs {
        /// The number of the simulation.
        seed: Option<u64>,
    },
    /// Nothing was seen.
    NotFound,
}

/// Why nothing can be said about a mistake.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The list is not up to date.
    #[error(transparent)]
    NotOnce(#[from] NotOnce),
    /// A file of the copy, or a program.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A mistake that the compiler sees is none for a check.
    #[error("it does not build:\n{0}")]
    DoesNotBuild(String),
    /// There is no test of this name.
    #[error("no test has run:\n{0}")]
    NoSuchTest(String),
}

impl Verdict {
    /// Whether the check has done its duty.
    #[must_use]
    pub const fn is_found(&self) -> bool {
        match self {
            Self::Found { .. } | Self::Hangs { .. } => true,
            Self::NotFound => false,
        }
    }

    /// The number of seeds that were needed.
    #[must_use]
    pub const fn seeds(&self) -> Option<u64> {
        match self {
            Self::Found { seed, .. } | Self::Hangs { seed } => match seed {
                Some(seed) => Some(*seed + 1),
                None => None,
            },
            Self::NotFound => None,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.seeds()) {
            (Self::Found { what, .. }, Some(seeds)) => write!(f, "found, seeds: {seeds}; {what}"),
            (Self::Found { what, .. }, None) => write!(f, "found; {what}"),
            (Self::Hangs { .. }, Some(seeds)) => write!(f, "found (hangs), seeds: {seeds}"),
            (Self::Hangs { .. }, None) => write!(f, "found (hangs)"),
            (Self::NotFound, _) => write!(f, "NOT FOUND"),
        }
    }
}

impl Bench {
    /// Makes a mistake, runs its check, and takes the mistake back. How long the check took.
    ///
    /// # Errors
    /// The mistake cannot be made, or not be built.
    pub fn try_out(&self, mistake: &Mistake) -> Result<(Verdict, Duration), TrialError> {
        let right = self.copy.read(mistake.file)?;
        self.copy.write(mistake.file, &mistake.make_in(&right)?)?;
        let checked = self.check(mistake.found_by, SEEDS);
        self.copy.write(mistake.file, &right)?;
        checked
    }

    /// Builds and runs a check; the simulator with so many seeds.
    ///
    /// # Errors
    /// It cannot be built, or cannot be run.
    pub fn check(&self, by: FoundBy, seeds: u64) -> Result<(Verdict, Duration), TrialError> {
        match by {
            FoundBy::Simulator => {
                self.build_simulator()?;
                let begun = Instant::now();
                Ok((self.simulate(seeds)?, begun.elapsed()))
            }
            FoundBy::Test {
                package,
                target,
                test,
            } => {
                let target: Vec<&str> = target.split(' ').collect();
                self.built(self.cargo_test(package, &target).arg("--no-run"))?;
                let mut command = self.cargo_test(package, &target);
                let command = command.args(["--", "--exact", test]);
                let begun = Instant::now();
                Ok((tested(child::run(command, TEST_LIMIT)?)?, begun.elapsed()))
            }
        }
    }

    fn build_simulator(&self) -> Result<(), TrialError> {
        let mut command = self.cargo(&["build", "-p", "pccl-tests", "--bin", "simulate"]);
        if self.is_release {
            command.arg("--release");
        }
        self.built(&mut command)
    }

    fn cargo_test(&self, package: &str, target: &[&str]) -> Command {
        let mut command = self.cargo(&["test", "-p", package]);
        for setting in QUICKLY_BUILT {
            command.args(["--config", setting]);
        }
        command.args(target).env_remove("CARGO_INCREMENTAL");
        command
    }

    fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.cargo);
        command
            .args(arguments)
            .current_dir(self.copy.root())
            .env("CARGO_TARGET_DIR", &self.target);
        command
    }

    fn built(&self, command: &mut Command) -> Result<(), TrialError> {
        let ended = child::run(command, BUILD_LIMIT)?;
        match ended.is_well() {
            true => Ok(()),
            false => Err(TrialError::DoesNotBuild(errors_of(&ended.said))),
        }
    }

    fn simulate(&self, seeds: u64) -> Result<Verdict, TrialError> {
        let profile = if self.is_release { "release" } else { "debug" };
        let mut command = Command::new(self.target.join(profile).join("simulate"));
        let command = command.args(["--first", "--whole", "--seeds", &seeds.to_string()]);
        let Ended { status, said } = child::run(command, SEEDS_LIMIT)?;
        let Some(status) = status else {
            return Ok(Verdict::Hangs { seed: None });
        };
        if status.success() {
            return Ok(Verdict::NotFound);
        }
        let seed = said.lines().find_map(failed_seed);
        Ok(match (seed, status.code() == Some(HANGS.into())) {
            (seed, true) => Verdict::Hangs {
                seed: seed.map(|(seed, _)| seed),
            },
            (Some((seed, what)), false) => Verdict::Found {
                seed: Some(seed),
                what: what.to_owned(),
            },
            // It did not come to say so.
            (None, false) => Verdict::Found {
                seed: None,
                what: format!("the program ended with {status}"),
            },
        })
    }
}

/// Of a line of `simulate` about a seed that has failed: the seed, and why.
fn failed_seed(line: &str) -> Option<(u64, &str)> {
    let (seed, what) = line.strip_prefix("seed ")?.split_once(' ')?;
    let what = what
        .strip_prefix("FAILED: ")
        .or(what.strip_prefix("HANGS: "))?;
    Some((seed.parse().ok()?, what))
}

fn tested(ended: Ended) -> Result<Verdict, TrialError> {
    let said = ended.said;
    let Some(status) = ended.status else {
        return Ok(Verdict::Hangs { seed: None });
    };
    if !said.lines().any(|line| line.trim() == "running 1 test") {
        return Err(TrialError::NoSuchTest(errors_of(&said)));
    }
    match status.success() {
        true => Ok(Verdict::NotFound),
        false => Ok(Verdict::Found {
            seed: None,
            what: panic_of(&said),
        }),
    }
}

/// The lines from the first one on that names an error, or else the last ones.
fn errors_of(said: &str) -> String {
    const LINES: usize = 30;
    let lines: Vec<&str> = said.lines().collect();
    let first = lines.iter().position(|line| line.starts_with("error"));
    let first = first.unwrap_or(lines.len().saturating_sub(LINES));
    let errors = lines.into_iter().skip(first).take(LINES);
    errors.collect::<Vec<_>>().join("\n")
}

/// The message of the first panic.
fn panic_of(said: &str) -> String {
    let mut lines = said.lines();
    let panicked = lines.find(|line| line.contains("panicked at"));
    let message = panicked.and_then(|_| lines.next());
    message.unwrap_or("the test failed").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_that_failed_is_read_from_what_the_simulator_says() {
        let line = "seed 17 FAILED: [\"a panic: oh\"]";

        assert_eq!(failed_seed(line), Some((17, "[\"a panic: oh\"]")));
        assert_eq!(failed_seed("seed 3 HANGS: x"), Some((3, "x")));
        assert_eq!(failed_seed("1 of 18 seeds failed; 3.0 hours"), None);
    }

    #[test]
    fn a_test_that_does_not_exist_proves_nothing() {
        let ended = |said: &str| Ended {
            status: Some(std::process::ExitStatus::default()),
            said: said.to_owned(),
        };

        let none = tested(ended("running 0 tests\n"));
        let passed = tested(ended("running 1 test\ntest a ... ok\n"));

        assert!(matches!(none, Err(TrialError::NoSuchTest(_))), "{none:?}");
        assert!(matches!(passed, Ok(Verdict::NotFound)), "{passed:?}");
    }
}
