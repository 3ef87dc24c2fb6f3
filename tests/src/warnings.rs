//! Telling a test what the library warns of: a tracing layer.

use std::fmt::Debug;

use pccl_subprocess::tell;
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer};

use crate::talk::Event;

/// Tells each event that comes to it.
pub(crate) struct Warnings;

impl<S: Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        tell(&Event::Warned { line: line.0 });
    }
}

/// The text of an event.
#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}
