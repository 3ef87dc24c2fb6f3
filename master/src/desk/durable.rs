//! A desk whose run outlives its process: every step of the machine goes to a journal before anybody learns of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pccl_core::id::PeerId;
use pccl_core::journal::{Durable, DurableSession, Pending};
use pccl_core::log::Replayed;
use pccl_core::master::{MasterInput, MasterOutput, MasterTimer};
use pccl_core::wire::{EncodeError, SessionTerms};
use pccl_recording::Recorded;
use tokio::time::Instant;

use super::{Connected, Desk, Due, FOREVER, Journaling};
use crate::granted::Granted;
use crate::journal::{Begun, JournalError};
use crate::outbox::Outbox;
use crate::pulse::Pulse;
use crate::server::Stopping;

impl Desk {
    /// Keeps a journal from here on, and goes on with the run that it has.
    ///
    /// # Errors
    /// A message of the journal cannot be encoded, which is a defect.
    pub(crate) fn keep(&mut self, begun: Begun) -> Result<(), EncodeError> {
        let Begun {
            journal,
            durable,
            replayed,
        } = begun;
        self.journal = Some(Journaling {
            journal,
            pending: durable.pending.clone(),
            failed: None,
        });
        match replayed {
            Some(replayed) => self.restore(durable, replayed),
            None => Ok(()),
        }
    }

    /// All peers are away.
    fn restore(&mut self, durable: Durable, replayed: Replayed) -> Result<(), EncodeError> {
        let Durable {
            master,
            sessions,
            pending: Pending { timers, questions },
        } = durable;
        if self.master.is_recording() {
            tracing::warn!("a run that was resumed from its journal is not recorded");
        }
        tracing::info!(
            peers = sessions.len(),
            steps = replayed.records,
            "the run goes on from its journal"
        );
        let config = master.config();
        (self.heartbeat, self.silence) = (config.heartbeat.min(FOREVER), config.silence);
        self.mint = config.tickets.clone();
        self.master = Recorded::unrecorded(master);
        let away_until = Instant::now() + self.away_after_restart();
        self.start_anew(timers, away_until);
        for (peer, session) in sessions {
            let connected = self.away(session)?;
            self.peers.insert(peer, connected);
            self.timers.arm(Due::Absence(peer), away_until);
        }
        for ((round, group), problem) in questions {
            self.solve(round, group, problem);
        }
        Ok(())
    }

    fn start_anew(&mut self, timers: BTreeMap<MasterTimer, Duration>, away_until: Instant) {
        let now = Instant::now();
        for (timer, after) in timers {
            let at = match timer {
                MasterTimer::Silence(_) => away_until,
                MasterTimer::HeartbeatDue
                | MasterTimer::MeasurementsAge
                | MasterTimer::Late(_)
                | MasterTimer::Wiring(_)
                | MasterTimer::RetryWiring(_)
                | MasterTimer::Solver(_) => now + after.min(FOREVER),
            };
            self.timers.arm(Due::Machine(timer), at);
        }
    }

    /// How long peers have to come back. If the machine of the master before failed, nothing has told them that their
    /// connections are gone: they dial only when they have heard nothing for up to `silence`.
    fn away_after_restart(&self) -> Duration {
        let silence = self.silence.saturating_mul(2);
        self.limits.reconnect.max(silence).min(FOREVER)
    }

    /// A peer whose connection did not outlive the process that had it.
    fn away(&self, session: DurableSession) -> Result<Connected, EncodeError> {
        let DurableSession {
            identity,
            heard,
            is_admitted,
            sent,
        } = session;
        let outbox = Outbox::restored(self.limits.outbox_bytes_max, &sent)?;
        Ok(Connected {
            conn: None,
            identity,
            heard,
            has_spoken: false,
            attempt: 0,
            is_admitted,
            outbox: Arc::new(outbox),
            pulse: Arc::new(Pulse::new()),
            granted: Arc::new(Granted::away(is_admitted)),
        })
    }

    /// What a peer has to know to resume its session.
    pub(super) fn terms(&self, peer: PeerId) -> SessionTerms {
        let restart = self.journal.as_ref().map(|_| self.limits.restart);
        SessionTerms {
            token: self.mint.session(peer),
            away_max: restart.unwrap_or_default(),
        }
    }

    /// Lets the machine take a step, and writes it down. Without a record there is no output either.
    pub(super) fn step(&mut self, input: MasterInput, outputs: &mut Vec<MasterOutput>) {
        let Some(journaling) = &mut self.journal else {
            return self.master.handle(input, outputs);
        };
        if journaling.failed.is_some() {
            return;
        }
        let heard = journaling.journal.heard(&input);
        journaling.pending.heard(&input);
        self.master.handle(input, outputs);
        let written = heard.and_then(|()| journaling.journal.said(outputs));
        match written {
            Ok(()) => outputs
                .iter()
                .for_each(|output| journaling.pending.said(output)),
            Err(error) => {
                outputs.clear();
                self.fail(error);
            }
        }
    }

    /// Writes what has happened, and then releases what peers are told of it.
    pub(super) fn release(&mut self) {
        let Some(journaling) = &mut self.journal else {
            return;
        };
        if journaling.failed.is_some() {
            return;
        }
        match journaling.journal.flush() {
            Ok(()) => {
                self.touched.drain(..).for_each(|outbox| outbox.ring());
                self.compact();
            }
            Err(error) => self.fail(error),
        }
    }

    /// The run cannot go on in this process.
    fn fail(&mut self, error: JournalError) {
        self.stopped = true;
        self.touched.clear();
        if let Some(journaling) = &mut self.journal {
            journaling.failed = Some(error);
        }
    }

    /// Begins another file if the present one is long.
    fn compact(&mut self) {
        let is_long = |journaling: &mut Journaling| journaling.journal.is_long();
        let Some(mut journaling) = self.journal.take_if(is_long) else {
            return;
        };
        let durable = self.durable(journaling.pending.clone());
        let compacted = journaling.journal.compact(&durable);
        self.journal = Some(journaling);
        if let Err(error) = compacted {
            self.fail(error);
        }
    }

    /// Everything that another process needs to go on with the run.
    fn durable(&self, pending: Pending) -> Durable {
        let sessions = self.peers.iter().filter_map(|(peer, connected)| {
            let session = DurableSession {
                identity: connected.identity,
                heard: connected.heard,
                is_admitted: connected.is_admitted,
                sent: connected.outbox.kept()?,
            };
            Some((*peer, session))
        });
        let sessions: BTreeMap<PeerId, DurableSession> = sessions.collect();
        Durable {
            master: self.master.machine().clone(),
            sessions,
            pending,
        }
    }

    /// Whether everything that the machine has heard is on disk. A peer that comes back forgets what has been heard.
    pub(super) fn is_on_disk(&mut self) -> bool {
        let Some(journaling) = &mut self.journal else {
            return true;
        };
        match journaling.journal.flush_to_disk() {
            Ok(()) => true,
            Err(error) => {
                self.fail(error);
                false
            }
        }
    }

    /// The journal of a run that is over is removed. The one of a run that is to go on stays.
    pub(super) fn end_journal(self, stopping: Stopping) -> Result<Stopping, JournalError> {
        let Some(Journaling {
            journal, failed, ..
        }) = self.journal
        else {
            return Ok(Stopping::ForGood);
        };
        match (failed, stopping) {
            (Some(error), _) => return Err(error),
            (None, Stopping::ForGood) => journal.end(),
            (None, Stopping::ToComeBack) => {}
        }
        Ok(stopping)
    }
}
