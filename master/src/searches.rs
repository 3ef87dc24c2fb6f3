//! Background searches for better rings, one at a time on a thread that may block: a master has other work, and there
//! may be thousands of groups.
//!
//! A search is a value of `core`, and continues where the immediate answer ended. It runs in slices, so that it ends
//! soon after it was cancelled.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pccl_core::id::{GroupId, Round};
use pccl_core::tour::{Quest, Solved};
use tokio::sync::mpsc;

/// Number of steps between two checks whether the search was cancelled: some milliseconds.
const SLICE_STEPS: u64 = 1_000_000;

/// After a slice a search pauses for this many times its duration. A low priority is not enough: a computing thread
/// slows the other hardware thread of its core, every thread that wakes up has to preempt it first, and the scheduler
/// probably packs threads onto the other cores. `bench`'s `background_search` measures the effect.
const PAUSES: u32 = 29;

/// The pause between two slices of a search in a task.
const PAUSE_IN_TASK: Duration = Duration::from_millis(250);

/// A better ring.
#[derive(Debug)]
pub(crate) struct Improved {
    pub(crate) round: Round,
    pub(crate) group: GroupId,
    pub(crate) found: Solved,
}

/// A message of a search thread.
#[derive(Debug)]
enum Word {
    Improved(Improved),
    Ended,
}

/// The searches that can continue, and the running one. The others wait in the order of their requests.
#[derive(Debug)]
pub(crate) struct Searches {
    /// The searches behind the answers of the newest optimization that can be continued.
    kept: BTreeMap<GroupId, (Round, Quest)>,
    waiting: VecDeque<Waiting>,
    going_on: Option<GoingOn>,
    /// Whether a thread has not ended yet, even if its search was cancelled.
    is_busy: bool,
    has_threads: bool,
    sender: mpsc::UnboundedSender<Word>,
    words: mpsc::UnboundedReceiver<Word>,
}

/// A search that waits for its turn.
#[derive(Debug)]
struct Waiting {
    round: Round,
    group: GroupId,
    steps: u64,
    quest: Quest,
}

/// A running search. Dropping this ends it.
#[derive(Debug)]
struct GoingOn {
    round: Round,
    group: GroupId,
    is_wanted: Arc<AtomicBool>,
}

impl Drop for GoingOn {
    fn drop(&mut self) {
        self.is_wanted.store(false, Ordering::Relaxed);
    }
}

impl Default for Searches {
    fn default() -> Self {
        let (sender, words) = mpsc::unbounded_channel();
        Self {
            kept: BTreeMap::new(),
            waiting: VecDeque::new(),
            going_on: None,
            is_busy: false,
            has_threads: true,
            sender,
            words,
        }
    }
}

impl Searches {
    /// Searches in tasks, whose pauses are by tokio's clock.
    pub(crate) fn without_threads() -> Self {
        Self {
            has_threads: false,
            ..Self::default()
        }
    }

    /// Stores the search behind an answer, if it can be continued, and drops those of older optimizations, which are
    /// no longer requested. Answers come from threads, so an older one may arrive later.
    pub(crate) fn keep(&mut self, round: Round, group: GroupId, quest: Option<Quest>) {
        if self.kept.values().any(|(of, _)| *of > round) {
            return;
        }
        self.kept.retain(|_, (of, _)| *of == round);
        match quest {
            Some(quest) => drop(self.kept.insert(group, (round, quest))),
            None => drop(self.kept.remove(&group)),
        }
    }

    /// Continues the search behind that answer, in its turn.
    pub(crate) fn begin(&mut self, round: Round, group: GroupId, steps: u64) {
        let Some((_, quest)) = self.kept.remove(&group).filter(|(of, _)| *of == round) else {
            return;
        };
        self.end_of(|of| of == group);
        self.waiting.push_back(Waiting {
            round,
            group,
            steps,
            quest,
        });
        self.take_turns();
    }

