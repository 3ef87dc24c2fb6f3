//! Files of what the machines of real runs heard and said: writing them beside a run, and replaying
//! them afterwards.
//!
//! Both drivers of a machine, `pccl` and `pccl-master`, keep it as a [`Recorded`]: the machine, and the
//! file of its log where one is wanted. [`conform`] replays all logs of a directory; the checker and the
//! tests of whole processes call it. What is in a log is said in [`pccl_core::log`].
//!
//! ```
//! use pccl_core::master::{Master, MasterConfig, MasterInput};
//! use pccl_recording::{Recorded, conform};
//!
//! # let here = std::env::temp_dir().join(format!("pccl-recording-doc-{}", std::process::id()));
//! let mut master = Recorded::<Master>::begin(MasterConfig::default(), Some(&here));
//! master.handle(MasterInput::Stop, &mut Vec::new());
//!
//! let summary = conform(&here)?;
//! assert!(summary.is_equal());
//! assert_eq!(summary.records(), 1);
//! # std::fs::remove_dir_all(&here).ok();
//! # Ok::<(), pccl_recording::NothingToReplay>(())
//! ```
//!
//! **A log is as secret as its run**: whoever reads it can open lanes to its peers while the run lasts.
//! On Unix its file is readable by its owner alone.
//!
//! | file | what it is for |
//! |---|---|
//! | `recorded` | [`Recorded`]: a machine beside its log |
//! | `file` | one log on disk |
//! | `conform` | replaying a directory |

#![forbid(unsafe_code)]

mod conform;
mod file;
mod recorded;

pub use conform::{Checked, NothingToReplay, ReplayOutcome, Summary, conform, logs};
pub use file::{EXTENSION, NoRecording};
pub use recorded::{DIRECTORY_VARIABLE, Recorded, directory};
