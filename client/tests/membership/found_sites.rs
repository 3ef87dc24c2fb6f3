//! Sites that nobody names, found between hosts in memory that are far from each other.

use pccl::{Algorithm, Communicator, Reduce, TopologyReport};

use crate::support::hosts::Hosts;
use crate::support::{join_as, together};

/// Elements that are too many to travel whole.
const COUNT: usize = 20_000;

/// What all peers were told of the sites, by their identities.
fn sites(peers: &mut [Communicator]) -> Vec<Option<String>> {
    let ids: Vec<_> = peers.iter().map(Communicator::peer_id).collect();
    let told = together(peers, |peer| {
        let sites = ids.iter().map(|member| peer.site_of(*member));
        sites.collect::<Vec<_>>()
    });
    assert!(told.iter().all(|other| *other == told[0]), "{told:?}");
    told.into_iter().next().unwrap()
}

fn optimize(peers: &mut [Communicator]) -> TopologyReport {
    let reports = together(peers, |peer| peer.optimize_topology().unwrap());
    assert!(reports.iter().all(|other| other.sites == reports[0].sites));
    reports.into_iter().next().unwrap()
}

fn reduce(peers: &mut [Communicator]) -> Algorithm {
    let world = u32::try_from(peers.len()).unwrap();
    let algorithms = together(peers, |peer| {
        let mut buffer = vec![1_u32; COUNT];
        let report = peer.all_reduce(&mut buffer, Reduce::sum()).unwrap();
        assert!(buffer.iter().all(|sum| *sum == world));
        report.algorithm
    });
    assert!(algorithms.iter().all(|other| *other == algorithms[0]));
    algorithms[0]
}

fn named(names: &[&str]) -> Vec<Option<String>> {
    names.iter().map(|name| Some((*name).to_owned())).collect()
}

/// Which of these depends on the measured costs.
fn is_in_levels(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::TwoLevel | Algorithm::TwoLevelWhole)
}

#[test]
fn peers_that_name_no_site_reduce_in_two_levels_once_an_optimization_has_found_where_they_are() {
    let mut run = Hosts::new();
    let mut peers = run.peers_at(&[1, 2, 1, 2]);
    assert_eq!(sites(&mut peers), vec![None; 4]);
    assert!(!is_in_levels(reduce(&mut peers)));

    let report = optimize(&mut peers);

    assert_eq!(sites(&mut peers), named(&["~1", "~2", "~1", "~2"]));
    let of_ring = report.ring.iter().map(|peer| peers[0].site_of(*peer));
    assert_eq!(report.sites, of_ring.collect::<Vec<_>>());
    assert!(is_in_levels(reduce(&mut peers)));

    // A newcomer to the first site is at one of its own until its paths are known, and so is another one.
    join_as(run.builder_at(1), &mut peers);
    let five = ["~1", "~2", "~1", "~2", "~5"];
    assert_eq!(sites(&mut peers), named(&five));
    assert!(is_in_levels(reduce(&mut peers)));

    peers.remove(0).shutdown();
    assert!(is_in_levels(reduce(&mut peers)));
    assert_eq!(sites(&mut peers), named(&five[1..]));

    optimize(&mut peers);
    assert_eq!(sites(&mut peers), named(&["~2", "~3", "~2", "~3"]));
    assert!(is_in_levels(reduce(&mut peers)));
}

#[test]
fn peers_that_are_all_near_have_no_sites() {
    let mut run = Hosts::new();
    let mut peers = run.peers_at(&[1, 1, 1]);

    let report = optimize(&mut peers);

    assert_eq!(report.sites, vec![None; 3]);
    assert!(!is_in_levels(reduce(&mut peers)));
}
