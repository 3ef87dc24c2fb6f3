//! A transport that counts what its lanes carry, and that may say of them that they lead to another machine.
//!
//! Between two ends on one machine a collective uses one lane, however many there are. So over loopback
//! only lanes that deny it show how peers on different machines work together.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pccl_core::transport::{Lane, Transport};
use pccl_transport_memory::{Intercepted, Meter, claim_local};

use super::under::Under;

/// Where lanes say that they lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distance {
    /// To this machine, as is the case: all bytes of a collective take one lane.
    Near,
    /// To another machine: many lanes, and as many bytes under way as they take.
    Far,
}

/// Both.
pub(crate) const DISTANCES: [Distance; 2] = [Distance::Near, Distance::Far];

/// The transport under test, with counters.
pub(crate) fn counted(
    under: Under,
    distance: Distance,
    traffic: &Traffic,
) -> impl Transport + use<> {
    let traffic = traffic.clone();
    Intercepted::over(Arc::new(under), move |lane: Lane| {
        let meter = Arc::new(Meter::default());
        traffic.lanes().push(Arc::clone(&meter));
        let lane = meter.on(lane);
        match distance {
            Distance::Near => lane,
            Distance::Far => Lane {
                tx: claim_local(lane.tx, false),
                ..lane
            },
        }
    })
}

/// What the lanes of some peers have carried, each end of a lane by itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic(Arc<Mutex<Vec<Arc<Meter>>>>);

impl Traffic {
    /// What each end of a lane has sent, in bytes.
    pub(crate) fn bytes_sent(&self) -> Vec<u64> {
        self.lanes().iter().map(|lane| lane.sent()).collect()
    }

    /// How often all lanes together were asked to send or to receive.
    pub(crate) fn calls(&self) -> u64 {
        self.lanes().iter().map(|lane| lane.calls()).sum()
    }

    /// Is there still a transport that counts here? Each engine has one until it ends.
    pub(crate) fn is_counted(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    fn lanes(&self) -> MutexGuard<'_, Vec<Arc<Meter>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
