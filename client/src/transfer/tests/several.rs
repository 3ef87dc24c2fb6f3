//! Transfers to one peer from several.

use tokio::task::JoinSet;

use super::*;

/// How a transfer from several holders ended.
struct Spread {
    served: Vec<Result<Moved, TransferError>>,
    fetched: Result<Moved, TransferError>,
    took: Duration,
}

/// A transfer of everything from as many holders as there are lists of paths.
async fn from_several(two: &Two, holders: &[&[Path]]) -> Spread {
    let begun = Instant::now();
    let mut wanted = two.held.clone();
    wanted.iter_mut().for_each(|entry| entry.fill(0));
    let wanter = holding(&mut wanted, 0);
    let (mut lanes, mut serving) = (Vec::new(), JoinSet::new());
    for (holder, paths) in (10..).map(PeerId).zip(holders) {
        let back = |path: &Path| Path {
            carries: u64::MAX,
            ..*path
        };
        let pairs = paths.iter().map(|path| pair(*path, back(path)));
        let (here, there): (Vec<_>, Vec<_>) = pairs.unzip();
        lanes.extend(there.into_iter().map(|lane| (holder, lane)));
        serving.spawn(serve(two.held.clone(), holder, here, two.progress.clone()));
    }
    let entries = two.held.iter().map(|content| hash(content));
    let entries = (0..).map(EntryIndex).zip(entries).collect::<Vec<_>>();
    let role = SyncRole::Request {
        from: (10..).take(holders.len()).map(order).collect(),
        entries: entries.into(),
    };
    let plan = plan(PeerId(2), role, lanes, &two.progress);
    let fetched = carry_out(means(&two.staging), &wanter, plan).await;
    let took = begun.elapsed();
    // In the order of the holders, whoever ended first.
    let mut served = serving.join_all().await;
    served.sort_by_key(|(holder, _)| *holder);
    Spread {
        served: served.into_iter().map(|(_, served)| served).collect(),
        fetched: fetched.map_err(|failed| failed.error),
        took,
    }
}

/// One of the holders.
pub(super) async fn serve(
    mut held: Vec<Vec<u8>>,
    me: PeerId,
    lanes: Vec<Lane>,
    progress: Progress,
) -> (PeerId, Result<Moved, TransferError>) {
    let (state, own) = (holding(&mut held, 1), Mutex::default());
    let role = SyncRole::Distribute { to: vec![order(2)] };
    let lanes = lanes.into_iter().map(|lane| (PeerId(2), lane));
    let served = carry_out(means(&own), &state, plan(me, role, lanes, &progress)).await;
    (me, served.map_err(|failed| failed.error))
}

#[tokio::test(start_paused = true)]
async fn three_holders_bring_content_nearly_three_times_as_fast_as_one() {
    let two = Two::new(vec![content(6_000_000, 1), content(2_000_000, 2)]);

    let one = from_several(&two, &[&[FAR]]).await;
    assert!(two.has_all());
    let three = from_several(&two, &[&[FAR], &[FAR], &[FAR]]).await;

    assert!(two.has_all());
    let gain = one.took.as_secs_f64() / three.took.as_secs_f64();
    assert!(gain > 2.5, "{gain:.2}");
    let sent: Vec<u64> = three
        .served
        .into_iter()
        .map(|one| one.unwrap().bytes_sent)
        .collect();
    assert_eq!(sent.iter().sum::<u64>(), 8_000_000);
    assert!(sent.iter().all(|bytes| *bytes > 2_000_000), "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_is_lost_half_way_costs_what_was_under_way_on_its_lanes() {
    let two = Two::new(vec![content(8_000_000, 1)]);
    let dies = Path {
        carries: 1_300_000,
        ..FAR
    };

    let spread = from_several(&two, &[&[FAR], &[dies], &[FAR]]).await;

    assert!(two.has_all());
    assert_eq!(spread.fetched.unwrap().bytes_received, 8_000_000);
    let is_served: Vec<bool> = spread.served.iter().map(Result::is_ok).collect();
    assert_eq!(is_served, [true, false, true]);
    let sent = spread
        .served
        .into_iter()
        .flatten()
        .map(|moved| moved.bytes_sent)
        .sum::<u64>();
    assert!(
        (6_700_000..=8_000_000).contains(&sent),
        "nothing that had arrived came again: {sent}"
    );
}

#[tokio::test(start_paused = true)]
async fn every_holder_is_told_that_all_is_there_also_one_that_had_nothing_to_send() {
    let two = Two::new(vec![content(1_000, 1)]);

    let spread = from_several(&two, &[&[FAR; 2], &[FAR; 2], &[FAR; 2]]).await;

    assert!(two.has_all() && spread.fetched.is_ok());
    assert!(
        spread.served.iter().all(Result::is_ok),
        "{:?}",
        spread.served
    );
}
