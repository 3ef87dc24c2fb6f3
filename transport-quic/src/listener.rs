//! Listening.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pccl_core::transport::{Incoming, LaneError, Listener};
use quinn::Endpoint;
use tokio::sync::mpsc::{Receiver, channel};

use crate::door::{Host, LANES_WAITING, keep};
use crate::error::of_socket;
use crate::intake::endpoint;
use crate::keys::Configs;
use crate::locality::Locality;
use crate::settings::Settings;
use crate::socket::{Left, bind_again, canonical};

/// The lanes of all connections to one address.
pub(crate) struct QuicLanes {
    local: SocketAddr,
    lanes: Receiver<Result<Incoming, LaneError>>,
    left: Left,
}

impl Drop for QuicLanes {
    fn drop(&mut self) {
        self.left.add(self.local);
    }
}

/// Binds the address.
pub(crate) async fn open_endpoint(
    on: SocketAddr,
    left: &Left,
    settings: &Settings,
    configs: &Configs,
) -> Result<Endpoint, LaneError> {
    let server = settings.server(configs, Locality::Far)?;
    let socket = bind_again(canonical(on), left).await;
    let socket = socket.map_err(|error| of_socket(&error))?;
    let bound = socket.local_addr().map_err(|error| of_socket(&error))?;
    let config = Settings::listening_endpoint(configs, bound.port())?;
    endpoint(config, Some(server), socket).map_err(|error| of_socket(&error))
}

impl QuicLanes {
    /// Starts to listen. Must be called in a tokio runtime.
    pub(crate) fn new(
        endpoint: Endpoint,
        left: &Left,
        settings: &Settings,
        configs: &Configs,
    ) -> Result<Self, LaneError> {
        let local = endpoint.local_addr().map_err(|error| of_socket(&error))?;
        let (sender, lanes) = channel(LANES_WAITING);
        let host = Host {
            own: configs.own,
            window: settings.window,
            connections_max: settings.connections_max,
            within: Arc::new(settings.server(configs, Locality::Local)?),
            lanes: sender,
        };
        tokio::spawn(keep(endpoint, host));
        Ok(Self {
            local: canonical(local),
            lanes,
            left: left.clone(),
        })
    }

    /// Number of lanes that wait to be accepted.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.lanes.len()
    }
}

impl Listener for QuicLanes {
    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Incoming, LaneError>> {
        let next = ready!(self.lanes.poll_recv(cx));
        // Nobody sends any more where the socket has failed.
        Poll::Ready(next.unwrap_or(Err(LaneError::Closed)))
    }
}
