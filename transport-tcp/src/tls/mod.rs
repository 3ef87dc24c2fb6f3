//! Lanes over TLS 1.3: encrypted TCP connections on which both ends prove their keys.
//!
//! rustls does the handshake. The records after it are sealed and opened here, in one pass between the caller's
//! memory and the buffers of the socket. rustls would copy each record twice more, which took more time than the
//! encryption.
//!
//! | file | what it is for |
//! |---|---|
//! | `config` | this process's key, and the TLS configurations of both ends |
//! | `handshake` | from a connection to a lane |
//! | `secrets` | the traffic secrets of a handshake, and their keys |
//! | `record` | sealing and opening one record |
//! | `record_writer`, `record_reader` | the two directions of a session, without the socket |
//! | `read_buffer` | ciphertext that was read and is not opened yet |
//! | `error` | errors in what the other end sent |
//! | `session` | the session of a connection, which both halves of a lane share |
//! | `lane` | the two halves |
//! | `acceptor` | concurrent handshakes of incoming connections |
//! | `fuzzing` | a session whose records somebody else has made; only with the feature of that name |

mod acceptor;
mod config;
mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
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
