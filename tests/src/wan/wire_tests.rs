//! A wire under a clock of the tests.

use proptest::prelude::*;

use super::*;
use crate::wan::losses::{Bursts, Loss};
use crate::wan::plan::{Host, Shared};
use crate::wan::units::{Rate, SECOND, Share};

const MILLI: Nanos = 1_000_000;
const PACKET: u32 = 1500;

/// So many hosts, and ways that are all the same.
fn plan(hosts: usize, way: &Way) -> Plan {
    let host = |number| Host {
        name: format!("{number}"),
        site: String::new(),
    };
    Plan {
        hosts: (0..hosts).map(host).collect(),
        ways: vec![way.clone(); hosts * hosts],
        ..Plan::default()
    }
}

fn limit(mbit: u64, queue: u64) -> Limit {
    Limit {
        rate: Rate::mbit(mbit),
        queue,
    }
}

fn packet(way: usize, load: u64) -> Packet<u64> {
    Packet {
        way,
        bytes: PACKET,
        flow: 0,
        load,
    }
}

/// What arrives until then: when, and its load. The rest is dropped.
fn arrivals(wire: &mut Wire<u64>, until: Nanos) -> Vec<(Nanos, u64)> {
    let mut arrived = Vec::new();
    while let Some(at) = wire.next_due().filter(|at| *at <= until) {
        while let Some(fate) = wire.due(at) {
            if let Fate::Arrived(packet) = fate {
                arrived.push((at, packet.load));
            }
        }
    }
    arrived
}

#[test]
fn a_packet_takes_the_delay_of_its_way_to_the_nanosecond() {
    let way = Way {
        delay: 40 * MILLI,
        ..Way::default()
    };
    let mut wire = Wire::new(&plan(2, &way), 0);

    wire.send(5, packet(1, 1)).unwrap();
    wire.send(6, packet(1, 2)).unwrap();

    assert_eq!(wire.due(40 * MILLI + 4), None);
    assert_eq!(
        arrivals(&mut wire, SECOND),
        [(40 * MILLI + 5, 1), (40 * MILLI + 6, 2)]
    );
    assert_eq!(wire.next_due(), None);
    let delay = wire.counts()[1].mean_delay().unwrap();
    assert!((delay - 40.0).abs() < 1e-9);
}

#[test]
fn a_way_carries_its_rate_over_a_long_run_and_its_queue_bounds_the_delay() {
    let way = Way {
        delay: 10 * MILLI,
        own: Some(limit(100, 125_000)),
        ..Way::default()
    };
    let mut wire = Wire::new(&plan(2, &way), 0);
    let mut arrived = Vec::new();

    // A packet each 100 us: 120 Mbit/s.
    for step in 0..100_000 {
        let now = step * MILLI / 10;
        arrived.extend(arrivals(&mut wire, now));
        let _ = wire.send(now, packet(1, now));
    }

    let counts = wire.counts()[1];
    assert!((counts.mean_rate() / 1e8 - 1.0).abs() < 1e-3);
    assert!(counts.queue_drops > 15_000);
    let longest = arrived.iter().map(|(at, sent)| at - sent).max().unwrap();
    // What waits takes 10 ms at most, and the queue was full.
    assert!((19 * MILLI..=20 * MILLI).contains(&longest), "{longest}");
}

#[test]
fn a_shared_limit_serves_in_the_order_of_arrival_whatever_the_delays() {
    let mut plan = plan(3, &Way::default());
    plan.shared = vec![Shared {
        name: "into 2".into(),
        limit: limit(12, 1 << 20),
    }];
    let (far, near) = (plan.way(0, 2).unwrap(), plan.way(1, 2).unwrap());
    plan.ways[far].delay = 50 * MILLI;
    plan.ways[near].delay = MILLI;
    plan.ways[far].into = vec![0];
    plan.ways[near].into = vec![0];
    let mut wire = Wire::new(&plan, 0);

    wire.send(0, packet(far, 1)).unwrap();
    wire.send(1, packet(near, 2)).unwrap();

    // A packet takes a millisecond.
    assert_eq!(
        arrivals(&mut wire, SECOND),
        [(2 * MILLI + 1, 2), (51 * MILLI, 1)]
    );
}

