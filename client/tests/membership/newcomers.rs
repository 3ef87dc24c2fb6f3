//! Newcomers that are lost while they are admitted, and what the others are left with.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::thread;

use pccl::{Error, LaneError, Reduce};
use pccl_core::id::Identity;
use pccl_core::transport::{Endpoint, Lane};
use pccl_transport_memory::{Intercepted, Interceptor, on_send};

use crate::support::{Run, admit, together};

/// The preamble and the hello: the next thing that a newcomer says is that an edge is up.
const UNTIL_THE_FIRST_REPORT: usize = 2;

/// The connection to the master takes so many writes and ends with the next one. There is no second one.
struct Cutting {
    writes: usize,
    connections: AtomicUsize,
}

impl Interceptor for Cutting {
    fn destination(&self, to: &Endpoint) -> Endpoint {
        let is_master = matches!(to, Endpoint::Name(_));
        if is_master && self.connections.fetch_add(1, Ordering::SeqCst) > 0 {
            // Nothing listens there.
            return Endpoint::Address(([127, 0, 0, 1], 1).into());
        }
        to.clone()
    }

    fn opened(&self, lane: Lane, to: &Endpoint, _: Option<Identity>) -> Lane {
        // Peers know each other by addresses.
        if matches!(to, Endpoint::Address(_)) {
            return lane;
        }
        let mut left = self.writes;
        let tx = on_send(lane.tx, move |tx, cx, parts| {
            if left == 0 {
                let _ = tx.poll_close(cx);
                return Poll::Ready(Err(LaneError::Reset));
            }
            let sent = tx.poll_send(cx, parts);
            left -= usize::from(sent.is_ready());
            sent
        });
        Lane { tx, ..lane }
    }
}

/// Its lanes are up at its neighbours by then, which must not take them for the ring.
#[test]
fn a_newcomer_that_is_lost_before_its_first_report_leaves_the_others_with_a_ring_that_reduces() {
    let run = Run::new();
    let mut peers = run.peers(2);
    // So that neither rests: the ring of one that does is connected without its vote to update, which may come
    // when the others' update is over, and wait for their next call.
    together(&mut peers, |peer| {
        peer.all_reduce(&mut [1.0_f32], Reduce::sum()).unwrap();
    });
    for attempt in 0..20 {
        let writes = UNTIL_THE_FIRST_REPORT;
        let connections = AtomicUsize::new(0);
        let cutting = Cutting {
            writes,
            connections,
        };
        let cut = Intercepted::over(Arc::new(run.under().clone()), cutting);
        let builder = run.builder().transport(cut);
        let lost = thread::spawn(move || builder.connect().map(drop));
        admit(&mut peers);

        let results = together(&mut peers, |peer| {
            let mut buffer = [1.0_f32; 64];
            let reduced = peer.all_reduce(&mut buffer, Reduce::sum());
            (reduced.map(|report| report.world_size), buffer)
        });

        assert_eq!(lost.join().unwrap(), Err(Error::MasterLost));
        assert_eq!(results, vec![(Ok(2), [2.0; 64]); 2], "attempt {attempt}");
    }
}
