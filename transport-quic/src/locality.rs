//! Whether a connection leaves this machine, which decides what its path carries.

use std::io::Error;
use std::net::{IpAddr, SocketAddr};

use crate::socket::bind_towards;

/// Where a connection leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locality {
    /// To this machine.
    Local,
    /// To another machine, as far as the addresses tell.
    Far,
}

impl Locality {
    /// By the addresses of the two ends: a path from an address to the same address does not leave the machine. Both
    /// must be canonical.
    pub(crate) fn between(local: Option<IpAddr>, remote: IpAddr) -> Self {
        match remote.is_loopback() || local == Some(remote) {
            true => Self::Local,
            false => Self::Far,
        }
    }

    /// By the address from which the system would send. Sends nothing.
    pub(crate) fn towards(to: SocketAddr) -> Self {
        let from = || -> Result<IpAddr, Error> {
            let socket = bind_towards(to)?;
            socket.connect(to)?;
            Ok(socket.local_addr()?.ip().to_canonical())
        };
        Self::between(from().ok(), to.ip().to_canonical())
    }
}