#[test]
fn ways_share_the_uplink_of_their_site() {
    let mut plan = plan(4, &Way::default());
    plan.shared = vec![Shared {
        name: "out of the site".into(),
        limit: limit(100, 15_000),
    }];
    let (one, other) = (plan.way(0, 2).unwrap(), plan.way(1, 3).unwrap());
    plan.ways[one].out = vec![0];
    plan.ways[other].out = vec![0];
    let mut wire = Wire::new(&plan, 0);

    for step in 0..20_000 {
        let now = step * MILLI / 10;
        arrivals(&mut wire, now);
        let _ = wire.send(now, packet(one, 0));
        let _ = wire.send(now, packet(other, 0));
    }

    let bytes = |way: usize| wire.counts()[way].arrived.bytes;
    let in_two_seconds = bytes(one) + bytes(other);
    assert!(
        (24_900_000..=25_000_000).contains(&in_two_seconds),
        "{in_two_seconds}"
    );
}

#[test]
fn a_flow_with_a_limit_of_its_own_holds_nobody_else_back() {
    let way = Way {
        per_flow: Some(limit(12, 1 << 20)),
        delay: MILLI,
        own: Some(limit(12_000, 1 << 20)),
        ..Way::default()
    };
    let mut wire = Wire::new(&plan(2, &way), 0);
    let of = |flow, load| Packet {
        flow,
        ..packet(1, load)
    };

    for load in 0..3 {
        wire.send(0, of(1, load)).unwrap();
    }
    wire.send(0, of(2, 10)).unwrap();

    let arrived = arrivals(&mut wire, SECOND);
    let order: Vec<u64> = arrived.iter().map(|(_, load)| *load).collect();
    assert_eq!(order, [0, 10, 1, 2]);
    let last = arrived.last().unwrap().0;
    assert!((4 * MILLI..4 * MILLI + 2_000).contains(&last), "{last}");
}

#[test]
fn flows_that_rest_are_forgotten() {
    let way = Way {
        per_flow: Some(limit(1000, 1 << 20)),
        ..Way::default()
    };
    let mut wire = Wire::new(&plan(2, &way), 0);

    for flow in 0..100_000 {
        let now = flow * MILLI;
        arrivals(&mut wire, now);
        wire.send(
            now,
            Packet {
                flow,
                ..packet(1, 0)
            },
        )
        .unwrap();
    }

    assert!(wire.lines.len() < 2 * FLOWS, "{}", wire.lines.len());
}

#[test]
fn a_cut_path_carries_nothing_and_what_was_beyond_the_cut_arrives() {
    let way = Way {
        delay: 10 * MILLI,
        cuts: vec![(100 * MILLI, 200 * MILLI)],
        ..Way::default()
    };
    let mut wire = Wire::new(&plan(2, &way), 0);
    let mut send = |now| {
        wire.send(now * MILLI, packet(1, now))
            .map_err(|(_, why)| why)
    };

    let sent: Vec<_> = [99, 100, 199, 200].into_iter().map(&mut send).collect();

    assert_eq!(sent, [Ok(()), Err(Drop::Cut), Err(Drop::Cut), Ok(())]);
    assert_eq!(
        arrivals(&mut wire, SECOND),
        [(109 * MILLI, 99), (210 * MILLI, 200)]
    );
}

#[test]
fn loss_on_a_wire_is_what_was_asked_for() {
    let way = Way {
        loss: Loss {
            independent: Share(0.001),
            bursts: Some(Bursts {
                share: Share(0.002),
                length: 5.0,
                loss: Share(1.0),
            }),
        },
        ..Way::default()
    };
    println!("seed 11");
    let mut wire = Wire::new(&plan(2, &way), 11);

    for now in 0..1_000_000 {
        let _ = wire.send(now, packet(1, 0));
        while wire.due(now).is_some() {}
    }

    let counts = wire.counts()[1];
    assert!((counts.loss() / way.loss.total() - 1.0).abs() < 0.1);
    assert!((counts.lost_in_bursts as f64 / 2_000.0 - 1.0).abs() < 0.1);
}

#[test]
fn a_packet_to_nobody_is_dropped() {
    let mut wire = Wire::new(&plan(2, &Way::default()), 0);

    assert_eq!(
        wire.send(0, packet(4, 7)),
        Err((packet(4, 7), Drop::Nowhere))
    );
}

