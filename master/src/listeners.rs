//! Several listening addresses as one listener.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use pccl_core::transport::{Incoming, LaneError, Listener, Security, Transport};

/// How often to draw another port for all addresses, if it is in use on one of them.
const DRAWS: usize = 16;

/// The address on which listening failed, and the error.
pub(crate) type Failed = (SocketAddr, LaneError);

/// Listeners of one port on several addresses.
pub(crate) struct Listeners {
    all: Vec<Box<dyn Listener>>,
    /// The listener that is polled first, so that no address starves another.
    first: usize,
}

impl Listeners {
    /// Listens on all addresses, on the same port if none is given. An address that this machine does not have is
    /// skipped if it has another one: a host name often has an IPv6 address that does not exist here.
    pub(crate) async fn bind(
        transport: &dyn Transport,
        addresses: &[SocketAddr],
        security: Security,
    ) -> Result<Self, Failed> {
        let is_drawn = addresses.iter().all(|address| address.port() == 0);
        let mut draws = if is_drawn && addresses.len() > 1 {
            DRAWS
        } else {
            1
        };
        loop {
            draws -= 1;
            match Self::bind_once(transport, addresses, security).await {
                Err((_, LaneError::AddressInUse)) if draws > 0 => {}
                outcome => return outcome,
            }
        }
    }

    async fn bind_once(
        transport: &dyn Transport,
        addresses: &[SocketAddr],
        security: Security,
    ) -> Result<Self, Failed> {
        let mut all: Vec<Box<dyn Listener>> = Vec::new();
        let mut missing = None;
        let (mut done, mut drawn) = (BTreeSet::new(), 0);
        for mut on in addresses.iter().copied() {
            if on.port() == 0 {
                on.set_port(drawn);
            }
            if !done.insert(on.ip()) {
                continue;
            }
            match transport.listen(on, security).await {
                Ok(listener) => {
                    drawn = listener.local_addr().port();
                    all.push(listener);
                }
                Err(error) if is_not_here(error) => {
                    tracing::debug!("cannot listen on {on}: {error}");
                    missing = missing.or(Some((on, error)));
                }
                Err(error) => return Err((on, error)),
            }
        }
        match missing {
            Some(failed) if all.is_empty() => Err(failed),
            Some(_) | None => Ok(Self { all, first: 0 }),
        }
    }

    /// The addresses on which it listens.
    pub(crate) fn local_addrs(&self) -> Vec<SocketAddr> {
        let all = self.all.iter();
        all.map(|listener| listener.local_addr()).collect()
    }
}

/// Whether the machine does not have this address.
fn is_not_here(error: LaneError) -> bool {
    matches!(
        error,
        LaneError::AddressNotAvailable | LaneError::Os(_) | LaneError::Unreachable
    )
}

impl Listener for Listeners {
    /// The address of the first listener.
    fn local_addr(&self) -> SocketAddr {
        let first = self.all.first().map(|listener| listener.local_addr());
        first.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)))
    }

    /// If one listener ends, the others continue. The end of the last one ends them all.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Incoming, LaneError>> {
        let mut asked = 0;
        while asked < self.all.len() {
            let turn = (self.first + asked) % self.all.len();
            let Some(listener) = self.all.get_mut(turn) else {
                break;
            };
            match listener.poll_accept(cx) {
                Poll::Pending => asked += 1,
                Poll::Ready(Err(LaneError::Closed)) => {
                    drop(self.all.remove(turn));
                    (self.first, asked) = (0, 0);
                }
                Poll::Ready(next) => {
                    self.first = turn + 1;
                    return Poll::Ready(next);
                }
            }
        }
        match self.all.is_empty() {
            true => Poll::Ready(Err(LaneError::Closed)),
            false => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::net::{IpAddr, Ipv4Addr};

    use pccl_core::transport::Endpoint;
    use pccl_transport_memory::MemoryNet;

    use super::*;

    fn at(last: u8, port: u16) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), port)
    }

    #[tokio::test]
    async fn an_address_that_this_machine_does_not_have_is_left_out_beside_one_that_it_has() {
        let host = MemoryNet::new().host(at(1, 0).ip());
        let bind = async |addresses: &[SocketAddr]| {
            let bound = Listeners::bind(&host, addresses, Security::Plain).await;
            bound.map(|listeners| listeners.local_addrs())
        };

        assert_eq!(
            bind(&[at(2, 7), at(1, 7), at(1, 7)]).await,
            Ok(vec![at(1, 7)])
        );
        let nowhere = Err((at(2, 7), LaneError::AddressNotAvailable));
        assert_eq!(bind(&[at(2, 7), at(3, 7)]).await, nowhere);
    }

    #[tokio::test]
    async fn who_comes_to_either_address_is_let_in() {
        let tcp = pccl_transport_tcp::Tcp::plain();
        let both = ["127.0.0.1:0", "127.0.0.2:0"].map(|text| text.parse().unwrap());
        let bound = Listeners::bind(&tcp, &both, Security::Plain).await;
        let Ok(mut listeners) = bound else {
            return; // Some systems have one loopback address alone.
        };

        let addresses = listeners.local_addrs();
        assert_eq!(addresses.len(), both.len());
        assert_eq!(addresses[0].port(), addresses.last().unwrap().port());
        for address in addresses {
            let to = Endpoint::Address(address);
            let opened = tcp.open(&to, None);
            let accepted = poll_fn(|cx| listeners.poll_accept(cx));
            let (opened, accepted) = tokio::join!(opened, accepted);
            assert!(opened.is_ok() && accepted.is_ok(), "{address}");
        }
    }
}
