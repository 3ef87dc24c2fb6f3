//! This process's key, and the TLS configurations that hold it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use pccl_core::id::Identity;
use pccl_core::transport::LaneError;
use pccl_trust::{KeyPair, client_config, server_config};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};

/// A key pair, with the configurations that are made of it on first use. Clones share it. Default: the process's own.
#[derive(Clone, Default)]
pub(crate) struct Keys(Arc<Once>);

type Once = OnceLock<Result<Configs, LaneError>>;

/// The configurations of a key pair, made once for all connections.
#[derive(Clone)]
pub(crate) struct Configs {
    pub(crate) own: Identity,
    pub(crate) pair: KeyPair,
    pub(crate) client: Arc<QuicClientConfig>,
    pub(crate) server: Arc<QuicServerConfig>,
}

impl Keys {
    /// Uses this key pair.
    pub(crate) fn of(pair: &KeyPair) -> Self {
        Self::from(OnceLock::from(Configs::new(pair)))
    }

    /// The configurations for the key pair.
    pub(crate) fn configs(&self) -> Result<&Configs, LaneError> {
        let configs = self.0.get_or_init(|| {
            let pair = KeyPair::of_process().map_err(|error| {
                tracing::warn!(%error, "no key pair can be made");
                LaneError::Failed
            })?;
            Configs::new(pair)
        });
        configs.as_ref().map_err(|error| *error)
    }
}

impl Configs {
    fn new(pair: &KeyPair) -> Result<Self, LaneError> {
        let client = client_config(pair).map_err(|error| unusable(&error))?;
        let server = server_config(pair).map_err(|error| unusable(&error))?;
        let client = QuicClientConfig::try_from(client).map_err(|error| unusable(&error))?;
        let server = QuicServerConfig::try_from(server).map_err(|error| unusable(&error))?;
        Ok(Self {
            own: Identity(pair.public_key().into()),
            pair: pair.clone(),
            client: Arc::new(client),
            server: Arc::new(server),
        })
    }
}

fn unusable(error: &dyn fmt::Display) -> LaneError {
    tracing::warn!(%error, "TLS cannot be configured");
    LaneError::Failed
}

impl From<Once> for Keys {
    fn from(configs: Once) -> Self {
        Self(Arc::new(configs))
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = self.0.get().and_then(|configs| configs.as_ref().ok());
        f.debug_tuple("Keys")
            .field(&own.map(|own| own.own))
            .finish()
    }
}
