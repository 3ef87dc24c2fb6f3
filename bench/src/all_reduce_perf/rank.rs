//! A peer of the run, which is also a rank of the floor: the same process and the same buffers,
//! so that memory treats both alike.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use pccl::half::{bf16, f16};
use pccl::{CollectiveReport, Communicator, ElementType, ReduceItem, Tcp, Transport};
use pccl_subprocess::tell;

use super::collective::Collective;
use super::contribution::Contribution;
use super::edges::Edges;
use super::floor::{Floor, FloorError};
use super::memory::Memory;
use super::number::Number;
use super::optimized::optimize;
use super::over::Over;
use super::place;
use super::stopwatch::{cpu_time, ns_since};
use super::talk::{
    Buffers, Contestant, Event, Measured, Order, Series, end_with_parent, next_order,
};
use super::watch::{Watch, watched};
use super::work::Work;

/// What the parent tells a rank on its command line.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Assignment {
    #[arg(long)]
    pub(crate) rank: usize,
    #[arg(long)]
    pub(crate) peers: usize,
    #[arg(long)]
    pub(crate) lanes: u16,
    #[arg(long, value_enum)]
    pub(crate) transport: Over,
    /// The address of the machine that it runs on, as the others reach it.
    #[arg(long)]
    pub(crate) host: IpAddr,
    #[arg(long)]
    pub(crate) master: SocketAddr,
    /// Empty: none.
    #[arg(long)]
    pub(crate) site: String,
    #[command(flatten)]
    pub(crate) work: Work,
}

impl Assignment {
    /// As it stands on a command line.
    pub(crate) fn to_arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            "rank".to_owned(),
            format!("--rank={}", self.rank),
            format!("--peers={}", self.peers),
            format!("--lanes={}", self.lanes),
            format!("--transport={}", self.transport),
            format!("--host={}", self.host),
            format!("--master={}", self.master),
            format!("--site={}", self.site),
        ];
        arguments.extend(self.work.to_arguments());
        arguments
    }
}

