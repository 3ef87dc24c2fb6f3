//! A connection that several lanes share. It ends with the last lane.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pccl_core::id::Identity;
use pccl_core::transport::{LaneError, Proven};
use quinn::{Connection, ConnectionError, VarInt};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::absence::{Unanswered, watch};
use crate::error::of_connection;
use crate::locality::Locality;
use crate::patience::Patience;
use crate::proof::proven;
use crate::settings::UNREAD_BYTES;
use crate::socket::canonical;

/// A connection on which both ends have proved their identities.
pub(crate) struct SharedConnection {
    pub(crate) connection: Connection,
    pub(crate) proven: Proven,
    pub(crate) from: SocketAddr,
    pub(crate) is_local: bool,
    /// The runtime of the connection's tasks.
    pub(crate) runtime: Handle,
    pub(crate) patience: Patience,
    pub(crate) unanswered: Unanswered,
    /// Why this end has given up the connection.
    given_up: OnceLock<LaneError>,
    lanes: watch::Sender<usize>,
    /// `None`: the other end may have as much in flight as its lanes permit.
    room: Option<Room>,
}

/// Limits how much a peer may send before this end reads. A lane that is read adds its window, so that a lane that
/// stalls takes nothing from the others.
struct Room {
    window: u32,
    readers: Mutex<u32>,
}

impl SharedConnection {
    /// A connection that this end has opened to an expected peer.
    pub(crate) fn opened(connection: Connection, own: Identity) -> Result<Arc<Self>, LaneError> {
        Self::new(connection, own, None)
    }

    /// An accepted connection. `window`: bytes that a lane may have in flight.
    pub(crate) fn accepted(
        connection: Connection,
        own: Identity,
        window: u32,
    ) -> Result<Arc<Self>, LaneError> {
        let readers = Mutex::new(0);
        Self::new(connection, own, Some(Room { window, readers }))
    }

    fn new(
        connection: Connection,
        own: Identity,
        room: Option<Room>,
    ) -> Result<Arc<Self>, LaneError> {
        let from = canonical(connection.remote_address());
        let local = connection.local_ip().map(|ip| ip.to_canonical());
        let shared = Arc::new(Self {
            proven: proven(&connection, own)?,
            from,
            is_local: Locality::between(local, from.ip()) == Locality::Local,
            runtime: Handle::current(),
            patience: Patience::default(),
            unanswered: Unanswered::default(),
            given_up: OnceLock::new(),
            lanes: watch::Sender::new(0),
            room,
            connection,
        });
        shared.runtime.spawn(watch(Arc::downgrade(&shared)));
        Ok(shared)
    }

    /// Whether new lanes should take this connection.
    pub(crate) fn answers(&self) -> bool {
        !self.unanswered.is_long(self.connection.rtt())
    }

    /// The lane error for the end of the connection.
    pub(crate) fn why(&self, error: &ConnectionError) -> LaneError {
        let given_up = self.given_up.get().copied();
        given_up.unwrap_or_else(|| of_connection(error))
    }

    /// Closes the connection and ends all its lanes.
    pub(crate) fn give_up(&self, why: LaneError) {
        // The first reason stays.
        let _ = self.given_up.set(why);
        self.connection.close(VarInt::from_u32(0), b"");
    }

    /// Waits until it has no lanes.
    pub(crate) async fn without_lanes(&self) {
        // The other end of this channel is in this very value.
        let _ = self.lanes.subscribe().wait_for(|lanes| *lanes == 0).await;
    }
}

impl Room {
    fn resize(&self, connection: &Connection, change: impl FnOnce(u32) -> u32) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        *readers = change(*readers);
        let bytes = u64::from(UNREAD_BYTES) + u64::from(*readers) * u64::from(self.window);
        connection.set_receive_window(VarInt::from_u64(bytes).unwrap_or(VarInt::MAX));
    }
}

/// A lane's place on a connection, shared by its halves.
pub(crate) struct LaneSlot {
    pub(crate) shared: Arc<SharedConnection>,
    has_been_read: OnceLock<()>,
}

impl LaneSlot {
    pub(crate) fn take(shared: &Arc<SharedConnection>) -> Self {
        shared.lanes.send_modify(|lanes| *lanes += 1);
        Self {
            shared: Arc::clone(shared),
            has_been_read: OnceLock::new(),
        }
    }

    /// Notes that this end reads the lane.
    pub(crate) fn note_reading(&self) {
        if let Some(room) = &self.shared.room
            && self.has_been_read.set(()).is_ok()
        {
            room.resize(&self.shared.connection, |readers| readers.saturating_add(1));
        }
    }
}

impl Drop for LaneSlot {
    fn drop(&mut self) {
        if let Some(room) = &self.shared.room
            && self.has_been_read.get().is_some()
        {
            room.resize(&self.shared.connection, |readers| readers.saturating_sub(1));
        }
        self.shared.lanes.send_modify(|lanes| *lanes -= 1);
    }
}
