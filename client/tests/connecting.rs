//! Joining a run, and every way in which that fails.

mod support;

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use pccl::{Error, LaneError};
use support::{Run, begin, builder_for};

#[test]
fn an_unreachable_master_is_an_error_that_names_it() {
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = nobody.local_addr().unwrap().to_string();
    drop(nobody);

    let error = builder_for(&address).connect().unwrap_err();

    assert!(!error.is_retryable());
    assert_eq!(
        error.to_string(),
        format!("the master at {address} cannot be reached: the connection was refused")
    );
}

#[test]
fn a_master_that_says_nothing_is_given_up_in_bounded_time() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = silent.local_addr().unwrap().to_string();

    let error = builder_for(&address)
        .connect_timeout(Duration::from_millis(50))
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
