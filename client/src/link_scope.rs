//! Addresses of IPv6 that are valid on one link alone (`fe80::`).
//!
//! Such an address means something together with a link of this machine, whose number no other machine knows. So a
//! peer that has reached the master over a link finds the addresses that the master tells it on that link.

use std::net::SocketAddr;
use std::sync::Arc;

use pccl_core::id::Identity;
use pccl_core::transport::{
    BoxFuture, Endpoint, Lane, LaneError, Listener, Protocol, Security, Transport,
};

/// A transport that opens lanes to addresses of one link on this link.
pub(crate) struct OnLink {
    below: Arc<dyn Transport>,
    /// As the operating system numbers it.
    link: u32,
}

impl OnLink {
    pub(crate) fn new(below: Arc<dyn Transport>, link: u32) -> Self {
        Self { below, link }
    }
}

/// The same endpoint, on this link if it is of one link and does not say of which.
fn on(link: u32, to: &Endpoint) -> Endpoint {
    let mut to = to.clone();
    if let Endpoint::Address(SocketAddr::V6(address)) = &mut to
        && address.ip().is_unicast_link_local()
        && address.scope_id() == 0
    {
        address.set_scope_id(link);
    }
    to
}

impl Transport for OnLink {
    fn listen(
        &self,
        on: SocketAddr,
        security: Security,
    ) -> BoxFuture<'_, Result<Box<dyn Listener>, LaneError>> {
        self.below.listen(on, security)
    }

    fn open<'a>(
        &'a self,
        to: &'a Endpoint,
        expect: Option<Identity>,
    ) -> BoxFuture<'a, Result<Lane, LaneError>> {
        let to = on(self.link, to);
        Box::pin(async move { self.below.open(&to, expect).await })
    }

    fn lanes_per_edge(&self) -> u16 {
        self.below.lanes_per_edge()
    }

    fn security(&self) -> Security {
        self.below.security()
    }

    fn has_plain_lanes(&self) -> bool {
        self.below.has_plain_lanes()
    }

    fn protocol(&self) -> Option<Protocol> {
        self.below.protocol()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_on_link_7(address: &str) -> String {
        let to = Endpoint::Address(address.parse().unwrap());
        on(7, &to).to_string()
    }

    #[test]
    fn addresses_of_one_link_are_found_on_the_link_of_the_master_and_others_everywhere() {
        assert_eq!(found_on_link_7("[fe80::1]:9"), "[fe80::1%7]:9");
        assert_eq!(found_on_link_7("[fe80::1%3]:9"), "[fe80::1%3]:9");
        assert_eq!(found_on_link_7("[2001:db8::1]:9"), "[2001:db8::1]:9");
        assert_eq!(found_on_link_7("192.0.2.1:9"), "192.0.2.1:9");
    }
}
