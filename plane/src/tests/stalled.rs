//! Which edge is reported where one of them carries nothing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pccl_core::element::{CollectiveKind, CollectiveSpec, ElementType, ReduceOp};
use pccl_core::id::{PeerId, Seq};
use pccl_core::plan::Algorithm;
use pccl_core::topology::LinkId;
use pccl_core::transport::Lane;
use pccl_core::wire::FrameHeader;
use pccl_transport_memory::{Path, pair};
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::test;
use tokio::time::{Instant, sleep, sleep_until};

use super::support::{
    AROUND, BUILT, Ended, Member, adopt, broke, from, in_time, raw_lane, run_in_place,
    small_frames, spec, to,
};
use crate::{Backup, LinkBroke, Sensor, UserBuffers, WaitedLink, Waits};

/// As in the default configuration.
const STALL: Duration = Duration::from_secs(10);

/// The edge from rank 0 to rank 1 is this path; the others are short ways.
fn ring(world: usize, path: Path) -> Vec<Member> {
    ring_where(world, || pair(path, Path::NEAR))
}

/// Rank 0 of this ring sends to nobody; what rank 1 receives is in the test's hand.
fn ring_with_a_liar(world: usize) -> (Vec<Member>, DuplexStream) {
    let (receiving, liar) = raw_lane();
    let (sending, mut sent) = raw_lane();
    tokio::spawn(async move { tokio::io::copy(&mut sent, &mut tokio::io::sink()).await });
    let mut ends = Some((sending, receiving));
    let members = ring_where(world, || ends.take().expect("it is asked for one edge"));
    (members, liar)
}

/// The edge from rank 0 to rank 1 is this one; the others are short ways.
fn ring_where(world: usize, mut first: impl FnMut() -> (Lane, Lane)) -> Vec<Member> {
    let mut members: Vec<Member> = (0..world).map(|_| Member::new(small_frames())).collect();
    for rank in 0..world {
        let (sending, receiving) = match rank {
            0 => first(),
            _ => pair(Path::NEAR, Path::NEAR),
        };
        let next = (rank + 1) % world;
        members[rank].plane.install(to(next), BUILT, vec![sending]);
        let receiving = vec![receiving];
        members[next].plane.install(from(rank), BUILT, receiving);
    }
    adopt(&mut members, 1, BUILT);
    members
}

fn run_all(members: &mut [Member], bytes: usize) -> Vec<JoinHandle<Ended>> {
    let spec = spec(ReduceOp::Sum, ElementType::U8, bytes);
    let ports = members
        .iter_mut()
        .map(|m| m.plane.begin(Seq(1), spec, AROUND));
    let ports: Vec<_> = ports.collect();
    let run = |port| tokio::spawn(run_in_place(port, vec![1; bytes]));
    ports.into_iter().map(run).collect()
}

/// What has been reported, by rank.
fn reports(members: &mut [Member]) -> Vec<Vec<LinkBroke>> {
    members.iter_mut().map(Member::reports).collect()
}

#[test(start_paused = true)]
async fn a_small_frame_that_is_lost_is_reported_by_its_sender_before_anybody_starves() {
    let lost = Path {
        carries: 0,
        ..Path::NEAR
    };
    let mut members = ring(4, lost);
    let begun = Instant::now();

    let running = run_all(&mut members, 100);
    sleep_until(begun + STALL * 3 / 2 - Duration::from_millis(1)).await;

    let expected = vec![vec![broke(to(1))], vec![], vec![], vec![]];
    assert_eq!(reports(&mut members), expected);
    drop(running);
}

#[test(start_paused = true)]
async fn a_frame_that_does_not_leave_is_reported_by_its_sender_before_anybody_starves() {
    let full = Path {
        carries: 5_000,
        window: 6_000,
        tells: false,
        ..Path::NEAR
    };
    let mut members = ring(4, full);
    let begun = Instant::now();

    let running = run_all(&mut members, 1_000_000);
    sleep_until(begun + STALL * 3 / 2 - Duration::from_millis(1)).await;

    let expected = vec![vec![broke(to(1))], vec![], vec![], vec![]];
    assert_eq!(reports(&mut members), expected);
    drop(running);
}

/// What rank 1 gets belongs to an operation that is over, or to one that never comes. All starve; who is
/// misled knows it first.
#[test(start_paused = true)]
async fn frames_of_another_operation_are_reported_by_who_gets_them_before_anybody_starves() {
    for (seq, bytes) in [(0, 100), (0, 20_000), (9, 100), (9, 20_000)] {
        let (mut members, mut liar) = ring_with_a_liar(4);
        let over = spec(ReduceOp::Sum, ElementType::U8, bytes);
        for member in &mut members {
            drop(member.plane.begin(Seq(0), over, AROUND));
            member.plane.stop(Seq(0));
        }
        let header = FrameHeader {
            seq: Seq(seq),
            offset: 0,
            length: 25,
            step: 0,
            stripe: 0,
            flags: 0,
            sum: None,
        };
        let begun = Instant::now();

        let running = run_all(&mut members, bytes);
        liar.write_all(&header.encode()).await.unwrap();
        liar.write_all(&[1; 25]).await.unwrap();
        sleep_until(begun + STALL * 3 / 2 - Duration::from_millis(1)).await;

        let expected = vec![vec![], vec![broke(from(0))], vec![], vec![]];
        assert_eq!(
            reports(&mut members),
            expected,
            "frame of {seq}, {bytes} bytes"
        );
        drop(running);
    }
}

