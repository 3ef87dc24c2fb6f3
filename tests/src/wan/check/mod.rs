//! Whether a box does what its file says, measured from within: sockets of its hosts, and no other program.

mod bulk;
mod probes;
pub mod theory;

use std::fmt;
use std::io;
use std::time::Duration;

use super::driver::Driver;
use super::namespaces::{Namespaces, NoBox};
use super::plan::{Plan, Way};
use super::units::Rate;
use bulk::Congestion;

/// What was asked for, and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What was measured, and where.
    pub what: String,
    /// In its unit.
    pub asked: f64,
    /// In its unit.
    pub got: f64,
    /// How far it may be off.
    pub within: f64,
    /// What the numbers are.
    pub unit: &'static str,
    /// How it was measured.
    pub how: String,
}

impl Finding {
    /// Whether it is near enough.
    pub fn is_good(&self) -> bool {
        (self.got - self.asked).abs() <= self.within
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what,
            asked,
            got,
            within,
            unit,
            how,
        } = self;
        let verdict = if self.is_good() { "good" } else { "WRONG" };
        write!(
            f,
            "| {what} | {asked:.4} {unit} | {got:.4} {unit} | ± {within:.4} | {how} | {verdict} |"
        )
    }
}

/// The heading of the lines that findings are.
pub const HEADING: &str = "| what | asked | got | within | how | |\n|---|---|---|---|---|---|";

/// Why nothing was found out.
#[derive(Debug, thiserror::Error)]
pub enum NoCheck {
    /// No box.
    #[error(transparent)]
    Box(#[from] NoBox),
    /// A socket of a host failed.
    #[error(transparent)]
    Socket(#[from] io::Error),
}

/// How long things are measured.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Of TCP, after its beginning.
    pub bulk: Duration,
    /// Most packets that a loss is looked for in.
    pub packets: u64,
}

/// Most connections at once.
const FLOWS_MAX: usize = 32;

/// A box that is looked at.
struct Subject<'a> {
    plan: &'a Plan,
    hosts: Namespaces,
    _wire: Driver,
}

/// Measures the delay of every way, and rate, loss and TCP of the first one, all of them by themselves. Tells
/// each finding as soon as there is one.
///
/// # Errors
/// Nothing can be measured here.
pub fn check(
    plan: &Plan,
    seed: u64,
    patience: Patience,
    mut tell: impl FnMut(&Finding),
) -> Result<Vec<Finding>, NoCheck> {
    let (hosts, devices) = Namespaces::new(plan)?;
    let subject = Subject {
        plan,
        hosts,
        _wire: Driver::start(plan, seed, devices),
    };
    let mut findings = Vec::new();
    let mut found = |finding: Finding| {
        tell(&finding);
        findings.push(finding);
    };
    for (from, to, way) in plan.pairs() {
        found(subject.delay(from, to, way)?);
    }
    // The pair that has the most between it.
    let farthest = plan.pairs().max_by_key(|(_, _, way)| way.delay);
    let Some((from, to, way)) = farthest else {
        return Ok(findings);
    };
    if way.loss.total() > 0.0 {
        found(subject.loss(from, to, way, patience.packets)?);
    }
    if let Some(rate) = plan.bottleneck(way) {
        found(subject.rate(from, to, way, rate)?);
        for congestion in [Congestion::Cubic, Congestion::Bbr] {
            if let Some(finding) = subject.bulk(from, to, congestion, rate, patience.bulk)? {
                found(finding);
            }
        }
    }
    Ok(findings)
}

impl Subject<'_> {
    fn name(&self, from: usize, to: usize) -> String {
        let name = |host: usize| {
            self.plan
                .hosts
                .get(host)
                .map_or("", |host| host.name.as_str())
        };
        format!("{} to {}", name(from), name(to))
    }

    fn delay(&self, from: usize, to: usize, way: &Way) -> Result<Finding, NoCheck> {
        let probed = probes::delay(&self.hosts, from, to, way.loss.total())?;
        Ok(Finding {
            what: format!("delay {}", self.name(from, to)),
            asked: way.delay as f64 / 1e6,
            got: probed.median_ms,
            within: 1.0 + way.jitter as f64 / 1e6,
            unit: "ms",
            how: format!("median of {} probes", probed.arrived),
        })
    }

    fn loss(&self, from: usize, to: usize, way: &Way, most: u64) -> Result<Finding, NoCheck> {
        let asked = way.loss.total();
        // So many that chance moves the loss by a thirtieth, and no tenth is chance.
        let mean_burst = way.loss.bursts.map_or(1.0, |bursts| bursts.length);
        let packets = ((1000.0 * mean_burst / asked) as u64).min(most);
        let sent = probes::loss(&self.hosts, from, to, packets, self.plan.bottleneck(way))?;
        let lost = sent.sent.saturating_sub(sent.arrived);
        // Where the packets are too few for that, three standard deviations.
        let chance = 3.0 * (mean_burst / (asked * packets as f64)).sqrt();
        let within = if packets < most { 0.1 } else { chance.max(0.1) };
        Ok(Finding {
            what: format!("loss {}", self.name(from, to)),
            asked: asked * 100.0,
            got: lost as f64 / sent.sent.max(1) as f64 * 100.0,
            within: within * asked * 100.0,
            unit: "%",
            how: format!("{lost} of {} datagrams", sent.sent),
        })
    }

    fn rate(&self, from: usize, to: usize, way: &Way, rate: Rate) -> Result<Finding, NoCheck> {
        let got = probes::rate(&self.hosts, from, to, rate, self.plan.system.mtu)?;
        let asked = rate.0 as f64 * (1.0 - way.loss.total()) / 1e6;
        Ok(Finding {
            what: format!("rate {}", self.name(from, to)),
            asked,
            got: got.arrived / 1e6,
            within: 0.05 * asked,
            unit: "Mbit/s",
            how: format!(
                "median of {} windows, {:.0} Mbit/s sent",
                got.windows,
                got.sent / 1e6
            ),
        })
    }

    /// Nothing where there is no formula.
    fn bulk(
        &self,
        from: usize,
        to: usize,
        congestion: Congestion,
        rate: Rate,
        lasting: Duration,
    ) -> Result<Option<Finding>, NoCheck> {
        let path = theory::Path::of(self.plan, from, to, rate);
        let Some(path) = path else {
            return Ok(None);
        };
        let one = match congestion {
            Congestion::Cubic => path.cubic(),
            Congestion::Bbr => path.full(),
        };
        // Many flows where one is far from filling the path: their mean is what the formula is about.
        let flows = ((path.full() / 4.0 / one) as usize).clamp(1, FLOWS_MAX);
        let got = bulk::goodput(&self.hosts, (from, to), congestion, flows, lasting)?;
        let asked = one / 1e6;
        let formula = match congestion {
            Congestion::Cubic => format!("; Mathis says {:.2}", path.cubic_formula() / 1e6),
            Congestion::Bbr => String::new(),
        };
        Ok(Some(Finding {
            what: format!("TCP {} {}", congestion.name(), self.name(from, to)),
            asked,
            got: got / flows as f64 / 1e6,
            within: 0.2 * asked,
            unit: "Mbit/s",
            how: format!("{flows} flows for {} s, each{formula}", lasting.as_secs()),
        }))
    }
}
