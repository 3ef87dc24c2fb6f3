//! What is made of the rings that ranks are told of.

use clap::Parser;
use pccl::RingReport;
use pccl_core::id::PeerId;
use pccl_core::topology::Ring;

use super::super::hosts::Hosts;
use super::super::optimized::{Optimized, Told};

#[derive(Parser)]
struct HostsAlone {
    #[command(flatten)]
    hosts: Hosts,
}

fn hosts(addresses: &str) -> Hosts {
    let arguments = [
        "all_reduce_perf",
        "--hosts",
        addresses,
        "--launch",
        "ssh {host}",
    ];
    HostsAlone::parse_from(arguments).hosts
}

/// Told to the peers 7, 3 and 5, which are the ranks 0, 1 and 2.
fn told(ring: [u64; 3]) -> Vec<Told> {
    let told = |peer| Told {
        peer,
        ring: ring.to_vec(),
        report: RingReport {
            before: Ring([3, 5, 7].map(PeerId).to_vec()),
            ..RingReport::default()
        },
        took_ns: 1_000_000_000 * peer,
    };
    [7, 3, 5].map(told).to_vec()
}

#[test]
fn rings_are_those_of_ranks_and_begin_with_the_first() {
    let found = Optimized::of(&told([5, 3, 7])).unwrap();

    assert_eq!((found.before, found.after), (vec![0, 1, 2], vec![0, 2, 1]));
    assert!((found.seconds - 7.0).abs() < 1e-9, "{}", found.seconds);
}

#[test]
fn ranks_that_were_told_different_rings_are_noticed() {
    let mut differently = told([5, 3, 7]);
    differently[1].ring.reverse();

    assert_eq!(Optimized::of(&differently), None);
    assert_eq!(Optimized::of(&told([5, 3, 8])), None, "8 is nobody");
    assert_eq!(Optimized::of(&[]), None);
}

#[test]
fn ranks_are_called_like_their_hosts() {
    let names = |addresses: &str| -> Vec<String> {
        let hosts = hosts(addresses);
        (0..3).map(|rank| hosts.name_of_rank(rank)).collect()
    };

    assert_eq!(
        names("paris=10.0.0.1,oslo=10.0.0.2"),
        ["paris", "oslo", "paris-2"]
    );
    assert_eq!(names("10.0.0.1,10.0.0.2"), ["0", "1", "2"]);
    let text = Optimized::of(&told([5, 3, 7])).unwrap();
    let text = text.rings(&hosts("a=10.0.0.1,b=10.0.0.2,c=10.0.0.3"));
    assert!(
        text.contains("# after    a c b: not all of its edges"),
        "{text}"
    );
}
