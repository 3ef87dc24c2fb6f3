//! Memory that collectives keep for the next ones is given back when none follow.
//!
//! What is kept is frame buffers and backups. A look after a while decides; while something is used
//! again and again there is one look per while, and none while nothing is kept.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::calls::Backups;

/// The shortest time between two looks at memory that is in use, which nobody tells the end of. Without it memory that
/// is not to be kept at all would be looked at all the time.
const LOOKS_APART: Duration = Duration::from_millis(100);

/// Decides when to give memory back.
#[derive(Debug)]
pub(super) struct Upkeep {
    backups: Arc<Backups>,
    /// How long memory is kept without being used.
    keep: Duration,
    last_use: Instant,
    next_look: Option<Instant>,
}

impl Upkeep {
    /// Nothing is kept yet.
    pub(super) fn new(backups: Arc<Backups>, keep: Duration) -> Self {
        Self {
            backups,
            keep,
            last_use: Instant::now(),
            next_look: None,
        }
    }

    /// A collective uses memory, or has used it up to this moment.
    pub(super) fn used(&mut self) {
        self.last_use = Instant::now();
        if self.next_look.is_none() {
            self.next_look = self.last_use.checked_add(self.keep);
        }
    }

    /// When to look; `None`: not before something is used.
    pub(super) const fn next_look(&self) -> Option<Instant> {
        self.next_look
    }

    /// Gives back what has not been used for long enough. `trim_frames` frees frame buffers, and says
    /// whether none are in use.
    pub(super) fn look(&mut self, now: Instant, trim_frames: impl FnOnce() -> bool) {
        if self.next_look.is_none_or(|at| now < at) {
            return;
        }
        let idle_until = self.last_use.checked_add(self.keep);
        self.next_look = idle_until.filter(|at| now < *at);
        if self.next_look.is_some() {
            return;
        }
        // What is in use will be kept when it is not, and nobody will tell.
        let (no_backups, no_frames) = (self.backups.trim(), trim_frames());
        if !(no_backups && no_frames) {
            self.next_look = now.checked_add(self.keep.max(LOOKS_APART));
        }
    }

    /// No collective will use memory again.
    pub(super) fn end(&self) {
        self.backups.end();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const KEEP: Duration = Duration::from_secs(10);

    /// Looks at this moment, with no frame buffers in use.
    fn look(upkeep: &mut Upkeep) {
        upkeep.look(Instant::now(), || true);
    }

    /// Backups of which one, of 100 bytes, is kept.
    fn backups() -> Arc<Backups> {
        let backups = Arc::new(Backups::default());
        backups.give_back(backups.take(0).sized(100));
        backups
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_given_back_when_it_was_not_used_for_a_while() {
        let mut upkeep = Upkeep::new(backups(), KEEP);
        upkeep.used();

        advance(KEEP).await;
        look(&mut upkeep);

        assert_eq!(upkeep.backups.kept_bytes(), 0);
        assert_eq!(upkeep.next_look(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn memory_that_is_used_again_is_kept_and_looked_at_later() {
        let mut upkeep = Upkeep::new(backups(), KEEP);
        upkeep.used();
        advance(KEEP / 2).await;
        upkeep.used();

        advance(KEEP / 2).await;
        look(&mut upkeep);

        assert_eq!(upkeep.backups.kept_bytes(), 100);
        assert_eq!(upkeep.next_look(), Some(Instant::now() + KEEP / 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_backup_that_comes_back_late_is_given_back_too() {
        let mut upkeep = Upkeep::new(backups(), KEEP);
        let lent = upkeep.backups.take(100);
        upkeep.used();

        advance(KEEP).await;
        look(&mut upkeep);
        upkeep.backups.give_back(lent);
        let kept = upkeep.backups.kept_bytes();
        advance(KEEP).await;
        look(&mut upkeep);

        assert_eq!(kept, 100);
        assert_eq!(upkeep.backups.kept_bytes(), 0);
        assert_eq!(upkeep.next_look(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn frame_buffers_in_use_are_looked_at_again() {
        let mut upkeep = Upkeep::new(Arc::default(), KEEP);
        upkeep.used();

        advance(KEEP).await;
        upkeep.look(Instant::now(), || false);

        assert_eq!(upkeep.next_look(), Some(Instant::now() + KEEP));
    }

    #[tokio::test(start_paused = true)]
    async fn memory_in_use_that_is_not_to_be_kept_is_not_looked_at_all_the_time() {
        let mut upkeep = Upkeep::new(Arc::default(), Duration::ZERO);
        upkeep.used();

        upkeep.look(Instant::now(), || false);

        assert_eq!(upkeep.next_look(), Some(Instant::now() + LOOKS_APART));
    }

    #[tokio::test(start_paused = true)]
    async fn there_is_no_look_before_anything_was_used() {
        let upkeep = Upkeep::new(Arc::default(), KEEP);

        assert_eq!(upkeep.next_look(), None);
    }

    #[test]
    fn nothing_is_kept_after_the_end() {
        let backups = backups();
        let lent = backups.take(0);

        backups.end();
        backups.give_back(lent.sized(100));

        assert_eq!(backups.kept_bytes(), 0);
    }
}
