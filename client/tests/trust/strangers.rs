//! What a peer's port has to bear, and measuring for a better ring.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use pccl::Reduce;
use pccl_core::id::{Identity, PeerId, Ticket};
use pccl_core::transport::{Endpoint, Lane, Transport, recv_some, send_all};
use pccl_core::wire::{Preamble, Purpose};
use pccl_master::KeyPair;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::support::under::Under;
use crate::support::{Run, together};

/// Against hangs only.
const GUARD: Duration = Duration::from_secs(30);

/// Whoever dials a peer by what its run goes over: plainly where that has plain lanes. All peers of these tests have
/// the key of this process.
struct Strangers {
    runtime: Runtime,
    master: String,
    expect: Option<Identity>,
}

impl Strangers {
    fn of(run: &Run) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let of_process = || Identity(KeyPair::of_process().unwrap().public_key().into());
        Self {
            runtime: runtime.unwrap(),
            master: run.address(),
            expect: (!run.under().has_plain_lanes()).then(of_process),
        }
    }

    /// One more, who shares no connection with the others.
    fn connect(&self, port: u16) -> Lane {
        let to = Endpoint::Address(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let by = Under::to(&self.master);
        self.runtime.block_on(by.open(&to, self.expect)).unwrap()
    }

    /// What the peer says to somebody who says this, before it closes the connection.
    fn answer_to(&self, port: u16, bytes: &[u8]) -> String {
        let mut stranger = self.connect(port);
        let mut answer = Vec::new();
        self.runtime.block_on(async {
            send_all(stranger.tx.as_mut(), bytes, b"").await.unwrap();
            let mut some = [0; 1024];
            let hearing = async {
                // A reset in place of an end is fine: the connection is over.
                while let Ok(count @ 1..) = recv_some(stranger.rx.as_mut(), &mut some).await {
                    answer.extend_from_slice(&some[..count]);
                }
            };
            timeout(GUARD, hearing).await.expect("it ends");
        });
        String::from_utf8_lossy(&answer).into_owned()
    }
}

#[test]
fn strangers_get_readable_refusals_and_disturb_nobody() {
    let run = Run::new();
    let mut peers = run.peers(1);
    let port = peers[0].port();
    let strangers = Strangers::of(&run);
    let silent: Vec<Lane> = (0..200).map(|_| strangers.connect(port)).collect();

    let web = strangers.answer_to(port, b"GET / HTTP/1.1\r\nHost: somewhere.example\r\n\r\n");
    let preamble = Preamble {
        purpose: Purpose::LinkLane,
        from: PeerId(1),
        ticket: Ticket(42),
        lane: 0,
        lanes: 1,
    };
    let mut other_release = preamble.encode();
    other_release[4] = 200;
    let version = strangers.answer_to(port, &other_release);
    run.join(&mut peers);
    let results = together(&mut peers, |peer| {
        let mut buffer = [1_u8; 100];
        peer.all_reduce(&mut buffer, Reduce::sum()).unwrap();
        buffer
    });

    assert!(web.contains("speaks pccl"), "{web}");
    assert!(version.contains("use the same release"), "{version}");
    assert_eq!(results, [[2; 100]; 2]);
    drop(silent);
}

#[test]
fn an_unknown_ticket_is_refused_once_no_order_has_come_for_it() {
    let run = Run::new();
    let peer = run.peers(1).remove(0);
    let port = peer.port();
    let preamble = Preamble {
        purpose: Purpose::SharedState,
        from: PeerId(1),
        ticket: Ticket(42),
        lane: 0,
        lanes: 1,
    };

    let answer = Strangers::of(&run).answer_to(port, &preamble.encode());

    assert!(answer.contains("the ticket is unknown"), "{answer}");
    drop(peer);
}

#[test]
fn measuring_leaves_a_ring_that_reduces() {
    let run = Run::new();
    let mut peers = run.peers(3);

    let results = together(&mut peers, |peer| {
        let report = peer.optimize_topology().unwrap();
        let mut buffer = [1_u32; 10];
        peer.all_reduce(&mut buffer, Reduce::sum()).unwrap();
        (report.ring, report.epoch, buffer)
    });

    assert!(results.iter().all(|result| *result == results[0]));
    assert_eq!(results[0].0.len(), 3);
    assert_eq!(results[0].2, [3; 10]);
}
