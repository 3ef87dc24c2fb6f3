//! Where other peers reach this one, if that is not where it listens.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::lookup_host;

use crate::address::{BadAddress, is_name};
use crate::error::Error;

/// Where other peers reach a peer: an address, a port, or both. What is left out is as the master sees it: the address
/// from which the peer connects, the port on which it listens.
///
/// Made of an [`IpAddr`], of a [`SocketAddr`], of a port (`u16`), or of text: `host`, `host:port`, where the host is a
/// name or an IP address, and an IPv6 address with a port is written `[2001:db8::7]:31001`. A name is looked up when the
/// peer connects, on the peer's machine; of several addresses the first one counts.
///
/// ```
/// # let builder = || pccl::Communicator::builder("127.0.0.1:48148");
/// let behind_a_router = builder().advertise(std::net::Ipv4Addr::new(192, 0, 2, 7));
/// let with_a_mapped_port = builder().advertise(31_001);
/// let with_both = builder().advertise("gpu-3.example:31001");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advertised {
    host: Host,
    port: Option<u16>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Host {
    /// The master sees it.
    #[default]
    Seen,
    Ip(IpAddr),
    Name(String),
    /// Neither.
    Bad {
        text: String,
        reason: BadAddress,
    },
}

impl Advertised {
    /// Whether the port differs from that on which the peer listens, as far as it knows.
    pub(crate) const fn has_port(&self) -> bool {
        self.port.is_some()
    }

    /// The address, unless the master sees it, and the port, of a peer that listens on this one.
    pub(crate) async fn resolve(&self, listening: u16) -> Result<(Option<IpAddr>, u16), Error> {
        let port = self.port.unwrap_or(listening);
        let bad = |address: &str, reason| {
            let address = address.to_owned();
            Err(Error::BadAddress { address, reason })
        };
        match &self.host {
            _ if port == 0 => bad("port 0", BadAddress::BadPort),
            Host::Seen => Ok((None, port)),
            Host::Ip(ip) => Ok((Some(*ip), port)),
            Host::Bad { text, reason } => bad(text, *reason),
            Host::Name(name) => match lookup_host((name.as_str(), port)).await {
                Ok(mut found) => match found.next() {
                    Some(first) => Ok((Some(first.ip()), port)),
                    None => bad(name, BadAddress::NotResolved),
                },
                Err(_) => bad(name, BadAddress::NotResolved),
            },
        }
    }

    fn of(text: &str) -> Self {
        let text = text.trim();
        match Self::parse(text) {
            Ok(advertised) => advertised,
            Err(reason) => {
                let text = text.to_owned();
                let host = Host::Bad { text, reason };
                Self { host, port: None }
            }
        }
    }

    fn parse(text: &str) -> Result<Self, BadAddress> {
        let host = |host: &str| match host.parse() {
            Ok(ip) => Ok(Host::Ip(ip)),
            Err(_) if host.is_empty() => Err(BadAddress::NoHost),
            Err(_) if is_name(host) => Ok(Host::Name(host.to_owned())),
            Err(_) => Err(BadAddress::BadHost),
        };
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(address.into());
        }
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Ok(ip.into());
        }
        match text.rsplit_once(':') {
            _ if text.contains("://") => Err(BadAddress::Scheme),
            None => Ok(Self {
                host: host(text)?,
                port: None,
            }),
            Some((name, port)) => {
                let port = port.parse().map_err(|_| BadAddress::BadPort)?;
                let (host, port) = (host(name)?, Some(port));
                Ok(Self { host, port })
            }
        }
    }
}

impl From<IpAddr> for Advertised {
    fn from(ip: IpAddr) -> Self {
        let host = Host::Ip(ip);
        Self { host, port: None }
    }
}

impl From<Ipv4Addr> for Advertised {
    fn from(ip: Ipv4Addr) -> Self {
        IpAddr::from(ip).into()
    }
}

impl From<Ipv6Addr> for Advertised {
    fn from(ip: Ipv6Addr) -> Self {
        IpAddr::from(ip).into()
    }
}

impl From<SocketAddr> for Advertised {
    /// A number of a link in it means something on this machine alone, and is left out.
    fn from(address: SocketAddr) -> Self {
        Self {
            host: Host::Ip(address.ip()),
            port: Some(address.port()),
        }
    }
}

impl From<u16> for Advertised {
    fn from(port: u16) -> Self {
        let port = Some(port);
        Self {
            host: Host::Seen,
            port,
        }
    }
}

impl From<&str> for Advertised {
    fn from(text: &str) -> Self {
        Self::of(text)
    }
}

impl From<String> for Advertised {
    fn from(text: String) -> Self {
        Self::of(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a peer that listens on port 5.
    async fn resolved(advertised: impl Into<Advertised>) -> Result<(Option<IpAddr>, u16), Error> {
        advertised.into().resolve(5).await
    }

    #[tokio::test]
    async fn what_is_not_advertised_is_as_the_master_sees_it() {
        let ip: IpAddr = "192.0.2.7".parse().unwrap();
        let v6: IpAddr = "2001:db8::7".parse().unwrap();

        assert_eq!(resolved(ip).await, Ok((Some(ip), 5)));
        assert_eq!(resolved(7).await, Ok((None, 7)));
        assert_eq!(resolved(SocketAddr::new(ip, 7)).await, Ok((Some(ip), 7)));
        assert_eq!(resolved("192.0.2.7").await, Ok((Some(ip), 5)));
        assert_eq!(resolved("192.0.2.7:7").await, Ok((Some(ip), 7)));
        assert_eq!(resolved("2001:db8::7").await, Ok((Some(v6), 5)));
        assert_eq!(resolved("[2001:db8::7]:7").await, Ok((Some(v6), 7)));
        let here = resolved("localhost:7").await.unwrap();
        assert!(here.0.is_some_and(|ip| ip.is_loopback()), "{here:?}");
        assert_eq!(here.1, 7);
    }

    #[tokio::test]
    async fn what_cannot_be_advertised_is_an_error() {
        let cases = [
            ("", BadAddress::NoHost),
            (":7", BadAddress::NoHost),
            ("gpu-3.example:port", BadAddress::BadPort),
            ("gpu 3", BadAddress::BadHost),
            ("tcp://gpu-3.example:7", BadAddress::Scheme),
            ("no-such-host.invalid:7", BadAddress::NotResolved),
        ];
        for (text, expected) in cases {
            let failed = resolved(text).await.err();
            let reason = failed.and_then(|error| match error {
                Error::BadAddress { reason, .. } => Some(reason),
                _ => None,
            });
            assert_eq!(reason, Some(expected), "{text:?}");
        }
        assert!(resolved("192.0.2.7:0").await.is_err(), "port 0 was taken");
    }
}
