//! The two halves of an encrypted lane, and the task that sends the bytes for which the socket had no room.

use std::net::Shutdown;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pccl_core::transport::{CongestionControl, Lane, LaneError, LaneRx, LaneTx};
use socket2::SockRef;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::oneshot;

use super::record_reader::RecordReader;
use super::session::Session;
use crate::options::{is_local, shorten_user_timeout, steer};

/// Makes a lane of a session.
pub(super) fn split(
    session: Session,
    half: OwnedReadHalf,
    reader: RecordReader,
    control: Option<CongestionControl>,
) -> Lane {
    let is_local = is_local(half.as_ref());
    let session = Arc::new(session);
    let (sending, ends) = oneshot::channel();
    tokio::spawn(send_what_is_left(Arc::clone(&session), ends));
    let tx = TlsTx {
        session: Arc::clone(&session),
        is_local,
        control,
        _sending: sending,
    };
    let rx = TlsRx {
        session,
        half,
        reader,
    };
    Lane::new(Box::new(tx), Box::new(rx))
}

/// Sends encrypted bytes that were not sent yet. The caller does not do it, because it does not call again after its
/// last bytes. Ends with close_notify when the sending half has been dropped. The receiving half keeps the session,
/// but no memory for sending.
pub(super) async fn send_what_is_left(session: Arc<Session>, mut ends: oneshot::Receiver<()>) {
    loop {
        tokio::select! {
            biased;
            () = session.left.notified() => {}
            _ = &mut ends => break,
        }
        if session.flush().await.is_err() {
            return session.release();
        }
    }
    session.say_goodbye();
    // The other end may not read for long.
    session.release();
    // Where it fails the other end notices in another way.
    if session.flush().await.is_ok() {
        shut_down(&session);
    }
    session.release();
}

fn shut_down(session: &Session) {
    // The other end may have gone already.
    let _ = SockRef::from(session.half.as_ref()).shutdown(Shutdown::Write);
}

struct TlsTx {
    session: Arc<Session>,
    is_local: bool,
    control: Option<CongestionControl>,
    /// Dropped with this half.
    _sending: oneshot::Sender<()>,
}

impl LaneTx for TlsTx {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        if parts.iter().all(|part| part.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        ready!(self.session.poll_flush(cx))?;
        Poll::Ready(self.session.send(parts))
    }

    fn is_local(&self) -> bool {
        self.is_local
    }

    fn give_up_after(&mut self, limit: Duration) {
        shorten_user_timeout(self.session.half.as_ref(), limit);
    }

    fn congestion_control(&self) -> Option<CongestionControl> {
        self.control
    }

    fn set_congestion_control(&mut self, control: CongestionControl) {
        steer(self.session.half.as_ref(), &mut self.control, control);
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        self.session.say_goodbye();
        ready!(self.session.poll_flush(cx))?;
        shut_down(&self.session);
        Poll::Ready(Ok(()))
    }
}

struct TlsRx {
    session: Arc<Session>,
    half: OwnedReadHalf,
    reader: RecordReader,
}

impl LaneRx for TlsRx {
    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<usize, LaneError>> {
        let (half, reader) = (&mut self.half, &mut self.reader);
        self.session.poll_receive(cx, half, reader, into)
    }
}
