//! Opening a lane to another peer.

use std::convert::Infallible;
use std::time::Duration;

use pccl_core::timers::PAUSE;
use pccl_core::topology::{LaneFailure, LaneOrder};
use pccl_core::transport::{Endpoint, Lane, LaneError, Transport};
use pccl_core::wire::{HandshakeError, Preamble, offer};
use tokio::time::{Instant, sleep, sleep_until};

use crate::backoff::Backoff;
use crate::patience;

/// How long opening a lane may take, with the other end's answer to the preamble, however often it says
/// to come again. Longer than a peer holds a lane for which it has no order yet.
pub(super) const DIAL_LIMIT: Duration = Duration::from_secs(10);

/// Opens one lane of an order that says where to. Tries again if the other end does not expect it yet, or if this
/// process stood still meanwhile: a transport's own time limit knows nothing of that.
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
            let mut stood_still = false;
            let opened = tokio::select! {
                biased;
                never = note_standstill(&mut stood_still) => match never {},
                opened = open(transport, &to, order, &preamble) => opened,
            };
            match opened {
                Err(HandshakeError::NotYet(_)) => sleep(backoff.pause()).await,
                Err(HandshakeError::Lane(LaneError::TimedOut)) if stood_still => {}
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

/// Notes it if the process stands still.
async fn note_standstill(noted: &mut bool) -> Infallible {
    loop {
        let due = Instant::now() + PAUSE;
        sleep_until(due).await;
        *noted |= due + PAUSE < Instant::now();
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
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};
    use std::pin::pin;

    use pccl_core::id::{PeerId, Ticket};
    use pccl_core::wire::Purpose;

    use crate::simulated::{Late, begin_and_stand_still};

    use super::*;

    const ORDER: LaneOrder = LaneOrder {
        with: PeerId(2),
        ticket: Ticket(7),
        dial: Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 48149)),
        lanes: 1,
        identity: None,
    };

    const PREAMBLE: Preamble = Preamble {
        purpose: Purpose::LinkLane,
        from: PeerId(1),
        ticket: ORDER.ticket,
        lane: 0,
        lanes: 1,
    };

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_stood_still_while_it_opens_a_lane_hears_the_answer() {
        let resumed = Instant::now() + 2 * DIAL_LIMIT;
        let late = Late::at(resumed + PAUSE / 2);
        let mut opened = pin!(dial(&late, &ORDER, PREAMBLE));

        begin_and_stand_still(&mut opened, 2 * DIAL_LIMIT).await;

        assert_eq!(opened.await.err(), Some(LaneFailure::Refused));
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_limit_of_the_transport_that_passed_in_a_standstill_is_not_the_end() {
        let resumed = Instant::now() + 2 * DIAL_LIMIT;
        let late = Late::at(resumed + PAUSE / 2).patient_for(DIAL_LIMIT / 2);
        let mut opened = pin!(dial(&late, &ORDER, PREAMBLE));

        begin_and_stand_still(&mut opened, 2 * DIAL_LIMIT).await;

        assert_eq!(opened.await.err(), Some(LaneFailure::Refused));
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_limit_of_the_transport_is_the_end_otherwise() {
        let begun = Instant::now();
        let late = Late::at(begun + DIAL_LIMIT / 4 * 3).patient_for(DIAL_LIMIT / 2);

        let opened = dial(&late, &ORDER, PREAMBLE).await;

        assert_eq!(opened.err(), Some(LaneFailure::TimedOut));
        assert_eq!(begun.elapsed(), DIAL_LIMIT / 2);
    }
}