    /// Starts the next search, if none runs.
    fn take_turns(&mut self) {
        if self.is_busy {
            return;
        }
        let Some(next) = self.waiting.pop_front() else {
            return;
        };
        let Waiting {
            round,
            group,
            steps,
            quest,
        } = next;
        let is_wanted = Arc::new(AtomicBool::new(true));
        self.is_busy = true;
        self.going_on = Some(GoingOn {
            round,
            group,
            is_wanted: Arc::clone(&is_wanted),
        });
        let over = Over(self.sender.clone());
        let tell = move |found| {
            let improved = Improved {
                round,
                group,
                found,
            };
            // Where nobody listens the master has ended.
            let _ = over.0.send(Word::Improved(improved));
        };
        let search = Search::new(quest, steps, is_wanted);
        if !self.has_threads {
            tokio::spawn(search.run_in_task(tell));
            return;
        }
        // A thread of its own, as the priority of one from the runtime's pool would stay low.
        let thread = thread::Builder::new().name("pccl-search".into());
        let begun = thread.spawn(move || {
            yield_to_others();
            search.run(PAUSES, tell);
        });
        if let Err(error) = begun {
            tracing::warn!(%error, "no thread to search for a better ring");
        }
    }

    /// Cancels a search.
    pub(crate) fn end(&mut self, round: Round, group: GroupId) {
        let is_it = |of_round, of| (of_round, of) == (round, group);
        self.waiting
            .retain(|waiting| !is_it(waiting.round, waiting.group));
        self.going_on
            .take_if(|search| is_it(search.round, search.group));
    }

    /// Cancels the searches of such groups.
    fn end_of(&mut self, is_it: impl Fn(GroupId) -> bool) {
        self.waiting.retain(|waiting| !is_it(waiting.group));
        self.going_on.take_if(|search| is_it(search.group));
    }

    /// The next better ring. Pending as long as there is none. Must be called in a tokio runtime. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Improved {
        loop {
            match self.words.recv().await {
                Some(Word::Improved(improved)) => return improved,
                Some(Word::Ended) => {
                    self.is_busy = false;
                    self.going_on = None;
                    self.take_turns();
                }
                // There is a sender here.
                None => std::future::pending().await,
            }
        }
    }
}

/// Reports the end of a thread, even if it has panicked.
struct Over(mpsc::UnboundedSender<Word>);

impl Drop for Over {
    fn drop(&mut self) {
        let _ = self.0.send(Word::Ended);
    }
}

/// Lowers the priority of this thread, because nothing waits for a search.
fn yield_to_others() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, 19) {
        tracing::debug!(%error, "a search keeps its priority");
    }
}

/// A search between two of its slices.
struct Search {
    quest: Quest,
    known: Option<Solved>,
    /// Steps that are left.
    left: u64,
    is_wanted: Arc<AtomicBool>,
}

impl Search {
    fn new(quest: Quest, steps: u64, is_wanted: Arc<AtomicBool>) -> Self {
        Self {
            known: quest.solved(),
            quest,
            left: steps,
            is_wanted,
        }
    }

    /// Takes all steps, or fewer if the search is cancelled or cannot improve. Pauses for `pauses` times the duration
    /// of each slice.
    fn run(mut self, pauses: u32, mut tell: impl FnMut(Solved)) {
        while self.goes_on() {
            let begun = Instant::now();
            let better = self.take_slice();
            let took = begun.elapsed();
            better.into_iter().for_each(&mut tell);
            thread::sleep(took * pauses);
        }
    }

    /// As [`run`](Self::run), in a task, with pauses that do not depend on how fast this machine is.
    async fn run_in_task(mut self, mut tell: impl FnMut(Solved)) {
        while self.goes_on() {
            self.take_slice().into_iter().for_each(&mut tell);
            tokio::time::sleep(PAUSE_IN_TASK).await;
        }
    }

    fn goes_on(&self) -> bool {
        self.left > 0 && !self.quest.is_over() && self.is_wanted.load(Ordering::Relaxed)
    }

