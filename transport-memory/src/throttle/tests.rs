//! Links of a rate, in paused time.

use pccl_core::transport::{recv_exact, send_all};

use super::*;

/// A gigabit per second: a byte takes 8 ns.
const RATE: u64 = 125_000_000;

const MEGABYTE: usize = 1_000_000;

/// Takes everything at once.
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

/// Gives as much as is asked for.
struct Spring;

impl LaneRx for Spring {
    fn poll_recv(
        &mut self,
        _: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<usize, LaneError>> {
        Poll::Ready(Ok(into.len()))
    }
}

/// Lanes over one link.
fn lanes(count: usize) -> Vec<Lane> {
    let link = Throttle::new(RATE);
    let lane = |_| Lane::new(Box::new(Sink), Box::new(Spring));
    (0..count).map(lane).map(|lane| link.on(lane)).collect()
}

/// How long it took, to the next millisecond: timers of tokio are no finer.
fn since(start: Instant) -> u128 {
    start.elapsed().as_millis()
}

#[tokio::test(start_paused = true)]
async fn bytes_pass_at_the_rate_of_the_link() {
    let mut lane = lanes(1).remove(0);
    let start = Instant::now();

    send_all(&mut *lane.tx, &[], &vec![0; 100 * MEGABYTE])
        .await
        .unwrap();

    // 800 ms, less what the last wake-up lets pass at once.
    assert!((796..=800).contains(&since(start)), "{}", since(start));
}

#[tokio::test(start_paused = true)]
async fn all_lanes_share_the_link_and_its_directions_do_not() {
    let start = Instant::now();
    let mut tasks = Vec::new();
    for lane in lanes(4) {
        let Lane { mut tx, mut rx, .. } = lane;
        tasks.push(tokio::spawn(async move {
            send_all(&mut *tx, &[0; 24], &vec![0; 25 * MEGABYTE])
                .await
                .unwrap();
        }));
        tasks.push(tokio::spawn(async move {
            let mut into = vec![0; 25 * MEGABYTE];
            recv_exact(&mut *rx, &mut into).await.unwrap();
        }));
    }

    for task in tasks {
        task.await.unwrap();
    }

    assert!((796..=801).contains(&since(start)), "{}", since(start));
}

#[tokio::test(start_paused = true)]
async fn a_link_at_rest_saves_up_no_more_than_a_burst() {
    let mut lane = lanes(1).remove(0);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let start = Instant::now();

    send_all(&mut *lane.tx, &[], &vec![0; 10 * MEGABYTE])
        .await
        .unwrap();

    assert!((72..=80).contains(&since(start)), "{}", since(start));
}

#[test]
fn a_bucket_holds_what_the_rate_says_to_the_byte() {
    let bucket = Bucket::new(RATE, BURST);
    let start = *bucket.empty_at.lock().unwrap();
    let at = |micros| start + Duration::from_micros(micros);

    assert_eq!(
        bucket.allowed(at(0), 1),
        Err(start + Duration::from_nanos(8))
    );
    assert_eq!(bucket.allowed(at(1000), MEGABYTE), Ok(125_000));
    bucket.take(125_000);
    assert_eq!(bucket.allowed(at(1001), 100), Ok(100));
    assert_eq!(
        bucket.allowed(at(1001), MEGABYTE),
        Err(start + Duration::from_nanos(1_262_144))
    );
    assert_eq!(bucket.allowed(at(60_000_000), MEGABYTE), Ok(500_000));
}
