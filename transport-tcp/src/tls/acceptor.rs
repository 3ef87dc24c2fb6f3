//! Handshakes of incoming connections. They run concurrently, so a slow one delays no other. Their number and time
//! are limited, because everybody can start one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use pccl_core::crowd::Crowd;
use pccl_core::origin::Origin;
use pccl_core::transport::{Incoming, Lane, LaneError};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use super::config::Configs;
use super::handshake::{HANDSHAKE_RECORD, answer};
use crate::lane;
use crate::options::Connected;

/// How long a handshake may take after the connection was accepted.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// Maximum number of concurrent handshakes. Beyond it, the oldest one of the address with the most is dropped.
const HANDSHAKES_MAX: usize = 256;

/// Accepted connections whose handshake has not ended.
pub(crate) struct Acceptor {
    configs: Arc<Configs>,
    shaking: JoinSet<Result<Incoming, LaneError>>,
    crowd: Crowd<AbortHandle>,
}

impl Acceptor {
    pub(crate) fn new(configs: Configs) -> Self {
        Self {
            configs: Arc::new(configs),
            shaking: JoinSet::new(),
            crowd: Crowd::new(HANDSHAKES_MAX),
        }
    }

    /// Starts the handshake of a connection. Must be called in a tokio runtime.
    pub(crate) fn begin(&mut self, connected: Connected, from: SocketAddr) {
        let configs = Arc::clone(&self.configs);
        let shaking = self.shaking.spawn(async move {
            let lane = timeout(HANDSHAKE_LIMIT, receive(connected, &configs)).await;
            let lane = lane.unwrap_or(Err(LaneError::TimedOut));
            let lane = lane.map_err(of_one_connection)?;
            Ok(Incoming { lane, from })
        });
        self.crowd.retain(|other| !other.is_finished());
        if let Some(gives_way) = self.crowd.push(Origin::from(from.ip()), shaking) {
            gives_way.abort();
        }
    }

    /// The next connection whose handshake has ended. `Pending` if there is none, even if no handshake runs.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Incoming, LaneError>> {
        loop {
            match self.shaking.poll_join_next(cx) {
                Poll::Ready(Some(Ok(ended))) => return Poll::Ready(ended),
                // It gave way to another.
                Poll::Ready(Some(Err(_))) => {}
                Poll::Ready(None) | Poll::Pending => return Poll::Pending,
            }
        }
    }
}

/// [`LaneError::Closed`] would mean that the listener has ended, which a remote peer must not be able to cause.
fn of_one_connection(error: LaneError) -> LaneError {
    match error {
        LaneError::Closed => LaneError::Reset,
        other => other,
    }
}

