//! Opening a lane to another peer.

use std::time::Duration;

use pccl_core::topology::{LaneFailure, LaneOrder};
use pccl_core::transport::{Endpoint, Lane, LaneError, Transport};
use pccl_core::wire::{HandshakeError, Preamble, offer};
use tokio::time::sleep;

use crate::backoff::Backoff;
use crate::patience;

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
    match patience::within(DIAL_LIMIT, opening).await {
        Some(Ok(lane)) => Ok(lane),
        Some(Err(error)) => {
            tracing::debug!(with = order.with.0, %address, %error, "a lane could not be opened");
            Err(error.into())
        }
        None => Err(LaneFailure::TimedOut),
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

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::pin::pin;

    use pccl_core::id::{PeerId, Ticket};
    use pccl_core::timers::PAUSE;
    use pccl_core::wire::Purpose;
    use tokio::time::Instant;

    use crate::simulated::{Late, begin_and_stand_still};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_stood_still_while_it_opens_a_lane_hears_the_answer() {
        let resumed = Instant::now() + 2 * DIAL_LIMIT;
        let late = Late(resumed + PAUSE / 2);
        let order = LaneOrder {
            with: PeerId(2),
            ticket: Ticket(7),
            dial: Some(SocketAddr::from(([127, 0, 0, 1], 48149))),
            lanes: 1,
            identity: None,
        };
        let preamble = Preamble {
            purpose: Purpose::LinkLane,
            from: PeerId(1),
            ticket: order.ticket,
            lane: 0,
            lanes: 1,
        };
        let mut opened = pin!(dial(&late, &order, preamble));

        begin_and_stand_still(&mut opened, 2 * DIAL_LIMIT).await;

        assert_eq!(opened.await.err(), Some(LaneFailure::Refused));
    }
}
