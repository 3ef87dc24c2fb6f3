//! Texts that are no addresses. Nothing is sent, and no time passes.

use super::world::MASTER;
use super::{Told, expect, seconds};

/// Connects to what is given as the master's address.
fn connecting_to(address: &str, told: &str) {
    let told = Told {
        peers: &[told],
        within: seconds(0),
        ..Told::default()
    };
    expect(told, async |world| {
        vec![world.peer(address).connect_async().await.map(drop)]
    });
}

/// Advertises this.
fn advertising(address: &str, told: &str) {
    let told = Told {
        peers: &[told],
        within: seconds(0),
        ..Told::default()
    };
    expect(told, async |world| {
        let peer = world.peer(MASTER).advertise(address);
        vec![peer.connect_async().await.map(drop)]
    });
}

#[test]
fn the_port_is_left_out() {
    connecting_to(
        "master.example",
        "\"master.example\" is no address: it has no port; a master that was not told otherwise listens on port 48148",
    );
}

#[test]
fn the_host_is_left_out() {
    connecting_to(
        ":48148",
        "\":48148\" is no address: it has no host; an address is written host:port",
    );
}

#[test]
fn the_port_is_no_number() {
    connecting_to(
        "master.example:4814B",
        "\"master.example:4814B\" is no address: what follows the colon is no port, which is a number from 1 to 65535",
    );
}

#[test]
fn the_address_is_a_link_to_a_page() {
    connecting_to(
        "http://master.example:48148",
        "\"http://master.example:48148\" is no address: it begins with a scheme; an address is host:port alone",
    );
}

#[test]
fn an_ipv6_address_has_no_brackets() {
    connecting_to(
        "::1:48148",
        "\"::1:48148\" is no address: an IPv6 address is written in brackets before the port, as in [::1]:48148",
    );
}

#[test]
fn the_host_has_a_space() {
    connecting_to(
        "master 1:48148",
        "\"master 1:48148\" is no address: its host is neither an IP address nor a name",
    );
}

#[test]
fn what_is_advertised_is_no_address() {
    advertising(
        "gpu 3:31001",
        "\"gpu 3:31001\" is no address: its host is neither an IP address nor a name",
    );
}

#[test]
fn the_advertised_port_is_zero() {
    advertising(
        "192.0.2.7:0",
        "\"port 0\" is no address: what follows the colon is no port, which is a number from 1 to 65535",
    );
}