/// What an aborted operation has left on the lanes says nothing about the one after it.
#[test(start_paused = true)]
async fn leftovers_before_the_frames_of_an_operation_do_not_make_who_gets_them_speak_first() {
    let (mut members, mut previous) = ring_with_a_liar(2);
    let sum = spec(ReduceOp::Sum, ElementType::U8, 100);
    drop(members[1].plane.begin(Seq(0), sum, AROUND));
    members[1].plane.stop(Seq(0));
    let frame = |seq| FrameHeader {
        seq: Seq(seq),
        offset: 50,
        length: 50,
        step: 0,
        stripe: 0,
        flags: 0,
        sum: None,
    };
    let begun = Instant::now();

    let running = run_all(&mut members, 100);
    for seq in [0, 1] {
        previous.write_all(&frame(seq).encode()).await.unwrap();
        previous.write_all(&[1; 50]).await.unwrap();
    }
    sleep_until(begun + STALL * 3 / 2 - Duration::from_millis(1)).await;

    assert_eq!(reports(&mut members), [[], []]);
    drop(running);
}

/// The edge from rank 0 to rank 1 carries nothing, and no sender knows it: what the root has sent has left it long ago.
#[test(start_paused = true)]
async fn along_a_chain_the_first_that_gets_nothing_speaks_before_those_behind_it() {
    const WORLD: usize = 7;
    let lost = Path {
        carries: 0,
        tells: false,
        ..Path::NEAR
    };
    // From the one before the edge to the one that has one rank behind it.
    for root in [0, 6, 5, 4, 3] {
        let mut members = ring(WORLD, lost);
        let root = PeerId(root);
        let spec = CollectiveSpec {
            kind: CollectiveKind::Broadcast { root },
            ..spec(ReduceOp::Sum, ElementType::U8, 100)
        };
        let begin = |m: &mut Member| m.plane.begin(Seq(1), spec, Algorithm::Chain);
        let ports: Vec<_> = members.iter_mut().map(begin).collect();
        let running = ports.into_iter();
        let running = running.map(|port| tokio::spawn(run_in_place(port, vec![1; 100])));
        let running: Vec<_> = running.collect();
        let first_told = async {
            loop {
                sleep(STALL / 50).await;
                let told = reports(&mut members);
                if !told.iter().all(Vec::is_empty) {
                    return told;
                }
            }
        };

        let told = in_time(first_told).await;

        let mut expected = vec![Vec::new(); WORLD];
        expected[1] = vec![broke(from(0))];
        assert_eq!(told, expected, "from {root}");
        drop(running);
    }
}

#[test(start_paused = true)]
async fn bytes_of_a_reduce_are_noticed_and_waiting_is_not() {
    let mut members = ring(2, Path::NEAR);
    let progress = members[1].plane.progress().clone();
    let mut sensor = Sensor::new(progress);

    let running = run_all(&mut members, 100);
    for one in running {
        one.await.unwrap().outcome.unwrap();
    }
    let during = sensor.moved_since_last();
    sleep(STALL / 2).await;

    assert!(during && !sensor.moved_since_last());
}

#[test(start_paused = true)]
async fn where_no_sender_knows_who_starves_reports_in_the_end() {
    let lost = Path {
        carries: 0,
        tells: false,
        ..Path::NEAR
    };
    let mut members = ring(2, lost);

    let running = run_all(&mut members, 100);
    sleep(2 * STALL).await;

    assert!(reports(&mut members)[1].contains(&broke(from(0))));
    assert!(running.iter().all(JoinHandle::is_finished));
}

/// Long before anybody is blamed, each rank says for whom it waits: who sends into the void for the one that takes
/// nothing, the others for the rank before them.
#[test(start_paused = true)]
async fn every_rank_says_for_whom_it_waits_a_second_after_bytes_have_ceased_to_move() {
    let full = Path {
        carries: 5_000,
        window: 6_000,
        tells: false,
        ..Path::NEAR
    };
    let mut members = ring(3, full);
    let begun = Instant::now();
    let told: Arc<Mutex<Vec<(usize, Duration, Waits)>>> = Arc::default();
    let spec = spec(ReduceOp::Sum, ElementType::U8, 1_000_000);

    let mut running = JoinSet::new();
    for (rank, member) in members.iter_mut().enumerate() {
        let (mut port, told) = (member.plane.begin(Seq(1), spec, AROUND), Arc::clone(&told));
        running.spawn(async move {
            let (mut data, mut backup) = (vec![1; 1_000_000], Backup::default());
            let buffers = UserBuffers::InPlace {
                data: &mut data,
                backup: &mut backup,
            };
            let tell = |waits: &Waits| {
                let line = (rank, begun.elapsed(), waits.clone());
                told.lock().unwrap().push(line);
            };
            port.run_telling(buffers, &tell).await
        });
    }
    sleep_until(begun + STALL / 4).await;

    let told = std::mem::take(&mut *told.lock().unwrap());
    let second = Duration::from_secs(1);
    let early = |(_, at, waits): &&(usize, Duration, Waits)| *at < second || waits.lasts < second;
    assert_eq!(told.iter().find(early), None);
    let first = |rank| {
        &told
            .iter()
            .find(|told| told.0 == rank)
            .expect("a wait")
            .2
            .links
    };
    let waited = |link: LinkId, edge, step| WaitedLink { link, edge, step };
    let receives = |rank: u32, step| {
        let before = (rank + 2) % 3;
        waited(from(before as usize), (before, rank), Some((step, 4)))
    };
    assert_eq!(first(0)[0], waited(to(1), (0, 1), None));
    assert_eq!(first(1).last(), Some(&receives(1, 1)));
    assert_eq!(first(2).last(), Some(&receives(2, 2)));
    drop(running);
}
