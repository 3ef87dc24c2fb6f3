//! What goes wrong between two hosts, or with one.

use std::time::Duration;

use pccl_core::id::Identity;
use pccl_core::transport::{
    Endpoint, Lane, LaneError, Security, Transport, close, recv_exact, recv_some, send_all,
};
use tokio::time::{Instant, advance};

use super::{accept, joined, now, recv_now, send_now, without_waiting};
use crate::MemoryNet;

#[tokio::test]
async fn a_cut_resets_both_ends_and_loses_what_is_under_way() {
    let mut between = joined().await;
    send_all(&mut *between.opened.tx, b"lost", b"")
        .await
        .unwrap();

    between.cut();

    let reset = Err(LaneError::Reset);
    assert_eq!(recv_now(&mut *between.accepted.rx).await, Some(reset));
    assert_eq!(recv_now(&mut *between.opened.rx).await, Some(reset));
    assert_eq!(send_now(&mut *between.opened.tx, b"x").await, Some(reset));
    assert_eq!(send_now(&mut *between.accepted.tx, b"x").await, Some(reset));
}

#[tokio::test]
async fn a_killed_process_is_survived_by_what_it_has_sent_and_by_nothing_else() {
    let mut between = joined().await;
    let (alpha, beta) = (between.alpha.ip(), between.beta.ip());
    send_all(&mut *between.opened.tx, b"will", b"")
        .await
        .unwrap();

    between.net.kill(alpha);

    let mut word = [0; 4];
    recv_exact(&mut *between.accepted.rx, &mut word)
        .await
        .unwrap();
    assert_eq!(&word, b"will");
    assert_eq!(recv_now(&mut *between.accepted.rx).await, Some(Ok(0)));
    let reset = Err(LaneError::Reset);
    assert_eq!(send_now(&mut *between.accepted.tx, b"x").await, Some(reset));
    assert_eq!(send_now(&mut *between.opened.tx, b"x").await, Some(reset));
    assert_eq!(recv_now(&mut *between.opened.rx).await, Some(reset));
    let refused = LaneError::Refused;
    assert_eq!(
        between
            .alpha
            .open(&between.listening(), None)
            .await
            .unwrap_err(),
        refused
    );
    between.net.kill(beta);
    between.net.revive(alpha);
    assert_eq!(
        between
            .alpha
            .open(&between.listening(), None)
            .await
            .unwrap_err(),
        refused
    );
    between.net.revive(beta);
    assert!(between.alpha.open(&between.listening(), None).await.is_ok());
}

