//! This process's key, and the TLS configurations that hold it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use pccl_core::id::Identity;
use pccl_core::transport::LaneError;
use pccl_trust::{KeyPair, client_config, server_config};
use rustls::{ClientConfig, ServerConfig};

/// The configurations of the process's own key, used if none was set.
static OF_PROCESS: OnceLock<Result<Configs, LaneError>> = OnceLock::new();

/// The source of the key pair.
#[derive(Clone, Default)]
pub(crate) enum Keys {
    /// The process's own.
    #[default]
    OfProcess,
    /// One that the user has set.
    Given(Arc<Result<Configs, LaneError>>),
}

/// The configurations of a key pair, made once for all connections.
#[derive(Clone)]
pub(crate) struct Configs {
    pub(crate) own: Identity,
    pub(crate) client: Arc<ClientConfig>,
    pub(crate) server: Arc<ServerConfig>,
}

impl Keys {
    /// Uses this key pair.
    pub(crate) fn of(pair: &KeyPair) -> Self {
        Self::Given(Arc::new(Configs::new(pair)))
    }

    /// The configurations for the key pair.
    pub(crate) fn configs(&self) -> Result<&Configs, LaneError> {
        let configs = match self {
            Self::OfProcess => OF_PROCESS.get_or_init(Configs::of_process),
            Self::Given(configs) => configs,
        };
        configs.as_ref().map_err(|error| *error)
    }
}

impl Configs {
    fn of_process() -> Result<Self, LaneError> {
        let pair = KeyPair::of_process().map_err(|error| {
            tracing::warn!(%error, "no key pair can be made");
            LaneError::Failed
        })?;
        Self::new(pair)
    }

    fn new(pair: &KeyPair) -> Result<Self, LaneError> {
        let failed = |error| {
            tracing::warn!(%error, "TLS cannot be configured");
            LaneError::Failed
        };
        Ok(Self {
            own: Identity(pair.public_key().into()),
            client: Arc::new(client_config(pair).map_err(failed)?),
            server: Arc::new(server_config(pair).map_err(failed)?),
        })
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = match self {
            Self::OfProcess => OF_PROCESS.get(),
            Self::Given(configs) => Some(&**configs),
        };
        let own = own.and_then(|configs| configs.as_ref().ok());
        f.debug_tuple("Keys")
            .field(&own.map(|own| own.own))
            .finish()
    }
}
