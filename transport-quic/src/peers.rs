//! Open connections by remote peer, so that the lanes to one peer share them.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, Weak};

use pccl_core::id::Identity;
use tokio::runtime::Id;
use tokio::sync::Mutex;

use crate::shared::SharedConnection;

/// The remote end of a connection. Each runtime drives its own connections only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct RemotePeer {
    pub(crate) at: SocketAddr,
    pub(crate) expect: Identity,
    pub(crate) runtime: Id,
}

/// The connections to one peer. Each is made when the first lane needs it, and made again after its end. The lock is
/// held while one is made.
pub(crate) struct Places {
    next: AtomicUsize,
    places: Vec<Mutex<Weak<SharedConnection>>>,
}

impl Places {
    fn new(connections: u16) -> Self {
        let places = (0..connections.max(1)).map(|_| Mutex::default()).collect();
        Self {
            next: AtomicUsize::new(0),
            places,
        }
    }

    /// The next place in turn.
    pub(crate) fn next(&self) -> Option<&Mutex<Weak<SharedConnection>>> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        self.places.iter().cycle().nth(turn % self.places.len())
    }

    fn is_empty(&self) -> bool {
        let is_free = |place: &Mutex<Weak<SharedConnection>>| {
            place
                .try_lock()
                .is_ok_and(|shared| shared.strong_count() == 0)
        };
        self.places.iter().all(is_free)
    }
}

/// Clones share their connections.
#[derive(Clone, Default)]
pub(crate) struct Peers(Arc<std::sync::Mutex<Vec<Entry>>>);

type Entry = (RemotePeer, Arc<Places>);

impl Peers {
    /// The places of a peer. Peers without an open connection are removed.
    pub(crate) fn places(&self, peer: RemotePeer, connections: u16) -> Arc<Places> {
        let mut peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, places)) = peers.iter().find(|(other, _)| *other == peer) {
            return Arc::clone(places);
        }
        peers.retain(|(_, places)| Arc::strong_count(places) > 1 || !places.is_empty());
        let places = Arc::new(Places::new(connections));
        peers.push((peer, Arc::clone(&places)));
        places
    }
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Peers(..)")
    }
}
