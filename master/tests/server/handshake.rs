//! What a connection has to say first, and what it hears where it does not.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::task::Poll;
use std::time::Duration;

use pccl_core::id::{Identity, PeerId};
use pccl_core::messages::{Hello, Refusal, ToMaster, ToPeer};
use pccl_core::site::SiteName;
use pccl_core::transport::{Lane, recv_some, send_all};
use pccl_core::wire::{
    CONTROL_HEAD_BYTES, ControlError, PREAMBLE_BYTES, Preamble, Purpose, Reply, encode_control,
    recv_reply,
};
use pccl_master::{KeyPair, Limits, MasterServer, RunningMaster, Security, Trust, spawn};
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep};

use crate::support::client::{Client, hello, soon};
use crate::support::messages::announcing;
use crate::support::pipes::{ADDRESS, Pipes};

fn master() -> (RunningMaster, SocketAddr) {
    let master = spawn("127.0.0.1:0").unwrap();
    let address = master.local_addr();
    (master, address)
}

/// What the master answers to these first bytes. It has to end the connection then.
async fn refusal_of(lane: &mut Lane, first: &[u8]) -> String {
    send_all(lane.tx.as_mut(), first, &[]).await.unwrap();
    let reply = soon("a reply", recv_reply(lane.rx.as_mut())).await.unwrap();
    let rest = soon("the end", recv_some(lane.rx.as_mut(), &mut [0; 8])).await;
    assert_eq!(rest, Ok(0), "the connection goes on after a refusal");
    match reply {
        Reply::Refused(text) | Reply::NotYet(text) => text,
        Reply::Accepted => panic!("the master accepted the connection"),
    }
}

#[tokio::test]
async fn a_browser_reads_why_it_is_refused() {
    let (_master, address) = master();
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";

    let text = refusal_of(&mut Client::dial(address).await, request).await;

    assert!(text.contains("pccl"), "{text}");
}

/// More than the buffers between the two hold: it can only be sent to somebody who reads it.
const UPLOAD_BYTES: usize = 16 * 1024 * 1024;

#[tokio::test]
async fn an_upload_to_the_wrong_port_is_heard_out_so_that_the_refusal_arrives() {
    let patient = Limits {
        farewell: Duration::from_secs(20),
        ..Limits::default()
    };
    let builder = MasterServer::builder().limits(patient);
    let server = builder.bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let mut uploader = Client::dial(server.local_addr()).await;
    tokio::spawn(server.run());

    send_all(uploader.tx.as_mut(), &vec![b'x'; UPLOAD_BYTES], &[])
        .await
        .unwrap();

    let text = refusal_of(&mut uploader, &[]).await;
    assert!(text.contains("pccl"), "{text}");
}

#[tokio::test]
async fn another_version_reads_why_it_is_refused() {
    let (_master, address) = master();
    let mut preamble = Preamble::CONTROL.encode();
    preamble[4] = 77;

    let text = refusal_of(&mut Client::dial(address).await, &preamble).await;

    assert!(text.contains("version 77"), "{text}");
}

#[tokio::test]
async fn a_ring_lane_to_the_master_reads_why_it_is_refused() {
    let (_master, address) = master();
    let preamble = Preamble {
        purpose: Purpose::LinkLane,
        ..Preamble::CONTROL
    };

    let text = refusal_of(&mut Client::dial(address).await, &preamble.encode()).await;

    assert!(text.contains("link lane"), "{text}");
}

/// A master within this process, and pipes to it.
async fn piped(limits: Limits) -> Pipes {
    let pipes = Pipes::new(64 * 1024);
    let builder = MasterServer::builder()
        .transport(pipes.transport())
        .limits(limits)
        .seed([1; 32]);
    tokio::spawn(builder.bind(ADDRESS).await.unwrap().run());
    pipes
}

