//! What every training process has beside its algorithm: its assignment, its reports, and standing
//! still on order.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use pccl_kernels::simplehash;
use pccl_subprocess::{obey_orders, tell};
use tracing::field::{Field, Visit};
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use super::talk::{Event, Final, Moment, Order};

/// What the supervisor tells a training process, besides where the run is: that is in the environment, as
/// a join string had better not be among the arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Assignment {
    #[arg(long)]
    pub(crate) rounds: u64,
    #[arg(long)]
    pub(crate) seed: u64,
    /// Which part of the data is this process's own.
    #[arg(long)]
    pub(crate) shard: u64,
    /// Optimize the topology after each change of the peers.
    #[arg(long)]
    pub(crate) optimize: bool,
    /// Peers that have to be there before training starts.
    #[arg(long)]
    pub(crate) wait_for: usize,
}

impl Assignment {
    /// Decides in which order this process sees its data, other than all others.
    pub(crate) fn shard_seed(&self) -> u64 {
        self.seed.wrapping_mul(1000).wrapping_add(self.shard)
    }
}

/// The algorithm: takes part in the run until all rounds are done.
pub(crate) type Train = fn(&Assignment) -> Result<Final, Box<dyn std::error::Error>>;

/// Trains until all rounds are done, or nothing more can be done.
pub(crate) fn run(assignment: &Assignment, train: Train) -> ExitCode {
    listen_for_orders();
    match train(assignment) {
        Ok(result) => {
            tell(&Event::Finished(result));
            ExitCode::SUCCESS
        }
        Err(error) => {
            tell(&Event::GaveUp {
                error: error.to_string(),
            });
            ExitCode::FAILURE
        }
    }
}

/// A short name for the bits that all peers must end with.
pub(crate) fn state_hash(weights: &[f32], momentum: &[f32], rounds: u64) -> String {
    let numbers = weights.iter().chain(momentum);
    let mut bytes: Vec<u8> = numbers.flat_map(|number| number.to_le_bytes()).collect();
    bytes.extend(rounds.to_le_bytes());
    format!("{:08x}", simplehash(&bytes))
}

/// Takes the supervisor's orders, and stands still where it says.
fn listen_for_orders() {
    let armed = Arc::new(Mutex::new(None));
    let trap = Trap {
        armed: Arc::clone(&armed),
    };
    let events_only = Targets::new().with_target("pccl::event", Level::DEBUG);
    tracing_subscriber::registry()
        .with(trap.with_filter(events_only))
        .init();
    std::thread::spawn(move || {
        obey_orders(|Order::StandStillAt(moment)| {
            *armed.lock().unwrap_or_else(PoisonError::into_inner) = Some(moment);
        });
    });
}

/// Stops the thread that comes to the armed moment, for good: whatever the library does there, the
/// supervisor's SIGKILL finds it doing just that.
struct Trap {
    armed: Arc<Mutex<Option<Moment>>>,
}

impl<S: Subscriber> Layer<S> for Trap {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(moment) = *armed else { return };
        let mut kind = Kind {
            wanted: moment.traced_as(),
            found: false,
        };
        event.record(&mut kind);
        if kind.found {
            tell(&Event::StandsStill);
            loop {
                std::thread::park();
            }
        }
    }
}

/// Looks for the field that names the kind of an event.
struct Kind {
    wanted: &'static str,
    found: bool,
}

impl Visit for Kind {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.found |= field.name() == "kind" && value == self.wanted;
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}
