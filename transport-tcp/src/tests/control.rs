//! Lanes whose congestion control a caller may change. All lanes of a test are within a machine, where none has the
//! choice, so it is given to them here.

use pccl_core::id::Identity;
use pccl_core::transport::CongestionControl::{LossBased, ModelBased};
use pccl_core::transport::Lane;
use pccl_trust::KeyPair;

use super::*;
use crate::options::Connected;
use crate::{lane, tls};

/// The socket of a connection, also once it is a lane.
fn socket_of(stream: &TcpStream) -> Socket {
    SockRef::from(stream).try_clone().unwrap()
}

/// Changes it to and fro. A lane keeps what it has if the system does not lend the one.
fn to_and_fro(mut lane: Lane, socket: &Socket) {
    if !options::is_lent("cubic") {
        println!("skipped: this system does not lend cubic");
        return;
    }
    lane.tx.set_congestion_control(LossBased);
    assert_eq!(lane.tx.congestion_control(), Some(LossBased));
    assert_eq!(congestion_of(socket), "cubic");

    lane.tx.set_congestion_control(ModelBased);
    match options::is_lent("bbr") {
        true => {
            assert_eq!(lane.tx.congestion_control(), Some(ModelBased));
            assert_eq!(congestion_of(socket), "bbr");
        }
        false => {
            // It is never asked for another one again.
            assert_eq!(lane.tx.congestion_control(), None);
            assert_eq!(congestion_of(socket), "cubic");
        }
    }
}

#[tokio::test]
async fn a_plain_lane_changes_its_congestion_control() {
    let (stream, _other) = connection(&Tcp::new()).await;
    let socket = socket_of(&stream);
    let control = Some(ModelBased);

    let lane = lane::split(Connected { stream, control });

    to_and_fro(lane, &socket);
}

#[tokio::test]
async fn an_encrypted_lane_changes_its_congestion_control() {
    let pair = KeyPair::generate().unwrap();
    let listening = Tcp::new().key_pair(&pair);
    let mut listener = listening.listen(V4, Security::Proven).await.unwrap();
    let to = Endpoint::Address(listener.local_addr());
    let stream = open::connect(&to, GUARD).await.unwrap();
    let socket = socket_of(&stream);
    let control = Some(ModelBased);
    let dialling = Tcp::new();
    let configs = dialling.keys().unwrap().configs().unwrap();
    let expect = Identity(pair.public_key().into());

    let dialled = tls::dial(Connected { stream, control }, configs, expect);
    let (lane, _other) = tokio::join!(dialled, accept(&mut *listener));

    to_and_fro(lane.unwrap(), &socket);
}

#[tokio::test]
async fn a_lane_within_the_machine_has_no_choice() {
    let mut listener = listen(V4).await;
    let to = Endpoint::Address(listener.local_addr());
    let mut opened = Tcp::new().open(&to, None).await.unwrap();
    let accepted = accept(&mut *listener).await;

    assert_eq!(opened.tx.congestion_control(), None);
    assert_eq!(accepted.lane.tx.congestion_control(), None);

    opened.tx.set_congestion_control(LossBased);
    assert_eq!(opened.tx.congestion_control(), None);
}
