//! A topology's file: sites with their hosts, links between them, and what goes wrong when.
//!
//! ```toml
//! [system]                                  # of every host; all of it optional
//! mtu = 1500                                # bytes of the longest packet
//! tcp_memory = "64 MiB"                     # most that TCP has under way per connection
//! congestion = "cubic"                      # default: that of this machine
//!
//! [default]                                 # of all pairs of hosts, each direction by itself
//! delay = "20 ms"                           # one way
//! jitter = "1 ms"                           # to either side; packets keep their order
//! loss = "0.1 %"                            # each packet by itself
//! bursts = { share = "0.1 %", length = 8 }  # packets in a row: length in the mean
//! rate = "1 Gbit/s"
//! queue = "4 MiB"                           # default: a round trip of the rate, at least 64 KiB
//! flow_rate = "200 Mbit/s"                  # of each connection; flow_queue is its queue
//!
//! [inside]                                  # of pairs of hosts of one site
//! delay = "100 us"
//!
//! [[site]]
//! name = "paris"
//! hosts = ["p1", "p2"]
//! up = { rate = "2 Gbit/s" }                # out of the site, shared; queue: default 20 ms of the rate
//! down = { rate = "2 Gbit/s", queue = "4 MiB" }
//! host_up = { rate = "1 Gbit/s" }           # out of each of its hosts; host_down: into each
//! away_up = { rate = "100 Mbit/s" }         # out of each of its hosts to other sites; away_down: into each from there
//!
//! [[host]]                                  # one host that differs from those of its site
//! name = "p2"
//! up = { rate = "100 Mbit/s" }
//!
//! [[group]]                                 # a name for several sites or hosts
//! name = "europe"
//! members = ["paris", "oslo"]
//!
//! [[link]]                                  # a later one outdoes an earlier one, setting by setting
//! between = ["paris", "oslo"]               # sites, hosts, groups; one direction: from = "paris", to = "oslo"
//! delay = "15 ms"
//!
//! [[cut]]
//! between = ["p1", "oslo"]                  # or from, to
//! at = "10 s"
//! lasting = "5 s"                           # default: for ever
//!
//! [[reset]]                                 # of all TCP connections between these
//! between = ["p1", "oslo"]
//! at = "20 s"
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::limit::Limit;
use super::losses::{Bursts, Loss};
use super::plan::{Host, Plan, Reset, Shared, System, Way};
use super::units::{Bytes, Nanos, Rate, Share, Span};

/// A file of sites and links.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    #[serde(default)]
    system: SystemEntry,
    #[serde(default)]
    default: Settings,
    #[serde(default)]
    inside: Settings,
    #[serde(default)]
    site: Vec<SiteEntry>,
    #[serde(default)]
    host: Vec<HostEntry>,
    #[serde(default)]
    group: Vec<GroupEntry>,
    #[serde(default)]
    link: Vec<LinkEntry>,
    #[serde(default)]
    cut: Vec<CutEntry>,
    #[serde(default)]
    reset: Vec<ResetEntry>,
}

