//! An internet in a box: network namespaces as hosts, and one process as the wire between them.
//!
//! ```text
//!   topology.toml ─▶ Topology ─▶ Plan: a way for each ordered pair of hosts, and what they share
//!                                  │
//!    namespace  ◀─ TUN ─▶ driver ─▶ Wire ─▶ driver ◀─ TUN ─▶  namespace
//!    of a host            reads   decides   writes             of another
//! ```
//!
//! | file | what it is for |
//! |---|---|
//! | `units` | delays, rates, sizes and shares as they are written in a file |
//! | `topology`, `plan` | the file of sites and links, and what it means for each pair |
//! | `wire` | when each packet arrives, or why it does not; pure, with a clock that is handed in |
//! | `limit`, `losses`, `wander` | what a wire is made of: a rate with a queue, loss, jitter |
//! | `counts`, `report` | what became of the packets, and how it is printed |
//! | `packet`, `train` | packets, and many of them as one: where they go, and how they are cut |
//! | `yard`, `slots` | where they wait |
//! | `resets` | TCP connections that are reset from outside |
//! | `namespaces`, `driver` | hosts, and the thread that carries packets between them (Linux only) |
//! | `commands` | a command per host, and its output (Linux only) |
//! | `check` | whether a box does what its file says, measured from within (Linux only) |
//!
//! **Invariant:** `wire` and what it is made of read no clock and no random source that is not seeded.

pub mod counts;
pub mod limit;
pub mod losses;
pub mod packet;
pub mod plan;
pub mod report;
pub mod resets;
pub mod slots;
pub mod topology;
pub mod train;
pub mod units;
pub mod wander;
pub mod wire;
pub mod yard;

#[cfg(target_os = "linux")]
pub mod check;
#[cfg(target_os = "linux")]
pub mod commands;
#[cfg(target_os = "linux")]
pub mod driver;
#[cfg(target_os = "linux")]
pub mod namespaces;