#[tokio::test]
async fn a_network_counts_the_lanes_and_listeners_that_somebody_holds() {
    let between = joined().await;
    let net = between.net.clone();
    assert_eq!(net.holdings(), (2, 1));

    drop(between);

    assert_eq!(net.holdings(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_cut_wakes_whoever_waits() {
    let mut between = joined().await;
    let waiting = tokio::spawn(async move { recv_some(&mut *between.accepted.rx, &mut [0]).await });
    tokio::task::yield_now().await;

    between.net.cut(between.alpha.ip(), between.beta.ip());

    assert_eq!(without_waiting(waiting).await, Err(LaneError::Reset));
}

#[tokio::test]
async fn a_cut_concerns_only_the_two_hosts_and_only_lanes_that_are_open() {
    let mut between = joined().await;
    let gamma = between.net.transport();
    let mut bystander = gamma.open(&between.listening(), None).await.unwrap();
    let mut other = accept(&mut *between.listener).await;

    between.cut();

    send_all(&mut *bystander.tx, b"on", b"").await.unwrap();
    let mut word = [0; 2];
    recv_exact(&mut *other.rx, &mut word).await.unwrap();
    assert_eq!(&word, b"on");
    assert!(between.alpha.open(&between.listening(), None).await.is_ok());
}

#[tokio::test]
async fn a_refused_host_is_refused_in_one_direction_until_allowed() {
    let between = joined().await;
    let (alpha, beta) = (between.alpha.ip(), between.beta.ip());
    let homeward = between
        .alpha
        .listen(between.alpha.any_port(), Security::Plain)
        .await
        .unwrap();
    let home = Endpoint::Address(homeward.local_addr());

    between.net.refuse(alpha, beta);

    let refused = between.alpha.open(&between.listening(), None).await;
    assert_eq!(refused.unwrap_err(), LaneError::Refused);
    assert!(between.beta.open(&home, None).await.is_ok());
    between.net.allow(alpha, beta);
    assert!(between.alpha.open(&between.listening(), None).await.is_ok());
}

#[tokio::test]
async fn a_stalled_lane_is_silent_but_not_closed_and_loses_nothing() {
    let mut between = joined().await;

    between.stall();
    send_all(&mut *between.opened.tx, b"late", b"")
        .await
        .unwrap();
    close(&mut *between.opened.tx).await.unwrap();

    assert_eq!(recv_now(&mut *between.accepted.rx).await, None);
    between.resume();
    assert_eq!(recv_now(&mut *between.accepted.rx).await, Some(Ok(4)));
    assert_eq!(recv_now(&mut *between.accepted.rx).await, Some(Ok(0)));
}

#[tokio::test(start_paused = true)]
async fn a_stalled_lane_fills_up_and_wakes_both_ends_when_it_goes_on() {
    let mut between = joined().await;
    between.stall();
    let full = [7; 1500];

    assert_eq!(
        send_now(&mut *between.opened.tx, &full).await,
        Some(Ok(1000))
    );
    assert_eq!(send_now(&mut *between.opened.tx, &full).await, None);
    let Lane {
        mut tx, rx: _rx, ..
    } = between.opened;
    let sending = tokio::spawn(async move { send_all(&mut *tx, &[8; 500], b"").await });
    let Lane {
        mut rx, tx: _tx, ..
    } = between.accepted;
    let receiving = tokio::spawn(async move {
        let mut all = [0; 1500];
        recv_exact(&mut *rx, &mut all).await.map(|()| all)
    });
    tokio::task::yield_now().await;
    between.net.resume(between.alpha.ip(), between.beta.ip());

    without_waiting(sending).await.unwrap();
    let all = without_waiting(receiving).await.unwrap();
    assert_eq!(all[999..1001], [7, 8]);
}

#[tokio::test]
async fn one_way_can_be_stalled_alone() {
    let mut between = joined().await;
    between
        .net
        .stall_one_way(between.alpha.ip(), between.beta.ip());

    send_all(&mut *between.opened.tx, b"held", b"")
        .await
        .unwrap();
    send_all(&mut *between.accepted.tx, b"free", b"")
        .await
        .unwrap();

    assert_eq!(recv_now(&mut *between.accepted.rx).await, None);
    assert_eq!(recv_now(&mut *between.opened.rx).await, Some(Ok(4)));
}

#[tokio::test(start_paused = true)]
async fn opening_over_a_stalled_path_gives_up_by_the_clock() {
    let between = joined().await;
    between.stall();
    let patient = between.alpha.clone().open_timeout(Duration::from_secs(600));

    let outcome = patient.open(&between.listening(), None).await;

    assert_eq!(outcome.unwrap_err(), LaneError::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn opening_goes_on_when_the_path_does() {
    let between = joined().await;
    between.stall();
    let (alpha, to) = (between.alpha.clone(), between.listening());
    let opening = tokio::spawn(async move { alpha.open(&to, None).await.map(drop) });
    tokio::task::yield_now().await;

    between.resume();

    assert_eq!(without_waiting(opening).await, Ok(()));
}

#[tokio::test]
async fn names_lead_to_hosts_and_unknown_ones_nowhere() {
    let between = joined().await;
    between.net.name("beta", between.beta.ip());
    let port = between.listener.local_addr().port();

    let known = Endpoint::Name(format!("beta:{port}"));
    let unknown = Endpoint::Name(format!("gamma:{port}"));

    assert!(between.alpha.open(&known, None).await.is_ok());
    let outcome = between.alpha.open(&unknown, None).await;
    assert_eq!(outcome.unwrap_err(), LaneError::NameNotResolved);
}

#[tokio::test]
async fn a_host_listens_on_its_own_address_or_on_all_of_them() {
    let net = MemoryNet::new();
    let (alpha, beta) = (net.transport(), net.transport());

    let all = alpha
        .listen("0.0.0.0:7".parse().unwrap(), Security::Plain)
        .await
        .unwrap();
    let foreign = alpha.listen(beta.any_port(), Security::Plain).await;

    assert_eq!(all.local_addr(), "0.0.0.0:7".parse().unwrap());
    let to = Endpoint::Name(format!("{}:7", alpha.ip()));
    assert!(beta.open(&to, None).await.is_ok());
    assert!(
        alpha
            .open(&Endpoint::Address(all.local_addr()), None)
            .await
            .is_ok()
    );
    assert_eq!(foreign.err(), Some(LaneError::AddressNotAvailable));
}

#[tokio::test(start_paused = true)]
async fn a_stalled_lane_ends_for_a_sender_that_gives_up_and_stays_away() {
    let mut between = joined().await;
    let limit = Duration::from_secs(3);
    between.opened.tx.give_up_after(limit);
    between.stall();
    let begin = Instant::now();
    send_all(&mut *between.opened.tx, b"lost", b"")
        .await
        .unwrap();

    let ended = recv_some(&mut *between.opened.rx, &mut [0]).await;

    assert_eq!(ended, Err(LaneError::TimedOut));
    assert_eq!(begin.elapsed(), limit);
    let sent = send_now(&mut *between.opened.tx, b"x").await;
    assert_eq!(sent, Some(Err(LaneError::TimedOut)));
    between.resume();
    assert_eq!(recv_now(&mut *between.accepted.rx).await, None);
}

#[tokio::test(start_paused = true)]
async fn what_arrives_in_time_is_not_given_up() {
    let mut between = joined().await;
    between.opened.tx.give_up_after(Duration::from_secs(3));
    between.stall();
    send_all(&mut *between.opened.tx, b"late", b"")
        .await
        .unwrap();

    advance(Duration::from_secs(2)).await;
    between.resume();
    advance(Duration::from_secs(60)).await;

    assert_eq!(recv_now(&mut *between.accepted.rx).await, Some(Ok(4)));
    let sent = send_now(&mut *between.opened.tx, b"x").await;
    assert_eq!(sent, Some(Ok(1)));
}

#[tokio::test]
async fn nobody_is_told_over_a_stalled_path_that_the_other_end_is_gone() {
    let mut between = joined().await;
    between.stall();

    drop(between.accepted);

    assert_eq!(send_now(&mut *between.opened.tx, b"x").await, Some(Ok(1)));
    assert_eq!(recv_now(&mut *between.opened.rx).await, None);
    between.net.resume(between.alpha.ip(), between.beta.ip());
    let reset = Some(Err(LaneError::Reset));
    assert_eq!(send_now(&mut *between.opened.tx, b"x").await, reset);
    assert_eq!(recv_now(&mut *between.opened.rx).await, Some(Ok(0)));
}

#[tokio::test]
async fn what_is_lost_one_way_never_comes_and_the_other_way_goes_on() {
    let mut between = joined().await;
    send_all(&mut *between.opened.tx, b"before", b"")
        .await
        .unwrap();

    between.net.lose(between.alpha.ip(), between.beta.ip());

    send_all(&mut *between.opened.tx, b"after", b"")
        .await
        .unwrap();
    close(&mut *between.opened.tx).await.unwrap();
    send_all(&mut *between.accepted.tx, b"back", b"")
        .await
        .unwrap();
    assert_eq!(recv_now(&mut *between.accepted.rx).await, Some(Ok(6)));
    assert_eq!(recv_now(&mut *between.accepted.rx).await, None);
    assert_eq!(recv_now(&mut *between.opened.rx).await, Some(Ok(4)));
    drop(between.opened);
    assert_eq!(recv_now(&mut *between.accepted.rx).await, None);
    assert_eq!(send_now(&mut *between.accepted.tx, b"x").await, Some(Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn a_half_open_lane_has_ended_for_one_end_and_the_other_one_has_to_give_up() {
    let mut between = joined().await;
    between.net.half_open(between.alpha.ip(), between.beta.ip());

    let reset = Some(Err(LaneError::Reset));
    assert_eq!(recv_now(&mut *between.opened.rx).await, reset);
    assert_eq!(send_now(&mut *between.opened.tx, b"x").await, reset);
    drop(between.opened);
    let Lane { mut tx, mut rx, .. } = between.accepted;
    assert_eq!(recv_now(&mut *rx).await, None);
    assert_eq!(send_now(&mut *tx, &[0; 2000]).await, Some(Ok(1000)));
    assert_eq!(send_now(&mut *tx, b"x").await, None);
    let begin = Instant::now();
    tx.give_up_after(Duration::from_secs(5));
    let ended = recv_some(&mut *rx, &mut [0]).await;
    assert_eq!(ended, Err(LaneError::TimedOut));
    assert_eq!(begin.elapsed(), Duration::from_secs(5));
}

#[tokio::test]
async fn a_frozen_host_does_nothing_and_its_system_goes_on() {
    let mut between = joined().await;
    send_all(&mut *between.accepted.tx, b"sent", b"")
        .await
        .unwrap();

    between.net.freeze(between.beta.ip());

    assert_eq!(recv_now(&mut *between.opened.rx).await, Some(Ok(4)));
    assert_eq!(send_now(&mut *between.opened.tx, b"x").await, Some(Ok(1)));
    assert_eq!(recv_now(&mut *between.accepted.rx).await, None);
    assert_eq!(send_now(&mut *between.accepted.tx, b"x").await, None);
    let mut late = between
        .alpha
        .open(&between.listening(), None)
        .await
        .unwrap();
    assert!(now(accept(&mut *between.listener)).await.is_none());
    between.net.thaw(between.beta.ip());
    let mut accepted = accept(&mut *between.listener).await;
    send_all(&mut *late.tx, b"late", b"").await.unwrap();
    assert_eq!(recv_now(&mut *accepted.rx).await, Some(Ok(4)));
    assert_eq!(recv_now(&mut *between.accepted.rx).await, Some(Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_goes_on_wakes_all_that_waited() {
    let between = joined().await;
    between.net.freeze(between.beta.ip());
    let home = between
        .alpha
        .listen(between.alpha.any_port(), Security::Plain)
        .await
        .unwrap();
    let to = Endpoint::Address(home.local_addr());
    let (alpha, beta) = (between.alpha.clone(), between.beta.clone());
    let (there, mut listener) = (between.listening(), between.listener);
    let Lane { mut rx, mut tx, .. } = between.accepted;
    let opening = tokio::spawn(async move { beta.open(&to, None).await.map(drop) });
    let accepting = tokio::spawn(async move { drop(accept(&mut *listener).await) });
    let late = alpha.open(&there, None).await;
    let receiving = tokio::spawn(async move { recv_some(&mut *rx, &mut [0]).await });
    let sending = tokio::spawn(async move { send_all(&mut *tx, b"x", b"").await });
    let mut opened = between.opened;
    send_all(&mut *opened.tx, b"x", b"").await.unwrap();
    tokio::task::yield_now().await;

    between.net.thaw(between.beta.ip());

    without_waiting(opening).await.unwrap();
    without_waiting(sending).await.unwrap();
    without_waiting(accepting).await;
    assert_eq!(without_waiting(receiving).await, Ok(1));
    drop(late);
}

#[tokio::test]
async fn a_partition_parts_those_on_its_sides_alone_until_it_heals() {
    let mut between = joined().await;
    let gamma = between.net.transport();
    let mut bystander = gamma.open(&between.listening(), None).await.unwrap();
    let mut other = accept(&mut *between.listener).await;
    let (one, two) = ([between.alpha.ip()], [between.beta.ip()]);

    between.net.partition(&one, &two);

    send_all(&mut *bystander.tx, b"on", b"").await.unwrap();
    send_all(&mut *between.opened.tx, b"x", b"").await.unwrap();
    assert_eq!(recv_now(&mut *other.rx).await, Some(Ok(2)));
    assert_eq!(recv_now(&mut *between.accepted.rx).await, None);
    between.net.heal(&one, &two);
    assert_eq!(recv_now(&mut *between.accepted.rx).await, Some(Ok(1)));
}

#[tokio::test]
async fn hosts_prove_who_they_are_said_to_be() {
    let net = MemoryNet::new();
    let (mine, yours) = (Identity([1; 32]), Identity([2; 32]));
    let (alpha, beta) = (
        net.transport().proving(mine),
        net.transport().proving(yours),
    );
    let on = beta.any_port();
    let mut listener = beta.listen(on, Security::Proven).await.unwrap();
    let to = Endpoint::Address(listener.local_addr());

    let opened = alpha.open(&to, Some(yours)).await.unwrap();
    let accepted = accept(&mut *listener).await;

    let (here, there) = (opened.proven.unwrap(), accepted.proven.unwrap());
    assert_eq!((here.own, here.identity), (mine, yours));
    assert_eq!((there.own, there.identity), (yours, mine));
    assert_eq!(here.binding, there.binding);
    let again = alpha.open(&to, Some(yours)).await.unwrap();
    assert_ne!(again.proven.unwrap().binding, here.binding);
    let plain = alpha.open(&to, None).await.unwrap();
    assert_eq!(plain.proven, None);
    let other = alpha.open(&to, Some(mine)).await;
    assert_eq!(other.unwrap_err(), LaneError::Untrusted);
    let nobody = net.transport().open(&to, Some(yours)).await;
    assert_eq!(nobody.unwrap_err(), LaneError::NotEncrypted);
    let plainly = net.transport().listen(on, Security::Proven).await;
    assert_eq!(plainly.err(), Some(LaneError::NotEncrypted));
}
