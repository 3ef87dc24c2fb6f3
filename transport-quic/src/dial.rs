//! Making a connection on its own socket. The caller limits the time.

use std::net::SocketAddr;
use std::sync::Arc;

use pccl_core::id::Identity;
use pccl_core::transport::LaneError;
use pccl_trust::PublicKey;

use crate::absence::absence;
use crate::error::{of_connecting, of_connection, of_socket};
use crate::intake::endpoint;
use crate::keys::Configs;
use crate::locality::Locality;
use crate::settings::Settings;
use crate::shared::SharedConnection;
use crate::socket::bind_towards;

/// Connects to the peer with the expected identity.
pub(crate) async fn dial(
    to: SocketAddr,
    expect: Identity,
    settings: &Settings,
    configs: &Configs,
) -> Result<Arc<SharedConnection>, LaneError> {
    dial_along(Locality::towards(to), to, expect, settings, configs).await
}

/// As `dial`, with the settings for this kind of path.
pub(crate) async fn dial_along(
    locality: Locality,
    to: SocketAddr,
    expect: Identity,
    settings: &Settings,
    configs: &Configs,
) -> Result<Arc<SharedConnection>, LaneError> {
    let name = PublicKey::from(expect.0).server_name();
    let client = settings.client(configs, locality)?;
    let config = Settings::dialling_endpoint()?;
    let endpoint = bind_towards(to).and_then(|socket| endpoint(config, None, socket));
    let endpoint = endpoint.map_err(|error| of_socket(&error))?;
    let connecting = endpoint
        .connect_with(client, to, &name)
        .map_err(|error| of_connecting(&error))?;
    let connection = tokio::select! {
        biased;
        connection = connecting => connection.map_err(|error| of_connection(&error))?,
        error = absence(to) => return Err(error),
    };
    let shared = SharedConnection::opened(connection, configs.own)?;
    // The handshake has failed already if it is anybody else.
    match shared.proven.identity == expect {
        true => Ok(shared),
        false => Err(LaneError::Untrusted),
    }
}
