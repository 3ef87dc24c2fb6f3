//! Paths that take time, are narrow, lose bytes or change them.

use std::time::Duration;

use pccl_core::transport::{
    Endpoint, Lane, LaneError, LaneRx, Security, Transport, close, recv_exact, recv_some, send_all,
};
use tokio::time::{Instant, advance};

use super::{joined_in, recv_now, send_now};
use crate::{Flips, MemoryNet, Path, pair};

const DELAY: Duration = Duration::from_millis(40);

const SLOW: Path = Path {
    delay: DELAY,
    ..Path::DIRECT
};

#[tokio::test(start_paused = true)]
async fn bytes_and_the_end_arrive_after_the_delay() {
    let (mut here, mut there) = pair(SLOW, Path::DIRECT);
    let begin = Instant::now();
    send_all(&mut *here.tx, b"abc", b"").await.unwrap();
    advance(DELAY / 2).await;
    close(&mut *here.tx).await.unwrap();

    assert_eq!(recv_now(&mut *there.rx).await, None);
    assert_eq!(recv_some(&mut *there.rx, &mut [0; 9]).await, Ok(3));
    assert_eq!(begin.elapsed(), DELAY);
    assert_eq!(recv_some(&mut *there.rx, &mut [0; 9]).await, Ok(0));
    assert_eq!(begin.elapsed(), DELAY / 2 * 3);
}

#[tokio::test(start_paused = true)]
async fn a_window_is_free_again_when_its_bytes_are_known_to_have_been_read() {
    let path = Path {
        window: 100,
        ..SLOW
    };
    let (mut here, mut there) = pair(path, Path::DIRECT);
    let begin = Instant::now();
    let receiving = tokio::spawn(async move {
        let mut all = [0; 150];
        recv_exact(&mut *there.rx, &mut all).await.map(|()| there)
    });

    send_all(&mut *here.tx, &[1; 150], b"").await.unwrap();

    assert_eq!(begin.elapsed(), 2 * DELAY);
    receiving.await.unwrap().unwrap();
    assert_eq!(begin.elapsed(), 3 * DELAY);
}

