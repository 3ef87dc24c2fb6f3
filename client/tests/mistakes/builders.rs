//! Mistakes with the settings of a peer.

use std::future::poll_fn;

use pccl::{Builder, Tcp};
use pccl_core::transport::{Security, Transport, send_all};
use pccl_master::MasterConfig;

use super::world::{MASTER, World};
use super::{Told, expect, seconds};

/// Connects with these settings.
fn connecting(told: &str, settings: impl FnOnce(&World) -> Builder) {
    let told = Told {
        peers: &[told],
        within: seconds(1),
        ..Told::default()
    };
    expect(told, async |world| {
        world.start_master().await;
        vec![settings(world).connect_async().await.map(drop)]
    });
}

#[test]
fn the_name_of_a_site_begins_as_that_of_a_found_one() {
    connecting(
        "the name of a site begins with a tilde, as the names of sites do that the master finds; choose \
         another name",
        |world| world.peer(MASTER).site("~3"),
    );
}

#[test]
fn the_name_of_a_site_is_a_text() {
    connecting(
        "the name of a site has 65 bytes, and may have 64; choose another name",
        |world| world.peer(MASTER).site("s".repeat(65)),
    );
}

#[test]
fn the_name_of_a_site_ends_a_line() {
    connecting(
        "the name of a site has a control character; choose another name",
        |world| world.peer(MASTER).site("rack 1\n"),
    );
}

#[test]
fn the_join_string_has_a_wrong_letter() {
    connecting(
        "the join string is incomplete or has a wrong character: copy the whole word again",
        |world| world.peer("pccl1abcdefgh"),
    );
}

#[test]
fn an_address_of_another_machine_is_given_in_place_of_a_join_string() {
    connecting(
        "the master at 192.0.2.1:48148 is on another machine: connect with the join string that it prints at \
         its start, or say Tcp::plain() where everybody on the way may read and change what is sent",
        |_| pccl::Communicator::builder("192.0.2.1:48148"),
    );
}

#[test]
fn the_address_to_listen_on_is_not_one_of_this_machine() {
    connecting(
        "cannot listen on 192.0.2.1:48149: the address cannot be used on this machine; give Builder::listen \
         an address of this machine",
        |_| {
            let peer = pccl::Communicator::builder("127.0.0.1:48148").transport(Tcp::plain());
            peer.listen("192.0.2.1".parse().unwrap())
        },
    );
}

#[test]
fn no_time_is_left_for_the_masters_answer() {
    connecting(
        "Builder::connect_timeout was given no time at all, in which nothing can happen; give it some, or \
         leave the line out for the default",
        |world| world.peer(MASTER).connect_timeout(seconds(0)),
    );
}

#[test]
fn no_time_is_left_to_be_admitted() {
    connecting(
        "Builder::admission_timeout was given no time at all, in which nothing can happen; give it some, or \
         leave the line out for the default",
        |world| world.peer(MASTER).admission_timeout(seconds(0)),
    );
}

#[test]
fn no_time_is_left_for_the_next_byte() {
    connecting(
        "Builder::stall_timeout was given no time at all, in which nothing can happen; give it some, or leave \
         the line out for the default",
        |world| world.peer(MASTER).stall_timeout(seconds(0)),
    );
}

/// Another program listens at an address, and says this to whoever comes.
async fn other_program(world: &World, says: &'static [u8]) {
    let host = world.net.host(World::master_ip());
    let at = MASTER.parse().unwrap();
    let mut listener = host.listen(at, Security::Plain).await.unwrap();
    tokio::spawn(async move {
        while let Ok(mut incoming) = poll_fn(|cx| listener.poll_accept(cx)).await {
            let _ = send_all(incoming.lane.tx.as_mut(), says, &[]).await;
        }
    });
}

#[test]
fn the_address_is_that_of_a_web_server() {
    let told = Told {
        peers: &[
            "the master at 10.99.0.1:48148 cannot be reached: whoever answered does not speak pccl; is the \
             address right?",
        ],
        within: seconds(1),
        ..Told::default()
    };
    expect(told, async |world| {
        other_program(
            world,
            b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
        )
        .await;
        vec![world.peer(MASTER).connect_async().await.map(drop)]
    });
}

#[test]
fn the_run_is_full() {
    let told = Told {
        peers: &[
            "the master refused this peer: the run is full: the limit is 1; connect again when a peer has \
             left, or raise the master's limit",
        ],
        within: seconds(1),
        ..Told::default()
    };
    expect(told, async |world| {
        let config = MasterConfig {
            peers_max: 1,
            ..MasterConfig::default()
        };
        world.start_master_with(config).await;
        let first = world.peer(MASTER).connect_async().await.unwrap();
        let second = world.peer(MASTER).connect_async().await;
        drop(first);
        vec![second.map(drop)]
    });
}
