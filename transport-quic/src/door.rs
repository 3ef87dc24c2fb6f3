//! Incoming connections: their handshakes, which run concurrently and are limited in number and time, because
//! everybody can start one, and then their lanes.

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

/// How long a connection may take from its first packet to its first lane.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// Maximum number of connections without a lane. Beyond it, the oldest one of the address with the most is dropped.
pub(crate) const HANDSHAKES_MAX: usize = 256;

/// If at least this many handshakes run, a new connection first has to validate its address.
pub(crate) const HANDSHAKES_UNASKED: usize = 32;

/// How long a connection without lanes is kept open for another lane.
const GRACE: Duration = Duration::from_secs(1);

/// Maximum number of lanes that wait to be accepted, over all connections. Beyond it, each connection holds one more.
pub(crate) const LANES_WAITING: usize = 256;

/// Receives the lanes, and the errors of connections.
pub(crate) type LaneSender = Sender<Result<Incoming, LaneError>>;

/// The state that all connections share.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) own: Identity,
    /// Maximum number of bytes in flight of a lane.
    pub(crate) window: u32,
    /// Maximum number of connections. Further ones are refused.
    pub(crate) connections_max: usize,
    /// The configuration for connections from this machine.
    pub(crate) within: Arc<ServerConfig>,
    pub(crate) lanes: LaneSender,
}

/// Accepts connections until the listener is dropped. Then it refuses new ones, as long as accepted lanes live.
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
    if endpoint.open_connections() >= host.connections_max {
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

/// A connection with its first lane. It accepts any key: the caller decides who is admitted.
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

/// Hands over the lanes of a connection as long as it is used. Lanes that are opened after the listener was dropped
/// end at once.
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