/// Why a rank cannot go on.
#[derive(Debug, thiserror::Error)]
enum RankError {
    #[error("{0}")]
    Pccl(#[from] pccl::Error),
    #[cfg(feature = "quic")]
    #[error("{0}")]
    Congestion(#[from] pccl::UnknownCongestion),
    #[error("the system binds no process to a core: {0}")]
    Place(io::Error),
    #[error("no port or no other rank for the floor: {0}")]
    Edges(#[from] io::Error),
    #[error("the floor: {0}")]
    Floor(#[from] FloorError),
    #[error("the parent asks for the floor before it is connected")]
    NoFloor,
}

/// Obeys the parent until it says `Quit`.
pub(crate) fn run(assignment: &Assignment) -> ExitCode {
    end_with_parent();
    let outcome = match assignment.work.element {
        ElementType::U8 => take_part::<u8>(assignment),
        ElementType::I8 => take_part::<i8>(assignment),
        ElementType::U16 => take_part::<u16>(assignment),
        ElementType::I16 => take_part::<i16>(assignment),
        ElementType::U32 => take_part::<u32>(assignment),
        ElementType::I32 => take_part::<i32>(assignment),
        ElementType::U64 => take_part::<u64>(assignment),
        ElementType::I64 => take_part::<i64>(assignment),
        ElementType::F16 => take_part::<f16>(assignment),
        ElementType::BF16 => take_part::<bf16>(assignment),
        ElementType::F32 => take_part::<f32>(assignment),
        ElementType::F64 => take_part::<f64>(assignment),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let error = error.to_string();
            tell(&Event::Failed { error });
            ExitCode::FAILURE
        }
    }
}

fn take_part<T: Number>(assignment: &Assignment) -> Result<(), RankError> {
    if assignment.work.bind {
        // Before the library starts threads, which stay where this one is.
        place::bind(assignment.rank).map_err(RankError::Place)?;
    }
    let listener = TcpListener::bind((assignment.host, 0))?;
    let address = listener.local_addr()?;
    tell(&Event::Listening { address });
    let Order::Join { join } = next_order() else {
        return Ok(());
    };
    let (comm, watch) = connect(assignment, &join)?;
    tell(&Event::Connected {
        lanes_are_local: watch.are_all_local(),
        lanes_are_proven: watch.are_all_proven(),
    });
    let mut rank = Rank::<T> {
        contribution: Contribution::new(&assignment.work, assignment.rank, assignment.peers),
        work: assignment.work.clone(),
        comm,
        watch,
        floor: None,
        memory: Memory::new(),
    };
    loop {
        match next_order() {
            Order::JoinFloor { ranks } => {
                let congestion = rank.work.congestion_of_floor(assignment.host.is_loopback());
                let edges = Edges::join(&listener, assignment.rank, &ranks, congestion)?;
                rank.floor = Some(Floor::new(assignment.rank, assignment.peers, edges));
                tell(&Event::Joined);
            }
            Order::Prepare(buffers) => {
                rank.prepare(buffers);
                tell(&Event::Prepared);
            }
            Order::Measure(series) => {
                let measured = rank.measure(series)?;
                tell(&Event::Measured(measured));
            }
            Order::Optimize => {
                let told = optimize(&mut rank.comm)?;
                tell(&Event::Optimized(Box::new(told)));
            }
            Order::Join { .. } | Order::Go | Order::TellCpuTime => {}
            Order::Quit => break,
        }
    }
    rank.comm.shutdown();
    Ok(())
}

/// Connects, and waits until all peers are there.
fn connect(assignment: &Assignment, join: &str) -> Result<(Communicator, Watch), RankError> {
    match assignment.transport {
        Over::Tcp | Over::Tls => {
            // Between machines the library goes plain only where it is told to.
            let tcp = if assignment.transport.is_proven() {
                Tcp::new()
            } else {
                Tcp::plain()
            };
            let tcp = tcp.lanes(assignment.lanes);
            connect_over(
                assignment,
                join,
                match &assignment.work.congestion {
                    Some(congestion) => tcp.congestion(congestion),
                    None => tcp,
                },
            )
        }
        #[cfg(feature = "quic")]
        Over::Quic => {
            let quic = pccl::Quic::new().lanes(assignment.lanes);
            let congestion = assignment.work.congestion.as_deref();
            let quic = match congestion.map(str::parse).transpose()? {
                Some(congestion) => quic.congestion(congestion),
                None => quic,
            };
            connect_over(assignment, join, quic)
        }
        #[cfg(not(feature = "quic"))]
        Over::Quic => Err(pccl::Error::NoSuchTransport(Over::Quic.to_string()).into()),
    }
}

fn connect_over(
    assignment: &Assignment,
    join: &str,
    transport: impl Transport,
) -> Result<(Communicator, Watch), RankError> {
    let master = assignment.master.to_string();
    let (transport, watch) = watched(transport, master, assignment.work.far);
    let mut comm = Communicator::builder(join)
        .transport(transport)
        .listen(assignment.host)
        .first_port(0)
        .site(&*assignment.site)
        .checksums(assignment.work.checksums)
        .connect()?;
    tell(&Event::Admitted);
    while comm.world_size() < assignment.peers {
        comm.update_topology()?;
        // Processes take a while to start; a peer that asks without a pause keeps them from it.
        thread::sleep(Duration::from_millis(2));
    }
    Ok((comm, watch))
}

struct Rank<T> {
    work: Work,
    contribution: Contribution,
    comm: Communicator,
    watch: Watch,
    floor: Option<Floor<T>>,
    memory: Memory<T>,
}

impl<T: Number> Rank<T> {
    fn prepare(&mut self, buffers: Buffers) {
        let stride = buffers.count * self.work.concurrent;
        let in_place = self.work.is_in_place();
        self.memory.make(stride, buffers.batch, in_place);
    }

    fn measure(&mut self, series: Series) -> Result<Measured, RankError> {
        let batch = self.memory.iterations() as u64;
        let end = series.first + u64::from(series.iterations);
        let mut measured = Measured::default();
        let sent_before = self.watch.sent();
        let mut first = series.first;
        while first < end {
            let iterations = first..end.min(first + batch);
            self.memory.fill(&self.contribution, iterations.clone());
            if !everybody_is_ready() {
                break;
            }
            self.run_batch(series.of, iterations.clone(), &mut measured)?;
            // Ranks share cores: who is done does not check while others are still timed.
            if !everybody_is_ready() {
                break;
            }
            let is_ours = matches!(series.of, Contestant::Ours(_));
            if is_ours && self.contribution.is_scattered() && !self.work.is_in_place() {
                let shard = self.comm.shard(self.memory.stride());
                self.memory.place_shards(shard.range().start);
            }
            let (memory, contribution) = (&self.memory, &self.contribution);
            measured.wrong += memory.count_wrong(contribution, iterations.clone(), !is_ours);
            if is_ours && self.work.collective.ends_alike() {
                let checksums = memory.checksums(iterations.clone().count());
                measured.checksums.extend(checksums);
            }
            first = iterations.end;
        }
        measured.lanes_used = self.watch.used_since(&sent_before);
        Ok(measured)
    }

    /// The iterations of one batch, back to back or with pauses; nothing else is between the two readings of
    /// the CPU time.
    fn run_batch(
        &mut self,
        of: Contestant,
        iterations: std::ops::Range<u64>,
        measured: &mut Measured,
    ) -> Result<(), RankError> {
        let mut work = self.work.clone();
        if let Contestant::Ours(Some(wish)) = of {
            work.algorithm = Some(wish);
        }
        let before = cpu_time();
        for ((source, result, shard), _) in self.memory.buffers().zip(iterations) {
            if self.work.pause_ms > 0 {
                thread::sleep(Duration::from_millis(self.work.pause_ms));
            }
            let begun = Instant::now();
            match of {
                Contestant::Ours(_) => {
                    let report = call(&self.comm, &work, source, (result, shard))?;
                    measured.algorithm = Some(report.algorithm);
                    measured.phases.push(report.phases.into());
                }
                Contestant::Floor(way) => {
                    let floor = self.floor.as_mut().ok_or(RankError::NoFloor)?;
                    floor.run(way, (self.work.collective, self.work.op), source, result)?;
                }
            }
            measured.times_ns.push(ns_since(begun));
        }
        measured.cpu_ns += cpu_time() - before;
        Ok(())
    }
}

/// Waits for the other ranks. False: there is nobody to wait for any more.
fn everybody_is_ready() -> bool {
    tell(&Event::Ready);
    matches!(next_order(), Order::Go)
}

/// One iteration of ours, and its report.
fn call<T: Number>(
    comm: &Communicator,
    work: &Work,
    source: Option<&[T]>,
    (result, shard): (&mut [T], &mut Vec<T>),
) -> Result<CollectiveReport, pccl::Error> {
    Ok(match work.collective {
        Collective::AllReduce => reduce(comm, work, source, result)?,
        Collective::ReduceScatter => {
            let scattered = match source {
                Some(source) => comm.reduce_scatter_into(source, shard, work.reduce(0))?,
                None => comm.reduce_scatter(result, work.reduce(0))?,
            };
            scattered.report
        }
        Collective::AllGather => {
            let shard = comm.shard(result.len());
            comm.all_gather(result, work.gather(shard))?
        }
        Collective::Broadcast => comm.broadcast(result, work.spread())?,
    })
}

/// One iteration of all-reduces. Of several, the report of the first.
fn reduce<T: Number>(
    comm: &Communicator,
    work: &Work,
    source: Option<&[T]>,
    result: &mut [T],
) -> Result<CollectiveReport, pccl::Error> {
    match source {
        _ if work.concurrent > 1 => {
            let parts = result.chunks_mut(result.len() / work.concurrent).zip(0..);
            let mut items: Vec<ReduceItem<'_>> = parts
                .map(|(part, tag)| ReduceItem::new(part, work.reduce(tag)))
                .collect();
            let mut reports = comm.all_reduce_many_with_retry(&mut items, work.concurrent)?;
            // There are at least two.
            Ok(reports.swap_remove(0))
        }
        Some(source) => comm.all_reduce_into(source, result, work.reduce(0)),
        None => comm.all_reduce(result, work.reduce(0)),
    }
}
