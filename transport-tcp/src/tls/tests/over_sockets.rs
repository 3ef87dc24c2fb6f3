//! Whole lanes with rustls at the other end of a real connection: where the handshake ends and the records
//! of this crate begin, and how a connection ends.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::task::{Context, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pccl_core::id::Identity;
use pccl_core::transport::{
    Endpoint, Incoming, Lane, Security, Transport, close, recv_exact, recv_some, send_all,
};
use pccl_trust::PublicKey;

use super::super::lane::send_what_is_left;
use super::super::session::Session;
use super::*;
use crate::Tcp;

/// So long a test waits for what must come.
const GUARD: Duration = Duration::from_secs(20);

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A rustls client that says something with the very bytes that end its handshake, then `then`.
fn dials(
    to: SocketAddr,
    whom: PublicKey,
    then: impl FnOnce(&mut ClientConnection, &mut TcpStream) + Send + 'static,
) -> JoinHandle<()> {
    let config = client_config(&KeyPair::generate().unwrap()).unwrap();
    let name = ServerName::try_from(whom.server_name()).unwrap();
    thread::spawn(move || {
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = TcpStream::connect(to).unwrap();
        client.writer().write_all(&pattern(50_000)).unwrap();
        while client.is_handshaking() || client.wants_write() {
            let mut wire = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut wire).unwrap();
            }
            stream.write_all(&wire).unwrap();
            if client.is_handshaking() {
                client.read_tls(&mut stream).unwrap();
                client.process_new_packets().unwrap();
            }
        }
        then(&mut client, &mut stream);
    })
}

async fn dialled(
    then: impl FnOnce(&mut ClientConnection, &mut TcpStream) + Send + 'static,
) -> (Lane, JoinHandle<()>) {
    let pair = KeyPair::generate().unwrap();
    let tcp = Tcp::new().key_pair(&pair);
    let mut listener = tcp.listen(ANY, Security::Proven).await.unwrap();
    let thread = dials(listener.local_addr(), pair.public_key(), then);
    let accepted = std::future::poll_fn(|cx| listener.poll_accept(cx)).await;
    let Incoming { lane, .. } = accepted.unwrap();
    (lane, thread)
}

#[tokio::test]
async fn data_that_comes_with_the_last_bytes_of_the_handshake_is_data() {
    let (mut lane, thread) = dialled(|client, stream| {
        let mut answer = vec![0; 50_000];
        rustls::Stream::new(client, stream)
            .read_exact(&mut answer)
            .unwrap();
        assert_eq!(answer, pattern(50_000));
        client.send_close_notify();
        client.write_tls(stream).unwrap();
    })
    .await;

    let mut heard = vec![0; 50_000];
    recv_exact(&mut *lane.rx, &mut heard).await.unwrap();
    assert_eq!(heard, pattern(50_000));
    send_all(&mut *lane.tx, &heard, &[]).await.unwrap();
    assert_eq!(recv_some(&mut *lane.rx, &mut [0; 9]).await, Ok(0));
    thread.join().unwrap();
}

#[tokio::test]
async fn a_connection_that_ends_without_goodbye_was_cut() {
    let (mut lane, thread) = dialled(|_, _| {}).await;
    thread.join().unwrap();

    let mut heard = vec![0; 50_000];
    recv_exact(&mut *lane.rx, &mut heard).await.unwrap();

    let end = recv_some(&mut *lane.rx, &mut [0; 9]).await;
    assert_eq!(end, Err(LaneError::Reset));
}