    /// A better ring than those before, if this slice has found one.
    fn take_slice(&mut self) -> Option<Solved> {
        let slice = self.left.min(SLICE_STEPS);
        self.quest.run(slice);
        self.left -= slice;
        let found = self.quest.solved()?;
        let is_known = |known: &Solved| known.ring == found.ring;
        if self.known.as_ref().is_some_and(is_known) {
            return None;
        }
        self.known = Some(found.clone());
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use pccl_core::id::PeerId;
    use pccl_core::paths::Measurement;
    use pccl_core::tour::TourProblem;

    use super::*;

    const GROUP: GroupId = GroupId(0);

    /// Too many members to be solved at once.
    fn problem() -> TourProblem {
        let members: Vec<PeerId> = (0..60).map(PeerId).collect();
        let pairs = members
            .iter()
            .flat_map(|from| members.iter().map(move |to| (*from, *to)));
        let edges = pairs.filter(|(from, to)| from != to).map(|(from, to)| {
            let mixed = (from.0 * 60 + to.0).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            let measured = Measurement {
                bytes_per_s: 1_000_000 + mixed,
                round_trip_us: u32::try_from(mixed % 100_000).unwrap(),
            };
            ((from, to), measured)
        });
        TourProblem {
            edges: edges.collect(),
            members,
            estimated_but: None,
        }
    }

    fn begun() -> Quest {
        let mut quest = Quest::new(&problem()).unwrap();
        quest.run(10_000);
        quest
    }

    fn wanted(is_wanted: bool) -> Arc<AtomicBool> {
        Arc::new(AtomicBool::new(is_wanted))
    }

    #[test]
    fn a_search_tells_each_better_ring_and_ends_with_its_steps() {
        let mut told = Vec::new();

        Search::new(begun(), 20_000_000, wanted(true)).run(0, |found| told.push(found));

        assert!(!told.is_empty());
        assert!(told.iter().all(|found| found.ring.world_size() == 60));
    }

    #[test]
    fn a_search_that_nobody_wants_ends_at_once() {
        Search::new(begun(), u64::MAX, wanted(false))
            .run(0, |found| panic!("{found:?} is of no use"));
    }

    #[tokio::test]
    async fn a_search_goes_on_from_the_answer_that_it_is_asked_about() {
        let mut searches = Searches::default();
        searches.keep(Round(3), GROUP, Some(begun()));
        searches.keep(Round(4), GROUP, Some(begun()));

        searches.begin(Round(4), GROUP, 20_000_000);
        let improved = searches.next().await;

        assert_eq!((improved.round, improved.group), (Round(4), GROUP));
        searches.end(Round(3), GROUP);
        assert!(searches.going_on.is_some());
        searches.end(Round(4), GROUP);
        assert!(searches.going_on.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn without_threads_a_search_goes_on_by_the_clock_of_the_runtime() {
        let mut searches = Searches::without_threads();
        searches.keep(Round(4), GROUP, Some(begun()));

        searches.begin(Round(4), GROUP, 20_000_000);

        assert_eq!(searches.next().await.round, Round(4));
        searches.end(Round(4), GROUP);
        tokio::time::sleep(2 * PAUSE_IN_TASK).await;
        let tasks = tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks();
        assert_eq!(tasks, 0);
    }

    #[tokio::test]
    async fn an_answer_that_comes_late_does_not_replace_a_newer_one() {
        let mut searches = Searches::default();
        searches.keep(Round(4), GROUP, Some(begun()));

        searches.keep(Round(3), GROUP, None);
        searches.keep(Round(3), GROUP, Some(begun()));

        searches.begin(Round(4), GROUP, 1);
        assert!(searches.going_on.is_some());
    }

    #[tokio::test]
    async fn searches_of_several_groups_take_turns_on_one_thread() {
        let other = GroupId(1);
        let mut searches = Searches::default();
        searches.keep(Round(4), GROUP, Some(begun()));
        searches.keep(Round(4), other, Some(begun()));

        searches.begin(Round(4), GROUP, u64::MAX);
        searches.begin(Round(4), other, 20_000_000);

        assert_eq!(searches.waiting.len(), 1);
        assert_eq!(searches.next().await.group, GROUP);
        searches.end(Round(4), GROUP);
        while searches.next().await.group != other {}
        assert!(searches.waiting.is_empty());
    }

    #[tokio::test]
    async fn a_search_that_waits_for_its_turn_can_be_ended() {
        let other = GroupId(1);
        let mut searches = Searches::default();
        searches.keep(Round(4), GROUP, Some(begun()));
        searches.keep(Round(4), other, Some(begun()));
        searches.begin(Round(4), GROUP, u64::MAX);
        searches.begin(Round(4), other, u64::MAX);

        searches.end(Round(4), other);

        assert!(searches.waiting.is_empty());
        searches.end(Round(4), GROUP);
    }

    #[tokio::test]
    async fn what_older_optimizations_have_left_is_dropped() {
        let mut searches = Searches::default();
        searches.keep(Round(3), GroupId(1), Some(begun()));
        searches.keep(Round(3), GroupId(2), Some(begun()));

        searches.keep(Round(4), GROUP, Some(begun()));

        assert_eq!(searches.kept.keys().collect::<Vec<_>>(), [&GROUP]);
    }

    #[tokio::test]
    async fn a_search_behind_another_answer_does_not_go_on() {
        let mut searches = Searches::default();
        searches.keep(Round(4), GROUP, Some(begun()));

        searches.begin(Round(3), GROUP, 20_000_000);

        assert!(searches.going_on.is_none());
    }
}
