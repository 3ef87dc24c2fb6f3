//! What connections are configured with.

use std::sync::Arc;
use std::time::Duration;

use pccl_core::transport::LaneError;
use quinn::{
    AckFrequencyConfig, ClientConfig, EndpointConfig, IdleTimeout, MtuDiscoveryConfig,
    ServerConfig, TransportConfig, ValidationTokenConfig, VarInt,
};

use crate::keys::Configs;

/// Lanes that a connection has room for.
const LANES_MAX: u32 = 1024;

/// Packets that are acknowledged at a time: each acknowledgement costs both ends.
const PACKETS_PER_ACK: u32 = 10;

/// How long an acknowledgement may wait for others: so long a closed lane takes beyond a round trip.
const ACK_DELAY: Duration = Duration::from_millis(5);

/// Connection attempts that wait to be looked at, and bytes that are kept for each and for all of them.
const ATTEMPTS_MAX: usize = 256;
const ATTEMPT_BYTES: u64 = 16 << 10;
const ATTEMPTS_BYTES: u64 = 1 << 20;

/// Bytes that a stranger may have under way to this end, over all the lanes that nobody has read from.
pub(crate) const UNREAD_BYTES: u32 = 256 << 10;

/// What a user may choose.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Bytes under way of a lane, and of a connection.
    pub(crate) window: u32,
    /// How long the other end may be silent.
    pub(crate) idle_timeout: Duration,
    /// The largest datagram that is tried.
    pub(crate) datagram: u16,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            window: 24 << 20,
            idle_timeout: Duration::from_secs(11),
            // What fits an Ethernet frame, over IPv6 and within a tunnel that is not too deep.
            datagram: 1452,
        }
    }
}

impl Settings {
    pub(crate) fn client(&self, configs: &Configs) -> Result<ClientConfig, LaneError> {
        let mut transport = self.transport()?;
        // Nobody opens lanes to who has opened the connection.
        transport.max_concurrent_bidi_streams(VarInt::from_u32(0));
        let mut config = ClientConfig::new(configs.client.clone());
        config.transport_config(Arc::new(transport));
        Ok(config)
    }

    pub(crate) fn server(&self, configs: &Configs) -> Result<ServerConfig, LaneError> {
        let mut transport = self.transport()?;
        transport.max_concurrent_bidi_streams(VarInt::from_u32(LANES_MAX));
        transport.receive_window(VarInt::from_u32(UNREAD_BYTES));
        let mut tokens = ValidationTokenConfig::default();
        tokens.sent(0);
        let mut config = ServerConfig::with_crypto(configs.server.clone());
        config
            .transport_config(Arc::new(transport))
            .validation_token_config(tokens)
            .max_incoming(ATTEMPTS_MAX)
            .incoming_buffer_size(ATTEMPT_BYTES)
            .incoming_buffer_size_total(ATTEMPTS_BYTES);
        Ok(config)
    }

    pub(crate) fn endpoint(&self) -> Result<EndpointConfig, LaneError> {
        let mut config = EndpointConfig::default();
        let limited = config.max_udp_payload_size(self.datagram);
        limited.map_err(|_| LaneError::Failed)?;
        Ok(config)
    }

    fn transport(&self) -> Result<TransportConfig, LaneError> {
        let idle = IdleTimeout::try_from(self.idle_timeout).map_err(|_| LaneError::Failed)?;
        let mut mtu = MtuDiscoveryConfig::default();
        mtu.upper_bound(self.datagram);
        let mut acks = AckFrequencyConfig::default();
        acks.ack_eliciting_threshold(VarInt::from_u32(PACKETS_PER_ACK))
            .max_ack_delay(Some(ACK_DELAY));
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_uni_streams(VarInt::from_u32(0))
            .max_idle_timeout(Some(idle))
            // Three questions may get lost.
            .keep_alive_interval(Some(self.idle_timeout / 4))
            .stream_receive_window(VarInt::from_u32(self.window))
            .send_window(self.window.into())
            .mtu_discovery_config(Some(mtu))
            .ack_frequency_config(Some(acks))
            // Only whether they arrive counts (`watch`).
            .datagram_receive_buffer_size(Some(64));
        Ok(transport)
    }
}