#[tokio::test]
async fn a_server_of_rustls_is_spoken_with_until_both_say_goodbye() {
    let pair = KeyPair::generate().unwrap();
    let config = server_config(&pair).unwrap();
    let listener = TcpListener::bind(ANY).unwrap();
    let to = Endpoint::Address(listener.local_addr().unwrap());
    let thread = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut server = ServerConnection::new(Arc::new(config)).unwrap();
        let mut heard = Vec::new();
        let mut tls = rustls::Stream::new(&mut server, &mut stream);
        // It speaks first, with what it has just made keys for.
        tls.write_all(b"welcome").unwrap();
        tls.read_to_end(&mut heard).unwrap();
        tls.conn.send_close_notify();
        tls.conn.write_tls(tls.sock).unwrap();
        assert_eq!(heard, pattern(300_000));
    });

    let expect = Identity(pair.public_key().into());
    let mut lane = Tcp::new().open(&to, Some(expect)).await.unwrap();
    let mut heard = [0; 7];
    recv_exact(&mut *lane.rx, &mut heard).await.unwrap();
    assert_eq!(&heard, b"welcome");
    send_all(&mut *lane.tx, &[], &pattern(300_000))
        .await
        .unwrap();
    close(&mut *lane.tx).await.unwrap();
    assert_eq!(recv_some(&mut *lane.rx, &mut [0; 9]).await, Ok(0));
    thread.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_for_the_next_key_is_answered_by_a_lane_that_sends_nothing() {
    let (mut lane, thread) = dialled(|client, stream| {
        stream.set_read_timeout(Some(GUARD)).unwrap();
        client.refresh_traffic_keys().unwrap();
        client.writer().write_all(b"?").unwrap();
        stream.write_all(&spoken(client)).unwrap();
        let answer = client.read_tls(stream).expect("an answer");
        assert_eq!(answer, 5 + OVERHEAD_BYTES);
        client.process_new_packets().unwrap();
    })
    .await;

    recv_exact(&mut *lane.rx, &mut vec![0; 50_001])
        .await
        .unwrap();

    thread.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_renewed_by_the_receiving_half_while_the_sending_half_sends() {
    // rustls takes 32 key updates without data between them; if all data is under way before the first
    // request is answered, all the answers follow it.
    const ROUNDS: usize = 30;
    const ASKED: usize = 60_000;
    const ANSWERED: usize = 300_000;
    let (lane, thread) = dialled(|client, stream| {
        let mut heard = vec![0; ROUNDS * ANSWERED];
        for piece in heard.chunks_mut(ANSWERED) {
            client.refresh_traffic_keys().unwrap();
            let mut tls = rustls::Stream::new(&mut *client, &mut *stream);
            tls.write_all(&pattern(ASKED)).unwrap();
            tls.read_exact(piece).unwrap();
        }
        assert!(heard == pattern(ROUNDS * ANSWERED));
    })
    .await;

    let (mut tx, mut rx) = (lane.tx, lane.rx);
    let sends = tokio::spawn(async move {
        let all = pattern(ROUNDS * ANSWERED);
        send_all(&mut *tx, &[], &all).await.map(|()| tx)
    });
    let mut heard = vec![0; 50_000 + ROUNDS * ASKED];
    recv_exact(&mut *rx, &mut heard).await.unwrap();

    let _tx = sends.await.unwrap().unwrap();
    thread.join().unwrap();
    let (first, others) = heard.split_at(50_000);
    assert!(first == pattern(50_000));
    assert!(others.chunks(ASKED).all(|piece| piece == pattern(ASKED)));
}

/// The receiving half keeps the session for as long as it likes.
#[tokio::test]
async fn a_dropped_sending_half_keeps_no_memory_once_all_is_sent_or_nothing_can_be() {
    for is_read in [true, false] {
        let listener = tokio::net::TcpListener::bind(ANY).await.unwrap();
        let to = listener.local_addr().unwrap();
        let (opened, accepted) =
            tokio::join!(tokio::net::TcpStream::connect(to), listener.accept());
        let (stream, other) = (opened.unwrap(), accepted.unwrap().0);
        let (_receiving, half) = stream.into_split();
        let secret = rustls::crypto::tls13::OkmBlock::new(&[5; 32]);
        let secret = TrafficSecret::new(SUITES[0], secret).unwrap();
        let session = Session::new(half, RecordWriter::new(Sealer::new(secret).unwrap()));
        let session = Arc::new(session);
        // More than the sockets take.
        while session
            .poll_flush(&mut Context::from_waker(Waker::noop()))
            .is_ready()
        {
            session.send(&[&pattern(200_000)]).unwrap();
        }
        assert!(session.bytes_held() >= 200_000);

        let (sending, ends) = tokio::sync::oneshot::channel();
        drop(sending);
        let ending = send_what_is_left(Arc::clone(&session), ends);
        let reading = async {
            // Without it the connection is reset.
            while is_read && other.readable().await.is_ok() {
                if matches!(other.try_read(&mut [0; 4096]), Ok(0)) {
                    break;
                }
            }
            drop(other);
        };
        tokio::join!(ending, reading);

        assert_eq!(session.bytes_held(), 0, "is read: {is_read}");
    }
}

/// What a client of rustls has to say.
fn spoken(client: &mut ClientConnection) -> Vec<u8> {
    let mut wire = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut wire).unwrap();
    }
    wire
}

/// Whoever is in the middle of two connections cannot show on one what was proven on the other.
#[tokio::test]
async fn both_ends_of_a_lane_have_one_binding_that_no_other_lane_has() {
    let (here, there) = (Tcp::new(), KeyPair::generate().unwrap());
    let at_listener = Tcp::new().key_pair(&there);
    let mut listener = at_listener.listen(ANY, Security::Proven).await.unwrap();
    let to = Endpoint::Address(listener.local_addr());
    let whom = Some(Identity(*there.public_key().as_bytes()));
    let mut bindings = Vec::new();
    for _ in 0..2 {
        let accepted = std::future::poll_fn(|cx| listener.poll_accept(cx));
        let (opened, accepted) = tokio::join!(here.open(&to, whom), accepted);
        let ends = [opened.unwrap(), accepted.unwrap().lane];
        let [one, other] = ends.map(|lane| lane.proven.expect("the lane is proven").binding);
        assert_eq!(one, other);
        bindings.push(one);
    }

    assert_ne!(bindings[0], bindings[1]);
}
