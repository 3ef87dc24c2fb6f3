//! Checking keys in a handshake. The client checks that the key is the expected one, the server that it is an Ed25519
//! key at all, and both that its holder has signed this very handshake.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError,
    PeerIncompatible, SignatureScheme,
};

use crate::public_key::PublicKey;

/// Another process, or an impostor, answered at the address, and the handshake was refused. It is inside the
/// [`rustls::Error`] of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the other end proved the key {found} where {expected} was expected: either another run uses \
     this address, or somebody is in between"
)]
pub struct WrongKey {
    /// The key in the dialled name.
    pub expected: PublicKey,
    /// The key of the process that answered.
    pub found: PublicKey,
}

/// The verifier of both roles.
#[derive(Debug)]
pub(crate) struct RawKeys {
    algorithms: WebPkiSupportedAlgorithms,
}

impl RawKeys {
    pub(crate) fn new(algorithms: WebPkiSupportedAlgorithms) -> Arc<Self> {
        Arc::new(Self { algorithms })
    }

    fn signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
    }
}

/// The one key that was presented. A certificate chain is not a raw key.
fn presented(
    key: &CertificateDer<'_>,
    chain: &[CertificateDer<'_>],
) -> Result<PublicKey, CertificateError> {
    match (PublicKey::from_spki(key), chain) {
        (Some(key), []) => Ok(key),
        _ => Err(CertificateError::BadEncoding),
    }
}

fn tls12() -> Result<HandshakeSignatureValid, Error> {
    Err(PeerIncompatible::Tls12NotOffered.into())
}

impl ServerCertVerifier for RawKeys {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let expected = PublicKey::from_server_name(server_name)
            .ok_or_else(|| Error::General("the dialled name holds no key".into()))?;
        let found = presented(end_entity, intermediates)?;
        if found == expected {
            return Ok(ServerCertVerified::assertion());
        }
        let why = OtherError(Arc::new(WrongKey { expected, found }));
        Err(CertificateError::Other(why).into())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _key: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature(message, key, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for RawKeys {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    /// Takes any key: whether its holder is admitted is decided above the transport, where a refusal can carry a
    /// reason.
    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        presented(end_entity, intermediates)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _key: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature(message, key, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
