//! Opening a lane to another peer.

use std::time::Duration;

use pccl_core::topology::{LaneFailure, LaneOrder};
use pccl_core::transport::{Endpoint, Lane, Transport};
use pccl_core::wire::{HandshakeError, Preamble, offer};
use tokio::time::timeout;

/// How long opening a lane may take, with the other end's answer to the preamble. Longer than a peer
/// holds a lane for which it has no order yet.
const DIAL_LIMIT: Duration = Duration::from_secs(10);

/// Opens one lane of an order that says where to.
pub(crate) async fn dial(
    transport: &dyn Transport,
    order: &LaneOrder,
    preamble: Preamble,
) -> Result<Lane, LaneFailure> {
    // An order without an address is never dialled; nobody is there.
    let address = order.dial.ok_or(LaneFailure::Unreachable)?;
    let opening = async {
        let mut lane = transport.open(&Endpoint::Address(address)).await?;
        offer(&mut lane, &preamble).await?;
        Ok::<Lane, HandshakeError>(lane)
    };
    match timeout(DIAL_LIMIT, opening).await {
        Ok(Ok(lane)) => Ok(lane),
        Ok(Err(error)) => {
            tracing::debug!(with = order.with.0, %address, %error, "a lane could not be opened");
            Err(error.into())
        }
        Err(_) => Err(LaneFailure::TimedOut),
    }
}
