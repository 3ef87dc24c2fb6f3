//! Mistakes with the master, or with what is taken for it.

use std::task::{Context, Poll};
use std::time::Duration;

use pccl::LaneError;
use pccl_core::id::Identity;
use pccl_core::transport::{BoxFuture, Endpoint, Incoming, Lane, Listener, Security, Transport};
use tokio::time::sleep;

use super::world::{FIRST, MASTER, World, ip};
use super::{Told, expect, seconds};

/// How long is tried to reach a master, with the last attempt.
const PATIENCE: Duration = seconds(30 + 5);

#[test]
fn the_master_is_not_started() {
    let told = Told {
        peers: &[
            "the master at 10.99.0.1:48148 cannot be reached: the connection was refused; nothing listens there: start \
             the master, or correct the address",
        ],
        log: &[
            "INFO the master at 10.99.0.1:48148 cannot be reached yet: the connection was refused; trying again for up to \
             30s",
            "WARN the master at 10.99.0.1:48148 could not be reached for 6 s: the connection was refused; trying again for \
             up to 30s in all",
        ],
        within: PATIENCE,
    };
    expect(told, async |world| {
        vec![world.peer(MASTER).connect_async().await.map(drop)]
    });
}

#[test]
fn the_master_is_started_after_its_peers() {
    let told = Told {
        peers: &[""],
        log: &[
            "INFO the master at 10.99.0.1:48148 cannot be reached yet: the connection was refused; trying again for up to \
             30s",
        ],
        within: PATIENCE,
    };
    expect(told, async |world| {
        let starting = async {
            sleep(seconds(10)).await;
            world.start_master().await;
        };
        let (joined, ()) = tokio::join!(world.peer(MASTER).connect_async(), starting);
        vec![joined.map(drop)]
    });
}

#[test]
fn a_firewall_drops_what_is_sent_to_the_master() {
    let told = Told {
        peers: &[
            "the master at 10.99.0.1:48148 cannot be reached: there was no answer in time; the machine is off, or a \
             firewall drops what is sent there: open the master's port",
        ],
        log: &[
            "INFO the master at 10.99.0.1:48148 cannot be reached yet: there was no answer in time; trying again for up \
             to 30s",
        ],
        within: PATIENCE,
    };
    expect(told, async |world| {
        world.start_master().await;
        world.net.stall(ip(FIRST), World::master_ip());
        vec![world.peer(MASTER).connect_async().await.map(drop)]
    });
}

#[test]
fn the_name_of_the_master_is_misspelt() {
    let told = Told {
        peers: &[
            "the master at mastr.example:48148 cannot be reached: the host name could not be resolved; correct the name, \
             or give the master's IP address",
        ],
        within: PATIENCE,
        ..Told::default()
    };
    expect(told, async |world| {
        world.start_master().await;
        world.net.name("master.example", World::master_ip());
        let peer = world.peer("mastr.example:48148");
        vec![peer.connect_async().await.map(drop)]
    });
}

#[test]
fn the_port_of_a_peer_is_taken_for_the_masters() {
    let told = Told {
        peers: &[
            "",
            "the master at 10.77.0.1:48149 cannot be reached: the other end refused the connection: a peer of a run listens \
             here, and not the master: connect to the address that the master was started with",
        ],
        within: seconds(1),
        ..Told::default()
    };
    expect(told, async |world| {
        world.start_master().await;
        let first = world.peer(MASTER).connect_async().await;
        let second = world.peer("10.77.0.1:48149").connect_async().await;
        vec![first.map(drop), second.map(drop)]
    });
}

/// A transport of a process that has no descriptors left: what comes in cannot be accepted.
struct Exhausted(pccl_transport_memory::MemoryHost);

/// How often a transport says so.
const FAILS_EVERY: Duration = Duration::from_millis(20);

impl Transport for Exhausted {
    fn listen(
        &self,
        on: std::net::SocketAddr,
        security: Security,
    ) -> BoxFuture<'_, Result<Box<dyn Listener>, LaneError>> {
        Box::pin(async move {
            let local = self.0.listen(on, security).await?.local_addr();
            let next = Box::pin(sleep(FAILS_EVERY));
            Ok(Box::new(Failing { local, next }) as Box<dyn Listener>)
        })
    }

    fn open<'a>(
        &'a self,
        to: &'a Endpoint,
        expect: Option<Identity>,
    ) -> BoxFuture<'a, Result<Lane, LaneError>> {
        self.0.open(to, expect)
    }

    fn lanes_per_edge(&self) -> u16 {
        1
    }
}

struct Failing {
    local: std::net::SocketAddr,
    next: std::pin::Pin<Box<tokio::time::Sleep>>,
}

impl Listener for Failing {
    fn local_addr(&self) -> std::net::SocketAddr {
        self.local
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Incoming, LaneError>> {
        std::task::ready!(self.next.as_mut().poll(cx));
        self.next = Box::pin(sleep(FAILS_EVERY));
        Poll::Ready(Err(LaneError::NoDescriptors))
    }
}

#[test]
fn the_master_has_fewer_descriptors_than_peers() {
    let told = Told {
        peers: &[],
        log: &[
            "WARN connections could not be accepted: too many files and sockets are open here: raise the limit of the \
             process (ulimit -n) times=1",
            "WARN connections could not be accepted: too many files and sockets are open here: raise the limit of the \
             process (ulimit -n) times=500",
        ],
        within: seconds(11),
    };
    expect(told, async |world| {
        let host = world.net.host(World::master_ip());
        world.start_master_over(Exhausted(host)).await;
        sleep(seconds(11)).await;
        Vec::new()
    });
}
