//! What is special about QUIC; what every transport must do is tested for all of them together.

mod absence;
mod bounds;
mod datagrams;
mod impostors;
mod lanes;
mod relay;
mod resets;
mod strangers;

use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use pccl_core::id::Identity;
use pccl_core::transport::{
    Endpoint, Incoming, Lane, LaneError, Listener, Security, Transport, send_all,
};
use pccl_trust::KeyPair;
use tokio::time::timeout;

use super::Quic;

const V4: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Against hangs only; nothing here takes this long.
const GUARD: Duration = Duration::from_secs(30);

fn pair() -> KeyPair {
    KeyPair::generate().unwrap()
}

fn identity(pair: &KeyPair) -> Identity {
    Identity(pair.public_key().into())
}

/// Somebody with a key of its own.
struct Host {
    quic: Quic,
    identity: Identity,
}

impl Host {
    fn new() -> Self {
        Self::with(Quic::new())
    }

    fn with(quic: Quic) -> Self {
        let pair = pair();
        Self {
            quic: quic.key_pair(&pair),
            identity: identity(&pair),
        }
    }

    async fn listen(&self) -> Box<dyn Listener> {
        let listener = self.quic.listen(V4, Security::Proven).await;
        listener.expect("a free port")
    }

    async fn open(&self, at: SocketAddr, expect: &Host) -> Result<Lane, LaneError> {
        let to = Endpoint::Address(at);
        let opening = self.quic.open(&to, Some(expect.identity));
        timeout(GUARD, opening).await.expect("no hang")
    }

    /// A lane on which something was said, so that the other end sees it.
    async fn greet(&self, at: SocketAddr, expect: &Host) -> Lane {
        let mut lane = self.open(at, expect).await.expect("somebody listens");
        send_all(&mut *lane.tx, b"hel", b"lo").await.unwrap();
        lane
    }
}

async fn accept(listener: &mut dyn Listener) -> Incoming {
    loop {
        let accepted = timeout(GUARD, poll_fn(|cx| listener.poll_accept(cx))).await;
        if let Ok(incoming) = accepted.expect("somebody came") {
            return incoming;
        }
    }
}

/// Two hosts, and a lane between them on which the second has read what the first has said.
async fn meet() -> (Lane, Incoming) {
    let (a, b) = (Host::new(), Host::new());
    let mut listener = b.listen().await;
    let opened = a.greet(listener.local_addr(), &b).await;
    let mut incoming = accept(&mut *listener).await;
    hear_hello(&mut incoming.lane).await;
    (opened, incoming)
}

async fn hear_hello(lane: &mut Lane) {
    let mut word = [0; 5];
    let heard = pccl_core::transport::recv_exact(&mut *lane.rx, &mut word).await;
    assert_eq!((heard, &word), (Ok(()), b"hello"));
}
