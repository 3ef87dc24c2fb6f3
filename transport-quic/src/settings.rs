//! The configuration of connections.

use std::sync::Arc;
use std::time::Duration;

use pccl_core::transport::LaneError;
use quinn::{
    AckFrequencyConfig, ClientConfig, EndpointConfig, IdleTimeout, MtuDiscoveryConfig,
    ServerConfig, TransportConfig, ValidationTokenConfig, VarInt,
};

use crate::congestion::Congestion;
use crate::keys::Configs;
use crate::locality::Locality;
use crate::resets::set_keys;

/// Maximum number of connections of a listener. Further ones are refused.
const CONNECTIONS_MAX: usize = 4096;

/// Maximum number of lanes of a connection.
pub(crate) const LANES_MAX: u32 = 1024;

/// Packets per acknowledgement. Each acknowledgement costs time at both ends.
const PACKETS_PER_ACK: u32 = 10;

/// How long an acknowledgement may be delayed. Closing a lane takes this long in addition to a round trip.
const ACK_DELAY: Duration = Duration::from_millis(5);

/// Maximum number of connection attempts that wait to be processed, and of bytes stored for each and for all of them.
pub(crate) const ATTEMPTS_MAX: usize = 256;
const ATTEMPT_BYTES: u64 = 16 << 10;
const ATTEMPTS_BYTES: u64 = 1 << 20;

/// Bytes that a peer may have in flight to this end, over all lanes from which this end has not read yet.
pub(crate) const UNREAD_BYTES: u32 = 256 << 10;

/// Fits an Ethernet frame, over IPv6 and within a tunnel that is not too deep.
const FAR_DATAGRAM: u16 = 1452;

/// Datagram size within a machine, where packets are only copied in memory, and most work is per datagram
/// (docs/performance.md). Systems other than Linux may carry less over loopback.
const LOCAL_DATAGRAM: u16 = if cfg!(target_os = "linux") {
    32 << 10
} else {
    FAR_DATAGRAM
};

/// Maximum size that UDP carries. Every endpoint accepts it: the sender has to find out what the path carries.
const DATAGRAM_MAX: u16 = 65_527;

/// Number of datagrams that quinn passes to the system in one batch, and maximum number of bytes of a batch.
const SEGMENTS: u32 = 10;
const PIECE_BYTES: u32 = 65_507;

/// Datagrams in flight with which a connection within a machine starts. With fewer than two it does not start.
const LOCAL_BURST: u64 = 4;

/// Bytes in flight with which any other connection starts (RFC 9002, section 7.2).
const USUAL_BURST: u64 = 14_720;

/// As `PACKETS_PER_ACK`, within a machine. More would not fit in the first burst, nor in a window that has shrunk.
const LOCAL_PACKETS_PER_ACK: u32 = 2;

/// The settings that a user can choose.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Bytes in flight of a lane, and of a connection.
    pub(crate) window: u32,
    /// How long the other end may be silent.
    pub(crate) idle_timeout: Duration,
    /// The congestion control.
    pub(crate) congestion: Congestion,
    /// The largest datagram that is tried. `None`: it depends on the path.
    pub(crate) datagram: Option<u16>,
    /// How many connections a listener has at most.
    pub(crate) connections_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            window: 24 << 20,
            idle_timeout: Duration::from_secs(11),
            congestion: Congestion::default(),
            datagram: None,
            connections_max: CONNECTIONS_MAX,
        }
    }
}

impl Settings {
    pub(crate) fn client(
        &self,
        configs: &Configs,
        locality: Locality,
    ) -> Result<ClientConfig, LaneError> {
        let mut transport = self.transport(locality)?;
        // Nobody opens lanes to who has opened the connection.
        transport.max_concurrent_bidi_streams(VarInt::from_u32(0));
        let mut config = ClientConfig::new(configs.client.clone());
        config.transport_config(Arc::new(transport));
        Ok(config)
    }

    pub(crate) fn server(
        &self,
        configs: &Configs,
        locality: Locality,
    ) -> Result<ServerConfig, LaneError> {
        let mut transport = self.transport(locality)?;
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

    /// Of an end that dials. Nobody is at its address after its end, so it has keys of its own.
    pub(crate) fn dialling_endpoint() -> Result<EndpointConfig, LaneError> {
        let mut config = EndpointConfig::default();
        let limited = config.max_udp_payload_size(DATAGRAM_MAX);
        limited.map_err(|_| LaneError::Failed)?;
        Ok(config)
    }

    /// Of a listener on this port.
    pub(crate) fn listening_endpoint(
        configs: &Configs,
        port: u16,
    ) -> Result<EndpointConfig, LaneError> {
        let mut config = Self::dialling_endpoint()?;
        set_keys(&mut config, &configs.pair, port);
        Ok(config)
    }

    fn transport(&self, locality: Locality) -> Result<TransportConfig, LaneError> {
        let datagram = self.datagram_of(locality);
        let idle = IdleTimeout::try_from(self.idle_timeout).map_err(|_| LaneError::Failed)?;
        let mut mtu = MtuDiscoveryConfig::default();
        mtu.upper_bound(datagram);
        let mut acks = AckFrequencyConfig::default();
        acks.ack_eliciting_threshold(VarInt::from_u32(packets_per_ack(locality, datagram)))
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
            .datagram_receive_buffer_size(Some(64))
            // A piece that is too large for the system is lost, as if the path did not carry it.
            .enable_segmentation_offload(u32::from(datagram) * SEGMENTS <= PIECE_BYTES);
        let burst = (locality == Locality::Local).then(|| local_burst(datagram));
        transport.congestion_controller_factory(self.congestion.controller(burst));
        if locality == Locality::Local {
            // A busy connection never asks for larger ones. Where they get lost, quinn falls back to 1200
            // bytes, and tries larger ones again after a minute.
            transport.initial_mtu(datagram);
        }
        Ok(transport)
    }

    fn datagram_of(&self, locality: Locality) -> u16 {
        self.datagram.unwrap_or(match locality {
            Locality::Local => LOCAL_DATAGRAM,
            Locality::Far => FAR_DATAGRAM,
        })
    }
}

fn packets_per_ack(locality: Locality, datagram: u16) -> u32 {
    match locality {
        Locality::Local if datagram > FAR_DATAGRAM => LOCAL_PACKETS_PER_ACK,
        Locality::Local | Locality::Far => PACKETS_PER_ACK,
    }
}

/// Bytes in flight with which a connection within a machine starts.
fn local_burst(datagram: u16) -> u64 {
    (u64::from(datagram) * LOCAL_BURST).max(USUAL_BURST)
}
