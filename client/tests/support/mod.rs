//! A run in one process: a master and several communicators, each on a thread of its own.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use pccl::{Builder, Communicator, Tcp};
use pccl_master::RunningMaster;

/// Far beyond what any test takes; reached only by a hang.
const HANG: Duration = Duration::from_secs(60);

pub(crate) struct Run {
    pub(crate) master: RunningMaster,
}

impl Run {
    pub(crate) fn new() -> Self {
        // Set RUST_LOG to see what happens.
        let _ = tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_test_writer()
            .try_init();
        let master = pccl_master::spawn("127.0.0.1:0").unwrap();
        Self { master }
    }

    /// A builder for one more peer of this run.
    pub(crate) fn builder(&self) -> Builder {
        builder_for(&self.master.local_addr().to_string())
    }

    /// Peers that have all joined, in the order of their identities.
    pub(crate) fn peers(&self, count: usize) -> Vec<Communicator> {
        let mut peers = vec![begin(self.builder())];
        while peers.len() < count {
            self.join(&mut peers);
        }
        peers
    }

    /// Admits one more peer by the votes of the others.
    pub(crate) fn join(&self, peers: &mut Vec<Communicator>) {
        let builder = self.builder();
        let joining = thread::spawn(move || begin(builder));
        together(peers, |peer| {
            while !peer.are_peers_pending().unwrap() {}
            peer.update_topology().unwrap();
        });
        peers.push(joining.join().unwrap());
    }
}

/// Joins, and makes the first update, which belongs to the one that admitted it.
fn begin(builder: Builder) -> Communicator {
    let mut peer = builder.connect().unwrap();
    peer.update_topology().unwrap();
    peer
}

pub(crate) fn builder_for(master: &str) -> Builder {
    Communicator::builder(master)
        .transport(Tcp::new().lanes(2))
        .listen(IpAddr::V4(Ipv4Addr::LOCALHOST))
        .first_port(0)
}

/// Lets all peers do the same at the same time, each on a thread of its own, and returns what they
/// returned, in their order. Fails where that takes for ever.
pub(crate) fn together<T: Send>(
    peers: &mut [Communicator],
    act: impl Fn(&mut Communicator) -> T + Sync,
) -> Vec<T> {
    together_with(peers, |_, peer| act(peer))
}

/// As [`together`]; tells each which one it is.
pub(crate) fn together_with<T: Send>(
    peers: &mut [Communicator],
    act: impl Fn(usize, &mut Communicator) -> T + Sync,
) -> Vec<T> {
    thread::scope(|scope| {
        let (sender, results) = mpsc::channel();
        for (index, peer) in peers.iter_mut().enumerate() {
            let (act, sender) = (&act, sender.clone());
            scope.spawn(move || {
                let _ = sender.send((index, act(index, peer)));
            });
        }
        drop(sender);
        let mut all: Vec<(usize, T)> = Vec::new();
        loop {
            match results.recv_timeout(HANG) {
                Ok(one) => all.push(one),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                // The threads cannot be ended, so neither can this scope.
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    eprintln!(
                        "a test hangs: {} peers have not returned",
                        peers_missing(&all)
                    );
                    std::process::abort();
                }
            }
        }
        all.sort_by_key(|(index, _)| *index);
        all.into_iter().map(|(_, result)| result).collect()
    })
}

fn peers_missing<T>(all: &[(usize, T)]) -> String {
    format!("all but {}", all.len())
}
