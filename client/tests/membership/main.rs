//! Runs: joining and leaving, what is lost and what goes on, the shared state, and where the peers are.

mod collisions;
mod connecting;
mod default_settings;
mod found_sites;
mod losses;
mod master_restarts;
mod newcomers;
mod optimizing;
mod overlapped;
mod recording;
mod rounds;
mod sessions;
mod shared_state;
mod shutting_down;
mod sites;
#[path = "../support/mod.rs"]
mod support;
