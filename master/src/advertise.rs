//! The addresses at which others reach this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use pccl_trust::Address;

/// Addresses of no machine (RFC 5737, RFC 3849). The operating system tells from which own address it would send to
/// them. Nothing is sent.
const ELSEWHERE_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const ELSEWHERE_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));

/// Any port but zero.
const DISCARD: u16 = 9;

/// The addresses at which others reach a master that listens on `listening`. If that is a specific address, the
/// result is that address. If it is a wildcard, the result is the address from which this machine sends to other
/// networks: the IPv4 address, then the IPv6 address, as far as the master listens on them. If the machine has no
/// such address, the result is its loopback address.
///
/// Behind a NAT, other machines see another address. Then pass the addresses to
/// [`join_string`](crate::MasterServer::join_string) yourself.
#[must_use]
pub fn reachable_at(listening: SocketAddr) -> Vec<Address> {
    let port = listening.port();
    let loopback = || listening_loopback(listening.ip());
    let ips = match listening.ip() {
        ip if !ip.is_unspecified() => vec![ip],
        IpAddr::V4(_) => own_address(ELSEWHERE_V4).into_iter().collect(),
        IpAddr::V6(_) => [ELSEWHERE_V4, ELSEWHERE_V6]
            .into_iter()
            .filter_map(own_address)
            .collect(),
    };
    let ips = if ips.is_empty() {
        vec![loopback()]
    } else {
        ips
    };
    let addresses = ips.into_iter().map(|ip| SocketAddr::new(ip, port));
    addresses.filter_map(|at| at.try_into().ok()).collect()
}

fn listening_loopback(on: IpAddr) -> IpAddr {
    tracing::warn!("this machine has no address that others could reach");
    match on {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    }
}

/// The address from which this machine sends to another one.
fn own_address(elsewhere: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = match elsewhere {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((elsewhere, DISCARD)).ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_unspecified()).then_some(ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reachable(listening: &str) -> Vec<String> {
        let listening = listening.parse().unwrap();
        let addresses = reachable_at(listening);
        addresses.iter().map(Address::to_string).collect()
    }

    #[test]
    fn a_master_that_listens_on_an_address_is_reached_there() {
        for at in ["127.0.0.1:7", "[::1]:7", "192.0.2.7:48148"] {
            assert_eq!(reachable(at), [at]);
        }
    }

    #[test]
    fn a_master_that_listens_everywhere_is_reached_at_an_address_of_this_machine() {
        for wildcard in ["0.0.0.0:7", "[::]:7"] {
            let addresses = reachable(wildcard);

            assert!((1..=2).contains(&addresses.len()), "{addresses:?}");
            for address in addresses {
                let address: SocketAddr = address.parse().unwrap();
                assert_eq!(address.port(), 7);
                assert!(!address.ip().is_unspecified(), "{address}");
                // Only an address of this machine can be bound.
                assert!(UdpSocket::bind((address.ip(), 0)).is_ok(), "{address}");
            }
        }
    }
}
