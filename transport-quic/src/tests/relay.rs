//! A path that can begin to swallow packets, in either direction, or of one sender.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

use super::V4;

/// Stands before a listener, for the connection of whoever has sent last.
pub(super) struct Relay {
    local: SocketAddr,
    there: Arc<AtomicBool>,
    back: Arc<AtomicBool>,
    deaf: Arc<AtomicBool>,
    ports: Arc<Ports>,
    task: JoinHandle<()>,
}

/// Ports of senders: of the last one, and of one whose packets are swallowed.
#[derive(Default)]
struct Ports {
    last: AtomicU16,
    swallowed: AtomicU16,
}

impl Relay {
    pub(super) async fn to(listener: SocketAddr) -> Self {
        let outer = UdpSocket::bind(V4).await.unwrap();
        let inner = UdpSocket::bind(V4).await.unwrap();
        let local = outer.local_addr().unwrap();
        let (there, back) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let deaf = Arc::<AtomicBool>::default();
        let swallows = (Arc::clone(&there), Arc::clone(&back));
        let is_deaf = Arc::clone(&deaf);
        let ports = Arc::<Ports>::default();
        let seen = Arc::clone(&ports);
        let task = tokio::spawn(async move {
            let (mut client, mut out, mut home) = (None, [0; 2048], [0; 2048]);
            loop {
                tokio::select! {
                    Ok((length, from)) = outer.recv_from(&mut out) => {
                        if from.port() == seen.swallowed.load(Ordering::SeqCst) {
                            continue;
                        }
                        seen.last.store(from.port(), Ordering::SeqCst);
                        client = Some(from);
                        if is_deaf.load(Ordering::SeqCst) {
                            outer.connect(from).await.unwrap();
                        }
                        if !swallows.0.load(Ordering::SeqCst) {
                            inner.send_to(&out[..length], listener).await.ok();
                        }
                    }
                    Ok((length, _)) = inner.recv_from(&mut home) => {
                        if let Some(client) = client
                            && !swallows.1.load(Ordering::SeqCst)
                        {
                            outer.send_to(&home[..length], client).await.ok();
                        }
                    }
                }
            }
        });
        Self {
            local,
            there,
            back,
            deaf,
            ports,
            task,
        }
    }

    pub(super) fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// From the next packet on it takes packets of its sender alone: who else asks is told by the system that
    /// nobody listens.
    pub(super) fn be_deaf_to_others(&self) {
        self.deaf.store(true, Ordering::SeqCst);
    }

    pub(super) fn swallow_there(&self) {
        self.there.store(true, Ordering::SeqCst);
    }

    pub(super) fn swallow_back(&self) {
        self.back.store(true, Ordering::SeqCst);
    }

    /// Everything that its present sender still sends.
    pub(super) fn swallow_all_of_this_sender(&self) {
        let last = self.ports.last.load(Ordering::SeqCst);
        self.ports.swallowed.store(last, Ordering::SeqCst);
    }

    pub(super) fn swallow_all(&self) {
        self.swallow_there();
        self.swallow_back();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}
