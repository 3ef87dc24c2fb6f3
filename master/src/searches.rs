//! Searches for better rings that go on beside the loop, one at a time on a thread that may block: a master has
//! more to do than to look for rings, and there may be thousands of groups.
//!
//! A search is a value of `core` and is taken up where the immediate answer has left it. It runs in slices, so that
//! it ends soon after nobody wants to know any more.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use pccl_core::id::{GroupId, Round};
use pccl_core::tour::{Quest, Solved};
use tokio::sync::mpsc;

/// Steps between two looks whether the search is still wanted: some milliseconds.
const SLICE_STEPS: u64 = 1_000_000;

/// After a slice a search pauses for so many times as long as that took. A low priority is not enough: a thread that
/// computes slows down what runs on the same core's other hardware thread, whoever wakes up has to preempt it first,
/// and the scheduler probably puts threads that could run side by side on the other cores together. `bench`'s
/// `background_search` shows what this buys.
const PAUSES: u32 = 29;

/// A better ring.
#[derive(Debug)]
pub(crate) struct Improved {
    pub(crate) round: Round,
    pub(crate) group: GroupId,
    pub(crate) found: Solved,
}

/// What a thread says.
#[derive(Debug)]
enum Word {
    Improved(Improved),
    Ended,
}

/// What can go on, and what does: one search at a time, the others in the order in which they were asked for.
#[derive(Debug)]
pub(crate) struct Searches {
    /// The questions of the newest optimization that were answered, as far as their searches can go on.
    kept: BTreeMap<GroupId, (Round, Quest)>,
    waiting: VecDeque<Waiting>,
    going_on: Option<GoingOn>,
    /// A thread has not ended yet, be its search wanted or not.
    is_busy: bool,
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

/// A search on its thread. Dropping this ends it.
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
            sender,
            words,
        }
    }
}

impl Searches {
    /// Keeps the search behind an answer, if it can go on, in the place of those of older optimizations, of which
    /// nobody asks for any. Answers come from threads, so an older one may come later.
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

    /// Goes on with the search behind that answer, in its turn.
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

    /// Begins the next search, if none runs.
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
        // A thread of its own, as the priority of one from the runtime's pool would stay low.
        let thread = thread::Builder::new().name("pccl-search".into());
        let begun = thread.spawn(move || {
            yield_to_others();
            search(quest, steps, (&is_wanted, PAUSES), |found| {
                let improved = Improved {
                    round,
                    group,
                    found,
                };
                // Where nobody listens the master has ended.
                let _ = over.0.send(Word::Improved(improved));
            });
        });
        if let Err(error) = begun {
            tracing::warn!(%error, "no thread to search for a better ring");
        }
    }

    /// Nobody wants to know any more.
    pub(crate) fn end(&mut self, round: Round, group: GroupId) {
        let is_it = |of_round, of| (of_round, of) == (round, group);
        self.waiting
            .retain(|waiting| !is_it(waiting.round, waiting.group));
        self.going_on
            .take_if(|search| is_it(search.round, search.group));
    }

    /// No search of such groups goes on.
    fn end_of(&mut self, is_it: impl Fn(GroupId) -> bool) {
        self.waiting.retain(|waiting| !is_it(waiting.group));
        self.going_on.take_if(|search| is_it(search.group));
    }

    /// The next better ring; never returns where there is none. Has to be called inside a tokio runtime.
    /// Cancel-safe.
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

/// Says that a thread has ended, also if it has panicked.
struct Over(mpsc::UnboundedSender<Word>);

impl Drop for Over {
    fn drop(&mut self) {
        let _ = self.0.send(Word::Ended);
    }
}

/// Nobody waits for a search: everything else on its cores goes first.
fn yield_to_others() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, 19) {
        tracing::debug!(%error, "a search keeps its priority");
    }
}

/// Takes these steps, or fewer if it is not wanted any more or nothing better can be found, and pauses for so many
/// times as long.
fn search(
    mut quest: Quest,
    steps: u64,
    (is_wanted, pauses): (&AtomicBool, u32),
    mut tell: impl FnMut(Solved),
) {
    let mut known = quest.solved();
    let mut left = steps;
    while left > 0 && !quest.is_over() && is_wanted.load(Ordering::Relaxed) {
        let slice = left.min(SLICE_STEPS);
        let begun = Instant::now();
        quest.run(slice);
        let took = begun.elapsed();
        left -= slice;
        let found = quest.solved();
        let is_better =
            found.as_ref().map(|found| &found.ring) != known.as_ref().map(|known| &known.ring);
        if is_better && let Some(found) = &found {
            tell(found.clone());
        }
        known = found;
        thread::sleep(took * pauses);
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

    #[test]
    fn a_search_tells_each_better_ring_and_ends_with_its_steps() {
        let mut told = Vec::new();

        search(begun(), 20_000_000, (&AtomicBool::new(true), 0), |found| {
            told.push(found)
        });

        assert!(!told.is_empty());
        assert!(told.iter().all(|found| found.ring.world_size() == 60));
    }

    #[test]
    fn a_search_that_nobody_wants_ends_at_once() {
        search(begun(), u64::MAX, (&AtomicBool::new(false), 0), |found| {
            panic!("{found:?} is of no use")
        });
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
