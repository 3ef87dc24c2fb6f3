//! What a peer's port has to bear, and measuring for a better ring.

mod support;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use pccl::Reduce;
use pccl_core::id::{PeerId, Ticket};
use pccl_core::wire::{Preamble, Purpose};
use support::{Run, together};

fn connect(port: u16) -> TcpStream {
    TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap()
}

/// What the peer says before it closes the connection.
fn answer_to(mut stranger: TcpStream, bytes: &[u8]) -> String {
    stranger.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    // A reset in place of an end is fine: the connection is over.
    let _ = stranger.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn strangers_get_readable_refusals_and_disturb_nobody() {
    let run = Run::new();
    let mut peers = run.peers(1);
    let port = peers[0].port();
    let silent: Vec<TcpStream> = (0..200).map(|_| connect(port)).collect();

    let web = answer_to(
        connect(port),
        b"GET / HTTP/1.1\r\nHost: somewhere.example\r\n\r\n",
    );
    let preamble = Preamble {
        purpose: Purpose::LinkLane,
        from: PeerId(1),
        ticket: Ticket(42),
        lane: 0,
        lanes: 1,
    };
    let mut other_release = preamble.encode();
    other_release[4] = 200;
    let version = answer_to(connect(port), &other_release);
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

    let answer = answer_to(connect(port), &preamble.encode());

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