#[tokio::test(start_paused = true)]
async fn opening_takes_one_way_there_and_one_back() {
    let net = MemoryNet::with_path(SLOW);
    let (alpha, beta) = (net.transport(), net.transport());
    let listener = beta.listen(beta.any_port(), Security::Plain).await.unwrap();
    let to = Endpoint::Address(listener.local_addr());
    net.set_path(beta.ip(), alpha.ip(), Path::DIRECT);
    let begin = Instant::now();

    alpha.open(&to, None).await.unwrap();

    assert_eq!(begin.elapsed(), DELAY);
    let hasty = alpha.clone().open_timeout(DELAY / 2);
    let outcome = hasty.open(&to, None).await;
    assert_eq!(outcome.unwrap_err(), LaneError::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn all_lanes_of_a_path_share_its_rate() {
    let path = Path {
        bytes_per_second: Some(1_000_000),
        window: 1_000_000,
        ..Path::DIRECT
    };
    let mut between = joined_in(MemoryNet::with_path(path)).await;
    let mut second = between
        .alpha
        .open(&between.listening(), None)
        .await
        .unwrap();
    let mut accepted = super::accept(&mut *between.listener).await;
    let begin = Instant::now();

    for tx in [&mut between.opened.tx, &mut second.tx] {
        send_all(&mut **tx, &[0; 500_000], b"").await.unwrap();
    }

    let mut half = vec![0; 500_000];
    recv_some(&mut *between.accepted.rx, &mut half)
        .await
        .unwrap();
    let first = begin.elapsed();
    assert!(first < Duration::from_millis(10), "{first:?}");
    recv_exact(&mut *accepted.rx, &mut half).await.unwrap();
    assert_eq!(begin.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_keeps_its_order_when_the_path_becomes_shorter() {
    let mut between = joined_in(MemoryNet::with_path(SLOW)).await;
    send_all(&mut *between.opened.tx, b"first", b"")
        .await
        .unwrap();
    let begin = Instant::now();

    let (alpha, beta) = (between.alpha.ip(), between.beta.ip());
    between.net.set_path(alpha, beta, Path::DIRECT);
    send_all(&mut *between.opened.tx, b"second", b"")
        .await
        .unwrap();

    let mut both = [0; 11];
    recv_exact(&mut *between.accepted.rx, &mut both)
        .await
        .unwrap();
    assert_eq!((&both, begin.elapsed()), (b"firstsecond", DELAY));
}

#[tokio::test(start_paused = true)]
async fn a_path_carries_so_many_bytes_and_the_sender_learns_of_it_by_giving_up() {
    for tells in [true, false] {
        let path = Path {
            carries: 10,
            tells,
            ..SLOW
        };
        let (mut here, mut there) = pair(path, Path::DIRECT);
        here.tx.give_up_after(Duration::from_secs(2));
        send_all(&mut *here.tx, &[0; 15], b"").await.unwrap();

        let mut arrived = [0; 15];
        assert_eq!(recv_some(&mut *there.rx, &mut arrived).await, Ok(10));
        advance(Duration::from_secs(2)).await;

        assert_eq!(recv_now(&mut *there.rx).await, None);
        let sent = send_now(&mut *here.tx, b"x").await.unwrap();
        let expected = if tells {
            Err(LaneError::TimedOut)
        } else {
            Ok(1)
        };
        assert_eq!(sent, expected);
    }
}

/// What of so many zeros arrives.
async fn zeros(seed: u64, count: usize) -> Vec<u8> {
    let path = Path {
        flips: Some(Flips { seed, every: 1000 }),
        window: count,
        ..Path::DIRECT
    };
    let (mut here, mut there) = pair(path, path);
    // In pieces of other sizes, which make no difference.
    for piece in vec![0; count].chunks(1 + seed as usize % 7777) {
        send_all(&mut *here.tx, piece, b"").await.unwrap();
    }
    drain(&mut *there.rx, count).await
}

async fn drain(rx: &mut dyn LaneRx, count: usize) -> Vec<u8> {
    let mut all = vec![0; count];
    recv_exact(rx, &mut all).await.unwrap();
    all
}

#[tokio::test]
async fn bits_are_flipped_as_often_as_asked_for_and_the_same_ones_by_the_same_seed() {
    let first = zeros(4711, 1_000_000).await;

    let ones: u32 = first.iter().map(|byte| byte.count_ones()).sum();
    assert!((900..1100).contains(&ones), "{ones} bits");
    assert_eq!(first, zeros(4711, 1_000_000).await);
    assert_ne!(first, zeros(4712, 1_000_000).await);
}

/// The same story, told by what arrives when.
async fn story() -> Vec<(Duration, u8, Result<usize, LaneError>)> {
    let path = Path {
        bytes_per_second: Some(50_000),
        flips: Some(Flips { seed: 9, every: 50 }),
        ..SLOW
    };
    let mut between = joined_in(MemoryNet::with_path(path)).await;
    let (net, ips) = (between.net.clone(), (between.alpha.ip(), between.beta.ip()));
    let begin = Instant::now();
    let faults = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(90)).await;
        net.stall(ips.0, ips.1);
        tokio::time::sleep(Duration::from_secs(3)).await;
        net.resume(ips.0, ips.1);
        tokio::time::sleep(Duration::from_millis(120)).await;
        net.cut(ips.0, ips.1);
    });
    let Lane { mut tx, .. } = between.opened;
    let sending = tokio::spawn(async move { send_all(&mut *tx, &[0; 400_000], b"").await });
    let mut told = Vec::new();
    while told
        .last()
        .is_none_or(|(_, _, last): &(_, _, Result<_, _>)| last.is_ok())
    {
        let mut into = [0; 3000];
        let outcome = recv_some(&mut *between.accepted.rx, &mut into).await;
        let sum = into.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
        told.push((begin.elapsed(), sum, outcome));
    }
    faults.await.unwrap();
    assert_eq!(sending.await.unwrap(), Err(LaneError::Reset));
    told
}

#[tokio::test(start_paused = true)]
async fn the_same_calls_have_the_same_outcome_each_time() {
    let first = story().await;

    assert!(first.len() > 3, "{first:?}");
    assert!(first[0].0 > DELAY);
    assert_eq!(first.last().unwrap().2, Err(LaneError::Reset));
    assert_eq!(story().await, first);
}
