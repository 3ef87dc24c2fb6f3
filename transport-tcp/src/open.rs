//! Connecting: name lookup, several addresses, the time limit.

use std::net::SocketAddr;
use std::time::Duration;

use pccl_core::transport::{Endpoint, LaneError};
use socket2::SockRef;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout};

use crate::error::lane_error;
use crate::listener::canonical;

/// Connects to the first address of `to` that answers, within `limit` in all.
pub(crate) async fn connect(to: &Endpoint, limit: Duration) -> Result<TcpStream, LaneError> {
    match to {
        Endpoint::Address(address) => connect_within(*address, limit).await,
        Endpoint::Name(name) => {
            let started = Instant::now();
            let addresses = timeout(limit, resolve(name))
                .await
                .map_err(|_elapsed| LaneError::TimedOut)??;
            connect_to_any(&addresses, limit.saturating_sub(started.elapsed())).await
        }
    }
}

async fn resolve(name: &str) -> Result<Vec<SocketAddr>, LaneError> {
    let found = lookup_host(name).await;
    found.map(Iterator::collect).map_err(|error| {
        tracing::debug!(name, %error, "the name could not be resolved");
        LaneError::NameNotResolved
    })
}

/// Each address may use the remaining time divided by the number of remaining addresses. So an address that drops
/// packets leaves time for the others, and one that refuses at once leaves all of it.
pub(crate) async fn connect_to_any(
    addresses: &[SocketAddr],
    limit: Duration,
) -> Result<TcpStream, LaneError> {
    let started = Instant::now();
    let mut failure = LaneError::NameNotResolved;
    for (remaining, address) in (1..=addresses.len()).rev().zip(addresses) {
        let time_left = limit.saturating_sub(started.elapsed());
        let share = time_left / u32::try_from(remaining).unwrap_or(u32::MAX);
        match connect_within(*address, share).await {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                tracing::debug!(%address, %error, "an address of the name did not answer");
                failure = more_telling(failure, error);
            }
        }
    }
    Err(failure)
}

/// The error to report of two: the error of a host that was reached, or should have been, before that of an address
/// family that this machine does not have.
fn more_telling(earlier: LaneError, later: LaneError) -> LaneError {
    match earlier {
        LaneError::Refused | LaneError::TimedOut | LaneError::Reset => earlier,
        _ => later,
    }
}

async fn connect_within(address: SocketAddr, limit: Duration) -> Result<TcpStream, LaneError> {
    let stream = timeout(limit, TcpStream::connect(canonical(address)))
        .await
        .map_err(|_elapsed| LaneError::TimedOut)?
        .map_err(|error| lane_error(&error))?;
    refuse_itself(stream)
}

/// A connection to a free port of this machine can draw that same port as its source. TCP then connects the socket to
/// itself although nobody listens. The port is released at once.
fn refuse_itself(stream: TcpStream) -> Result<TcpStream, LaneError> {
    match (stream.local_addr(), stream.peer_addr()) {
        (Ok(local), Ok(peer)) if local == peer => {
            if let Err(error) = SockRef::from(&stream).set_linger(Some(Duration::ZERO)) {
                tracing::debug!(%error, "a socket joined to itself may linger");
            }
            Err(LaneError::Refused)
        }
        (Err(error), _) | (_, Err(error)) => Err(lane_error(&error)),
        (Ok(_), Ok(_)) => Ok(stream),
    }
}
