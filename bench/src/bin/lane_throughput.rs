//! What one peer sends another over loopback per second, by transport: plain TCP, TLS over TCP, QUIC. The
//! floor is plain TCP in the same run; rounds take turns, so that what else the machine does meets them all.
//!
//! ```sh
//! cargo run --release -p pccl-bench --bin lane_throughput -- --mib 512 --lanes 4
//! ```

use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use pccl_core::id::Identity;
use pccl_core::transport::{
    Endpoint, Lane, LaneError, Security, Transport, close, recv_exact, recv_some, send_all,
};
use pccl_transport_quic::Quic;
use pccl_transport_tcp::{KeyPair, Tcp};

/// Bytes that are sent and received at a time: a frame of the data path.
const PIECE: usize = 256 << 10;

#[derive(Parser)]
struct Arguments {
    /// MiB per round, over all lanes.
    #[arg(long, default_value_t = 512)]
    mib: usize,
    /// Lanes, each from a task of its own to another.
    #[arg(long, default_value_t = 1)]
    lanes: usize,
    /// Connections of QUIC over which the lanes are dealt.
    #[arg(long, default_value_t = 1)]
    connections: u16,
    /// The largest datagram of QUIC, in bytes. The transport chooses unless told.
    #[arg(long)]
    datagram: Option<u16>,
    /// Rounds of each transport; the median counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Threads of the runtime.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

struct Way {
    name: &'static str,
    transport: Arc<dyn Transport>,
    expect: Option<Identity>,
    seconds: Vec<f64>,
}

fn ways(arguments: &Arguments) -> Result<Vec<Way>, Box<dyn std::error::Error>> {
    let pair = KeyPair::generate()?;
    let own = Some(Identity(pair.public_key().into()));
    let mut quic = Quic::new()
        .key_pair(&pair)
        .connections(arguments.connections);
    if let Some(bytes) = arguments.datagram {
        quic = quic.max_datagram(bytes);
    }
    let ways: [(_, Arc<dyn Transport>, _); 3] = [
        ("plain TCP", Arc::new(Tcp::plain()), None),
        ("TLS", Arc::new(Tcp::new().key_pair(&pair)), own),
        ("QUIC", Arc::new(quic), own),
    ];
    let ways = ways.into_iter().map(|(name, transport, expect)| Way {
        name,
        transport,
        expect,
        seconds: Vec::new(),
    });
    Ok(ways.collect())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let mut ways = ways(&arguments)?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime
        .worker_threads(arguments.threads)
        .enable_all()
        .build()?;
    let bytes = (arguments.mib << 20) / arguments.lanes.max(1);
    for _ in 0..arguments.rounds {
        for way in &mut ways {
            let took = runtime.block_on(round(way, arguments.lanes.max(1), bytes))?;
            way.seconds.push(took.as_secs_f64());
        }
    }
    report(&mut ways, bytes * arguments.lanes.max(1));
    Ok(())
}

/// From the first byte that is sent to the last that is received.
async fn round(way: &Way, lanes: usize, bytes: usize) -> Result<Duration, LaneError> {
    let security = way
        .expect
        .map_or(Security::Plain, |_expected| Security::Proven);
    let on = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut listener = way.transport.listen(on, security).await?;
    let to = Endpoint::Address(listener.local_addr());
    let mut pairs = Vec::new();
    for _ in 0..lanes {
        let opening = async {
            let mut lane = way.transport.open(&to, way.expect).await?;
            send_all(&mut *lane.tx, &[1], &[]).await?;
            Ok(lane)
        };
        let accepting = async {
            let mut incoming = poll_fn(|cx| listener.poll_accept(cx)).await?;
            recv_exact(&mut *incoming.lane.rx, &mut [0]).await?;
            Ok::<_, LaneError>(incoming.lane)
        };
        pairs.push(tokio::try_join!(opening, accepting)?);
    }
    let started = Instant::now();
    let mut tasks = Vec::new();
    for (opened, accepted) in pairs {
        tasks.push(tokio::spawn(send(opened, bytes)));
        tasks.push(tokio::spawn(receive(accepted, bytes)));
    }
    for task in tasks {
        task.await.map_err(|_| LaneError::Failed)??;
    }
    Ok(started.elapsed())
}

async fn send(mut lane: Lane, bytes: usize) -> Result<(), LaneError> {
    let piece = vec![0x5a; PIECE];
    let mut left = bytes;
    while left > 0 {
        let (now, _) = piece.split_at(left.min(PIECE));
        send_all(&mut *lane.tx, now, &[]).await?;
        left -= now.len();
    }
    close(&mut *lane.tx).await?;
    // The other end goes first.
    recv_some(&mut *lane.rx, &mut [0]).await.map(|_end| ())
}

async fn receive(mut lane: Lane, bytes: usize) -> Result<(), LaneError> {
    let mut piece = vec![0; PIECE];
    let mut left = bytes;
    while left > 0 {
        let (now, _) = piece.split_at_mut(left.min(PIECE));
        recv_exact(&mut *lane.rx, now).await?;
        left -= now.len();
    }
    Ok(())
}

fn report(ways: &mut [Way], bytes: usize) {
    let mut floor = None;
    println!("transport    GB/s   of plain TCP   fastest   slowest");
    for way in ways {
        way.seconds.sort_by(f64::total_cmp);
        let rate =
            |seconds: Option<&f64>| bytes as f64 / 1e9 / seconds.copied().unwrap_or(f64::NAN);
        let median = rate(way.seconds.get(way.seconds.len() / 2));
        let floor = *floor.get_or_insert(median);
        println!(
            "{:<10} {:>6.2} {:>13.2} {:>10.2} {:>9.2}",
            way.name,
            median,
            median / floor,
            rate(way.seconds.first()),
            rate(way.seconds.last()),
        );
    }
}
