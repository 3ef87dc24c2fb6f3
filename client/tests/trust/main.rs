//! Who may do what: strangers, impostors, members that lie, and bytes that change on the way.

mod damaged;
mod impostors;
mod invited;
mod liars;
#[cfg(feature = "quic")]
mod over_quic;
mod strangers;
#[path = "../support/mod.rs"]
mod support;
