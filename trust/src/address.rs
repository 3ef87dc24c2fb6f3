//! Addresses of a master: a host, by name or by number, and a port.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Maximum length of a name in the domain name system.
const NAME_MAX: usize = 253;

/// The address of a master. Written `host:port`, with an IPv6 address in brackets.
///
/// ```
/// use pccl_trust::Address;
///
/// for text in ["master.example:48148", "192.0.2.7:48148", "[2001:db8::7]:48148"] {
///     assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
/// }
/// assert!("master.example".parse::<Address>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    host: Host,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Host {
    Ip(IpAddr),
    Name(String),
}

/// Why a text is not `host:port`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The port is missing, or is not between 1 and 65535.
    #[error(
        "an address is `host:port` with a port from 1 to 65535, and IPv6 is written `[::1]:48148`"
    )]
    Port,
    /// The host is neither an IP address nor a valid name.
    #[error(
        "a host is an IP address without a zone, or a name of at most 253 letters, digits, `-`, `_` \
         and `.`"
    )]
    Host,
}

impl Address {
    /// The address, if it needs no name lookup.
    #[must_use]
    pub fn as_socket_addr(&self) -> Option<SocketAddr> {
        match &self.host {
            Host::Ip(ip) => Some(SocketAddr::new(*ip, self.port)),
            Host::Name(_) => None,
        }
    }

    fn new(host: Host, port: u16) -> Result<Self, AddressError> {
        if port == 0 {
            return Err(AddressError::Port);
        }
        match &host {
            Host::Name(name) if !is_name(name) => Err(AddressError::Host),
            Host::Ip(_) | Host::Name(_) => Ok(Self { host, port }),
        }
    }
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(allowed)
}

impl TryFrom<SocketAddr> for Address {
    type Error = AddressError;

    /// Drops the zone of an IPv6 address, which is meaningful only on one machine.
    fn try_from(address: SocketAddr) -> Result<Self, AddressError> {
        Self::new(Host::Ip(address.ip()), address.port())
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (host, port) = text.rsplit_once(':').ok_or(AddressError::Port)?;
        let port = port.parse().map_err(|_| AddressError::Port)?;
        let bracketed = host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let host = match (bracketed, host.parse()) {
            (Some(v6), _) => Host::Ip(IpAddr::V6(v6.parse().map_err(|_| AddressError::Host)?)),
            (None, Ok(v4)) => Host::Ip(IpAddr::V4(v4)),
            (None, Err(_)) => Host::Name(host.into()),
        };
        Self::new(host, port)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Ip(ip) => write!(f, "{}", SocketAddr::new(*ip, self.port)),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

/// An address in a join string.
#[derive(Serialize, Deserialize)]
pub(crate) enum Packed<'a> {
    V4([u8; 4], u16),
    V6([u8; 16], u16),
    Name(&'a str, u16),
}

impl<'a> From<&'a Address> for Packed<'a> {
    fn from(address: &'a Address) -> Self {
        match &address.host {
            Host::Ip(IpAddr::V4(v4)) => Self::V4(v4.octets(), address.port),
            Host::Ip(IpAddr::V6(v6)) => Self::V6(v6.octets(), address.port),
            Host::Name(name) => Self::Name(name, address.port),
        }
    }
}

impl TryFrom<Packed<'_>> for Address {
    type Error = AddressError;

    fn try_from(packed: Packed<'_>) -> Result<Self, AddressError> {
        match packed {
            Packed::V4(octets, port) => Self::new(Host::Ip(octets.into()), port),
            Packed::V6(octets, port) => Self::new(Host::Ip(octets.into()), port),
            Packed::Name(name, port) => Self::new(Host::Name(name.into()), port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_address_is_refused() {
        let cases = [
            ("", AddressError::Port),
            ("host", AddressError::Port),
            ("host:", AddressError::Port),
            ("host:0", AddressError::Port),
            ("host:65536", AddressError::Port),
            (":48148", AddressError::Host),
            ("::1:48148", AddressError::Host),
            ("[::1%2]:48148", AddressError::Host),
            ("[host]:48148", AddressError::Host),
            ("ho st:48148", AddressError::Host),
            ("hö:48148", AddressError::Host),
        ];
        for (text, why) in cases {
            assert_eq!(text.parse::<Address>(), Err(why), "{text}");
        }
        let long = format!("{}:1", "a".repeat(NAME_MAX + 1));
        assert_eq!(long.parse::<Address>(), Err(AddressError::Host));
    }

    #[test]
    fn an_address_of_a_socket_needs_a_port() {
        let address = |text: &str| Address::try_from(text.parse::<SocketAddr>().unwrap());
        assert_eq!(address("[::1]:7"), "[::1]:7".parse());
        assert_eq!(address("0.0.0.0:0"), Err(AddressError::Port));
    }

    #[test]
    fn a_number_is_an_address_and_a_name_must_be_looked_up() {
        let address = |text: &str| text.parse::<Address>().unwrap().as_socket_addr();
        assert_eq!(address("[::1]:7"), Some("[::1]:7".parse().unwrap()));
        assert_eq!(address("192.0.2.7:7"), Some("192.0.2.7:7".parse().unwrap()));
        assert_eq!(address("master:7"), None);
    }
}
