//! Runs whose peers are told nothing but where the master is, over real sockets.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use pccl::{Builder, Communicator, Reduce};
use pccl_master::RunningMaster;

use crate::support::{on_its_own_thread, together};

/// The peers that these builders make, started at once, have all joined and have reduced together.
fn all_join_and_reduce(builders: Vec<Builder>) {
    let count = builders.len();
    let start = Barrier::new(count);
    let joining = builders.into_iter().map(|builder| {
        let start = &start;
        move || {
            start.wait();
            let mut peer = builder.connect().unwrap();
            while peer.update_topology().unwrap().world_size < count {}
            peer
        }
    });
    let mut peers = on_its_own_thread(joining);

    let sums = together(&mut peers, |peer| {
        let mut sum = vec![1_u32; 10_000];
        peer.all_reduce(&mut sum, Reduce::sum()).unwrap();
        sum
    });

    let expected = vec![u32::try_from(count).unwrap(); 10_000];
    assert!(sums.iter().all(|sum| *sum == expected));
}

/// So many peers of the master that is found there.
fn peers_of(master: &str, count: usize) -> Vec<Builder> {
    (0..count).map(|_| Communicator::builder(master)).collect()
}

#[test]
fn peers_of_a_master_that_listens_on_ipv6_alone_join_and_reduce() {
    let Ok(master) = pccl_master::spawn("[::1]:0") else {
        eprintln!("this machine has no IPv6");
        return;
    };

    all_join_and_reduce(peers_of(&master.local_addr().to_string(), 2));
}

#[test]
fn peers_of_a_master_that_is_named_localhost_join_and_reduce() {
    let master = pccl_master::spawn("localhost:0").unwrap();

    all_join_and_reduce(peers_of(&by_name(&master), 2));
}

#[test]
fn a_master_on_one_family_is_found_by_a_name_that_may_have_both() {
    let master = pccl_master::spawn("127.0.0.1:0").unwrap();

    all_join_and_reduce(peers_of(&by_name(&master), 2));
}

#[test]
fn peers_that_reach_the_master_over_different_families_join_and_reduce() {
    let Ok(master) = pccl_master::spawn("[::]:0") else {
        eprintln!("this machine has no IPv6");
        return;
    };
    drop(master);
    let both: Vec<SocketAddr> = ["127.0.0.1:0", "[::1]:0"]
        .map(|at| at.parse().unwrap())
        .into();
    let master = pccl_master::spawn(Addresses(both)).unwrap();
    assert_eq!(master.local_addrs().len(), 2);

    let builders = master
        .local_addrs()
        .iter()
        .flat_map(|at| peers_of(&at.to_string(), 2));

    all_join_and_reduce(builders.collect());
}

/// What a name stands for.
struct Addresses(Vec<SocketAddr>);

impl std::net::ToSocketAddrs for Addresses {
    type Iter = std::vec::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        Ok(self.0.clone().into_iter())
    }
}

impl std::fmt::Display for Addresses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

fn by_name(master: &RunningMaster) -> String {
    format!("localhost:{}", master.local_addr().port())
}

#[test]
fn peers_that_start_at_once_64_of_them_join_and_reduce() {
    let master = pccl_master::spawn("127.0.0.1:0").unwrap();

    all_join_and_reduce(peers_of(&master.local_addr().to_string(), 64));
}

#[test]
fn peers_whose_ports_are_mapped_to_other_numbers_join_and_their_lanes_work() {
    let master = pccl_master::spawn("127.0.0.1:0").unwrap();
    let address = master.local_addr().to_string();
    let mapped = [Mapped::to(free_port()), Mapped::to(free_port())];

    let behind = mapped.iter().map(|port| {
        let peer = Communicator::builder(&address).first_port(port.inside);
        peer.advertise(port.outside)
    });

    all_join_and_reduce(behind.collect());
    let used = mapped.iter().map(Mapped::times_used).sum::<usize>();
    assert!(
        used > 0,
        "the peers reached each other past the mapped ports"
    );
}

/// A port that nobody listens on.
fn free_port() -> u16 {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    free.local_addr().unwrap().port()
}

/// A port through which whoever connects to it reaches another one, as a container's host has.
struct Mapped {
    outside: u16,
    inside: u16,
    used: Arc<AtomicUsize>,
}

impl Mapped {
    fn to(inside: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let outside = listener.local_addr().unwrap().port();
        let used = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&used);
        thread::spawn(move || {
            for comer in listener.incoming() {
                count.fetch_add(1, Ordering::Relaxed);
                // Who cannot be passed on is hung up on.
                if let Ok(within) = TcpStream::connect((Ipv4Addr::LOCALHOST, inside)) {
                    join(&comer.unwrap(), &within);
                }
            }
        });
        Self {
            outside,
            inside,
            used,
        }
    }

    fn times_used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

/// What one sends the other one gets.
fn join(one: &TcpStream, other: &TcpStream) {
    for (from, to) in [(one, other), (other, one)] {
        let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        thread::spawn(move || {
            // However it ends, the other end sees it.
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
}
