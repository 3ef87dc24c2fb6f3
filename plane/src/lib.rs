//! The data plane: moves bytes between ranks by a plan of `pccl-core`, over lanes.
//!
//! It knows links, ranks, sites, plans, lanes and the numbers of operations. It knows no vote, no epoch and no ring:
//! who takes part, which lanes a link is, and when an operation begins and ends is decided elsewhere, and told
//! here in four calls.
//!
//! # One operation
//!
//! ```text
//! from a rank ──lane──▶ ┌────────────────────────────┐ ──lane──▶ to a rank
//!                       │ run: work + user's buffers │
//! from a rank ──lane──▶ └────────────────────────────┘ ──lane──▶ to a rank
//!              keepers hold the lanes that no operation uses
//! ```
//!
//! 1. Lanes that were opened are [installed](DataPlane::install) for a link. When all ends agree,
//!    [`DataPlane::adopt`] says which peer has which rank, at which site, and which lanes are in use.
//! 2. [`DataPlane::begin`] registers an operation under its number, and returns its [`OperationPort`]. From then
//!    on its frames find it. A *frame* is a header and up to 256 KiB of payload, or 1 MiB if
//!    all ranks only copy it within a machine.
//! 3. [`OperationPort::run`] borrows the user's memory and does this rank's part in its caller's task: it
//!    receives from the lanes of links from other ranks, reduces, and sends on the lanes of links to other ranks.
//!    Which ranks those are says the plan: the previous and the next one, or all others.
//! 4. [`DataPlane::stop`] ends the operation. What it has left half done is finished, and what arrives late is
//!    read and thrown away.
//!
//! # Map
//!
//! | room | what it does | depends on |
//! |---|---|---|
//! | `plane` | the lanes and the running operations of a peer | all |
//! | `ranks` | which peer has which rank and is at which site, which links are in use | |
//! | `run` | the loop of one operation, and finding out that nothing moves | `work`, `handover`, `memory`, `pace` |
//! | `work` | one rank's part of an operation, frame by frame, without I/O | `memory`, `pace` |
//! | `handover` | lanes that are handed from operation to operation | `pace` (a share is delivered) |
//! | `memory` | the user's buffers, their backup, frame buffers that are used again, large pages | |
//! | `pace` | every limit of flow control, on one page | `handover` (shares are delivered) |
//! | `progress`, `floats`, `error_bound` | the counter of what moves; floats as bytes; what encoding may lose | |
//!
//! # What holds
//!
//! - A frame that was reduced or stored leaves under the number of the next step at once. There is no
//!   barrier between steps.
//! - Receiving never waits for sending: what cannot leave yet waits in the operation's outbox, and
//!   beyond a few frames in memory that nobody needs before the result. So no ring of full buffers can
//!   lock itself up.
//! - Several operations share the lanes frame by frame. An operation passes on what it receives at once; when its
//!   own contribution begins to leave is decided by `pace`.
//! - An operation that is stopped loses nothing but its own frames: those that have begun are finished,
//!   those that arrive late are read and thrown away.
//! - A payload that came with a checksum is compared before anything is computed from it or passed on. Who passes it on
//!   unchanged passes the checksum on too.
//! - With one operation no frame takes a lock, allocates or wakes another task.

#![forbid(unsafe_code)]

mod error_bound;
mod floats;
mod handover;
mod memory;
mod pace;
mod plane;
mod progress;
mod ranks;
mod run;
#[cfg(test)]
mod tests;
mod work;

pub use error_bound::{encoding_error_bound, error_bound};
pub use floats::Float;
pub use handover::LinkBroke;
pub use memory::{Backup, UserBuffers, ZeroedMemory};
pub use pace::{CONCURRENT_DEFAULT, Checksums, PlaneConfig};
pub use plane::DataPlane;
pub use progress::{Progress, Sensor};
pub use ranks::{LanesInUse, LinkInUse, Ranks};
pub use run::{OperationPort, RunFailure, RunStats, WaitedLink, Waits};
pub use work::{Defect, is_supported};
