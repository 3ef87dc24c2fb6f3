//! Resets of TCP connections, as a middlebox writes them: in the name of one end, to the other, with a sequence
//! number that it has to believe.

use std::collections::BTreeMap;
use std::iter;

use super::packet::{TCP, heading};
use super::plan::{Plan, Reset};
use super::units::Nanos;

/// What is known of the connections that will be reset.
#[derive(Debug)]
pub struct Resets {
    /// In order, the next one last.
    to_come: Vec<Reset>,
    seen: BTreeMap<Direction, Seen>,
}

/// One direction of a connection: from a host to another, and its flow.
type Direction = (usize, usize, u64);

/// Of the packets of one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// What the sender has acknowledged last.
    acknowledged: Option<u32>,
    /// Behind the last byte that the receiver got.
    delivered: Option<u32>,
}

/// A packet of IP and TCP without payload.
pub type Forged = [u8; 40];

impl Resets {
    /// Those of a plan.
    pub fn new(plan: &Plan) -> Self {
        Self {
            to_come: plan.resets.iter().rev().copied().collect(),
            seen: BTreeMap::new(),
        }
    }

    /// A host has sent a packet.
    pub fn on_sent(&mut self, from: usize, to: usize, packet: &[u8]) {
        if let Some((flow, segment)) = self.of_interest(from, to, packet) {
            let seen = self.seen.entry((from, to, flow)).or_default();
            seen.acknowledged = segment.acknowledged.or(seen.acknowledged);
        }
    }

    /// A host has got a packet.
    pub fn on_delivered(&mut self, from: usize, to: usize, packet: &[u8]) {
        if let Some((flow, segment)) = self.of_interest(from, to, packet) {
            let seen = self.seen.entry((from, to, flow)).or_default();
            seen.delivered = Some(segment.end);
        }
    }

    /// When the next reset is.
    pub fn next_due(&self) -> Option<Nanos> {
        self.to_come.last().map(|reset| reset.at)
    }

    /// The packets that have to be given to hosts by now.
    pub fn due(&mut self, now: Nanos) -> Vec<(usize, Forged)> {
        let mut forged = Vec::new();
        while let Some(reset) = self.to_come.pop_if(|reset| reset.at <= now) {
            let (from, to) = reset.between;
            let directions = (from, to, 0)..=(from, to, u64::MAX);
            for ((.., flow), seen) in self.seen.range(directions) {
                let back = self.seen.get(&(to, from, reverse(*flow)));
                // The receiver believes one number only: that of the byte that it waits for. It has told of it,
                // unless it is about to.
                let told = back.and_then(|back| back.acknowledged);
                let numbers = told.into_iter().chain(seen.delivered);
                forged.extend(numbers.map(|number| (to, forge(from, to, *flow, number))));
            }
        }
        forged
    }

    /// The flow and the numbers of a packet, if a reset will concern it.
    fn of_interest(&self, from: usize, to: usize, packet: &[u8]) -> Option<(u64, Segment)> {
        let concerned = |reset: &Reset| [(from, to), (to, from)].contains(&reset.between);
        if !self.to_come.iter().any(concerned) {
            return None;
        }
        let flow = heading(packet)?.flow;
        (flow >> 32 == u64::from(TCP)).then(|| Some((flow, Segment::of(packet)?)))?
    }
}

/// The flow of the packets that go the other way.
const fn reverse(flow: u64) -> u64 {
    let ports = (flow as u32).rotate_left(16);
    flow >> 32 << 32 | ports as u64
}

/// The numbers of a packet of TCP.
struct Segment {
    /// Behind its last byte.
    end: u32,
    acknowledged: Option<u32>,
}

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

impl Segment {
    fn of(packet: &[u8]) -> Option<Self> {
        let length = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
        let start = usize::from(packet.first()? & 15) * 4;
        let head: &[u8; 20] = packet.get(start..)?.first_chunk()?;
        let word =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let flags = head[13];
        let payload = length.saturating_sub(start + usize::from(head[12] >> 4) * 4);
        let counted = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        let payload = u32::try_from(payload).unwrap_or(0);
        Some(Self {
            end: word(4).wrapping_add(payload).wrapping_add(counted),
            acknowledged: (flags & ACK != 0).then(|| word(8)),
        })
    }
}

