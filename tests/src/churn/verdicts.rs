//! Telling the driver each verdict of the master at once, so that a peer that is killed next has told it as well.

use std::fmt::{Debug, Write};

use pccl_subprocess::tell;
use tracing::field::{Field, Visit};
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use super::talk::{Event, Verdict};
use crate::talk::now;

/// Tells the driver the verdicts that this process hears from here on.
pub(super) fn tell_verdicts() {
    let events_only = Targets::new().with_target("pccl::event", Level::DEBUG);
    let layer = Verdicts.with_filter(events_only);
    // Fails where somebody else hears already. A driver that hears of no verdict says so.
    let _ = tracing_subscriber::registry().with(layer).try_init();
}

struct Verdicts;

impl<S: Subscriber> Layer<S> for Verdicts {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut heard = Heard::default();
        event.record(&mut heard);
        if heard.is_verdict {
            tell(&Event::Verdict(Verdict {
                seq: heard.seq,
                tag: heard.tag,
                is_commit: heard.verdict.starts_with("Committed"),
                verdict: heard.verdict,
                at: now(),
            }));
        }
    }
}

/// The fields of an event.
#[derive(Default)]
struct Heard {
    is_verdict: bool,
    seq: u64,
    tag: u64,
    verdict: String,
}

impl Visit for Heard {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.is_verdict |= field.name() == "kind" && value == "verdict";
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "seq" => self.seq = value,
            "tag" => self.tag = value,
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "verdict" {
            self.verdict.clear();
            // A string takes everything.
            let _ = write!(self.verdict, "{value:?}");
        }
    }
}