#[tokio::test(start_paused = true)]
async fn a_stranger_that_dawdles_over_its_preamble_is_cut_off() {
    let pipes = piped(Limits::default()).await;

    let text = refusal_of(&mut pipes.dial(), b"PCC").await;

    assert!(text.contains("too long"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_stranger_that_dawdles_over_its_hello_is_cut_off() {
    let pipes = piped(Limits::default()).await;
    let mut stranger = Client::introduce(pipes.dial()).await;

    stranger.say_bytes(&[1]).await;

    assert_eq!(stranger.hear().await, ToPeer::Refused(Refusal::SlowHello));
    assert_eq!(stranger.listen().await, Err(ControlError::Ended));
}

/// Time without a new byte is not what counts, so bytes one by one win none.
#[tokio::test(start_paused = true)]
async fn a_stranger_that_drips_its_preamble_or_its_hello_has_no_more_time_than_one_that_is_silent()
{
    let pipes = piped(Limits::default()).await;
    let mut frame = Preamble::CONTROL.encode().to_vec();
    encode_control(&ToMaster::Hello(hello()), &mut frame).unwrap();
    let pause = Limits::default().handshake / 10;
    // The third one has half of its time left for its hello.
    for at_once in [0, PREAMBLE_BYTES, PREAMBLE_BYTES - 5] {
        let mut lane = pipes.dial();
        let begun = Instant::now();
        let (first, rest) = frame.split_at(at_once);
        send_all(lane.tx.as_mut(), first, &[]).await.unwrap();
        let drip = async {
            for byte in rest {
                sleep(pause).await;
                if send_all(lane.tx.as_mut(), &[*byte], &[]).await.is_err() {
                    break;
                }
            }
            std::future::pending::<()>().await;
        };
        let hung_up = async { while recv_some(lane.rx.as_mut(), &mut [0; 64]).await != Ok(0) {} };

        tokio::select! {
            () = hung_up => {}
            () = drip => unreachable!("it drips for ever"),
        }

        assert_eq!(begun.elapsed(), Limits::default().handshake, "{at_once}");
    }
}

/// A master that asks for proofs, and pipes to it on which the handshake of TLS or QUIC is over.
async fn proving() -> Pipes {
    let trust = Trust::ephemeral().unwrap();
    let stranger = Identity(KeyPair::generate().unwrap().public_key().into());
    let pipes = Pipes::new(64 * 1024).proving(stranger);
    let builder = MasterServer::builder()
        .transport(pipes.transport())
        .security(Security::Proven(trust));
    tokio::spawn(builder.bind(ADDRESS).await.unwrap().run());
    pipes
}

#[tokio::test(start_paused = true)]
async fn a_stranger_that_has_proved_a_key_and_dawdles_over_its_proof_is_cut_off() {
    let pipes = proving().await;
    for first in [&[][..], &Preamble::CONTROL.encode()] {
        let begin = Instant::now();

        let text = refusal_of(&mut pipes.dial(), first).await;

        assert!(text.contains("too long"), "{text}");
        assert_eq!(begin.elapsed(), Limits::default().handshake);
    }
}

/// To how many the master has said anything, or has hung up.
async fn answered(lanes: &mut [Lane]) -> usize {
    let count = poll_fn(|cx| {
        let is_answered = |lane: &mut Lane| lane.rx.poll_recv(cx, &mut [0; 1]).is_ready();
        Poll::Ready(lanes.iter_mut().map(is_answered).filter(|is| *is).count())
    });
    // tokio would have who reads so much at once come again.
    unconstrained(count).await
}

#[tokio::test(start_paused = true)]
async fn strangers_that_have_proved_a_key_and_stay_silent_are_few_and_soon_gone() {
    let pipes = proving().await;
    let limits = Limits::default();
    let room = limits.strangers_per_address_max + limits.waiting_per_address_max;
    let mut lanes: Vec<Lane> = (0..room + 100).map(|_| pipes.dial()).collect();

    sleep(Duration::from_millis(1)).await;
    let at_once = answered(&mut lanes).await;
    sleep(limits.waiting + limits.handshake).await;
    let at_last = answered(&mut lanes).await;

    assert_eq!(at_once, 100);
    assert_eq!(at_last, lanes.len());
}

#[tokio::test]
async fn a_stranger_that_votes_before_its_hello_is_turned_away() {
    let (_master, address) = master();
    let mut stranger = Client::introduce(Client::dial(address).await).await;

    stranger.say(&ToMaster::ArePeersPending).await;

    assert_eq!(stranger.hear().await, ToPeer::Refused(Refusal::BadHello));
    assert_eq!(stranger.listen().await, Err(ControlError::Ended));
}

#[tokio::test(start_paused = true)]
async fn a_stranger_that_announces_a_long_message_is_turned_away_at_once() {
    let pipes = piped(Limits::default()).await;
    let mut stranger = Client::introduce(pipes.dial()).await;
    let begin = Instant::now();

    stranger.say_bytes(&announcing(4097, &[])).await;

    assert_eq!(stranger.hear().await, ToPeer::Refused(Refusal::BadHello));
    assert_eq!(stranger.listen().await, Err(ControlError::Ended));
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

/// Nobody has made a mistake: the peer connects again.
#[tokio::test(start_paused = true)]
async fn a_hello_that_is_damaged_on_its_way_ends_the_connection_without_a_refusal() {
    let mut frame = Vec::new();
    encode_control(&ToMaster::Hello(hello()), &mut frame).unwrap();
    for damaged in [0, CONTROL_HEAD_BYTES, frame.len() - 1] {
        let pipes = piped(Limits::default()).await;
        let mut newcomer = Client::introduce(pipes.dial()).await;
        let mut frame = frame.clone();
        frame[damaged] ^= 1;
        let begin = Instant::now();

        newcomer.say_bytes(&frame).await;

        assert_eq!(newcomer.listen().await, Err(ControlError::Ended));
        assert_eq!(begin.elapsed(), Duration::ZERO);
    }
}

#[tokio::test]
async fn a_hello_whose_site_has_no_possible_name_is_refused_with_the_reason() {
    let (_master, address) = master();
    let mut newcomer = Client::introduce(Client::dial(address).await).await;
    let site = "eu".to_owned().try_into().unwrap();
    let mut frame = Vec::new();
    encode_control(&ToMaster::Hello(Hello { site, ..hello() }), &mut frame).unwrap();
    let mut body = frame.split_off(CONTROL_HEAD_BYTES);
    let site = body.windows(2).position(|two| two == b"eu").unwrap();
    body[site] = b'\n';

    let length = u32::try_from(body.len()).unwrap();
    newcomer.say_bytes(&announcing(length, &body)).await;

    assert_eq!(newcomer.hear().await, ToPeer::Refused(Refusal::BadHello));
    assert_eq!(newcomer.listen().await, Err(ControlError::Ended));
}

#[tokio::test]
async fn a_hello_with_the_name_of_a_found_site_is_refused_with_the_reason() {
    let (_master, address) = master();
    let mut newcomer = Client::introduce(Client::dial(address).await).await;
    let site = SiteName::found_around(PeerId(1));

    newcomer
        .say(&ToMaster::Hello(Hello { site, ..hello() }))
        .await;

    assert_eq!(newcomer.hear().await, ToPeer::Refused(Refusal::BadHello));
    assert_eq!(newcomer.listen().await, Err(ControlError::Ended));
}

#[tokio::test]
async fn a_hello_without_lanes_is_refused_with_the_reason() {
    let (_master, address) = master();
    let mut newcomer = Client::introduce(Client::dial(address).await).await;

    let mut nonsense = hello();
    nonsense.lanes = 0;
    newcomer.say(&ToMaster::Hello(nonsense)).await;

    assert_eq!(newcomer.hear().await, ToPeer::Refused(Refusal::BadHello));
    assert_eq!(newcomer.listen().await, Err(ControlError::Ended));
}
