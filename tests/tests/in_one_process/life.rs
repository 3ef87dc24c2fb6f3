//! A peer from its first line to its end, or to the moment at which it is killed.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pccl::{Builder, Communicator, Error, Reduce, SharedState, SyncStrategy};
use pccl_tests::talk::Moment;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use tokio::sync::Notify;
use tracing::field::{Field, Visit};
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// Elements of the shared state, and of each reduce: several frames of each lane.
const ELEMENTS: usize = 20_000;

/// Where peers are killed.
const MOMENTS: [Moment; 5] = [
    Moment::ReduceVoted,
    Moment::FrameSent,
    Moment::PlanDone,
    Moment::CompletionVoted,
    Moment::TopologyVoted,
];

/// How far the run is, and how far it goes. A round that nobody has looked at yet is the last one for all or for
/// nobody.
#[derive(Default)]
pub(crate) struct Pace(Mutex<(u64, Option<u64>)>);

impl Pace {
    /// The latest round that somebody has begun.
    pub(crate) fn round(&self) -> u64 {
        self.0.lock().unwrap().0
    }

    /// Ends so many rounds after the latest.
    pub(crate) fn end_after(&self, rounds: u64) {
        let mut pace = self.0.lock().unwrap();
        pace.1 = Some(pace.0 + rounds);
    }

    /// False: all is done.
    fn begin(&self, round: u64) -> bool {
        let mut pace = self.0.lock().unwrap();
        pace.0 = pace.0.max(round);
        pace.1.is_none_or(|end| round < end)
    }
}

/// A peer is killed at this moment of this round, or of the first one after it in which the moment comes.
pub(crate) struct Fate {
    round: u64,
    moment: Moment,
}

impl Fate {
    pub(crate) fn draw(random: &mut StdRng, rounds: Range<u64>) -> Self {
        Self {
            round: random.random_range(rounds),
            moment: *MOMENTS.choose(random).expect("there are some"),
        }
    }
}

/// What a peer ends with.
pub(crate) struct Final {
    pub(crate) revision: u64,
    pub(crate) weights: Vec<f32>,
}

/// What the test is told.
pub(crate) enum Tells {
    Joined,
    Round,
    Killed,
    Ended(Final),
    Failed(String),
}

pub(crate) struct Life {
    pub(crate) builder: Builder,
    pub(crate) seed: u64,
    /// Peers that the first round waits for.
    pub(crate) wait_for: usize,
    pub(crate) pace: Arc<Pace>,
    pub(crate) fate: Option<Fate>,
    pub(crate) tells: Sender<Tells>,
}

impl Life {
    /// Until the end. Where the peer is killed everything is dropped where it stands, and nothing runs any more
    /// that could say goodbye.
    pub(crate) fn live(self) {
        let doom = Arc::new(Doom::default());
        let watch = Watch {
            moment: self.fate.as_ref().map(|fate| fate.moment),
            doom: Arc::clone(&doom),
        };
        let events = Targets::new().with_target("pccl::event", Level::DEBUG);
        let subscriber = tracing_subscriber::registry().with(watch.with_filter(events));
        let tells = self.tells.clone();
        let end = tracing::subscriber::with_default(subscriber, || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().build().unwrap();
            runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = doom.comes.notified() => Tells::Killed,
                    end = self.train(&doom) => match end {
                        Ok(end) => Tells::Ended(end),
                        Err(why) => Tells::Failed(why),
                    },
                }
            })
        });
        // Nobody listens any more where the test has failed.
        let _ = tells.send(end);
    }

    async fn train(self, doom: &Doom) -> Result<Final, String> {
        let joined = self.builder.connect_async().await;
        let mut peer = joined.map_err(|error| error.to_string())?;
        let _ = self.tells.send(Tells::Joined);
        let mut model = Model {
            random: StdRng::seed_from_u64(self.seed),
            weights: vec![0.0; ELEMENTS],
            revision: 0,
            has_synced: false,
            has_strayed: false,
        };
        loop {
            let is_near = |fate: &Fate| fate.round <= model.revision;
            doom.is_near
                .store(self.fate.as_ref().is_some_and(is_near), Ordering::Relaxed);
            let begin = |revision| {
                let goes_on = self.pace.begin(revision);
                let _ = self.tells.send(Tells::Round);
                goes_on
            };
            match model.round(&mut peer, self.wait_for, begin).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if error.is_retryable() => {}
                Err(error) => return Err(error.to_string()),
            }
            // Whoever has taken part holds the bits that all hold: only a newcomer is given any.
            if model.has_strayed {
                return Err("it took part, and held other bits than the others".into());
            }
        }
        peer.shutdown_async().await;
        Ok(Final {
            revision: model.revision,
            weights: model.weights,
        })
    }
}

struct Model {
    random: StdRng,
    weights: Vec<f32>,
    revision: u64,
    has_synced: bool,
    /// It held other bits than the others after rounds in which it took part.
    has_strayed: bool,
}

impl Model {
    /// False: all is done.
    async fn round(
        &mut self,
        peer: &mut Communicator,
        wait_for: usize,
        begin: impl Fn(u64) -> bool,
    ) -> Result<bool, Error> {
        peer.update_topology_async().await?;
        if self.revision == 0 && peer.world_size() < wait_for {
            tokio::time::sleep(Duration::from_millis(2)).await;
            return Ok(true);
        }
        let mut state = SharedState::at(self.revision);
        state.entry("weights", &mut self.weights)?;
        let synced = peer.sync_shared_state_async(&mut state, SyncStrategy::EnforcePopular);
        let synced = synced.await?;
        self.revision = synced.revision;
        drop(state);
        self.has_strayed |= self.has_synced && synced.entries_received > 0;
        self.has_synced = true;
        if !begin(self.revision) {
            return Ok(false);
        }
        let mut step: Vec<f32> = self.weights.iter().map(|weight| weight * 0.1).collect();
        step.iter_mut()
            .for_each(|step| *step += self.random.random::<f32>() - 0.5);
        peer.all_reduce_async(&mut step, Reduce::avg()).await?;
        let moved = self.weights.iter_mut().zip(&step);
        moved.for_each(|(weight, step)| *weight -= step);
        self.revision += 1;
        Ok(true)
    }
}

/// Whether a peer is to be killed at the next such moment, and whether that has come.
#[derive(Default)]
struct Doom {
    is_near: AtomicBool,
    comes: Notify,
}

/// Hears what the library traces.
struct Watch {
    moment: Option<Moment>,
    doom: Arc<Doom>,
}

impl<S: Subscriber> Layer<S> for Watch {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut is_it = IsIt(self.moment, false);
        event.record(&mut is_it);
        if is_it.1 && self.doom.is_near.load(Ordering::Relaxed) {
            self.doom.comes.notify_one();
        }
    }
}

/// Whether an event is the one.
struct IsIt(Option<Moment>, bool);

impl Visit for IsIt {
    fn record_str(&mut self, field: &Field, value: &str) {
        let is_kind = field.name() == "kind";
        self.1 |= is_kind && self.0.is_some_and(|moment| moment.traced_as() == value);
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}
