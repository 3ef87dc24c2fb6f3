//! The conformance suite, for each transport on each kind of runtime.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use pccl_core::id::Identity;
use pccl_tests::conformance::{Subject, run_all};
use pccl_tests::transport_conformance;
use pccl_transport_memory::MemoryNet;
use pccl_transport_quic::Quic;
use pccl_transport_tcp::{KeyPair, Tcp};
use tokio::runtime::{Builder, Runtime};

fn current_thread() -> Runtime {
    let built = Builder::new_current_thread().enable_all().build();
    built.unwrap()
}

/// Time stands still until everything waits, and then jumps to the next timer: what waits for a clock
/// and what waits for ever are told apart at once.
fn paused() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

fn multi_thread() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

fn memory() -> Option<Subject> {
    let host = MemoryNet::new().transport();
    Some(Subject::new(Arc::new(host.clone()), host.any_port()))
}

fn tight_memory() -> Option<Subject> {
    let host = MemoryNet::with_capacity(777).transport();
    Some(Subject::new(Arc::new(host.clone()), host.any_port()))
}

fn tcp_v4() -> Option<Subject> {
    let on = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    Some(Subject::new(Arc::new(Tcp::new()), on))
}

fn tcp_v6() -> Option<Subject> {
    let on = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 0);
    match TcpListener::bind(on) {
        Ok(_) => Some(Subject::new(Arc::new(Tcp::new()), on)),
        Err(error) => {
            println!("skipped: this machine has no IPv6 ({error})");
            None
        }
    }
}

fn tls() -> Option<Subject> {
    let pair = KeyPair::generate().unwrap();
    let on = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let subject = Subject::new(Arc::new(Tcp::new().key_pair(&pair)), on);
    // It talks to itself, so it is who answers.
    Some(subject.proving(Identity(pair.public_key().into())))
}

fn quic(pair: &KeyPair, on: SocketAddr, connections: u16) -> Subject {
    let quic = Quic::new().key_pair(pair).connections(connections);
    Subject::new(Arc::new(quic), on).proving(Identity(pair.public_key().into()))
}

fn quic_v4() -> Option<Subject> {
    let on = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    Some(quic(&KeyPair::generate().unwrap(), on, 1))
}

fn quic_on_three_connections() -> Option<Subject> {
    let on = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    Some(quic(&KeyPair::generate().unwrap(), on, 3))
}

fn quic_v6() -> Option<Subject> {
    let on = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 0);
    match TcpListener::bind(on) {
        Ok(_) => Some(quic(&KeyPair::generate().unwrap(), on, 1)),
        Err(error) => {
            println!("skipped: this machine has no IPv6 ({error})");
            None
        }
    }
}

transport_conformance!(memory_on_a_current_thread, current_thread(), memory());
transport_conformance!(memory_on_many_threads, multi_thread(), memory());
transport_conformance!(memory_in_paused_time, paused(), memory());
transport_conformance!(tight_memory_in_paused_time, paused(), tight_memory());
transport_conformance!(tcp_v4_on_a_current_thread, current_thread(), tcp_v4());
transport_conformance!(tcp_v4_on_many_threads, multi_thread(), tcp_v4());
transport_conformance!(tcp_v6_on_a_current_thread, current_thread(), tcp_v6());
transport_conformance!(tcp_v6_on_many_threads, multi_thread(), tcp_v6());

#[tokio::test]
async fn the_whole_suite_runs_in_a_row_too() {
    let host = MemoryNet::new().transport();
    let on = host.any_port();

    run_all(|| Arc::new(host.clone()), on).await;
}
transport_conformance!(tls_on_a_current_thread, current_thread(), tls());
transport_conformance!(tls_on_many_threads, multi_thread(), tls());
transport_conformance!(quic_v4_on_a_current_thread, current_thread(), quic_v4());
transport_conformance!(quic_v4_on_many_threads, multi_thread(), quic_v4());
transport_conformance!(quic_v6_on_a_current_thread, current_thread(), quic_v6());
transport_conformance!(quic_v6_on_many_threads, multi_thread(), quic_v6());
transport_conformance!(
    quic_on_three_connections_and_many_threads,
    multi_thread(),
    quic_on_three_connections()
);
