//! The master of a pccl run: drives the pure machine of `pccl_core::master` over a transport.
//!
//! The master keeps the membership of a run and decides; the data never passes through it. It is
//! also a program, `pccl-master`.
//!
//! In a program without a runtime, three lines:
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
//! Within a tokio runtime of either flavour, as a future:
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
//! On a loopback address a master is plain unless told otherwise: whoever reaches its port may join. On any
//! other address it encrypts, and lets in who was invited: its peers join with a word, the
//! [`JoinString`], which holds the master's address, its key and a secret. [`Security`] says otherwise, and
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
//! With the cargo feature `quic`, `Trust::ephemeral()?.over(Via::Quic)` is a master that is reached over QUIC,
//! and so are the peers of its run.
//!
//! A peer proves the secret on its connection, without sending it; from then on its key is a member's, and
//! is let in by itself. Revoking an invitation ends the membership of all who came by it: the master
//! closes their connections within a second.
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
//! | `embed` | a master on a thread of its own |
//! | `limits` | what a connection may cost |
//! | `listeners` | listening on several addresses as on one |
//! | `gate`, `room` | who is let in, and who waits outside |
//! | `apology` | turning away whom there is no room for |
//! | `reception` | accepting connections, and their tasks |
//! | `visit` | one connection's way through the house |
//! | `greeting` | the handshake |
//! | `security` | [`Security`], [`Trust`]: who the master is, and whom it lets in |
//! | `doorkeeper` | whose proof is good, and who has to go |
//! | `advertise` | where others reach the master |
//! | `connection` | a peer's connection after the handshake |
//! | `intake` | receiving messages, and what they may cost |
//! | `granted` | what a connection has been granted so far |
//! | `outbox` | what waits to be sent to one peer |
//! | `pulse` | when something last arrived from a peer |
//! | `patience` | time limits |
//! | `desk` | the one loop that owns the machine |
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
pub use limits::Limits;
pub use pccl_core::master::MasterConfig;
pub use pccl_trust::invitations::State as InvitationState;
pub use pccl_trust::{
    Address, AddressError, Invitation, InvitationId, Invitations, JoinString, KeyPair, NoSuchVia,
    PublicKey, Revoked, Terms, Via,
};
pub use security::{Security, Trust};
pub use server::{MasterBuilder, MasterServer, StopHandle};
