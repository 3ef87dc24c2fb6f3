//! Whoever waits is woken, and only the task that polled last counts.

use std::future::poll_fn;
use std::task::Poll;

use pccl_core::transport::{Lane, LaneTx, Listener, send_all};

use super::ends::assert_reads_the_end;
use super::subject::{
    Subject, accept_who_says_hello, pattern, recv_pattern, recv_waits, send_pattern,
    send_until_standstill,
};

const UNBOUNDED: usize = 256 << 20;

/// Polled here first, then in a task of its own.
pub async fn a_waiting_receiver_is_woken_by_data_also_after_moving_to_another_task(
    subject: Subject,
) {
    let (mut opened, accepted) = subject.lane().await;
    let Lane {
        tx: _tx, mut rx, ..
    } = accepted;
    assert!(recv_waits(&mut *rx).await);
    let (polled, started) = tokio::sync::oneshot::channel();

    let receiving = tokio::spawn(async move {
        assert!(recv_waits(&mut *rx).await);
        polled.send(()).unwrap();
        recv_pattern(&mut *rx, 9, 5).await;
    });
    started.await.unwrap();
    send_pattern(&mut *opened.tx, 9, 5).await;

    receiving.await.unwrap();
}

/// The end of a stream wakes as data does.
pub async fn a_waiting_receiver_is_woken_by_the_end(subject: Subject) {
    let (opened, accepted) = subject.lane().await;
    let Lane {
        tx: _tx, mut rx, ..
    } = accepted;
    let (polled, started) = tokio::sync::oneshot::channel();

    let receiving = tokio::spawn(async move {
        assert!(recv_waits(&mut *rx).await);
        polled.send(()).unwrap();
        assert_reads_the_end(&mut *rx).await;
    });
    started.await.unwrap();
    drop(opened);

    receiving.await.unwrap();
}

/// The lane was filled here; the rest is sent from a task of its own.
pub async fn a_waiting_sender_is_woken_by_room_also_after_moving_to_another_task(subject: Subject) {
    let (opened, mut accepted) = subject.lane().await;
    let Lane {
        mut tx, rx: _rx, ..
    } = opened;
    let bytes = pattern(0, 251 * 100);
    let taken = send_until_standstill(&mut *tx, &bytes, UNBOUNDED).await;
    let (_, rest) = bytes.split_at(taken % bytes.len());
    let rest = [rest, &bytes].concat();
    let total = taken + rest.len();
    let (polled, started) = tokio::sync::oneshot::channel();

    let sending = tokio::spawn(async move {
        let taken = send_now(&mut *tx, &rest).await;
        polled.send(()).unwrap();
        let (_, rest) = rest.split_at(taken);
        send_all(&mut *tx, rest, &[]).await
    });
    started.await.unwrap();
    recv_pattern(&mut *accepted.rx, 0, total).await;

    assert_eq!(sending.await.unwrap(), Ok(()));
}

/// Polls once. The system may have found a little room since the lane was full.
async fn send_now(tx: &mut dyn LaneTx, bytes: &[u8]) -> usize {
    poll_fn(|cx| match tx.poll_send(cx, &[bytes]) {
        Poll::Ready(sent) => Poll::Ready(sent.unwrap()),
        Poll::Pending => Poll::Ready(0),
    })
    .await
}

/// Polled here first, then in a task of its own.
pub async fn a_waiting_acceptor_is_woken_also_after_moving_to_another_task(subject: Subject) {
    let mut listener = subject.listen().await;
    let to = listener.local_addr();
    assert!(accept_waits(&mut *listener).await);
    let (polled, started) = tokio::sync::oneshot::channel();

    let accepting = tokio::spawn(async move {
        assert!(accept_waits(&mut *listener).await);
        polled.send(()).unwrap();
        accept_who_says_hello(&mut *listener).await
    });
    started.await.unwrap();
    let _opened = subject.open_and_say_hello(to).await;

    accepting.await.unwrap();
}

async fn accept_waits(listener: &mut dyn Listener) -> bool {
    poll_fn(|cx| Poll::Ready(listener.poll_accept(cx).is_pending())).await
}
