//! Authentication and admission: keys, TLS configurations, join strings and invitations, for the transports that
//! encrypt and for the master.
//!
//! There is no certificate authority, and there are no certificates. Every process has an Ed25519 key pair
//! ([`KeyPair`]), and its [`PublicKey`] identifies it. Both ends of every connection prove their keys in the
//! handshake, as raw public keys of RFC 7250. A peer knows its master's key from a [`JoinString`]. It sends the
//! master a [`Proof`] that it has the string's [`Secret`], which is never sent. The master keeps [`Invitations`], and
//! tells each peer the keys of the others.
//!
//! ```
//! use std::sync::Arc;
//! use pccl_trust::{
//!     Admitted, ChannelBinding, Invitations, JoinString, KeyPair, Proof, Terms, Via, client_config,
//!     established, server_config,
//! };
//! use rustls::pki_types::ServerName;
//! use rustls::{ClientConnection, ServerConnection};
//!
//! // A master invites.
//! let master = KeyPair::generate()?;
//! let mut invitations = Invitations::in_memory();
//! let (id, secret) = invitations.invite(Terms::default(), 1_800_000_000)?;
//! let addresses = vec!["192.0.2.7:48148".parse()?];
//! let word = JoinString::new(Via::Tls, addresses, master.public_key(), secret)?.to_word();
//!
//! // A peer dials whom the join string names.
//! let join: JoinString = word.parse()?;
//! let peer = KeyPair::generate()?;
//! let whom = ServerName::try_from(join.master().server_name())?;
//! let mut dials = ClientConnection::new(Arc::new(client_config(&peer)?), whom)?;
//! let mut dialled = ServerConnection::new(Arc::new(server_config(&master)?))?;
//! # let mut wire = Vec::new();
//! # while dials.is_handshaking() || dialled.is_handshaking() {
//! #     wire.clear();
//! #     while dials.wants_write() { dials.write_tls(&mut wire)?; }
//! #     let mut bytes = wire.as_slice();
//! #     while !bytes.is_empty() { dialled.read_tls(&mut bytes)?; dialled.process_new_packets()?; }
//! #     wire.clear();
//! #     while dialled.wants_write() { dialled.write_tls(&mut wire)?; }
//! #     let mut bytes = wire.as_slice();
//! #     while !bytes.is_empty() { dials.read_tls(&mut bytes)?; dials.process_new_packets()?; }
//! # }
//! // ... they exchange their handshake. Then the peer proves that it is invited:
//! let here = established(&dials)?;
//! let proof = Proof::new(join.secret(), &here.binding, &peer.public_key()).to_bytes();
//!
//! // ... which the master, to which it is sent, finds to be so:
//! let here = established(&dialled)?;
//! assert_eq!(here.peer, peer.public_key());
//! let admitted = invitations.verify(&proof.into(), &here.binding, here.peer, 1_800_000_060)?;
//! assert_eq!(admitted, Admitted::First { by: id });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | what it is for |
//! |---|---|
//! | `public_key` | [`PublicKey`]: the identity of a process |
//! | `key_pair` | [`KeyPair`], freshly made or kept in a file |
//! | `provider` | the cryptography library, the cipher suites, randomness |
//! | `tls` | [`client_config`], [`server_config`] |
//! | `verifier` | checking keys in a handshake |
//! | `session` | the results of a handshake: [`established`] |
//! | `secret`, `proof` | [`Secret`], and the [`Proof`] that a peer has it |
//! | `join`, `address` | [`JoinString`], [`Address`] |
//! | `invitations` | [`Invitations`]: the peers that a master admits, and their file |
//! | `private_file` | files that only their owner may read |
//! | `base32` | bytes as text |
//!
//! # Secrets in memory
//!
//! This crate wipes the seeds and secrets that it keeps, and what it derives from them. It does not wipe copies that
//! the compiler leaves on the stack.

#![forbid(unsafe_code)]

mod address;
mod base32;
pub mod invitations;
mod join;
mod key_pair;
mod private_file;
mod proof;
mod provider;
mod public_key;
mod secret;
mod session;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tls;
mod verifier;

pub use address::{Address, AddressError};
pub use invitations::{
    AdmitError, Admitted, Denial, Invitation, InvitationError, InvitationId, Invitations,
    Membership, NotAnInvitationId, Revoked, Terms,
};
pub use join::{JoinError, JoinString, NoSuchVia, Via};
pub use key_pair::{DerivedKey, KeyError, KeyPair};
pub use private_file::FileError;
pub use proof::{ChannelBinding, Proof};
pub use provider::NoRandomness;
pub use public_key::{NotAPublicKey, PublicKey};
pub use secret::Secret;
pub use session::{Established, Unproven, check_alpn, established, peer_key, proven_peer};
pub use tls::{ALPN, client_config, server_config};
pub use verifier::WrongKey;
