//! The two halves of a lane: one connection, split.

use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pccl_core::transport::{CongestionControl, Lane, LaneError, LaneRx, LaneTx};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::error::lane_error;
use crate::options::{Connected, is_local, shorten_user_timeout, steer};

/// Maximum number of parts in one system call. The caller's next call sends the others.
const PARTS_AT_ONCE: usize = 16;

/// Makes a lane of a connection.
pub(crate) fn split(Connected { stream, control }: Connected) -> Lane {
    let is_local = is_local(&stream);
    let (rx, half) = stream.into_split();
    let tx = TcpTx {
        half,
        is_local,
        control,
    };
    Lane::new(Box::new(tx), Box::new(TcpRx(rx)))
}

/// Shuts the sending side down on drop, without waiting: the kernel delivers what it has accepted.
struct TcpTx {
    half: OwnedWriteHalf,
    is_local: bool,
    control: Option<CongestionControl>,
}

impl LaneTx for TcpTx {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        let mut slices = [IoSlice::new(&[]); PARTS_AT_ONCE];
        let mut used = 0;
        let filled = parts.iter().filter(|part| !part.is_empty());
        for (slice, part) in slices.iter_mut().zip(filled) {
            *slice = IoSlice::new(part);
            used += 1;
        }
        if used == 0 {
            return Poll::Ready(Ok(0));
        }
        let slices = slices.get(..used).unwrap_or_default();
        Pin::new(&mut self.half)
            .poll_write_vectored(cx, slices)
            .map_err(|error| lane_error(&error))
    }

    fn is_local(&self) -> bool {
        self.is_local
    }

    fn give_up_after(&mut self, limit: Duration) {
        shorten_user_timeout(self.half.as_ref(), limit);
    }

    fn congestion_control(&self) -> Option<CongestionControl> {
        self.control
    }

    fn set_congestion_control(&mut self, control: CongestionControl) {
        steer(self.half.as_ref(), &mut self.control, control);
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        Pin::new(&mut self.half)
            .poll_shutdown(cx)
            .map_err(|error| lane_error(&error))
    }
}

struct TcpRx(OwnedReadHalf);

impl LaneRx for TcpRx {
    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<usize, LaneError>> {
        let mut buffer = ReadBuf::new(into);
        ready!(Pin::new(&mut self.0).poll_read(cx, &mut buffer))
            .map_err(|error| lane_error(&error))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }
}