/// A reset from a host to another.
fn forge(from: usize, to: usize, flow: u64, number: u32) -> Forged {
    let mut packet = [0; 40];
    packet[0] = 0x45;
    packet[3] = 40;
    packet[8] = 64;
    packet[9] = TCP;
    packet[12..16].copy_from_slice(&Plan::address(from).octets());
    packet[16..20].copy_from_slice(&Plan::address(to).octets());
    packet[20..24].copy_from_slice(&(flow as u32).to_be_bytes());
    packet[24..28].copy_from_slice(&number.to_be_bytes());
    packet[32] = 5 << 4;
    packet[33] = RST;
    let sum = checksum(packet[..20].iter().copied());
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    // TCP's covers addresses, protocol and length as well.
    let pseudo = packet[12..20].iter().copied().chain([0, TCP, 0, 20]);
    let sum = checksum(pseudo.chain(packet[20..].iter().copied()));
    packet[36..38].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// The checksum of the internet, of an even number of bytes.
pub(super) fn checksum(bytes: impl IntoIterator<Item = u8>) -> u16 {
    let mut bytes = bytes.into_iter();
    let pairs = iter::from_fn(|| Some([bytes.next()?, bytes.next().unwrap_or(0)]));
    let mut sum: u32 = pairs.map(|pair| u32::from(u16::from_be_bytes(pair))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wan::plan::Host;

    fn plan() -> Plan {
        let host = |name: &str| Host {
            name: name.into(),
            site: String::new(),
        };
        let reset = |between| Reset { at: 100, between };
        Plan {
            hosts: vec![host("a"), host("b"), host("c")],
            resets: vec![reset((0, 1)), reset((1, 0))],
            ..Plan::default()
        }
    }

    /// A packet with that payload, and everything else that is looked at.
    fn packet(to: usize, ports: u32, number: u32, acknowledged: u32, payload: usize) -> Vec<u8> {
        let mut packet = forge(0, to, u64::from(TCP) << 32 | u64::from(ports), number).to_vec();
        packet.resize(40 + payload, 0);
        packet[3] = u8::try_from(40 + payload).unwrap();
        packet[28..32].copy_from_slice(&acknowledged.to_be_bytes());
        packet[33] = ACK;
        packet
    }

    fn number(packet: &Forged) -> u32 {
        u32::from_be_bytes(*packet[24..].first_chunk().unwrap())
    }

    #[test]
    fn both_ends_get_resets_with_the_numbers_that_they_may_wait_for() {
        let mut resets = Resets::new(&plan());
        let there = packet(1, 0x0001_0050, 1000, 77, 100);
        let back = packet(0, 0x0050_0001, 77, 1000, 0);
        resets.on_sent(0, 1, &there);
        resets.on_delivered(0, 1, &there);
        resets.on_sent(1, 0, &back);

        assert_eq!(resets.due(99), []);
        let forged = resets.due(100);

        let numbers: Vec<_> = forged
            .iter()
            .map(|(to, packet)| (*to, number(packet)))
            .collect();
        assert_eq!(numbers, [(1, 1000), (1, 1100), (0, 77)]);
        assert_eq!(resets.next_due(), None);
    }

    #[test]
    fn connections_of_others_are_left_alone() {
        let mut resets = Resets::new(&plan());
        let there = packet(2, 0x0001_0050, 1000, 77, 100);
        resets.on_sent(0, 2, &there);
        resets.on_delivered(0, 2, &there);

        assert_eq!(resets.due(1000), []);
    }

    #[test]
    fn a_forged_packet_has_right_checksums() {
        let packet = forge(0, 1, u64::from(TCP) << 32 | 0x0001_0050, 12345);

        // Over a right sum, the sum is zero.
        assert_eq!(checksum(packet[..20].iter().copied()), 0);
        let pseudo = packet[12..20].iter().copied().chain([0, TCP, 0, 20]);
        assert_eq!(checksum(pseudo.chain(packet[20..].iter().copied())), 0);
    }
}
