//! What quantization brings where links are slow:
//! `cargo run --release -p pccl-bench --bin throttled -- --peers 4 --mbit 1000 --bytes 64M`.

use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Parser;
use pccl::{CollectiveReport, Communicator, ElementType, Error, Quantization, Reduce, Tcp};
use pccl_bench::bytes::bytes;
use pccl_transport_memory::throttle::Throttled;

/// Sums numbers between peers whose links are limited, as they are and quantized to bytes, and
/// compares. All peers are threads of this process: look at the use of the links, which says whether
/// they or the processors were the limit. Exit code 0 only if all results are right and the same, and
/// quantized reduces are as many times as fast as is aimed at.
#[derive(Clone, Copy, Debug, Parser)]
struct Arguments {
    /// Number of peers
    #[arg(long, default_value_t = 4)]
    peers: usize,
    /// Megabits per second out of each peer, and as many in
    #[arg(long, default_value_t = 1000)]
    mbit: u64,
    /// Size of a contribution: bytes, with K, M or G
    #[arg(long, default_value = "64M", value_parser = bytes)]
    bytes: usize,
    /// Reduces of each kind, by turns; the fastest counts
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Lanes per edge
    #[arg(long, default_value_t = 4)]
    lanes: u16,
    /// So many times as fast as plain ones quantized reduces have to be. The default is the aim for links
    /// that are the limit; with faster links or small contributions nothing like it can be had
    #[arg(long, default_value_t = 3.0)]
    aim: f64,
}

const TO_BYTES: Quantization = Quantization::MinMax {
    to: ElementType::U8,
};

/// No contributed number is larger.
const LARGEST: f64 = 1.0;

