//! Lanes over TLS 1.3: the same connections, encrypted, on which both ends prove their keys.
//!
//! The handshake is rustls'. The records behind it are sealed and opened here, in one pass between the
//! caller's memory and the socket's buffers: rustls copies each twice more, which took more time than the
//! encryption.
//!
//! | file | what it is for |
//! |---|---|
//! | `config` | this process's key, and what both ends are configured with |
//! | `handshake` | from a connection to a lane |
//! | `secrets` | what a handshake leaves, and the keys that are made of it |
//! | `record` | a record is sealed, or opened |
//! | `record_writer`, `record_reader` | the two directions of a session, apart from the socket |
//! | `read_buffer` | what has been read and not yet been opened |
//! | `error` | what is wrong with what the other end sent |
//! | `session` | the session of a connection, which both halves of a lane share |
//! | `lane` | the two halves |
//! | `acceptor` | handshakes of those who dial, side by side |

mod acceptor;
mod config;
mod error;
mod handshake;
mod lane;
mod read_buffer;
mod record;
mod record_reader;
mod record_writer;
mod secrets;
mod session;
#[cfg(test)]
mod tests;

pub(crate) use acceptor::Acceptor;
pub(crate) use config::Keys;
pub(crate) use handshake::dial;
