//! What opens a connection: preambles, replies, proofs.

use std::task::{Context, Poll};

use pccl_core::transport::{Lane, LaneError, LaneRx, LaneTx};
use pccl_core::wire::{
    PREAMBLE_BYTES, Preamble, REPLY_HEAD_BYTES, Reply, ReplyHead, offer, recv_count, recv_preamble,
    recv_proof,
};
use tokio::runtime::{Builder, Runtime};

use super::frugal;

/// Any first bytes of a connection. A preamble that is understood is the one that was sent.
pub fn preamble(data: &[u8]) {
    let Some(bytes) = data.first_chunk::<PREAMBLE_BYTES>() else {
        return;
    };
    match Preamble::decode(bytes) {
        Ok(preamble) => assert_eq!(preamble.encode(), *bytes),
        Err(error) => {
            let refusal = Reply::from(error).encode();
            assert!(refusal.len() <= REPLY_HEAD_BYTES + 255);
        }
    }
}

/// Any answer to a preamble.
pub fn reply(data: &[u8]) {
    let Some((head, rest)) = data.split_first_chunk::<REPLY_HEAD_BYTES>() else {
        return;
    };
    let Ok(head) = ReplyHead::decode(head) else {
        return;
    };
    let text = rest.get(..head.text_bytes()).unwrap_or(rest);
    if let Ok(reply) = head.finish(text) {
        let again = reply.encode();
        let (again_head, again_text) = again.split_first_chunk().expect("a reply has a head");
        assert_eq!(again_text, text);
        let again = ReplyHead::decode(again_head).map(|head| head.finish(text));
        assert_eq!(again, Ok(Ok(reply)));
    }
}

/// Any bytes on a lane that was just opened, to the end that dials and to the end that accepts.
pub fn handshake(data: &[u8]) {
    thread_local! {
        static RUNTIME: Runtime = Builder::new_current_thread()
            .build()
            .expect("a runtime without sockets");
    }
    RUNTIME.with(|runtime| {
        frugal(data.len(), 16, || runtime.block_on(accepts(data)));
        frugal(data.len(), 16, || runtime.block_on(dials(data)));
    });
}

async fn accepts(data: &[u8]) {
    let mut ours = lane(data);
    if let Ok(preamble) = recv_preamble(&mut ours).await {
        assert_eq!(preamble.encode(), data[..PREAMBLE_BYTES]);
        let proven = recv_proof(&mut ours).await.is_ok();
        let counted = recv_count(&mut ours).await.is_ok();
        assert!(proven || !counted);
    }
}

async fn dials(data: &[u8]) {
    let mut ours = lane(data);
    let accepted = offer(&mut ours, &Preamble::CONTROL).await.is_ok();
    assert!(!accepted || data.first_chunk() == Some(&accepting()));
}

/// The one answer that accepts.
fn accepting() -> [u8; REPLY_HEAD_BYTES] {
    let bytes = Reply::Accepted.encode();
    *bytes.first_chunk().expect("a reply has a head")
}

/// A lane whose other end has sent these bytes and closed, and reads everything.
fn lane(bytes: &[u8]) -> Lane {
    let rx = Sent {
        bytes: bytes.to_vec(),
        at: 0,
    };
    Lane::new(Box::new(Sink), Box::new(rx))
}

struct Sent {
    bytes: Vec<u8>,
    at: usize,
}

impl LaneRx for Sent {
    fn poll_recv(
        &mut self,
        _: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<usize, LaneError>> {
        // Two halves, so that nobody relies on one read.
        let rest = &self.bytes[self.at..];
        let most = rest.len().div_ceil(2).min(into.len());
        into[..most].copy_from_slice(&rest[..most]);
        self.at += most;
        Poll::Ready(Ok(most))
    }
}

struct Sink;

impl LaneTx for Sink {
    fn poll_send(
        &mut self,
        _: &mut Context<'_>,
        parts: &[&[u8]],
    ) -> Poll<Result<usize, LaneError>> {
        Poll::Ready(Ok(parts.iter().map(|part| part.len()).sum()))
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LaneError>> {
        Poll::Ready(Ok(()))
    }
}
