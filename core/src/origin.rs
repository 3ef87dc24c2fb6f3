//! The address of a connection, for limits per address.

use core::net::IpAddr;

/// An address that counts as one. IPv6 addresses with the same first 64 bits count as one, because a user usually has
/// all of them. An IPv4-mapped IPv6 address counts as the IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// An IPv4 address.
    V4([u8; 4]),
    /// The first 64 bits of an IPv6 address.
    V6([u16; 4]),
}

impl From<IpAddr> for Origin {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(address: &str) -> Origin {
        address.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_origin() {
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::2"));
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:0:1::1"));
    }

    #[test]
    fn an_ipv4_address_in_the_clothes_of_ipv6_is_the_same_origin() {
        assert_eq!(origin("192.0.2.1"), origin("::ffff:192.0.2.1"));
        assert_ne!(origin("192.0.2.1"), origin("192.0.2.2"));
    }
}