/// When packets leave which host, and how large they are.
fn traffic() -> impl Strategy<Value = Vec<(Nanos, usize, u32)>> {
    prop::collection::vec((0..2_000_000_u64, 0..2_usize, 40..1501_u32), 1..300)
}

/// A plan in which everything happens: two hosts that send to a third one.
fn everything(jitter: Nanos, queue: u64, seed: u64) -> (Plan, Wire<u64>) {
    let way = Way {
        delay: 20 * MILLI,
        jitter,
        own: Some(limit(50, queue)),
        loss: Loss {
            independent: Share(0.05),
            bursts: None,
        },
        out: vec![0],
        into: vec![1],
        ..Way::default()
    };
    let mut plan = plan(3, &way);
    for name in ["out", "in"] {
        plan.shared.push(Shared {
            name: name.into(),
            limit: limit(60, queue),
        });
    }
    let wire = Wire::new(&plan, seed);
    (plan, wire)
}

/// Sends it all, and says what became of it: way, load and instant of what arrived.
fn fates(
    traffic: &[(Nanos, usize, u32)],
    plan: &Plan,
    wire: &mut Wire<u64>,
) -> Vec<(usize, u64, Nanos)> {
    let (mut now, mut fates) = (0, Vec::new());
    for (load, (gap, from, bytes)) in (0..).zip(traffic) {
        now += gap;
        collect(wire, now, &mut fates);
        let way = plan.way(*from, 2).unwrap();
        let packet = Packet {
            bytes: *bytes,
            ..packet(way, load)
        };
        let _ = wire.send(now, packet);
    }
    collect(wire, Nanos::MAX, &mut fates);
    fates
}

fn collect(wire: &mut Wire<u64>, until: Nanos, fates: &mut Vec<(usize, u64, Nanos)>) {
    while let Some(at) = wire.next_due().filter(|at| *at <= until) {
        while let Some(fate) = wire.due(at) {
            if let Fate::Arrived(packet) = fate {
                fates.push((packet.way, packet.load, at));
            }
        }
    }
}

proptest! {
    #[test]
    fn packets_of_a_way_keep_their_order_and_all_have_a_fate(
        traffic in traffic(), jitter in 0..30 * MILLI, queue in 2_000..50_000_u64, seed: u64,
    ) {
        let (plan, mut wire) = everything(jitter, queue, seed);

        let fates = fates(&traffic, &plan, &mut wire);

        for from in 0..2 {
            let way = plan.way(from, 2).unwrap();
            let loads: Vec<u64> = fates.iter().filter(|f| f.0 == way).map(|f| f.1).collect();
            prop_assert!(loads.is_sorted());
            let counts = wire.counts()[way];
            let dropped = counts.lost + counts.queue_drops;
            prop_assert_eq!(counts.arrived.packets + dropped, counts.sent.packets);
        }
        prop_assert_eq!(wire.under_way(), 0);
    }

    #[test]
    fn a_packet_is_never_early_nor_later_than_full_queues_and_jitter_make_it(
        traffic in traffic(), jitter in 0..19 * MILLI, seed: u64,
    ) {
        const QUEUE: u64 = 15_000;
        let (plan, mut wire) = everything(jitter, QUEUE, seed);
        let mut sent = vec![0];
        sent.extend(traffic.iter().scan(0, |now, (gap, ..)| { *now += gap; Some(*now) }));

        let fates = fates(&traffic, &plan, &mut wire);

        // Three queues of 60, 50 and 60 Mbit/s.
        let queues = 3 * QUEUE * 8 * 1000 / 50;
        for (_, load, at) in fates {
            let took = at - sent[usize::try_from(load).unwrap() + 1];
            prop_assert!(took + jitter >= 20 * MILLI, "{} ns", took);
            prop_assert!(took <= 20 * MILLI + jitter + queues, "{} ns", took);
        }
    }

    #[test]
    fn the_same_seed_and_packets_have_the_same_fates(traffic in traffic(), seed: u64) {
        let run = || {
            let (plan, mut wire) = everything(5 * MILLI, 10_000, seed);
            fates(&traffic, &plan, &mut wire)
        };

        prop_assert_eq!(run(), run());
    }
}
