//! Lanes, which are handed from one operation to another at the boundaries of frames.
//!
//! | file | what it is for |
//! |---|---|
//! | `link` | a link in use: its lanes, the tasks that keep them, the one report that it broke |
//! | `receiving` | lanes from other ranks: who has the next frame on it has the lane |
//! | `sending` | lanes to other ranks: those that have something to send take turns |
//! | `registry` | which operations run, and the deliveries by which they get lanes and news |
//! | `mailbox` | the queue of such deliveries, which keeps its memory |

mod link;
mod mailbox;
mod receiving;
mod registry;
mod sending;

pub use link::LinkBroke;
pub(crate) use link::{Installed, LinkState, Reports, StandingLink};
pub(crate) use receiving::{AHEAD_BYTES, Home, ReadEnd, RxLane};
pub(crate) use registry::{Course, Delivery, DeliverySender, Inbox, Operation, Registry};
pub(crate) use sending::{TxLane, TxSlot};
