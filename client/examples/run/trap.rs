//! Catches a process at an event that the library traces, so that a SIGKILL finds it doing just that.

use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// Catches the thread that comes to the armed event.
#[derive(Clone)]
pub(crate) struct Trap {
    armed: Arc<Mutex<Option<&'static str>>>,
    caught: fn(),
}

impl Trap {
    /// Sets the trap of this process. Once it is armed, `caught` runs in the thread that comes to the event, and other
    /// threads that trace anything wait for its end.
    pub(crate) fn set(caught: fn()) -> Self {
        let trap = Self {
            armed: Arc::default(),
            caught,
        };
        let events_only = Targets::new().with_target("pccl::event", Level::DEBUG);
        tracing_subscriber::registry()
            .with(trap.clone().with_filter(events_only))
            .init();
        trap
    }

    /// Waits for an event of this kind from now on.
    pub(crate) fn arm(&self, kind: &'static str) {
        *self.armed.lock().unwrap_or_else(PoisonError::into_inner) = Some(kind);
    }
}

impl<S: Subscriber> Layer<S> for Trap {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(wanted) = *armed else { return };
        let mut kind = Kind {
            wanted,
            found: false,
        };
        event.record(&mut kind);
        if kind.found {
            (self.caught)();
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
