//! What a topology means: hosts by number, and a way for each ordered pair of them.

use std::net::Ipv4Addr;

use super::limit::Limit;
use super::losses::Loss;
use super::units::{Nanos, Rate};

/// Everything that a wire needs to know, and what its hosts are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// By their numbers.
    pub hosts: Vec<Host>,
    /// Limits that several ways share.
    pub shared: Vec<Shared>,
    /// For each ordered pair of hosts, see [`Plan::way`]. Those from a host to itself are there and unused.
    pub ways: Vec<Way>,
    /// When connections are reset, in order.
    pub resets: Vec<Reset>,
    /// Of every host.
    pub system: System,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Unique in the topology.
    pub name: String,
    /// The name of its site.
    pub site: String,
}

/// What every host's kernel is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// Bytes of the longest packet.
    pub mtu: u16,
    /// Most bytes that TCP has under way, and keeps for a reader, per connection.
    pub tcp_memory: u64,
    /// The congestion control of TCP that asks for none. Default: that of this machine.
    pub congestion: Option<String>,
}

/// A limit that several ways share, and its name for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// What it is of.
    pub name: String,
    /// How much passes.
    pub limit: Limit,
}

/// From a host to another. A packet passes, in this order: the limit of its flow, the shared limits on its way
/// out, the way's own limit, the path itself with its loss and delay, and the shared limits on its way in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Way {
    /// Of each flow by itself.
    pub per_flow: Option<Limit>,
    /// Indices into [`Plan::shared`].
    pub out: Vec<usize>,
    /// Of all packets of this way.
    pub own: Option<Limit>,
    /// How long the path takes, in the mean.
    pub delay: Nanos,
    /// How far it wanders from that, to either side.
    pub jitter: Nanos,
    /// What the path loses.
    pub loss: Loss,
    /// When the path carries nothing, from and until.
    pub cuts: Vec<(Nanos, Nanos)>,
    /// Indices into [`Plan::shared`].
    pub into: Vec<usize>,
}

/// An instant at which the connections of two hosts are reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reset {
    /// Since the wire began.
    pub at: Nanos,
    /// Whose.
    pub between: (usize, usize),
}

impl Default for System {
    fn default() -> Self {
        Self {
            mtu: 1500,
            tcp_memory: 64 << 20,
            congestion: None,
        }
    }
}

impl Plan {
    /// The index of the way from a host to another, or none if there is none.
    pub fn way(&self, from: usize, to: usize) -> Option<usize> {
        let count = self.hosts.len();
        (from < count && to < count && from != to).then(|| from * count + to)
    }

    /// All ways: from, to, and what is between.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize, &Way)> {
        let count = self.hosts.len().max(1);
        let ways = self.ways.iter().enumerate();
        let pairs = ways.map(move |(index, way)| (index / count, index % count, way));
        pairs.filter(|(from, to, _)| from != to)
    }

    /// Makes all rates and queues so many times what they are.
    pub fn scale(&mut self, factor: f64) {
        let shared = self.shared.iter_mut().map(|shared| &mut shared.limit);
        let ways = self.ways.iter_mut();
        let ways = ways.flat_map(|way| way.own.iter_mut().chain(&mut way.per_flow));
        for limit in shared.chain(ways) {
            limit.rate.0 = ((limit.rate.0 as f64 * factor) as u64).max(1);
            limit.queue = (limit.queue as f64 * factor) as u64;
        }
    }

    /// The least of the limits that a way has, of one flow.
    pub fn bottleneck(&self, way: &Way) -> Option<Rate> {
        let shared = way.out.iter().chain(&way.into);
        let shared = shared.filter_map(|index| self.shared.get(*index));
        let shared = shared.map(|shared| shared.limit);
        let limits = shared.chain(way.own).chain(way.per_flow);
        limits.map(|limit| limit.rate).min()
    }

    /// The address of a host.
    pub fn address(host: usize) -> Ipv4Addr {
        let number = u16::try_from(host + 1).unwrap_or(u16::MAX);
        let [high, low] = number.to_be_bytes();
        Ipv4Addr::new(NETWORK[0], NETWORK[1], high, low)
    }

    /// The host of an address, if it is one of these.
    pub fn host_at(&self, address: [u8; 4]) -> Option<usize> {
        let [first, second, high, low] = address;
        let host = usize::from(u16::from_be_bytes([high, low])).checked_sub(1)?;
        ([first, second] == NETWORK && host < self.hosts.len()).then_some(host)
    }
}

/// The first half of all addresses.
const NETWORK: [u8; 2] = [10, 77];

/// Bits of an address that all hosts have in common.
pub const PREFIX: u8 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bottleneck_is_the_least_of_all_limits_and_scales_with_them() {
        let limit = |mbit| Limit {
            rate: Rate::mbit(mbit),
            queue: 1000,
        };
        let mut plan = Plan {
            shared: vec![Shared {
                name: String::new(),
                limit: limit(80),
            }],
            ways: vec![Way {
                own: Some(limit(100)),
                into: vec![0],
                ..Way::default()
            }],
            ..Plan::default()
        };

        assert_eq!(plan.bottleneck(&plan.ways[0]), Some(Rate::mbit(80)));
        plan.scale(0.5);
        assert_eq!(plan.bottleneck(&plan.ways[0]), Some(Rate::mbit(40)));
        assert_eq!(plan.ways[0].own.unwrap().queue, 500);
        assert_eq!(plan.bottleneck(&Way::default()), None);
    }

    #[test]
    fn addresses_and_hosts_belong_to_each_other() {
        let host = || Host {
            name: String::new(),
            site: String::new(),
        };
        let plan = Plan {
            hosts: (0..300).map(|_| host()).collect(),
            ..Plan::default()
        };

        assert_eq!(Plan::address(0), Ipv4Addr::new(10, 77, 0, 1));
        for number in [0, 254, 255, 299] {
            assert_eq!(plan.host_at(Plan::address(number).octets()), Some(number));
        }
        assert_eq!(plan.host_at([10, 77, 0, 0]), None);
        assert_eq!(plan.host_at([10, 77, 255, 255]), None);
        assert_eq!(plan.host_at([127, 0, 0, 1]), None);
    }
}
