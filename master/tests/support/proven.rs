//! A peer that speaks TLS or QUIC to a master, and shows it a proof.

use std::net::SocketAddr;

use pccl_core::id::Identity;
use pccl_core::transport::{Endpoint, Lane, LaneError, Transport};
use pccl_core::wire::{HandshakeError, PROOF_BYTES, Preamble, offer_proven};
use pccl_master::{JoinString, KeyPair, PublicKey};
use pccl_transport_tcp::Tcp;
use pccl_trust::{ChannelBinding, Proof, Secret, Via};

use super::client::{Client, soon};

/// What shows no secret.
pub(crate) const NOTHING: [u8; PROOF_BYTES] = [0; PROOF_BYTES];

/// A process with a key of its own.
pub(crate) struct Peer {
    pair: KeyPair,
    via: Via,
}

impl Peer {
    /// One that speaks TLS.
    pub(crate) fn new() -> Self {
        Self::over(Via::Tls)
    }

    pub(crate) fn over(via: Via) -> Self {
        let pair = KeyPair::generate().unwrap();
        Self { pair, via }
    }

    fn transport(&self) -> Box<dyn Transport> {
        match self.via {
            #[cfg(feature = "quic")]
            Via::Quic => Box::new(pccl_transport_quic::Quic::new().key_pair(&self.pair)),
            _ => Box::new(Tcp::new().key_pair(&self.pair)),
        }
    }

    /// Opens a lane to a master of which only its key is known, and says nothing.
    pub(crate) async fn try_dial(
        &self,
        to: SocketAddr,
        master: PublicKey,
    ) -> Result<Lane, LaneError> {
        let (to, master) = (Endpoint::Address(to), Identity(master.into()));
        soon("a handshake", self.transport().open(&to, Some(master))).await
    }

    /// Opens a lane to the master of a join string.
    pub(crate) async fn dial(&self, join: &JoinString) -> Lane {
        let at = join.addresses()[0].as_socket_addr().expect("a number");
        self.try_dial(at, join.master()).await.expect("a lane")
    }

    /// What shows, on this lane, that the peer has the secret.
    pub(crate) fn proof(&self, lane: &Lane, secret: &Secret) -> [u8; PROOF_BYTES] {
        let binding = ChannelBinding::from(lane.proven.expect("TLS").binding);
        Proof::new(secret, &binding, &self.pair.public_key()).to_bytes()
    }

    /// Comes as far as the answer to its proof.
    pub(crate) async fn try_join(&self, join: &JoinString) -> Result<Client, HandshakeError> {
        let lane = self.dial(join).await;
        let proof = self.proof(&lane, join.secret());
        show(lane, &proof).await
    }

    /// Comes as far as the welcome.
    pub(crate) async fn join(&self, join: &JoinString) -> Client {
        let client = self.try_join(join).await.expect("an accepted proof");
        client.welcomed().await
    }

    /// What it is told where it is not let in.
    pub(crate) async fn refusal(&self, join: &JoinString) -> String {
        refused(self.try_join(join).await)
    }
}

/// Shows these bytes on the lane.
pub(crate) async fn show(
    mut lane: Lane,
    proof: &[u8; PROOF_BYTES],
) -> Result<Client, HandshakeError> {
    let offered = offer_proven(&mut lane, &Preamble::CONTROL, proof);
    soon("the reply", offered).await?;
    Ok(Client::over(lane))
}

/// What somebody was told that was not let in.
pub(crate) fn refused(answer: Result<Client, HandshakeError>) -> String {
    match answer {
        Ok(_) => panic!("it was let in"),
        Err(HandshakeError::Refused(text)) => text,
        Err(other) => panic!("{other:?}"),
    }
}
