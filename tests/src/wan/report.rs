//! What a wire did, as a table: one line per ordered pair of hosts that had something to tell each other.

use std::fmt::Write;

use super::counts::Counts;
use super::plan::Plan;
use super::units::Rate;

/// The table. Packets and bytes are those that were sent, with the headers of IP; rates and delays are of
/// those that arrived.
pub fn realised(plan: &Plan, counts: &[Counts]) -> String {
    let mut text = String::from(
        "| from | to | packets | MiB | lost | asked | full queue | cut | mean rate | busiest second | mean delay | path |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (from, to, way) in plan.pairs() {
        let count = plan.way(from, to).and_then(|index| counts.get(index));
        let Some(count) = count.filter(|count| count.sent.packets > 0) else {
            continue;
        };
        let name = |host: usize| plan.hosts.get(host).map_or("", |host| host.name.as_str());
        let delay = count
            .mean_delay()
            .map_or_else(|| "-".into(), |delay| format!("{delay:.2} ms"));
        // Writing to a text does not fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {:.1} | {:.4} % | {:.4} % | {} | {} | {} | {} | {delay} | {:.2} ms |",
            name(from),
            name(to),
            count.sent.packets,
            count.sent.bytes as f64 / f64::from(1 << 20),
            count.loss() * 100.0,
            way.loss.total() * 100.0,
            count.queue_drops,
            count.cut,
            Rate(count.mean_rate() as u64),
            Rate(count.peak_rate() as u64),
            way.delay as f64 / 1e6,
        );
    }
    text
}

/// What the wire itself lost, which nobody asked for: by host, and how many packets.
pub fn unread(plan: &Plan, unread: &[u64]) -> String {
    let mut text = String::new();
    for (host, packets) in plan
        .hosts
        .iter()
        .zip(unread)
        .filter(|(_, packets)| **packets > 0)
    {
        let _ = writeln!(
            text,
            "wan: {packets} packets of {} were lost before the wire: it is too slow for this",
            host.name
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wan::plan::{Host, Way};
    use crate::wan::wire::{Packet, Wire};

    #[test]
    fn a_table_has_a_line_for_each_pair_that_sent_something() {
        let host = |name: &str| Host {
            name: name.into(),
            site: String::new(),
        };
        let way = Way {
            delay: 5_000_000,
            ..Way::default()
        };
        let plan = Plan {
            hosts: vec![host("a"), host("b")],
            ways: vec![way; 4],
            ..Plan::default()
        };
        let mut wire = Wire::new(&plan, 0);
        let packet = Packet {
            way: 2,
            bytes: 1 << 20,
            flow: 0,
            load: (),
        };
        wire.send(0, packet).unwrap();
        assert!(wire.due(5_000_000).is_some());

        let table = realised(&plan, wire.counts());

        assert_eq!(table.lines().count(), 3);
        assert!(table.ends_with("| 5.00 ms | 5.00 ms |\n"), "{table}");
        assert!(table.contains("| b | a | 1 | 1.0 |"), "{table}");
    }

    #[test]
    fn packets_that_the_wire_did_not_read_are_told() {
        let plan = Plan {
            hosts: vec![Host {
                name: "a".into(),
                site: String::new(),
            }],
            ..Plan::default()
        };

        assert_eq!(unread(&plan, &[0]), "");
        assert!(unread(&plan, &[7]).starts_with("wan: 7 packets of a"));
    }
}