fn main() -> ExitCode {
    match compare(Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("throttled: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Were all results right, and was the aim reached?
fn compare(arguments: Arguments) -> Result<bool, Trouble> {
    let mut peers = join(arguments)?;
    println!(
        "{} peers, {} Mbit/s out and in, {} bytes of f32, sum",
        arguments.peers, arguments.mbit, arguments.bytes
    );
    let (plain, quantized) = measure(&mut peers, arguments)?;
    plain.print("plain", arguments);
    quantized.print("u8", arguments);
    let ratio = plain.took.as_secs_f64() / quantized.took.as_secs_f64();
    let (aim, reached) = (arguments.aim, ratio >= arguments.aim);
    let verdict = if reached { "reached" } else { "MISSED" };
    println!("u8 is {ratio:.2} times as fast; the aim, at least {aim} times, is {verdict}");
    Ok(reached && plain.is_right() && quantized.is_right())
}

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("the master does not start: {0}")]
    Master(#[from] pccl_master::ServeError),
    #[error(transparent)]
    Pccl(#[from] Error),
    #[error("a peer's thread has panicked")]
    Panicked,
}

/// Peers that have joined one run, with its master.
struct Peers {
    peers: Vec<Communicator>,
    _master: pccl_master::RunningMaster,
}

fn join(arguments: Arguments) -> Result<Peers, Trouble> {
    let master = pccl_master::spawn("127.0.0.1:0")?;
    let address = master.local_addr().to_string();
    let join = || -> Result<Communicator, Error> {
        // Without a runtime around it the clock of the link is the system's.
        let tcp = Tcp::new().lanes(arguments.lanes);
        let link = Throttled::new(tcp, arguments.mbit * 1_000_000 / 8);
        let mut peer = Communicator::builder(address.as_str())
            .transport(link)
            .listen(IpAddr::V4(Ipv4Addr::LOCALHOST))
            .first_port(0)
            .connect()?;
        // Those that came first admit the others.
        while peer.global_world_size() < arguments.peers {
            peer.update_topology()?;
        }
        Ok(peer)
    };
    let peers = on_threads(vec![(); arguments.peers], |_, ()| join())?;
    Ok(Peers {
        peers,
        _master: master,
    })
}

/// Does the same for each on a thread of its own.
fn on_threads<T: Send, R: Send>(
    each: Vec<T>,
    act: impl Fn(usize, T) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Trouble> {
    thread::scope(|scope| {
        let threads: Vec<_> = each
            .into_iter()
            .enumerate()
            .map(|(index, one)| {
                let act = &act;
                scope.spawn(move || act(index, one))
            })
            .collect();
        let results = threads.into_iter().map(|thread| match thread.join() {
            Ok(result) => result.map_err(Trouble::Pccl),
            Err(_) => Err(Trouble::Panicked),
        });
        results.collect()
    })
}

/// The fastest of some reduces, and the worst of their results.
struct Measured {
    took: Duration,
    bytes_sent: u64,
    /// Of any element, from the exact sum.
    error: f64,
    bound: f64,
    same_bits: bool,
}

/// Plain and quantized reduces by turns, so that what else the machine does hits both.
fn measure(peers: &mut Peers, arguments: Arguments) -> Result<(Measured, Measured), Trouble> {
    let count = arguments.bytes / size_of::<f32>();
    let mut results = vec![vec![0.0_f32; count]; arguments.peers];
    let sources: Vec<Vec<f32>> = (0..arguments.peers)
        .map(|peer| (0..count).map(|index| number(peer, index)).collect())
        .collect();
    let (plain, quantized) = (Reduce::sum(), Reduce::sum().quantize(TO_BYTES));
    let mut of_plain = Measured::new(plain, arguments);
    let mut of_quantized = Measured::new(quantized, arguments);
    for _ in 0..arguments.rounds.max(1) {
        for (reduce, measured) in [(plain, &mut of_plain), (quantized, &mut of_quantized)] {
            // A result of the reduce before would pass for one of this.
            results.iter_mut().for_each(|result| result.fill(f32::NAN));
            let each: Vec<_> = peers.peers.iter_mut().zip(&mut results).collect();
            let reports = on_threads(each, |index, (peer, result)| {
                peer.all_reduce_into(&sources[index], result, reduce)
            })?;
            measured.add(&reports, &results, &sources);
        }
    }
    Ok((of_plain, of_quantized))
}

impl Measured {
    /// Nothing so far.
    fn new(reduce: Reduce, arguments: Arguments) -> Self {
        let rounding = f64::from(f32::EPSILON) * (LARGEST * arguments.peers as f64).powi(2);
        let bound = reduce.error_bound(ElementType::F32, arguments.peers, LARGEST);
        Self {
            took: Duration::MAX,
            bytes_sent: 0,
            error: 0.0,
            bound: bound.unwrap_or(rounding),
            same_bits: true,
        }
    }

    fn add(&mut self, reports: &[CollectiveReport], results: &[Vec<f32>], sources: &[Vec<f32>]) {
        let took = reports.iter().map(|report| report.duration).max();
        self.took = self.took.min(took.unwrap_or(Duration::MAX));
        let sent = reports.iter().map(|report| report.bytes_sent).max();
        self.bytes_sent = sent.unwrap_or(0);
        let Some((first, others)) = results.split_first() else {
            return;
        };
        let bits = |numbers: &[f32]| {
            numbers
                .iter()
                .fold(0, |sum, n| mix(sum ^ u64::from(n.to_bits())))
        };
        self.same_bits &= others.iter().all(|other| bits(other) == bits(first));
        for (index, got) in first.iter().enumerate() {
            let numbers = sources.iter().filter_map(|source| source.get(index));
            let exact: f64 = numbers.map(|number| f64::from(*number)).sum();
            let error = (f64::from(*got) - exact).abs();
            // Unlike `max` this keeps NaN, which is what an element is that nobody has written.
            self.error = if self.error.is_nan() || error <= self.error {
                self.error
            } else {
                error
            };
        }
    }

    fn is_right(&self) -> bool {
        self.same_bits && self.error <= self.bound
    }

    fn print(&self, name: &str, arguments: Arguments) {
        let seconds = self.took.as_secs_f64();
        let link = self.bytes_sent as f64 * 8.0 / (arguments.mbit as f64 * 1e6 * seconds);
        println!(
            "{name:>6}: {:7.1} ms, algbw {:.3} GB/s, {:5.1} % of the link in use, \
             largest error {:.3e} of at most {:.3e}, bits {}",
            seconds * 1e3,
            arguments.bytes as f64 / seconds / 1e9,
            link * 100.0,
            self.error,
            self.bound,
            if self.same_bits { "the same" } else { "DIFFER" },
        );
    }
}

/// Evenly spread from -1 to 1.
fn number(peer: usize, index: usize) -> f32 {
    let random = mix((peer as u64) << 40 | index as u64);
    ((random >> 40) as f64 / 2_f64.powi(23) - 1.0) as f32
}

/// The finalizer of SplitMix64.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(results: &[Vec<f32>]) -> bool {
        let arguments = Arguments::parse_from(["throttled", "--peers", "2"]);
        let sources = [vec![0.5; 3], vec![0.25; 3]];
        let mut measured = Measured::new(Reduce::sum(), arguments);
        measured.add(&[], results, &sources);
        measured.is_right()
    }

    #[test]
    fn the_sum_is_right_on_all_peers_or_not_at_all() {
        let right = vec![0.75; 3];

        assert!(judged(&[right.clone(), right.clone()]));
        assert!(!judged(&[right.clone(), vec![0.75, 0.75, 0.5]]));
        assert!(!judged(&[vec![0.5; 3], vec![0.5; 3]]));
    }

    #[test]
    fn an_element_that_nobody_has_written_is_wrong_wherever_it_stands() {
        for place in 0..3 {
            let mut result = vec![0.75; 3];
            result[place] = f32::NAN;

            assert!(!judged(&[result.clone(), result]), "at {place}");
        }
    }
}
