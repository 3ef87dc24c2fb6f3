//! The reduce that runs beside the training.

use std::time::{Duration, Instant};

use pccl::{CollectiveHandle, CollectiveReport, Communicator, Error, Reduce};
use pccl_subprocess::tell;

use super::run::talk::{Event, Overlap};

/// A reduce that was started and is not awaited yet.
pub(crate) struct Flight {
    round: u64,
    handle: CollectiveHandle<Vec<f32>>,
    started: Instant,
}

/// What reduces have moved, and how well they hid behind the training.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) bytes: (u64, u64),
    pub(crate) overlap: Overlap,
}

impl Flight {
    /// Starts the reduce of a round and returns at once.
    pub(crate) fn start(comm: &Communicator, round: u64, pseudo_gradient: Vec<f32>) -> Self {
        Self {
            round,
            started: Instant::now(),
            handle: comm.start_all_reduce(pseudo_gradient, Reduce::avg()),
        }
    }

    /// Waits for the average.
    ///
    /// A reduce that was aborted gave its contribution back unchanged, here as on every other
    /// survivor: all of them start it again. The contribution of a peer that was lost is lost.
    pub(crate) fn land(mut self, comm: &Communicator, log: &mut Log) -> Result<Vec<f32>, Error> {
        let awaited = Instant::now();
        let mut failed = None;
        loop {
            match self.handle.wait() {
                Ok(reduced) => {
                    log.note(&reduced.returned, self.started, awaited);
                    if let Some(failed) = failed {
                        tell_recovery(self.round, failed);
                    }
                    return Ok(reduced.buffer);
                }
                Err(lost) if matches!(lost.error, Error::Aborted { .. }) => {
                    failed.get_or_insert_with(Instant::now);
                    tell(&Event::Failed {
                        round: self.round,
                        error: lost.error.to_string(),
                    });
                    self = Self::start(comm, self.round, lost.buffer);
                }
                Err(lost) => return Err(lost.error),
            }
        }
    }
}

impl Log {
    fn note(&mut self, report: &CollectiveReport, started: Instant, awaited: Instant) {
        self.bytes.0 += report.bytes_sent;
        self.bytes.1 += report.bytes_received;
        let ended = started + report.duration;
        self.overlap.reduces += 1;
        self.overlap.over_when_awaited += u64::from(ended <= awaited);
        self.overlap.in_flight_ms += milliseconds(report.duration);
        self.overlap.waited_ms += milliseconds(awaited.elapsed());
    }
}

fn tell_recovery(round: u64, failed: Instant) {
    tell(&Event::Recovered {
        round,
        lost_ms: milliseconds(failed.elapsed()),
    });
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
