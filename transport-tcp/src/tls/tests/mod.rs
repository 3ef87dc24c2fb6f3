//! Sessions without sockets: against rustls at the other end, against bytes that somebody has changed, and
//! against ends that keep to the letter of TLS alone.

mod against_rustls;
mod bounds;
mod hostile;
mod over_sockets;

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;

use pccl_core::transport::LaneError;
use pccl_trust::{KeyPair, client_config, server_config};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, Error, ServerConnection,
    SignatureScheme, SupportedCipherSuite,
};

use super::error::TlsError;
use super::read_buffer::ReadBuffer;
use super::record::{OVERHEAD_BYTES, Opener, Sealer, length_of};
use super::record_reader::{Received, RecordReader};
use super::record_writer::RecordWriter;
use super::secrets::{Overheard, TrafficSecret};

pub(super) const SUITES: [SupportedCipherSuite; 3] = [
    cipher_suite::TLS13_AES_128_GCM_SHA256,
    cipher_suite::TLS13_AES_256_GCM_SHA384,
    cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
];

/// Believes everybody: who is at the other end is not what is tested here.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2".into()))
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// A client that offers one cipher suite.
fn client_of(suite: SupportedCipherSuite) -> ClientConfig {
    let own = client_config(&KeyPair::generate().unwrap()).unwrap();
    let provider = CryptoProvider {
        cipher_suites: vec![suite],
        ..default_provider()
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(provider));
    let builder = builder.with_protocol_versions(&[&TLS13]).unwrap();
    let builder = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody));
    let mut config = builder.with_client_cert_resolver(own.client_auth_cert_resolver.clone());
    config.alpn_protocols = own.alpn_protocols;
    config
}

/// Both ends of one session, each as rustls has it and as this crate does.
struct Met {
    client: Connection,
    server: Connection,
    our_client: Ours,
    our_server: Ours,
}

fn meet(suite: SupportedCipherSuite) -> Met {
    let (of_client, of_server) = (Arc::default(), Arc::default());
    let mut config = client_of(suite);
    config.key_log = Arc::<Overheard>::clone(&of_client);
    let name = ServerName::try_from("anybody.invalid").unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name)
        .unwrap()
        .into();
    let mut config = server_config(&KeyPair::generate().unwrap()).unwrap();
    config.key_log = Arc::<Overheard>::clone(&of_server);
    let mut server = ServerConnection::new(Arc::new(config)).unwrap().into();
    while is_busy(&client) || is_busy(&server) {
        let wire = written(&mut client);
        hear(&mut server, &wire).unwrap();
        let wire = written(&mut server);
        hear(&mut client, &wire).unwrap();
    }
    Met {
        our_client: Ours::new(suite, &of_client, true),
        our_server: Ours::new(suite, &of_server, false),
        client,
        server,
    }
}

fn is_busy(end: &Connection) -> bool {
    end.is_handshaking() || end.wants_write()
}

/// What an end of rustls has to say.
fn written(end: &mut Connection) -> Vec<u8> {
    let mut wire = Vec::new();
    while end.wants_write() {
        end.write_tls(&mut wire).unwrap();
    }
    wire
}

/// What an end of rustls makes of what it hears: what was sent, and whether that was all.
fn hear(end: &mut Connection, mut wire: &[u8]) -> Result<(Vec<u8>, bool), Error> {
    let mut heard = Vec::new();
    while !wire.is_empty() {
        if end.read_tls(&mut wire).unwrap() == 0 {
            break;
        }
        end.process_new_packets()?;
        match end.reader().read_to_end(&mut heard) {
            Ok(_) => return Ok((heard, true)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    Ok((heard, false))
}

/// What an end of rustls sends.
fn said(end: &mut Connection, bytes: &[u8]) -> Vec<u8> {
    end.set_buffer_limit(None);
    end.writer().write_all(bytes).unwrap();
    written(end)
}

/// One end, as this crate has it.
struct Ours {
    writer: RecordWriter,
    reader: RecordReader,
}

impl Ours {
    fn new(suite: SupportedCipherSuite, overheard: &Overheard, is_client: bool) -> Self {
        let secret = |secret: Option<_>| TrafficSecret::new(suite, secret.unwrap()).unwrap();
        let of_client = secret(overheard.take_client());
        let of_server = secret(overheard.take_server());
        let (own, other) = match is_client {
            true => (of_client, of_server),
            false => (of_server, of_client),
        };
        let opener = Opener::new(other).unwrap();
        Self {
            writer: RecordWriter::new(Sealer::new(own).unwrap()),
            reader: RecordReader::new(ReadBuffer::default(), opener, is_client),
        }
    }

    /// All that it has to say.
    fn written(&mut self) -> Vec<u8> {
        let mut wire = Vec::new();
        loop {
            let rest = self.writer.rest();
            if rest.is_empty() {
                return wire;
            }
            wire.extend_from_slice(rest);
            let bytes = rest.len();
            self.writer.wrote(bytes);
        }
    }

    /// Sends all of it.
    fn say(&mut self, mut bytes: &[u8]) -> Result<Vec<u8>, LaneError> {
        let mut wire = self.written();
        while !bytes.is_empty() {
            bytes = &bytes[self.writer.seal(&[bytes])?..];
            wire.extend(self.written());
        }
        Ok(wire)
    }

    /// What it makes of what it hears, `room` bytes at a time: all that was sent, and how that ended.
    fn hear(&mut self, mut wire: &[u8], room: usize) -> (Vec<u8>, Result<Received, TlsError>) {
        let (mut heard, mut into) = (Vec::new(), vec![0; room]);
        loop {
            let received = self.reader.receive(&mut into);
            if self.reader.take_owed_update() {
                self.writer.owe_update();
            }
            match received {
                Ok(Received::Data(bytes)) => heard.extend_from_slice(&into[..bytes]),
                Ok(Received::Nothing) if !wire.is_empty() => {
                    wire = &wire[self.reader.read_buffer.put(wire)..];
                }
                end => return (heard, end),
            }
        }
    }
}

/// Bytes of which no two places look alike.
fn pattern(bytes: usize) -> Vec<u8> {
    let word = |at: u32| at.wrapping_mul(0x9e37_79b1).to_le_bytes();
    (0..).flat_map(word).take(bytes).collect()
}

/// The content of each record on a wire, in bytes.
fn lengths(mut wire: &[u8]) -> Vec<usize> {
    let mut lengths = Vec::new();
    while let Some(length) = length_of(wire).unwrap() {
        lengths.push(length - OVERHEAD_BYTES);
        wire = &wire[length..];
    }
    lengths
}
