//! Collectives among peers of several sites: in two levels.

use std::collections::BTreeSet;

use pccl::{Algorithm, Broadcast, Communicator, Error, Gather, PeerId, Reduce};

use crate::support::{Run, begin, join_as, together, together_with};

/// Elements: fewer than peers, not divided evenly, several lanes. Too many to travel whole.
const COUNTS: [usize; 3] = [20_000, 20_003, 1_000_001];

/// Peers at these sites, in the order of their identities.
fn peers_at(run: &Run, sites: &[&str]) -> Vec<Communicator> {
    let mut peers = vec![begin(run.builder().site(sites[0]))];
    for site in &sites[1..] {
        join_as(run.builder().site(*site), &mut peers);
    }
    peers
}

fn contributions(index: usize, count: usize) -> Vec<f32> {
    let element = |element: usize| (1.0 + index as f32) / (3.0 + (element % 17) as f32);
    (0..count).map(element).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn peers_of_uneven_sites_reduce_in_two_levels_and_end_with_the_same_bits() {
    let run = Run::new();
    let mut peers = peers_at(&run, &["eu", "us", "eu", "asia", "eu", "us"]);

    for count in COUNTS {
        let results = together_with(&mut peers, |index, peer| {
            let mut buffer = contributions(index, count);
            let report = peer.all_reduce(&mut buffer, Reduce::sum()).unwrap();
            assert_eq!(report.algorithm, Algorithm::TwoLevel);
            let (line, means) = (report.to_string(), "two-level, 6 peers at 3 sites, ");
            assert!(line.starts_with(means), "{line}");
            bits(&buffer)
        });

        assert!(results.iter().all(|other| *other == results[0]));
        let sum: f32 = (0..6).map(|index| contributions(index, 1)[0]).sum();
        let first = f32::from_bits(results[0][0]);
        assert!((first - sum).abs() < 1e-5, "{first} and {sum}");
    }
}

#[test]
fn in_two_levels_a_reduce_scatter_and_an_all_gather_are_an_all_reduce() {
    let run = Run::new();
    let mut peers = peers_at(&run, &["eu", "eu", "us", "us", "us"]);

    together_with(&mut peers, |index, peer| {
        for count in COUNTS {
            let mut whole = vec![1 + index as u64; count];
            peer.all_reduce(&mut whole, Reduce::sum()).unwrap();
            let mut shards = vec![1 + index as u64; count];
            let scattered = peer.reduce_scatter(&mut shards, Reduce::sum()).unwrap();
            assert_eq!(scattered.report.algorithm, Algorithm::TwoLevel);
            let gathered = peer.all_gather(&mut shards, Gather::of(scattered.shard));
            assert_eq!(gathered.unwrap().algorithm, Algorithm::TwoLevel);
            assert!(whole == shards && whole.iter().all(|sum| *sum == 15));
        }
    });
}

#[test]
fn in_two_levels_all_have_the_buffer_of_whichever_root_and_each_other_site_receives_it_once() {
    let run = Run::new();
    let mut peers = peers_at(&run, &["eu", "us", "eu", "asia", "eu", "us"]);
    let ids: Vec<_> = peers.iter().map(Communicator::peer_id).collect();

    for count in COUNTS {
        let (root, bytes) = (count % ids.len(), 4 * count as u64);
        let sent = together_with(&mut peers, |index, peer| {
            let mut buffer = contributions(index, count);
            let broadcast = Broadcast::from(ids[root]).algorithm(Algorithm::TwoLevel);
            let report = peer.broadcast(&mut buffer, broadcast).unwrap();
            assert_eq!(report.algorithm, Algorithm::TwoLevel);
            assert_eq!(report.sites, 3);
            assert!(bits(&buffer) == bits(&contributions(root, count)));
            report.bytes_sent
        });

        assert_eq!(sent.iter().sum::<u64>(), 5 * bytes);
        // To both other sites, and to one or two members of its own.
        assert!(sent[root] > 2 * bytes);
    }
}

/// A peer of the site without a name dies after each of its first frames of a reduce by this algorithm. Another one of
/// the site stays.
fn a_death_costs_one_retry(sites: &[&str], algorithm: Algorithm) {
    const COUNT: usize = 200_000;
    let reduce = move || Reduce::sum().algorithm(algorithm);
    for frames in 1..=4 {
        let run = Run::new();
        let mut peers = peers_at(&run, sites);
        let left = peers.len() as f32;
        let doomed = run.join_doomed(&mut peers, ("frame_sent", frames), move |peer| async move {
            let _ = peer
                .all_reduce_async(&mut vec![5.0_f32; COUNT], reduce())
                .await;
        });

        let results = together(&mut peers, |peer| {
            let mut buffer = vec![1.0_f32; COUNT];
            let error = peer.all_reduce(&mut buffer, reduce()).unwrap_err();
            let is_restored = buffer.iter().all(|element| *element == 1.0);
            let report = peer.all_reduce(&mut buffer, reduce()).unwrap();
            let is_right = buffer.iter().all(|element| *element == left);
            (error, is_restored, is_right, report.algorithm)
        });

        doomed.join().unwrap();
        for (error, is_restored, is_right, taken) in results {
            assert!(matches!(error, Error::Aborted { .. }), "{error}");
            assert!(is_restored && is_right);
            assert_eq!(taken, algorithm);
        }
    }
}

#[test]
fn a_peer_that_dies_in_two_levels_costs_the_others_one_retry_with_the_sites_that_are_left() {
    a_death_costs_one_retry(&["eu", "eu", ""], Algorithm::TwoLevel);
}

#[test]
fn a_peer_that_dies_while_all_sums_go_to_all_sites_costs_the_others_one_retry() {
    a_death_costs_one_retry(&["eu", "us", "eu", ""], Algorithm::TwoLevelWhole);
}

#[test]
fn a_peer_that_dies_in_a_ring_of_sites_costs_the_others_one_retry_with_the_sites_that_are_left() {
    a_death_costs_one_retry(&["eu", "us", "eu", ""], Algorithm::TwoLevelRing);
}

#[test]
fn a_root_that_dies_in_two_levels_leaves_every_buffer_as_it_was() {
    // Twelve frames for each child.
    const COUNT: usize = 3_000_000;
    let levels = |root| Broadcast::from(root).algorithm(Algorithm::TwoLevel);
    for frames in [1, 2, 9] {
        let run = Run::new();
        let mut peers = peers_at(&run, &["eu", "us", "us"]);
        let first = peers[0].peer_id();
        let doomed = run.join_doomed(
            &mut peers,
            ("frame_sent", frames),
            move |doomed| async move {
                let root = levels(doomed.peer_id());
                let _ = doomed
                    .broadcast_async(&mut vec![9.0_f32; COUNT], root)
                    .await;
            },
        );
        let root = PeerId(peers.iter().map(|peer| peer.peer_id().0).max().unwrap() + 1);

        let results = together_with(&mut peers, |index, peer| {
            let mut buffer = contributions(index, COUNT);
            let error = peer.broadcast(&mut buffer, levels(root)).unwrap_err();
            let is_restored = bits(&buffer) == bits(&contributions(index, COUNT));
            let report = peer.broadcast(&mut buffer, levels(first)).unwrap();
            let is_right = bits(&buffer) == bits(&contributions(0, COUNT));
            (error, is_restored, is_right, report.algorithm)
        });

        doomed.join().unwrap();
        for (error, is_restored, is_right, algorithm) in results {
            assert!(matches!(error, Error::Aborted { .. }), "{error}");
            assert!(is_restored && is_right, "{frames}");
            assert_eq!(algorithm, Algorithm::TwoLevel);
        }
    }
}

#[test]
fn peers_of_one_site_or_of_a_site_each_do_without_levels() {
    for sites in [["eu"; 3], ["eu", "us", "asia"]] {
        let run = Run::new();
        let mut peers = peers_at(&run, &sites);
        together(&mut peers, |peer| {
            let mut buffer = vec![1_u32; 20_000];
            let report = peer.all_reduce(&mut buffer, Reduce::sum()).unwrap();
            assert_ne!(report.algorithm, Algorithm::TwoLevel);
            assert_eq!(report.sites, sites.iter().collect::<BTreeSet<_>>().len());
        });
    }
}
