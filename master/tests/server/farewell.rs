//! A master that goes away on purpose.

use pccl_core::messages::ToPeer;
use pccl_core::wire::ControlError;
use pccl_master::{MasterServer, ServeError, spawn};

use crate::support::client::{Client, pair, soon};

#[tokio::test]
async fn a_master_that_stops_tells_its_peers_and_ends() {
    let server = MasterServer::bind(([127, 0, 0, 1], 0).into())
        .await
        .unwrap();
    let (address, handle) = (server.local_addr(), server.handle());
    let running = tokio::spawn(server.run());
    let (mut first, mut second) = pair(|| Client::dial(address)).await;
    let _stranger = Client::dial(address).await;

    handle.stop();

    for peer in [&mut first, &mut second] {
        assert_eq!(peer.hear().await, ToPeer::Stopping);
        assert_eq!(peer.listen().await, Err(ControlError::Ended));
    }
    drop((first, second));
    let ended = soon("the end of the master", running).await.unwrap();
    ended.unwrap();
}

#[tokio::test]
async fn a_master_that_stops_does_not_wait_for_a_peer_that_does_not_go() {
    let server = MasterServer::bind(([127, 0, 0, 1], 0).into())
        .await
        .unwrap();
    let (address, handle) = (server.local_addr(), server.handle());
    let running = tokio::spawn(server.run());
    let (_stays, _) = Client::found(Client::dial(address).await).await;

    handle.stop();

    let ended = soon("the end of the master", running).await.unwrap();
    ended.unwrap();
}

#[test]
fn a_master_on_a_thread_of_its_own_gives_its_port_back_when_dropped() {
    let first = spawn("127.0.0.1:0").unwrap();
    let address = first.local_addr();

    drop(first);

    let second = spawn(address).unwrap();
    assert_eq!(second.local_addr(), address);
}

#[test]
fn a_port_in_use_is_named_in_the_error() {
    let first = spawn("127.0.0.1:0").unwrap();
    let address = first.local_addr();

    let error = spawn(address).unwrap_err();

    assert!(matches!(error, ServeError::Listen { address: at, .. } if at == address));
    assert!(error.to_string().contains("already in use"), "{error}");
}

#[test]
fn an_address_that_is_none_is_named_in_the_error() {
    let error = spawn("no port").unwrap_err();

    assert!(matches!(error, ServeError::Address { ref address, .. } if address == "no port"));
}
