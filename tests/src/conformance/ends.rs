//! How lanes end.

use pccl_core::transport::{Lane, LaneError, LaneRx, LaneTx, close, recv_some, send_all};

use super::subject::{Subject, recv_pattern, send_pattern};

/// Nothing that was sent before is lost, and the end stays the end.
pub async fn closing_is_seen_after_the_last_byte(subject: Subject) {
    let (mut opened, mut accepted) = subject.lane().await;

    let say_all_and_close = async {
        send_pattern(&mut *opened.tx, 1, 1_000_000).await;
        close(&mut *opened.tx).await.unwrap();
    };
    tokio::join!(
        say_all_and_close,
        recv_pattern(&mut *accepted.rx, 1, 1_000_000),
    );

    assert_eq!(recv_some(&mut *accepted.rx, &mut [0; 9]).await, Ok(0));
    assert_eq!(recv_some(&mut *accepted.rx, &mut [0; 9]).await, Ok(0));
}

/// One end has said everything; the other still speaks.
pub async fn a_closed_direction_leaves_the_other_one_open(subject: Subject) {
    let (mut opened, mut accepted) = subject.lane().await;

    close(&mut *opened.tx).await.unwrap();
    assert_eq!(recv_some(&mut *accepted.rx, &mut [0]).await, Ok(0));

    tokio::join!(
        send_pattern(&mut *accepted.tx, 2, 300_000),
        recv_pattern(&mut *opened.rx, 2, 300_000),
    );
    close(&mut *accepted.tx).await.unwrap();
    assert_eq!(recv_some(&mut *opened.rx, &mut [0]).await, Ok(0));
}

/// Dropping a sending half is closing it.
pub async fn dropping_the_sending_half_ends_its_direction_alone(subject: Subject) {
    let (opened, mut accepted) = subject.lane().await;
    let Lane { mut tx, mut rx, .. } = opened;
    send_all(&mut *tx, b"last", b" word").await.unwrap();

    drop(tx);

    let mut words = [0; 9];
    let outcome = pccl_core::transport::recv_exact(&mut *accepted.rx, &mut words).await;
    assert_eq!((outcome, &words), (Ok(()), b"last word"));
    assert_eq!(recv_some(&mut *accepted.rx, &mut [0]).await, Ok(0));
    tokio::join!(
        send_pattern(&mut *accepted.tx, 3, 1000),
        recv_pattern(&mut *rx, 3, 1000),
    );
}

/// Reading ends and sending fails, whichever of the two ends was dropped.
pub async fn a_dropped_end_is_seen_by_the_other_in_both_directions(subject: Subject) {
    let (opened, accepted) = subject.lane().await;
    drop(opened);
    assert_other_end_gone(accepted).await;

    let (opened, accepted) = subject.lane().await;
    drop(accepted);
    assert_other_end_gone(opened).await;
}

async fn assert_other_end_gone(lane: Lane) {
    let Lane { mut tx, mut rx, .. } = lane;
    assert_reads_the_end(&mut *rx).await;
    assert_sending_fails(&mut *tx).await;
}

pub(super) async fn assert_reads_the_end(rx: &mut dyn LaneRx) {
    let outcome = recv_some(rx, &mut [0]).await;
    let ended = matches!(outcome, Ok(0) | Err(LaneError::Reset | LaneError::Closed));
    assert!(
        ended,
        "the other end is gone, but the lane says {outcome:?}"
    );
}

/// The first bytes may still go into a buffer, because the news has to travel.
async fn assert_sending_fails(tx: &mut dyn LaneTx) {
    let error = loop {
        if let Err(error) = send_all(tx, &[0; 1024], &[]).await {
            break error;
        }
        tokio::task::yield_now().await;
    };
    let gone = matches!(error, LaneError::Reset | LaneError::Closed);
    assert!(gone, "the other end is gone, but the lane says {error:?}");
}

/// A listener that is dropped takes no accepted lane with it.
pub async fn lanes_outlive_their_listener(subject: Subject) {
    let mut listener = subject.listen().await;
    let (mut opened, mut accepted) = subject.lane_through(&mut *listener).await;

    drop(listener);

    tokio::join!(
        send_pattern(&mut *opened.tx, 1, 100_000),
        recv_pattern(&mut *accepted.lane.rx, 1, 100_000),
    );
    tokio::join!(
        send_pattern(&mut *accepted.lane.tx, 2, 100_000),
        recv_pattern(&mut *opened.rx, 2, 100_000),
    );
}
