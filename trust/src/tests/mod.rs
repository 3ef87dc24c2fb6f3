//! Handshakes in memory, and what an attacker can do about them.

mod handshakes;
mod joining;

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, Error, ServerConfig, ServerConnection};

use crate::{KeyPair, PublicKey, client_config, server_config};

/// The key pair of this number, the same each time.
fn key(number: u8) -> KeyPair {
    KeyPair::from_seed(&[number; 32]).unwrap()
}

/// Both ends after a handshake, how each of them ended, and all that an eavesdropper has seen.
struct Meeting {
    client: ClientConnection,
    server: ServerConnection,
    client_says: Result<(), Error>,
    server_says: Result<(), Error>,
    seen: Vec<u8>,
}

impl Meeting {
    fn succeeded(self) -> Self {
        assert_eq!(self.client_says, Ok(()));
        assert_eq!(self.server_says, Ok(()));
        assert!(!self.client.is_handshaking() && !self.server.is_handshaking());
        self
    }
}

/// A client that expects `whom` meets a server.
fn meet(client: ClientConfig, server: ServerConfig, whom: PublicKey) -> Meeting {
    meet_at(Arc::new(client), Arc::new(server), whom)
}

fn meet_at(client: Arc<ClientConfig>, server: Arc<ServerConfig>, whom: PublicKey) -> Meeting {
    let name = ServerName::try_from(whom.server_name()).unwrap();
    let client = ClientConnection::new(client, name).unwrap();
    let server = ServerConnection::new(server).unwrap();
    let (mut client, mut server) = (Connection::from(client), Connection::from(server));
    let (mut client_says, mut server_says) = (Ok(()), Ok(()));
    let mut seen = Vec::new();
    loop {
        let there = carry(&mut client, &mut server, &mut server_says);
        let back = carry(&mut server, &mut client, &mut client_says);
        if there.is_empty() && back.is_empty() {
            break;
        }
        seen.extend([there, back].concat());
    }
    let (Connection::Client(client), Connection::Server(server)) = (client, server) else {
        unreachable!("they are what they were made from");
    };
    Meeting {
        client,
        server,
        client_says,
        server_says,
        seen,
    }
}

/// All that one end has to say reaches the other, which goes on until it has failed.
fn carry(from: &mut Connection, to: &mut Connection, says: &mut Result<(), Error>) -> Vec<u8> {
    let mut wire = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut wire).unwrap();
    }
    let mut rest = wire.as_slice();
    while !rest.is_empty() && says.is_ok() {
        to.read_tls(&mut rest).unwrap();
        *says = to.process_new_packets().map(|_| ());
    }
    wire
}

fn honest(client: u8, server: u8) -> Meeting {
    let (client, server) = (key(client), key(server));
    meet(
        client_config(&client).unwrap(),
        server_config(&server).unwrap(),
        server.public_key(),
    )
}
