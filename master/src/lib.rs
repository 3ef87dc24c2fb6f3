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
//! | `gate`, `site` | who is let in, and who waits outside |
//! | `apology` | turning away whom there is no room for |
//! | `reception` | accepting connections, and their tasks |
//! | `greeting` | the handshake |
//! | `connection` | a peer's connection after the handshake |
//! | `intake` | receiving messages, and what they may cost |
//! | `standing` | what a connection has been granted so far |
//! | `outbox` | what waits to be sent to one peer |
//! | `pulse` | when something last arrived from a peer |
//! | `patience` | time limits |
//! | `desk` | the one loop that owns the machine |
//! | `chronicle` | log lines |
#![forbid(unsafe_code)]

mod apology;
mod chronicle;
mod connection;
mod desk;
mod embed;
mod error;
mod gate;
mod greeting;
mod intake;
mod limits;
mod outbox;
mod patience;
mod pulse;
mod reception;
mod server;
mod standing;

pub use embed::{RunningMaster, spawn};
pub use error::ServeError;
pub use limits::Limits;
pub use pccl_core::master::MasterConfig;
pub use server::{MasterBuilder, MasterServer, StopHandle};
