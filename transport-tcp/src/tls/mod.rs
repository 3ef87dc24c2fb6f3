//! Lanes over TLS 1.3: the same connections, encrypted, on which both ends prove their keys.
//!
//! | file | what it is for |
//! |---|---|
//! | `config` | this process's key, and what both ends are configured with |
//! | `handshake` | from a connection to a lane |
//! | `session` | the TLS session of a connection, which both halves of a lane share |
//! | `lane` | the two halves |
//! | `acceptor` | handshakes of those who dial, side by side |

mod acceptor;
mod config;
mod handshake;
mod lane;
mod session;

pub(crate) use acceptor::Acceptor;
pub(crate) use config::Keys;
pub(crate) use handshake::dial;
