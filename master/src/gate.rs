//! How many strangers may be in at once, in total and per address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits::Limits;

/// Counts strangers. A stranger holds a [`Permit`] until it is known or gone.
#[derive(Debug)]
pub(crate) struct Gate {
    total_max: usize,
    per_address_max: usize,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    total: usize,
    by_site: BTreeMap<Site, usize>,
}

/// What counts as one address. Whoever has one IPv6 address usually has all that share its first 64
/// bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Site {
    V4([u8; 4]),
    V6([u16; 4]),
}

impl From<IpAddr> for Site {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Self::V4(v4.octets()),
            IpAddr::V6(v6) => {
                let [a, b, c, d, ..] = v6.segments();
                Self::V6([a, b, c, d])
            }
        }
    }
}

/// Why nobody else may come in. The text is for whoever dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Full {
    #[error("the master has too many unfinished handshakes; try again in a few seconds")]
    InTotal,
    #[error(
        "the master has too many unfinished handshakes from this address; try again in a few seconds"
    )]
    FromAddress,
}

impl Gate {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            total_max: limits.strangers_max,
            per_address_max: limits.strangers_per_address_max,
            inside: Mutex::default(),
        })
    }

    pub(crate) fn enter(self: &Arc<Self>, from: IpAddr) -> Result<Permit, Full> {
        let site = Site::from(from);
        let mut inside = self.lock();
        let here = inside.by_site.get(&site).copied().unwrap_or(0);
        if here >= self.per_address_max {
            return Err(Full::FromAddress);
        }
        if inside.total >= self.total_max {
            return Err(Full::InTotal);
        }
        inside.total += 1;
        inside.by_site.insert(site, here + 1);
        Ok(Permit {
            gate: Arc::clone(self),
            site,
        })
    }

    /// Nothing that holds the lock can panic; were it poisoned, the counts would still be right.
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to be a stranger. Dropping it makes room for the next one.
#[derive(Debug)]
pub(crate) struct Permit {
    gate: Arc<Gate>,
    site: Site,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut inside = self.gate.lock();
        inside.total = inside.total.saturating_sub(1);
        let left = inside.by_site.get(&self.site).map_or(0, |here| here - 1);
        if left == 0 {
            inside.by_site.remove(&self.site);
        } else {
            inside.by_site.insert(self.site, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(strangers_max: usize, strangers_per_address_max: usize) -> Arc<Gate> {
        Gate::new(&Limits {
            strangers_max,
            strangers_per_address_max,
            ..Limits::default()
        })
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_address_cannot_take_the_places_of_the_others() {
        let gate = gate(8, 2);
        let _first = gate.enter(ip("192.0.2.1")).unwrap();
        let _second = gate.enter(ip("::ffff:192.0.2.1")).unwrap();

        let third = gate.enter(ip("192.0.2.1"));
        let other = gate.enter(ip("192.0.2.2"));

        assert_eq!(third.unwrap_err(), Full::FromAddress);
        assert!(other.is_ok());
    }

    #[test]
    fn addresses_of_one_ipv6_site_count_as_one() {
        let gate = gate(8, 1);
        let _first = gate.enter(ip("2001:db8::1")).unwrap();

        let neighbour = gate.enter(ip("2001:db8::2"));
        let elsewhere = gate.enter(ip("2001:db8:0:1::1"));

        assert_eq!(neighbour.unwrap_err(), Full::FromAddress);
        assert!(elsewhere.is_ok());
    }

    #[test]
    fn a_place_that_is_given_back_can_be_taken_again() {
        let gate = gate(1, 1);
        let first = gate.enter(ip("192.0.2.1")).unwrap();
        assert_eq!(gate.enter(ip("192.0.2.2")).unwrap_err(), Full::InTotal);

        drop(first);

        assert!(gate.enter(ip("192.0.2.1")).is_ok());
        assert!(gate.lock().by_site.is_empty());
    }
}
