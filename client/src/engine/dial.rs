//! Opening a lane to another peer.

use std::time::Duration;

use pccl_core::topology::{LaneFailure, LaneOrder};
use pccl_core::transport::{Endpoint, Lane, LaneError, Transport};
use pccl_core::wire::{HandshakeError, Preamble, offer};
use tokio::time::{sleep, timeout};

use crate::backoff::Backoff;

/// How long opening a lane may take, with the other end's answer to the preamble, however often it says
/// to come again. Longer than a peer holds a lane for which it has no order yet.
pub(super) const DIAL_LIMIT: Duration = Duration::from_secs(10);

/// Opens one lane of an order that says where to. Where the other end does not expect it yet, tries again.
pub(crate) async fn dial(
    transport: &dyn Transport,
    order: &LaneOrder,
    preamble: Preamble,
) -> Result<Lane, LaneFailure> {
    // An order without an address is never dialled; nobody is there.
    let address = order.dial.ok_or(LaneFailure::Unreachable)?;
    let to = Endpoint::Address(address);
    let opening = async {
        let mut backoff = Backoff::new();
        loop {
            match open(transport, &to, order, &preamble).await {
                Err(HandshakeError::NotYet(_)) => sleep(backoff.pause()).await,
                ended => return ended,
            }
        }
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

async fn open(
    transport: &dyn Transport,
    to: &Endpoint,
    order: &LaneOrder,
    preamble: &Preamble,
) -> Result<Lane, HandshakeError> {
    let mut lane = transport.open(to, order.identity).await?;
    if !order.is_with(lane.identity()) {
        // Whoever it is, it does not see the ticket.
        return Err(LaneError::Untrusted.into());
    }
    offer(&mut lane, preamble).await?;
    Ok(lane)
}