/// A connection that does not start with TLS becomes a lane that proves nothing, so that its user can send the other
/// end a readable refusal.
async fn receive(connected: Connected, configs: &Configs) -> Result<Lane, LaneError> {
    let mut first = [0];
    let read = connected.stream.peek(&mut first).await;
    match read.map_err(|error| crate::error::lane_error(&error))? {
        0 => Err(LaneError::Closed),
        _ if first == [HANDSHAKE_RECORD] => answer(connected, configs).await,
        _ => Ok(lane::split(connected)),
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Write;
    use std::net::TcpStream as Stranger;

    use pccl_core::transport::{Endpoint, Listener, Security, Transport};

    use super::*;
    use crate::Tcp;

    async fn next(listener: &mut dyn Listener) -> Result<Incoming, LaneError> {
        let next = timeout(2 * HANDSHAKE_LIMIT, poll_fn(|cx| listener.poll_accept(cx))).await;
        next.expect("the handshake ends")
    }

    #[tokio::test]
    async fn who_hangs_up_at_once_or_in_the_handshake_ends_no_listener() {
        let tcp = Tcp::new();
        let on = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut listener = tcp.listen(on, Security::Proven).await.unwrap();
        let address = listener.local_addr();

        for first in [
            &[][..],
            &[HANDSHAKE_RECORD],
            &[HANDSHAKE_RECORD, 3, 1, 0, 9],
        ] {
            let mut stranger = Stranger::connect(address).unwrap();
            stranger.write_all(first).unwrap();
            drop(stranger);
            // An end of the listener is what `Closed` would say.
            let failed = next(&mut *listener).await.unwrap_err();
            assert_eq!(failed, LaneError::Reset, "after {first:?}");
        }

        let to = Endpoint::Address(address);
        let plain = tcp.open(&to, None).await;
        let mut plain = plain.expect("it listens");
        pccl_core::transport::send_all(plain.tx.as_mut(), b"P", &[])
            .await
            .unwrap();
        assert!(next(&mut *listener).await.is_ok());
    }

    #[tokio::test]
    async fn a_record_longer_than_tls_allows_ends_the_handshake_before_its_time_is_over() {
        let on = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut listener = Tcp::new().listen(on, Security::Proven).await.unwrap();

        for length in [(1_u16 << 14) + 257, 18_431, u16::MAX] {
            let mut stranger = Stranger::connect(listener.local_addr()).unwrap();
            let [high, low] = length.to_be_bytes();
            let begun = [HANDSHAKE_RECORD, 3, 1, high, low, 1, 0, 1, 0];
            stranger.write_all(&begun).unwrap();

            let failed = next(&mut *listener).await.unwrap_err();
            assert_eq!(failed, LaneError::Failed, "{length} bytes");
        }
    }

    /// The beginning of a handshake that does not go on.
    fn half_finished(to: SocketAddr) -> Stranger {
        let mut stranger = Stranger::connect(to).unwrap();
        stranger
            .write_all(&[HANDSHAKE_RECORD, 3, 1, 2, 0, 1])
            .unwrap();
        stranger
    }

    #[tokio::test(start_paused = true)]
    async fn a_handshake_that_does_not_end_is_given_up() {
        let on = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut listener = Tcp::new().listen(on, Security::Proven).await.unwrap();
        let to = listener.local_addr();

        // One has not even begun to speak.
        let strangers = (Stranger::connect(to).unwrap(), half_finished(to));

        for _ in 0..2 {
            let failed = next(&mut *listener).await.unwrap_err();
            assert_eq!(failed, LaneError::TimedOut);
        }
        drop(strangers);
    }

    #[tokio::test]
    async fn of_too_many_half_finished_handshakes_the_oldest_gives_way() {
        const TOO_MANY: usize = 20;
        let on = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut listener = Tcp::new().listen(on, Security::Proven).await.unwrap();
        let to = listener.local_addr();
        let all = HANDSHAKES_MAX + TOO_MANY;

        // The port has room for all of them while nobody accepts.
        let strangers: Vec<Stranger> = (0..all).map(|_| half_finished(to)).collect();
        let accepting = poll_fn(|cx| listener.poll_accept(cx));
        let gave_way = |stranger: &Stranger| {
            stranger.set_nonblocking(true).unwrap();
            // A connection that is dropped with unread bytes is reset.
            match std::io::Read::read(&mut &*stranger, &mut [0]) {
                Ok(bytes) => bytes == 0,
                Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
            }
        };
        let counting = async {
            while strangers.iter().filter(|one| gave_way(one)).count() < TOO_MANY {
                tokio::task::yield_now().await;
            }
            let numbered = strangers.iter().enumerate();
            let gone = numbered.filter(|(_, one)| gave_way(one));
            gone.map(|(number, _)| number).collect::<Vec<_>>()
        };

        let gone = tokio::select! {
            gone = timeout(HANDSHAKE_LIMIT, counting) => gone.expect("some gave way"),
            ended = accepting => panic!("a handshake ended: {ended:?}"),
        };

        assert_eq!(gone, (0..TOO_MANY).collect::<Vec<_>>());
    }
}
