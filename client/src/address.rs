//! Addresses as users write them: `host:port`, and what is wrong with those that are none.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use pccl_core::transport::LaneError;
use pccl_core::wire::DEFAULT_MASTER_PORT;
use pccl_trust::{Address, AddressError};
use tokio::net::lookup_host;

/// Why a text is no address. Correct it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadAddress {
    /// There is nothing, or nothing before the port.
    #[error("it has no host; an address is written host:port")]
    NoHost,
    /// There is a host without a port.
    #[error(
        "it has no port; a master that was not told otherwise listens on port {DEFAULT_MASTER_PORT}"
    )]
    NoPort,
    /// What follows the last colon is no port.
    #[error("what follows the colon is no port, which is a number from 1 to 65535")]
    BadPort,
    /// It is an IPv6 address, which has colons of its own.
    #[error(
        "an IPv6 address is written in brackets before the port, as in [::1]:{DEFAULT_MASTER_PORT}"
    )]
    NoBrackets,
    /// It begins like a link to a page of the web.
    #[error("it begins with a scheme; an address is host:port alone")]
    Scheme,
    /// The host is neither a number nor a name.
    #[error("its host is neither an IP address nor a name")]
    BadHost,
    /// The host name of [`Builder::advertise`](crate::Builder::advertise) is unknown on this machine.
    #[error("its host name could not be resolved")]
    NotResolved,
}

/// Where a master listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MasterAddress {
    text: String,
    zone: Option<Zone>,
}

/// An IPv6 address that means something on one link of this machine alone.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Zone {
    ip: Ipv6Addr,
    /// The link, by name or by number.
    link: String,
    port: u16,
}

impl MasterAddress {
    /// Of `host:port`.
    pub(crate) fn of(text: &str) -> Result<Self, BadAddress> {
        let text = text.trim();
        let zone = Zone::in_text(text)?;
        if zone.is_none() {
            let parsed = text.parse::<Address>();
            parsed.map_err(|error| problem(text, &error))?;
        }
        let text = text.to_owned();
        Ok(Self { text, zone })
    }

    /// As it was given.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is this machine, and nobody listens on the way there.
    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.text.rsplit_once(':').map_or("", |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let ip = host.parse::<IpAddr>();
        host.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|ip| ip.to_canonical().is_loopback())
    }

    /// The address with the number of its link, if it names one.
    pub(crate) async fn on_its_link(&self) -> Result<Option<SocketAddrV6>, LaneError> {
        match &self.zone {
            None => Ok(None),
            Some(zone) => zone.look_up().await.map(Some),
        }
    }
}

impl Zone {
    /// Of `[address%link]:port`. `None`: the text is something else.
    fn in_text(text: &str) -> Result<Option<Self>, BadAddress> {
        let inside = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let Some(((ip, link), after)) =
            inside.and_then(|(host, after)| Some((host.split_once('%')?, after)))
        else {
            return Ok(None);
        };
        let ip = ip.parse().map_err(|_| BadAddress::BadHost)?;
        let is_name = !link.is_empty() && link.bytes().all(|byte| byte.is_ascii_graphic());
        let port = after.strip_prefix(':').ok_or(BadAddress::NoPort)?;
        let port = port.parse().ok().filter(|port| *port > 0);
        match (is_name, port) {
            (false, _) => Err(BadAddress::BadHost),
            (true, None) => Err(BadAddress::BadPort),
            (true, Some(port)) => Ok(Some(Self {
                ip,
                link: link.to_owned(),
                port,
            })),
        }
    }

    async fn look_up(&self) -> Result<SocketAddrV6, LaneError> {
        let Self { ip, link, port } = self;
        if let Ok(number) = link.parse() {
            return Ok(SocketAddrV6::new(*ip, *port, 0, number));
        }
        // The system knows the numbers of its links.
        let found = lookup_host((format!("{ip}%{link}"), *port)).await;
        let mut found = found.map_err(|_| LaneError::NameNotResolved)?;
        let of_v6 = found.find_map(|address| match address {
            SocketAddr::V6(v6) => Some(v6),
            SocketAddr::V4(_) => None,
        });
        of_v6.ok_or(LaneError::NameNotResolved)
    }
}

/// Whether a host can have this name.
pub(crate) fn is_name(host: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !host.is_empty() && host.bytes().all(allowed)
}

/// What is wrong with a text that is no address.
fn problem(text: &str, error: &AddressError) -> BadAddress {
    let is_v6 = |text: &str| text.parse::<Ipv6Addr>().is_ok();
    let (host, port) = match text.rsplit_once(':') {
        _ if text.contains("://") => return BadAddress::Scheme,
        _ if is_v6(text) => return BadAddress::NoBrackets,
        None if text.is_empty() => return BadAddress::NoHost,
        // The colon is one of the address in the brackets.
        Some(_) if text.ends_with(']') => return BadAddress::NoPort,
        None => return BadAddress::NoPort,
        Some(parts) => parts,
    };
    match error {
        _ if host.is_empty() => BadAddress::NoHost,
        _ if is_v6(host) => BadAddress::NoBrackets,
        _ if port.is_empty() => BadAddress::NoPort,
        AddressError::Port => BadAddress::BadPort,
        _ => BadAddress::BadHost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_address_is_told_what_it_lacks() {
        let cases = [
            ("", BadAddress::NoHost),
            (":48148", BadAddress::NoHost),
            ("master.example", BadAddress::NoPort),
            ("master.example:", BadAddress::NoPort),
            ("192.0.2.1", BadAddress::NoPort),
            ("[::1]", BadAddress::NoPort),
            ("[fe80::1%eth0]", BadAddress::NoPort),
            ("master.example:port", BadAddress::BadPort),
            ("master.example:0", BadAddress::BadPort),
            ("master.example:65536", BadAddress::BadPort),
            ("[fe80::1%eth0]:0", BadAddress::BadPort),
            ("::1", BadAddress::NoBrackets),
            ("::1:48148", BadAddress::NoBrackets),
            ("2001:db8:0:0:0:0:0:1:48148", BadAddress::NoBrackets),
            ("http://master.example:48148", BadAddress::Scheme),
            ("mas ter:48148", BadAddress::BadHost),
            ("[master]:48148", BadAddress::BadHost),
            ("[fe80::1%]:48148", BadAddress::BadHost),
            ("user@master:48148", BadAddress::BadHost),
        ];
        for (text, expected) in cases {
            assert_eq!(MasterAddress::of(text).err(), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn an_address_is_kept_as_it_was_given() {
        for text in [
            "master.example:1",
            "192.0.2.1:1",
            "[::1]:1",
            "[fe80::1%2]:1",
        ] {
            let address = MasterAddress::of(&format!(" {text}\n")).unwrap();
            assert_eq!(address.as_str(), text);
        }
    }

    #[tokio::test]
    async fn an_address_of_one_link_alone_keeps_its_link() {
        let of = |text: &str| MasterAddress::of(text).unwrap();
        let on_a_link = of("[fe80::1%7]:48148").on_its_link().await.unwrap();

        assert_eq!(on_a_link.map(|at| at.scope_id()), Some(7));
        assert_eq!(on_a_link.map(|at| at.port()), Some(48148));
        let nowhere = of("[fe80::1%no-such-link]:48148").on_its_link().await;
        assert_eq!(nowhere, Err(LaneError::NameNotResolved));
        assert_eq!(of("[fe80::1]:48148").on_its_link().await, Ok(None));
    }
}
