//! How long the lanes of a link were full during an operation: whether the link held it up, and what it carried.

use std::time::Duration;

use tokio::time::Instant;

use crate::pace::Rate;

/// A link held an operation up if one of its lanes was full for at least this part of its time. What other links
/// or other ranks held up says nothing about this one.
const HELD_UP: u32 = 4;

/// Since when, and for how long, lanes have taken nothing of what is there for them.
#[derive(Debug)]
pub(super) struct Filling {
    begun: Instant,
    /// By outlet.
    full: Vec<Full>,
}

#[derive(Clone, Debug, Default)]
struct Full {
    since: Option<Instant>,
    total: Duration,
}

impl Filling {
    /// Of an operation that begins, with so many outlets.
    pub(super) fn begin(outlets: usize) -> Self {
        Self {
            begun: Instant::now(),
            full: vec![Full::default(); outlets],
        }
    }

    /// The lane takes nothing more.
    pub(super) fn is_full(&mut self, outlet: u16) {
        if let Some(full) = self.full.get_mut(usize::from(outlet)) {
            full.since.get_or_insert_with(Instant::now);
        }
    }

    /// The lane has taken all that was there for it.
    pub(super) fn has_room(&mut self, outlet: u16) {
        if let Some(full) = self.full.get_mut(usize::from(outlet))
            && let Some(since) = full.since.take()
        {
            full.total += since.elapsed();
        }
    }

    /// The operation has ended, and has sent so many bytes on these lanes: how fast. `None`: they did not hold it up.
    pub(super) fn rate(&self, bytes: u64) -> Option<Rate> {
        let took = self.begun.elapsed();
        let longest = self.full.iter().map(|full| full.total).max()?;
        let nanos = u64::try_from(took.as_nanos()).ok()?;
        let rate = u128::from(bytes) * 1_000_000_000 / u128::from(nanos.max(1));
        (longest.saturating_mul(HELD_UP) >= took).then(|| Rate::try_from(rate).unwrap_or(Rate::MAX))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lanes_that_were_full_for_a_quarter_of_the_time_held_the_operation_up() {
        let mut filling = Filling::begin(2);
        sleep(Duration::from_millis(700)).await;
        filling.is_full(1);
        sleep(Duration::from_millis(100)).await;
        filling.is_full(1);
        sleep(Duration::from_millis(150)).await;
        filling.has_room(1);
        sleep(Duration::from_millis(50)).await;

        assert_eq!(filling.rate(5000), Some(5000));
    }

    #[tokio::test(start_paused = true)]
    async fn an_operation_that_waited_for_others_says_nothing_about_the_link() {
        let mut filling = Filling::begin(2);
        filling.is_full(0);
        sleep(Duration::from_millis(200)).await;
        filling.has_room(0);
        filling.is_full(1);
        sleep(Duration::from_millis(200)).await;
        filling.has_room(1);
        sleep(Duration::from_millis(600)).await;

        assert_eq!(filling.rate(5000), None);
    }
}
