//! Mistakes in the protocol, to check the model checker with. Only with the feature `mutants`, which
//! no program that does work has.
//!
//! Each stands beside the rule that it breaks, in a `rule!`. One at a time is switched on, for the
//! whole process:
//!
//! ```
//! use pccl_core::mutants::{Mutant, switch_on, taken};
//!
//! switch_on(Mutant::from_name("commit-before-last-vote"));
//! // … explore …
//! assert!(!taken()); // nobody has come to the place where it would be made
//! switch_on(None);
//! ```

#[macro_use]
mod switch;

mod list;
pub(crate) mod replay;

pub use list::Mutant;
pub use switch::{switch_on, taken, times_switched};
