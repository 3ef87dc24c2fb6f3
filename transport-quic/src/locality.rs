//! Where a connection leads: what a path carries depends on whether it leaves this machine.

use std::io::Error;
use std::net::{IpAddr, SocketAddr};

use crate::socket::bind_towards;

/// Where a connection leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locality {
    /// To this machine itself.
    Local,
    /// Anywhere else, as far as the addresses tell.
    Far,
}

impl Locality {
    /// By the addresses of its ends. A path to an address of a machine from that same address does not
    /// leave it. Both must be canonical.
    pub(crate) fn between(local: Option<IpAddr>, remote: IpAddr) -> Self {
        match remote.is_loopback() || local == Some(remote) {
            true => Self::Local,
            false => Self::Far,
        }
    }

    /// By what the system would send from. Sends nothing.
    pub(crate) fn towards(to: SocketAddr) -> Self {
        let from = || -> Result<IpAddr, Error> {
            let socket = bind_towards(to)?;
            socket.connect(to)?;
            Ok(socket.local_addr()?.ip().to_canonical())
        };
        Self::between(from().ok(), to.ip().to_canonical())
    }
}
