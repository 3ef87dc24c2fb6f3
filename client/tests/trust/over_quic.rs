//! Runs over QUIC: what a user writes, and what travels.

use std::net::{IpAddr, Ipv4Addr};

use pccl::{Builder, Communicator, Error, Protocol, Quic, Tcp};
use pccl_master::{RunningMaster, Trust, Via};

use crate::support::under::spawn_invited;
use crate::support::{begin, join_as, reduce_and_share};

fn trust() -> Trust {
    Trust::ephemeral().unwrap().over(Via::Quic)
}

fn word_of(master: &RunningMaster) -> String {
    let join = master.join_string(&[]).unwrap().expect("it encrypts");
    join.to_word().to_string()
}

/// As a program does that says nothing of transports.
fn builder(word: &str) -> Builder {
    let builder = Communicator::builder(word).first_port(0);
    builder.listen(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

#[test]
fn a_join_string_is_all_that_a_peer_needs_to_reduce_and_share_state() {
    let master = spawn_invited(trust());
    let word = word_of(&master);
    let mut peers = vec![begin(builder(&word))];
    join_as(builder(&word), &mut peers);
    join_as(builder(&word), &mut peers);

    reduce_and_share(&mut peers);
}

#[test]
fn a_peer_chooses_its_own_lanes_and_connections_in_one_line() {
    let master = spawn_invited(trust());
    let word = word_of(&master);
    let with = |lanes| builder(&word).transport(Quic::new().lanes(lanes).connections(2));
    let mut peers = vec![begin(with(3))];
    join_as(with(2), &mut peers);

    reduce_and_share(&mut peers);
}

#[test]
fn an_address_in_place_of_a_join_string_is_an_error_that_says_what_to_do() {
    let master = spawn_invited(trust());
    let address = master.local_addr().to_string();

    let refused = builder(&address).transport(Quic::new()).connect();

    let expected = Error::NoPlainLanes { master: address };
    assert_eq!(refused.err(), Some(expected));
}

#[test]
fn a_transport_that_contradicts_the_join_string_is_an_error_that_says_what_to_do() {
    let master = spawn_invited(trust());

    let refused = builder(&word_of(&master)).transport(Tcp::new()).connect();

    let (asked, given) = (Protocol::Quic, Protocol::Tls);
    assert_eq!(refused.err(), Some(Error::WrongTransport { asked, given }));
}

#[test]
fn a_master_that_stops_tells_its_peers() {
    let master = spawn_invited(trust());
    let mut peer = begin(builder(&word_of(&master)));

    master.stop();

    assert_eq!(peer.update_topology().err(), Some(Error::MasterStopped));
}