/// Why a file is no topology.
#[derive(Debug, thiserror::Error)]
pub enum BadTopology {
    /// It cannot be read.
    #[error("{0}: {1}")]
    Unreadable(String, std::io::Error),
    /// It is not of this format.
    #[error(transparent)]
    Format(#[from] toml::de::Error),
    /// A name of a site or host that there is not.
    #[error("there is no site, host or group {0:?}")]
    Unknown(String),
    /// A name that two have.
    #[error("two sites, hosts or groups are called {0:?}")]
    Twice(String),
    /// Too few hosts, or more than there are addresses for.
    #[error("a topology has 2 to {HOSTS_MAX} hosts, not {0}")]
    Hosts(usize),
    /// A link, cut or reset that does not say between whom.
    #[error("one of the entries [[{0}]] says neither between whom it is nor from whom to whom")]
    Ends(&'static str),
    /// A burst that there cannot be.
    #[error("a burst is of one packet or more, and of less than all packets")]
    Bursts,
}

/// Most hosts.
const HOSTS_MAX: usize = 1000;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SystemEntry {
    mtu: Option<u16>,
    tcp_memory: Option<Bytes>,
    congestion: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SiteEntry {
    name: String,
    hosts: Vec<String>,
    up: Option<Cap>,
    down: Option<Cap>,
    host_up: Option<Cap>,
    host_down: Option<Cap>,
    away_up: Option<Cap>,
    away_down: Option<Cap>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostEntry {
    name: String,
    up: Option<Cap>,
    down: Option<Cap>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupEntry {
    name: String,
    members: Vec<String>,
}

/// A limit of a site or host.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cap {
    rate: Rate,
    queue: Option<Bytes>,
}

/// What a way is like, as far as an entry says it.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    delay: Option<Span>,
    jitter: Option<Span>,
    loss: Option<Share>,
    bursts: Option<BurstsEntry>,
    rate: Option<Rate>,
    queue: Option<Bytes>,
    flow_rate: Option<Rate>,
    flow_queue: Option<Bytes>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BurstsEntry {
    share: Share,
    length: f64,
    loss: Option<Share>,
}

/// Between whom.
#[derive(Clone, Debug, Default, Deserialize)]
struct Ends {
    between: Option<[String; 2]>,
    from: Option<String>,
    to: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkEntry {
    #[serde(flatten)]
    ends: Ends,
    #[serde(flatten)]
    settings: Settings,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CutEntry {
    #[serde(flatten)]
    ends: Ends,
    at: Span,
    lasting: Option<Span>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResetEntry {
    #[serde(flatten)]
    ends: Ends,
    at: Span,
}

/// Queues are no smaller if the file does not say so.
const QUEUE: u64 = 64 << 10;

/// What waits before a cap, if the file does not say so, takes so long.
const CAP_QUEUE: Span = Span::millis(20);

impl Topology {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is not of the format that this module's text shows.
    pub fn read(path: &Path) -> Result<Self, BadTopology> {
        let text = std::fs::read_to_string(path);
        let text =
            text.map_err(|error| BadTopology::Unreadable(path.display().to_string(), error))?;
        Self::parse(&text)
    }

    /// The same from a text.
    ///
    /// # Errors
    /// It is not of that format.
    pub fn parse(text: &str) -> Result<Self, BadTopology> {
        Ok(toml::from_str(text)?)
    }

    /// What it means for each pair of hosts.
    ///
    /// # Errors
    /// Names that there are not, or twice, and what else cannot be.
    pub fn plan(&self) -> Result<Plan, BadTopology> {
        let mut names = Names::of(&self.site)?;
        for group in &self.group {
            names.group(group)?;
        }
        let mut plan = Plan {
            system: self.system.with_defaults(),
            ..Plan::default()
        };
        for site in &self.site {
            plan.hosts.extend(site.hosts.iter().map(|name| Host {
                name: name.clone(),
                site: site.name.clone(),
            }));
        }
        if !(2..=HOSTS_MAX).contains(&plan.hosts.len()) {
            return Err(BadTopology::Hosts(plan.hosts.len()));
        }
        plan.ways = self.ways(&names, &plan.hosts)?;
        self.share(&names, &mut plan)?;
        self.break_things(&names, &mut plan)?;
        Ok(plan)
    }

    /// All ways, without what they share.
    fn ways(&self, names: &Names, hosts: &[Host]) -> Result<Vec<Way>, BadTopology> {
        let count = hosts.len();
        let mut settings = vec![self.default; count * count];
        for (index, settings) in settings.iter_mut().enumerate() {
            if hosts[index / count].site == hosts[index % count].site {
                settings.take_over(&self.inside);
            }
        }
        for link in &self.link {
            for (from, to) in link.ends.pairs(names, "link")? {
                settings[from * count + to].take_over(&link.settings);
            }
        }
        settings.iter().map(Settings::way).collect()
    }

    /// The limits that ways share, from the inside out and back: host, site; site, host.
    fn share(&self, names: &Names, plan: &mut Plan) -> Result<(), BadTopology> {
        for site in &self.site {
            let members = names.hosts(&site.name)?;
            let is_member = |host: usize| members.contains(&host);
            plan.limit(
                site.up,
                format!("out of {}", site.name),
                |from, to| is_member(from) && !is_member(to),
                Side::Out,
            );
            plan.limit(
                site.down,
                format!("into {}", site.name),
                |from, to| is_member(to) && !is_member(from),
                Side::Into,
            );
            for (host, name) in members.iter().zip(&site.hosts) {
                let own = self.host.iter().find(|entry| entry.name == *name);
                let up = own.and_then(|own| own.up).or(site.host_up);
                let down = own.and_then(|own| own.down).or(site.host_down);
                plan.limit(
                    site.away_up,
                    format!("out of {} from {name}", site.name),
                    |from, to| from == *host && !is_member(to),
                    Side::Out,
                );
                plan.limit(
                    site.away_down,
                    format!("into {} to {name}", site.name),
                    |from, to| to == *host && !is_member(from),
                    Side::Into,
                );
                plan.limit(
                    up,
                    format!("out of {name}"),
                    |from, _| from == *host,
                    Side::HostOut,
                );
                plan.limit(
                    down,
                    format!("into {name}"),
                    |_, to| to == *host,
                    Side::HostInto,
                );
            }
        }
        for host in &self.host {
            names.hosts(&host.name)?;
        }
        Ok(())
    }

    fn break_things(&self, names: &Names, plan: &mut Plan) -> Result<(), BadTopology> {
        let count = plan.hosts.len();
        for cut in &self.cut {
            let until = cut
                .lasting
                .map_or(Nanos::MAX, |lasting| cut.at.0 + lasting.0);
            for (from, to) in cut.ends.pairs(names, "cut")? {
                plan.ways[from * count + to].cuts.push((cut.at.0, until));
            }
        }
        for reset in &self.reset {
            let pairs = reset.ends.pairs(names, "reset")?;
            plan.resets.extend(pairs.into_iter().map(|between| Reset {
                at: reset.at.0,
                between,
            }));
        }
        plan.resets.sort_by_key(|reset| reset.at);
        Ok(())
    }
}

impl SystemEntry {
    fn with_defaults(&self) -> System {
        let default = System::default();
        System {
            mtu: self.mtu.unwrap_or(default.mtu),
            tcp_memory: self.tcp_memory.map_or(default.tcp_memory, |bytes| bytes.0),
            congestion: self.congestion.clone(),
        }
    }
}

/// Where a shared limit is on its ways.
#[derive(Clone, Copy)]
enum Side {
    HostOut,
    Out,
    Into,
    HostInto,
}

impl Plan {
    /// Adds a limit, if there is one, to all ways that it is on.
    fn limit(
        &mut self,
        cap: Option<Cap>,
        name: String,
        is_on: impl Fn(usize, usize) -> bool,
        side: Side,
    ) {
        let Some(cap) = cap else {
            return;
        };
        let index = self.shared.len();
        let limit = cap.limit();
        self.shared.push(Shared { name, limit });
        let count = self.hosts.len();
        for (at, way) in self.ways.iter_mut().enumerate() {
            if !is_on(at / count, at % count) {
                continue;
            }
            match side {
                Side::HostOut => way.out.insert(0, index),
                Side::Out => way.out.push(index),
                Side::Into => way.into.insert(0, index),
                Side::HostInto => way.into.push(index),
            }
        }
    }
}

impl Cap {
    fn limit(&self) -> Limit {
        let queue = self.rate.bytes_in(CAP_QUEUE).max(QUEUE);
        Limit {
            rate: self.rate,
            queue: self.queue.map_or(queue, |queue| queue.0),
        }
    }
}

impl Settings {
    /// What the other one says goes before.
    fn take_over(&mut self, other: &Self) {
        self.delay = other.delay.or(self.delay);
        self.jitter = other.jitter.or(self.jitter);
        self.loss = other.loss.or(self.loss);
        self.bursts = other.bursts.or(self.bursts);
        self.rate = other.rate.or(self.rate);
        self.queue = other.queue.or(self.queue);
        self.flow_rate = other.flow_rate.or(self.flow_rate);
        self.flow_queue = other.flow_queue.or(self.flow_queue);
    }

    fn way(&self) -> Result<Way, BadTopology> {
        let delay = self.delay.unwrap_or_default();
        let limit = |rate: Rate, queue: Option<Bytes>| Limit {
            rate,
            queue: queue.map_or_else(
                || rate.bytes_in(Span(2 * delay.0)).max(QUEUE),
                |queue| queue.0,
            ),
        };
        let bursts = self.bursts.map(BurstsEntry::bursts).transpose()?;
        Ok(Way {
            per_flow: self.flow_rate.map(|rate| limit(rate, self.flow_queue)),
            own: self.rate.map(|rate| limit(rate, self.queue)),
            delay: delay.0,
            jitter: self.jitter.unwrap_or_default().0,
            loss: Loss {
                independent: self.loss.unwrap_or_default(),
                bursts,
            },
            ..Way::default()
        })
    }
}

impl BurstsEntry {
    fn bursts(self) -> Result<Bursts, BadTopology> {
        if self.length.is_nan() || self.length < 1.0 || self.share.0 >= 1.0 {
            return Err(BadTopology::Bursts);
        }
        Ok(Bursts {
            share: self.share,
            length: self.length,
            loss: self.loss.unwrap_or(Share(1.0)),
        })
    }
}

impl Ends {
    /// All ordered pairs of hosts that are meant.
    fn pairs(
        &self,
        names: &Names,
        entry: &'static str,
    ) -> Result<Vec<(usize, usize)>, BadTopology> {
        let (from, to, is_both) = match (&self.between, &self.from, &self.to) {
            (Some([one, other]), None, None) => (one, other, true),
            (None, Some(from), Some(to)) => (from, to, false),
            (_, _, _) => return Err(BadTopology::Ends(entry)),
        };
        let mut pairs = Vec::new();
        for from in names.hosts(from)? {
            for to in names.hosts(to)?.iter().filter(|to| *to != from) {
                pairs.push((*from, *to));
                pairs.extend(is_both.then_some((*to, *from)));
            }
        }
        Ok(pairs)
    }
}

/// The hosts that a name stands for.
struct Names(BTreeMap<String, Vec<usize>>);

impl Names {
    fn of(sites: &[SiteEntry]) -> Result<Self, BadTopology> {
        let mut names = BTreeMap::new();
        let mut number = 0;
        let mut add = |name: &String, hosts| match names.insert(name.clone(), hosts) {
            Some(_) => Err(BadTopology::Twice(name.clone())),
            None => Ok(()),
        };
        for site in sites {
            let first = number;
            for host in &site.hosts {
                // A site of one host may be called like it.
                if site.hosts.len() > 1 || *host != site.name {
                    add(host, vec![number])?;
                }
                number += 1;
            }
            add(&site.name, (first..number).collect())?;
        }
        Ok(Self(names))
    }

    fn group(&mut self, group: &GroupEntry) -> Result<(), BadTopology> {
        let mut hosts = Vec::new();
        for member in &group.members {
            hosts.extend(self.hosts(member)?);
        }
        match self.0.insert(group.name.clone(), hosts) {
            Some(_) => Err(BadTopology::Twice(group.name.clone())),
            None => Ok(()),
        }
    }

    fn hosts(&self, name: &str) -> Result<&[usize], BadTopology> {
        let hosts = self.0.get(name).map(Vec::as_slice);
        hosts.ok_or_else(|| BadTopology::Unknown(name.into()))
    }
}

#[cfg(test)]
#[path = "topology_tests.rs"]
mod tests;
