//! One program as several processes, for examples, tests and benchmarks that start a run by themselves.
//!
//! | side | what it has |
//! |---|---|
//! | the parent | [`Processes`]: it starts them, sends them orders, hears their events, and kills what still runs when it is dropped |
//! | a child | [`tell`], and [`next_order`] or [`obey_orders`] |
//!
//! Orders and events are types of the program's own. Each travels as one line of JSON, over the child's
//! standard input and standard output. A program usually starts itself, with arguments that say which role
//! the child has:
//!
//! ```no_run
//! use std::process::Command;
//! use std::time::{Duration, Instant};
//!
//! use pccl_subprocess::{Processes, ProcessError, next_order, tell};
//!
//! fn parent() -> Result<(), ProcessError> {
//!     let mut processes = Processes::<String>::new();
//!     let child = processes.start(Command::new(std::env::current_exe()?).arg("child"))?;
//!     processes.tell(child, &"How are you?")?;
//!     let heard = processes.next_before(Instant::now() + Duration::from_secs(60));
//!     assert_eq!(heard, Some((child, Some("Fine.".to_owned()))));
//!     Ok(())
//! }
//!
//! fn child() {
//!     while let Some(question) = next_order::<String>() {
//!         assert_eq!(question, "How are you?");
//!         tell(&"Fine.");
//!     }
//! }
//! ```

#![forbid(unsafe_code)]

mod child;
mod parent;

pub use child::{next_order, obey_orders, tell};
pub use parent::{Process, ProcessError, Processes};
