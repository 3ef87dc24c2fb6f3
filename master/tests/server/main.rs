//! The master as its peers, strangers and operators see it: bytes in, bytes out.

#[path = "../support/mod.rs"]
mod support;

mod attack;
mod crowd;
mod farewell;
mod handshake;
#[cfg(unix)]
mod invitations;
mod membership;
#[cfg(unix)]
mod program;
mod trust;
