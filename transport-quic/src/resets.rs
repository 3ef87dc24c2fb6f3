//! Stateless resets, by which a process that has started again ends the connections of the one before it.
//!
//! A process that is killed says nothing. If another one listens at its address a moment later, no ICMP error tells the
//! other ends either, and they would wait for their idle timeout. But they send, and what they send is of a connection
//! that the new process does not know. It answers with a stateless reset (RFC 9000, section 10.3): a packet that ends
//! in the token which belongs to the connection id of that packet. The other end has got the token over the connection,
//! so it knows that whoever sends it has the same key as the process before, and ends the connection.
//!
//! So the key of the tokens is derived from the listener's key pair, and the processes need not tell each other
//! anything. The port is part of it: a token that one listener gives away is worthless on the connections of another
//! one of the same key pair (RFC 9000, section 21.11).
//!
//! Foreign packets must not draw resets, because the number of resets is limited. So a connection id shows that it was
//! made with the key. quinn has such ids (`HashedConnectionIdGenerator`), but only 2²⁴ of them for a key. Anybody who
//! connects a few million times would have most of their tokens, for as long as the key pair is used.

use std::sync::Arc;
use std::time::Duration;

use pccl_trust::{DerivedKey, KeyPair};
use quinn::crypto::HmacKey;
use quinn::{ConnectionId, ConnectionIdGenerator, EndpointConfig};
use quinn_proto::crypto::CryptoError;
use quinn_proto::{InvalidCid, RandomConnectionIdGenerator};

/// What the keys are for.
const TOKENS: &str = "pccl-transport-quic 2026-11-27 tokens of stateless resets";
const IDS: &str = "pccl-transport-quic 2026-11-27 tags of connection ids";

/// Bytes of a connection id that are random, and bytes that show who has made it. Each packet to the listener carries
/// them.
const RANDOM_BYTES: usize = 8;
const TAG_BYTES: usize = 4;
const ID_BYTES: usize = RANDOM_BYTES + TAG_BYTES;

/// Pause between two resets. A packet that would draw one meanwhile is dropped, and its sender has to send again. After
/// a restart all peers of a large run send within one heartbeat.
const PAUSE: Duration = Duration::from_micros(100);

/// Sets the keys of a listener on this port.
pub(crate) fn set_keys(config: &mut EndpointConfig, pair: &KeyPair, port: u16) {
    let ids = Ids::of(pair, port);
    config
        .reset_key(Arc::new(Tokens::of(pair, port)))
        .cid_generator(move || Box::new(ids.clone()))
        .min_reset_interval(PAUSE);
}

fn derive(pair: &KeyPair, purpose: &str, port: u16) -> DerivedKey {
    pair.derive_key(purpose, &port.to_le_bytes())
}

/// Computes the token of a connection id.
pub(crate) struct Tokens(DerivedKey);

impl Tokens {
    pub(crate) fn of(pair: &KeyPair, port: u16) -> Self {
        Self(derive(pair, TOKENS, port))
    }
}

impl HmacKey for Tokens {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        let mut output = blake3::Hasher::new_keyed(&self.0);
        output.update(data).finalize_xof().fill(signature_out);
    }

    fn signature_len(&self) -> usize {
        blake3::OUT_LEN
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        // The comparison of hashes takes a constant time.
        match blake3::keyed_hash(&self.0, data) == *signature {
            true => Ok(()),
            false => Err(CryptoError),
        }
    }
}

/// Makes connection ids, and recognizes those that any process has made with the same key.
#[derive(Clone)]
pub(crate) struct Ids(Arc<DerivedKey>);

impl Ids {
    pub(crate) fn of(pair: &KeyPair, port: u16) -> Self {
        Self(Arc::new(derive(pair, IDS, port)))
    }

    fn tag(&self, random: &[u8]) -> [u8; TAG_BYTES] {
        let mut tag = [0; TAG_BYTES];
        let mut output = blake3::Hasher::new_keyed(&self.0);
        output.update(random).finalize_xof().fill(&mut tag);
        tag
    }
}

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        let random = RandomConnectionIdGenerator::new(RANDOM_BYTES).generate_cid();
        let mut id = [0; ID_BYTES];
        let (first, last) = id.split_at_mut(RANDOM_BYTES);
        first.copy_from_slice(&random);
        last.copy_from_slice(&self.tag(&random));
        ConnectionId::new(&id)
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        match id.split_at_checked(RANDOM_BYTES) {
            Some((random, tag)) if self.tag(random) == *tag => Ok(()),
            Some(_) | None => Err(InvalidCid),
        }
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(pair: &KeyPair, port: u16, id: &[u8]) -> [u8; 32] {
        let mut token = [0; 32];
        Tokens::of(pair, port).sign(id, &mut token);
        token
    }

    #[test]
    fn a_token_depends_on_the_key_pair_the_port_and_the_connection_id_alone() {
        let (one, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let known = token(&one, 48148, b"connection 7");

        assert_eq!(known, token(&one.clone(), 48148, b"connection 7"));
        let others = [
            token(&other, 48148, b"connection 7"),
            token(&one, 48149, b"connection 7"),
            token(&one, 48148, b"connection 8"),
        ];
        assert!(others.iter().all(|other| *other != known));
        let tokens = Tokens::of(&one, 48148);
        assert!(tokens.verify(b"connection 7", &known).is_ok());
        assert!(tokens.verify(b"connection 8", &known).is_err());
        assert!(tokens.verify(b"connection 7", &known[..16]).is_err());
    }

    #[test]
    fn connection_ids_are_recognized_by_holders_of_the_key_on_the_same_port() {
        let (one, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let mut ids = Ids::of(&one, 48148);
        let (first, second) = (ids.generate_cid(), ids.generate_cid());

        assert_ne!(first, second);
        assert_eq!(first.len(), ids.cid_len());
        for id in [first, second] {
            assert!(Ids::of(&one, 48148).validate(&id).is_ok());
            assert!(Ids::of(&one, 48149).validate(&id).is_err());
            assert!(Ids::of(&other, 48148).validate(&id).is_err());
        }
        for length in [0, 7, 8, 11] {
            assert!(ids.validate(&ConnectionId::new(&first[..length])).is_err());
        }
    }
}
