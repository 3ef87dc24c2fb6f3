//! The master of a pccl run. It drives the state machine of `pccl_core::master` over a transport.
//!
//! The master keeps the membership of a run, and decides. The data never passes through it. It exists as this library
//! and as a program, `pccl-master`.
//!
//! In a program without an async runtime:
//!
//! ```
//! # fn main() -> Result<(), pccl_master::ServeError> {
//! let master = pccl_master::spawn("127.0.0.1:0")?;
//! println!("peers connect to {}", master.local_addr());
//! master.stop(); // or drop it
//! # Ok(())
//! # }
//! ```
//!
//! In a tokio runtime of either flavour, as a future:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), pccl_master::ServeError> {
//! use pccl_master::MasterServer;
//!
//! let server = MasterServer::bind(([127, 0, 0, 1], 0).into()).await?;
//! let (address, handle) = (server.local_addr(), server.handle());
//! let running = tokio::spawn(server.run());
//! println!("peers connect to {address}");
//! handle.stop();
//! running.await.ok();
//! # Ok(())
//! # }
//! ```
//!
//! # Who may join
//!
//! A master on a loopback address is plain by default: every process that reaches its port may join. A master on any
//! other address encrypts by default, and admits only peers that were invited. A peer joins with a [`JoinString`],
//! one word that holds the master's addresses, its key and a secret. [`Security`] overrides the default.
//! [`Trust::of_directory`] keeps key and invitations across restarts.
//!
//! ```
//! use pccl_master::{MasterServer, Security, Terms, Trust};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let trust = Trust::ephemeral()?;
//! let builder = MasterServer::builder().security(Security::Proven(trust.clone()));
//! let master = builder.spawn("127.0.0.1:0")?;
//!
//! // For everybody, until the master ends:
//! let everybody = master.join_string(&[])?.expect("it encrypts");
//! println!("join: {}", *everybody.to_word());
//!
//! // For one peer:
//! let terms = Terms { uses: Some(1), ..Terms::default() };
//! let (id, one) = trust.invite(terms, everybody.addresses())?;
//! println!("join: {}", *one.to_word());
//! trust.revoke(id)?;
//! # Ok(())
//! # }
//! ```
//!
//! With the cargo feature `quic`, `Trust::ephemeral()?.over(Via::Quic)` makes a master that is reached over QUIC; the
//! lanes between its peers then use QUIC as well.
//!
//! A peer proves on its connection that it has the secret, without sending it. The master then records the peer's key
//! as a member's, and the key alone is enough for the next connections. Revoking an invitation ends the membership of
//! all peers that it admitted: the master closes their connections within a second.
//!
//! # How it is arranged
//!
//! ```text
//!  listener ─▶ reception ─▶ one task per connection ──bounded queue──▶ desk: the machine
//!               gate            handshake, reader, writer ◀──outbox──  and its timers
//! ```
//!
//! | file | what it is for |
//! |---|---|
//! | `server` | builder, [`MasterServer`], [`StopHandle`] |
//! | `embed` | a master on its own thread |
//! | `limits` | limits on the time and memory of a connection |
//! | `listeners` | several listening addresses as one listener |
//! | `gate`, `room` | admission control for connections that have not said hello |
//! | `apology` | refusing connections for which there is no room |
//! | `reception` | accepting connections, and their tasks |
//! | `visit` | the stages of one connection |
//! | `greeting` | the handshake |
//! | `security` | [`Security`], [`Trust`]: the master's key and its invitations |
//! | `doorkeeper` | verifying proofs, and disconnecting revoked members |
//! | `advertise` | the addresses at which others reach the master |
//! | `connection` | a peer's connection after the handshake |
//! | `intake` | receiving messages within a memory budget |
//! | `granted` | the permissions of a connection |
//! | `outbox` | the send queue of one peer |
//! | `pulse` | the time of the last arrival from a peer |
//! | `patience` | time limits |
//! | `desk` | the loop that owns the machine |
//! | `journal` | what of the run outlives the process, on disk |
//! | `searches` | background searches for better rings |
//! | `chronicle`, `seldom` | log lines |
#![forbid(unsafe_code)]

mod advertise;
mod apology;
mod chronicle;
mod connection;
mod desk;
mod doorkeeper;
mod embed;
mod error;
mod gate;
mod granted;
mod greeting;
mod intake;
mod journal;
mod limits;
mod listeners;
mod outbox;
mod patience;
mod pulse;
mod reception;
mod searches;
mod security;
mod seldom;
mod server;
mod visit;

pub use advertise::reachable_at;
pub use embed::{RunningMaster, spawn};
pub use error::{ServeError, TrustError};
pub use journal::JournalError;
pub use limits::Limits;
pub use pccl_core::master::MasterConfig;
pub use pccl_trust::invitations::State as InvitationState;
pub use pccl_trust::{
    Address, AddressError, Invitation, InvitationId, Invitations, JoinString, KeyPair, NoSuchVia,
    PublicKey, Revoked, Terms, Via,
};
pub use security::{Security, Trust};
pub use server::{MasterBuilder, MasterServer, StopHandle};
