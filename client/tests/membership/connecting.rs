//! Joining a run, and every way in which that fails.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Barrier;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pccl::{Communicator, Error, LaneError, Next, PeerId};
use pccl_core::wire::{HandshakeError, PREAMBLE_BYTES, Reply};
use pccl_master::{Limits, MasterServer};

use crate::support::{Run, begin, builder_for};

#[test]
fn an_unreachable_master_is_an_error_that_names_it() {
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = nobody.local_addr().unwrap().to_string();
    drop(nobody);

    let builder = builder_for(&address).connect_patience(Duration::ZERO);
    let error = builder.connect().unwrap_err();

    assert!(error.is_retryable() && !error.is_final());
    assert_eq!(error.next(), Next::Reconnect);
    let reason = LaneError::Refused.into();
    assert_eq!(
        error,
        Error::MasterUnreachable {
            master: address,
            reason
        }
    );
}

#[test]
fn a_master_that_says_nothing_is_given_up_in_bounded_time() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = silent.local_addr().unwrap().to_string();

    let error = builder_for(&address)
        .connect_timeout(Duration::from_millis(50))
        .connect_patience(Duration::ZERO)
        .connect()
        .unwrap_err();

    let timed_out = LaneError::TimedOut.into();
    assert!(matches!(error, Error::MasterUnreachable { reason, .. } if reason == timed_out));
}

#[test]
fn something_else_than_a_master_is_told_apart() {
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = other.local_addr().unwrap().to_string();
    let answering = std::thread::spawn(move || {
        let (mut connection, _) = other.accept().unwrap();
        std::io::Write::write_all(&mut connection, b"220 mail.example ESMTP").unwrap();
        connection
    });

    let error = builder_for(&address).connect().unwrap_err();

    drop(answering.join());
    assert!(error.to_string().contains("does not speak pccl"), "{error}");
    assert_eq!(error.next(), Next::FixProgram);
}

/// A master that answers each connection with the next of these, and says how many there were.
fn answering(replies: Vec<Reply>) -> (String, JoinHandle<usize>) {
    let master = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = master.local_addr().unwrap().to_string();
    let answering = thread::spawn(move || {
        for (count, reply) in (1..).zip(&replies) {
            let (mut connection, _) = master.accept().unwrap();
            connection.read_exact(&mut [0; PREAMBLE_BYTES]).unwrap();
            connection.write_all(&reply.encode()).unwrap();
            if count == replies.len() {
                return count;
            }
        }
        0
    });
    (address, answering)
}

#[test]
fn a_master_that_is_busy_is_asked_again_until_it_answers() {
    let busy = Reply::NotYet("later".into());
    let (address, master) = answering(vec![busy.clone(), busy, Reply::Refused("never".into())]);

    let error = builder_for(&address).connect().unwrap_err();

    let refused = HandshakeError::Refused("never".into());
    assert!(matches!(error, Error::MasterUnreachable { reason, .. } if reason == refused));
    assert_eq!(master.join().unwrap(), 3);
}

#[test]
fn a_master_that_stays_busy_is_given_up_when_patience_ends() {
    let (address, master) = answering(vec![Reply::NotYet("later".into())]);

    let error = builder_for(&address)
        .connect_patience(Duration::ZERO)
        .connect()
        .unwrap_err();

    assert!(
        error
            .to_string()
            .contains("not take the connection yet: later"),
        "{error}"
    );
    assert_eq!(master.join().unwrap(), 1);
}

#[test]
fn a_crowd_at_the_door_of_a_master_with_little_room_gets_in() {
    let limits = Limits {
        strangers_per_address_max: 1,
        ..Limits::default()
    };
    let run = Run::of(
        MasterServer::builder()
            .limits(limits)
            .spawn("127.0.0.1:0")
            .unwrap(),
    );
    let many = 24;
    let start = Barrier::new(many);

    let groups = thread::scope(|scope| {
        let join = |group| {
            let (builder, start) = (run.builder().group(group).seed(group.into()), &start);
            scope.spawn(move || {
                start.wait();
                // Newcomers of one address, each into a group of its own; nobody votes.
                builder
                    .admission_timeout(Duration::from_secs(1))
                    .connect()
                    .map(drop)
            })
        };
        let joining: Vec<_> = (0..many as u32).map(join).collect();
        joining
            .into_iter()
            .map(|one| one.join().unwrap())
            .collect::<Vec<_>>()
    });

    let unreachable =
        |joined: &&Result<(), Error>| matches!(joined, Err(Error::MasterUnreachable { .. }));
    assert_eq!(groups.iter().filter(unreachable).count(), 0, "{groups:?}");
}

#[test]
fn an_address_that_is_not_this_machines_cannot_be_listened_on() {
    let run = Run::new();
    let elsewhere = Ipv4Addr::new(192, 0, 2, 1);

    let error = run
        .builder()
        .listen(elsewhere.into())
        .connect()
        .unwrap_err();

    assert!(matches!(error, Error::CannotListen { on, .. } if on.ip() == elsewhere));
}

#[test]
fn ports_that_are_taken_are_passed_over() {
    let run = Run::new();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();

    let peer = run.builder().first_port(port).connect().unwrap();

    assert_eq!(peer.world_size(), 1);
}

#[test]
fn who_is_not_admitted_in_time_is_told_so_and_leaves_no_trace() {
    let run = Run::new();
    let mut first = begin(run.builder());
    let limit = Duration::from_millis(50);

    let error = run
        .builder()
        .admission_timeout(limit)
        .connect()
        .unwrap_err();

    assert_eq!(error, Error::AdmissionTimedOut { after: limit });
    while first.are_peers_pending().unwrap() {}
    assert_eq!(first.update_topology().unwrap().world_size, 1);
}

#[test]
fn a_run_whose_peers_have_all_left_admits_the_next_one_at_once() {
    let run = Run::new();
    begin(run.builder()).shutdown();

    let peer = begin(run.builder());

    assert_eq!((peer.world_size(), peer.rank()), (1, 0));
}

#[test]
fn all_peers_name_one_ring_in_which_each_is_at_its_rank() {
    let run = Run::new();
    let peers = run.peers(3);

    let rings: Vec<Vec<PeerId>> = peers.iter().map(Communicator::ring).collect();

    assert_eq!(rings[0].len(), 3);
    assert!(rings.iter().all(|ring| *ring == rings[0]));
    for peer in &peers {
        assert_eq!(peer.ring()[peer.rank()], peer.peer_id());
    }
}

#[test]
fn a_communicator_that_the_master_has_lost_says_so_to_every_later_call() {
    let run = Run::new();
    let mut peer = begin(run.builder());
    run.master.stop();
    let lost = peer.update_topology().unwrap_err();

    let later = [
        peer.all_reduce(&mut [1_u8], pccl::Reduce::sum())
            .unwrap_err(),
        peer.are_peers_pending().unwrap_err(),
        peer.optimize_topology().unwrap_err(),
    ];

    assert_eq!(lost, Error::MasterStopped);
    assert!(later.iter().all(|error| *error == lost && error.is_final()));
}
