//! Connections of those who dial: their handshakes, side by side and bounded in number and in time,
//! because anybody can begin one, and then their lanes.

use std::sync::Arc;
use std::time::Duration;

use pccl_core::crowd::Crowd;
use pccl_core::id::Identity;
use pccl_core::origin::Origin;
use pccl_core::transport::{Incoming, LaneError};
use quinn::{Connecting, ConnectionError, Endpoint, RecvStream, SendStream, ServerConfig};
use tokio::sync::mpsc::Sender;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::error::of_connection;
use crate::lane::split;
use crate::locality::Locality;
use crate::shared::SharedConnection;

/// How long it may take from the first packet to the first lane.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// Connections at a time that have no lane yet. Of more the oldest of the address with the most gives way.
pub(crate) const HANDSHAKES_MAX: usize = 256;

/// With so many under way, who comes has to show first that it is where it says it is.
pub(crate) const HANDSHAKES_UNASKED: usize = 32;

/// Connections at a time. More are refused.
const CONNECTIONS_MAX: usize = 4096;

/// How long a connection that has lost its last lane waits for another.
const GRACE: Duration = Duration::from_secs(1);

/// Lanes that wait to be accepted, for all connections; beyond, each connection has one more.
pub(crate) const LANES_WAITING: usize = 256;

/// Where lanes go, or what went wrong with a connection.
pub(crate) type LaneSender = Sender<Result<Incoming, LaneError>>;

/// What is the same for all connections.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) own: Identity,
    /// Bytes under way of a lane.
    pub(crate) window: u32,
    /// For those who come from this machine.
    pub(crate) within: Arc<ServerConfig>,
    pub(crate) lanes: LaneSender,
}

/// Takes in who comes, until the listener is gone; then refuses who comes, as long as lanes of it live.
pub(crate) async fn keep(endpoint: Endpoint, host: Host) {
    let mut shaking = Crowd::new(HANDSHAKES_MAX);
    loop {
        tokio::select! {
            biased;
            () = host.lanes.closed() => break,
            coming = endpoint.accept() => match coming {
                Some(coming) => take_in(coming, &endpoint, &mut shaking, &host),
                None => return,
            }
        }
    }
    shaking
        .take_all()
        .for_each(|other: AbortHandle| other.abort());
    loop {
        tokio::select! {
            biased;
            () = endpoint.wait_idle() => return,
            coming = endpoint.accept() => match coming {
                Some(coming) => coming.refuse(),
                None => return,
            }
        }
    }
}

fn take_in(
    coming: quinn::Incoming,
    endpoint: &Endpoint,
    shaking: &mut Crowd<AbortHandle>,
    host: &Host,
) {
    let mut under_way = 0;
    shaking.retain(|other| {
        let stays = !other.is_finished();
        under_way += usize::from(stays);
        stays
    });
    if under_way >= HANDSHAKES_UNASKED && coming.may_retry() {
        // It has just said that it may.
        let _ = coming.retry();
        return;
    }
    if endpoint.open_connections() >= CONNECTIONS_MAX {
        return coming.refuse();
    }
    let from = Origin::from(coming.remote_address().ip());
    let connecting = match accept(coming, host) {
        Ok(connecting) => connecting,
        // The first packet may hold all that who comes has to say, and be refused.
        Err(error) => return drop(host.lanes.try_send(Err(of_connection(&error)))),
    };
    let task = tokio::spawn(shake_hands(connecting, host.clone())).abort_handle();
    if let Some(gives_way) = shaking.push(from, task) {
        gives_way.abort();
    }
}

fn accept(coming: quinn::Incoming, host: &Host) -> Result<Connecting, ConnectionError> {
    let local = coming.local_ip().map(|ip| ip.to_canonical());
    let remote = coming.remote_address().ip().to_canonical();
    match Locality::between(local, remote) {
        Locality::Local => coming.accept_with(Arc::clone(&host.within)),
        Locality::Far => coming.accept(),
    }
}

async fn shake_hands(connecting: Connecting, host: Host) {
    let shaken = timeout(HANDSHAKE_LIMIT, receive(connecting, &host)).await;
    match shaken.unwrap_or(Err(LaneError::TimedOut)) {
        Ok((shared, tx, rx)) => drop(tokio::spawn(serve(shared, tx, rx, host.lanes))),
        // Nobody waits for it: where there is no room it is not told.
        Err(error) => drop(host.lanes.try_send(Err(error))),
    }
}

/// A connection with its first lane. Any key will do: who is welcome is decided above.
async fn receive(
    connecting: Connecting,
    host: &Host,
) -> Result<(Arc<SharedConnection>, SendStream, RecvStream), LaneError> {
    let connection = connecting.await.map_err(|error| of_connection(&error))?;
    let shared = SharedConnection::accepted(connection, host.own, host.window)?;
    let streams = shared.connection.accept_bi().await;
    let (tx, rx) = streams.map_err(|error| shared.why(&error))?;
    Ok((shared, tx, rx))
}

/// Hands on the lanes of a connection, as long as it is used. What is opened after the listener is gone
/// ends at once.
async fn serve(
    shared: Arc<SharedConnection>,
    mut tx: SendStream,
    mut rx: RecvStream,
    lanes: LaneSender,
) {
    loop {
        let incoming = Incoming {
            lane: split(&shared, tx, rx),
            from: shared.from,
        };
        let _ = lanes.send(Ok(incoming)).await;
        let unused = async {
            shared.without_lanes().await;
            tokio::select! {
                () = sleep(GRACE) => {}
                () = lanes.closed() => {}
            }
        };
        tokio::select! {
            biased;
            streams = shared.connection.accept_bi() => match streams {
                Ok(streams) => (tx, rx) = streams,
                Err(_) => return,
            },
            () = unused => return,
        }
    }
}
