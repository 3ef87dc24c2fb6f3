//! The steps between the states that were explored: does every run end, and after how many steps at most?
//!
//! A search finds the states that there are. Whether a run can go on for ever is a question about the steps
//! between them, so each of them is noted; afterwards the states are taken away of which no step into them
//! is left, again and again (A. B. Kahn, "Topological sorting of large networks", CACM 5, 1962). If none is
//! left in the end, no run meets a state twice, and every run is finite. What is left otherwise leads into a
//! circle.
//!
//! Signs of life may be given for ever, so the steps in which one sets out do not count.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What stands for a state, up to the symmetry of the search.
pub(crate) type Key = u64;

/// Steps that are noted for one scenario; with more, nothing is said about circles. They take 16 bytes each,
/// and 12 more while they are looked at.
const STEPS_MAX: usize = 80_000_000;

/// A power of two.
const SHARDS: usize = 64;

/// What a graph of steps comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Every run ends, after so many steps at most.
    Ends { longest: u32 },
    /// A way from the first state whose last state was met before on it.
    Circles(Vec<Key>),
    /// There were too many steps to note, or not all were seen.
    Unknown,
}

/// The steps of one scenario, noted by all threads of a search.
pub(crate) struct Steps {
    shards: Vec<Mutex<Vec<(Key, Key)>>>,
    signs_of_life: Mutex<Vec<(Key, Key)>>,
    count: AtomicUsize,
}

impl Default for Steps {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            signs_of_life: Mutex::default(),
            count: AtomicUsize::new(0),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Steps {
    /// Notes a step.
    pub(crate) fn note(&self, from: Key, to: Key, is_sign_of_life: bool) {
        if self.count.fetch_add(1, Ordering::Relaxed) >= STEPS_MAX {
            return;
        }
        if is_sign_of_life {
            lock(&self.signs_of_life).push((from, to));
        } else if let Some(shard) = self.shards.get(from as usize % SHARDS) {
            lock(shard).push((from, to));
        }
    }

    /// Forgets all of them.
    pub(crate) fn clear(&self) {
        for shard in self.shards.iter().chain([&self.signs_of_life]) {
            *lock(shard) = Vec::new();
        }
    }

    /// What they come to, if `first` is where all runs begin. Forgets them.
    pub(crate) fn shape(&self, first: Key) -> Shape {
        if self.count.load(Ordering::Relaxed) > STEPS_MAX {
            self.clear();
            return Shape::Unknown;
        }
        let graph = Graph::take(self, first);
        match graph.longest() {
            Ok(longest) => Shape::Ends { longest },
            Err(left) => Shape::Circles(graph.way_into(&left)),
        }
    }
}

/// Numbers states, in the order of their keys.
struct Numbers {
    keys: Vec<Key>,
    /// Where the keys begin that have the same first bits, and where those end.
    begin: Vec<u32>,
    /// By so many bits is a key moved for its first ones to be left.
    shift: u32,
}

impl Numbers {
    fn new(mut keys: Vec<Key>) -> Self {
        keys.sort_unstable();
        keys.dedup();
        // About one key for each value of the first bits: keys are hashes, and evenly distributed.
        let bits = keys.len().max(2).ilog2();
        let shift = Key::BITS - bits;
        let mut begin = vec![0_u32; (1 << bits) + 1];
        for key in &keys {
            begin[(key >> shift) as usize + 1] += 1;
        }
        let mut sum = 0;
        for entry in &mut begin {
            sum += *entry;
            *entry = sum;
        }
        Self { keys, begin, shift }
    }

    /// The number of a state; one more than the last number for those that are not numbered.
    fn of(&self, key: Key) -> u32 {
        let bucket = (key >> self.shift) as usize;
        let (from, to) = (self.begin[bucket], self.begin[bucket + 1]);
        let keys = &self.keys[from as usize..to as usize];
        let at = keys.binary_search(&key).map(|at| at as u32 + from);
        at.unwrap_or(self.keys.len() as u32)
    }
}

/// States from which steps lead somewhere, by number, and the steps out of each in one list. All others are
/// one, which has the last number: they end ways and are on no circle.
struct Graph {
    keys: Vec<Key>,
    first: u32,
    /// Where the steps out of a state begin in `to`; one more than there are states.
    begin: Vec<usize>,
    to: Vec<u32>,
    signs_of_life: Vec<(u32, u32)>,
}

impl Graph {
    fn take(steps: &Steps, first: Key) -> Self {
        let mut origins = vec![first];
        for shard in steps.shards.iter().chain([&steps.signs_of_life]) {
            let mut last = None;
            for (from, _) in lock(shard).iter() {
                if last.replace(*from) != Some(*from) {
                    origins.push(*from);
                }
            }
        }
        let numbers = Numbers::new(origins);
        let mut pairs = Vec::with_capacity(steps.count.load(Ordering::Relaxed));
        for shard in &steps.shards {
            let shard = std::mem::take(&mut *lock(shard));
            let mut last = (first, numbers.of(first));
            pairs.extend(shard.into_iter().map(|(from, to)| {
                if last.0 != from {
                    last = (from, numbers.of(from));
                }
                (last.1, numbers.of(to))
            }));
        }
        let signs = std::mem::take(&mut *lock(&steps.signs_of_life));
        let signs = signs.into_iter();
        let signs_of_life = signs.map(|(from, to)| (numbers.of(from), numbers.of(to)));
        let (begin, to) = by_origin(numbers.keys.len() + 1, &pairs);
        Self {
            signs_of_life: signs_of_life.collect(),
            first: numbers.of(first),
            keys: numbers.keys,
            begin,
            to,
        }
    }

    /// How many numbers there are.
    fn size(&self) -> usize {
        self.keys.len() + 1
    }

    fn after(&self, number: u32) -> &[u32] {
        let at = number as usize;
        let range = self.begin.get(at).zip(self.begin.get(at + 1));
        range
            .and_then(|(from, to)| self.to.get(*from..*to))
            .unwrap_or_default()
    }

    /// Steps of the longest way. `Err`: which states are left when all are taken away that no step leads
    /// into.
    fn longest(&self) -> Result<u32, Vec<bool>> {
        let mut into = vec![0_u32; self.size()];
        for to in &self.to {
            into[*to as usize] += 1;
        }
        let mut steps = vec![0_u32; self.size()];
        let mut free: Vec<u32> = (0..)
            .zip(&into)
            .filter(|(_, into)| **into == 0)
            .map(|(number, _)| number)
            .collect();
        let mut taken = 0;
        while let Some(state) = free.pop() {
            taken += 1;
            let next = steps[state as usize] + 1;
            for to in self.after(state) {
                let at = *to as usize;
                steps[at] = steps[at].max(next);
                into[at] -= 1;
                if into[at] == 0 {
                    free.push(*to);
                }
            }
        }
        if taken == self.size() {
            Ok(steps.into_iter().max().unwrap_or_default())
        } else {
            Err(into.iter().map(|into| *into > 0).collect())
        }
    }

    /// From the first state to the nearest that is left of which some step leads to another that is left,
    /// and on until a state is met again.
    fn way_into(&self, left: &[bool]) -> Vec<Key> {
        let circling = self.without_ends(left);
        let mut way = self.way_to(|number| circling[number as usize]);
        let mut met = vec![false; self.size()];
        while let Some(last) = way.last().copied() {
            if std::mem::replace(&mut met[last as usize], true) {
                break;
            }
            let mut next = self.after(last).iter().copied();
            way.extend(next.find(|to| circling[*to as usize]));
        }
        way.iter()
            .filter_map(|number| self.keys.get(*number as usize).copied())
            .collect()
    }

    /// What is left of them without those from which no step leads to another of them.
    fn without_ends(&self, left: &[bool]) -> Vec<bool> {
        let mut kept = left.to_vec();
        loop {
            let ends: Vec<usize> = (0..kept.len())
                .filter(|at| kept[*at])
                .filter(|at| {
                    let number = u32::try_from(*at).unwrap_or(u32::MAX);
                    !self.after(number).iter().any(|to| kept[*to as usize])
                })
                .collect();
            if ends.is_empty() {
                return kept;
            }
            for end in ends {
                kept[end] = false;
            }
        }
    }

    /// A shortest way from the first state to one of these, signs of life included.
    fn way_to(&self, is_there: impl Fn(u32) -> bool) -> Vec<u32> {
        let (begin, to) = by_origin(self.size(), &self.signs_of_life);
        let mut from: Vec<Option<u32>> = vec![None; self.size()];
        let mut level = VecDeque::from([self.first]);
        while let Some(state) = level.pop_front() {
            if is_there(state) {
                return back_from(state, &from);
            }
            let at = state as usize;
            let signs = &to[begin[at]..begin[at + 1]];
            for next in self.after(state).iter().chain(signs) {
                let known = &mut from[*next as usize];
                if *next != self.first && known.is_none() {
                    *known = Some(state);
                    level.push_back(*next);
                }
            }
        }
        Vec::new()
    }
}

/// Where the pairs of each origin begin, and where they lead.
fn by_origin(states: usize, pairs: &[(u32, u32)]) -> (Vec<usize>, Vec<u32>) {
    let mut begin = vec![0_usize; states + 1];
    for (from, _) in pairs {
        begin[*from as usize + 1] += 1;
    }
    let mut sum = 0;
    for entry in &mut begin {
        sum += *entry;
        *entry = sum;
    }
    let mut next = begin.clone();
    let mut to = vec![0_u32; pairs.len()];
    for (origin, target) in pairs {
        let at = &mut next[*origin as usize];
        to[*at] = *target;
        *at += 1;
    }
    (begin, to)
}

fn back_from(last: u32, from: &[Option<u32>]) -> Vec<u32> {
    let mut way = vec![last];
    let mut state = last;
    while let Some(before) = from.get(state as usize).copied().flatten() {
        way.push(before);
        state = before;
    }
    way.reverse();
    way
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(steps: &[(Key, Key)]) -> Shape {
        let noted = Steps::default();
        for (from, to) in steps {
            noted.note(*from, *to, false);
        }
        noted.shape(1)
    }

    #[test]
    fn the_longest_way_counts_also_if_a_shorter_one_leads_to_the_same_end() {
        let diamond = [(1, 2), (2, 3), (3, 4), (1, 4), (4, 5)];

        assert_eq!(shape(&diamond), Shape::Ends { longest: 4 });
        assert_eq!(shape(&[]), Shape::Ends { longest: 0 });
    }

    #[test]
    fn a_circle_is_told_as_the_shortest_way_into_it_and_once_around() {
        let steps = [(1, 2), (2, 3), (1, 3), (3, 4), (4, 5), (5, 3), (5, 6)];

        assert_eq!(shape(&steps), Shape::Circles(vec![1, 3, 4, 5, 3]));
        assert_eq!(shape(&[(1, 1)]), Shape::Circles(vec![1, 1]));
    }

    #[test]
    fn what_lies_behind_a_circle_is_not_taken_for_it() {
        let steps = [(1, 2), (2, 2), (2, 3), (3, 4)];

        assert_eq!(shape(&steps), Shape::Circles(vec![1, 2, 2]));
    }

    #[test]
    fn signs_of_life_may_go_round_and_lead_to_a_circle_that_may_not() {
        let noted = Steps::default();
        noted.note(1, 2, true);
        noted.note(2, 1, false);
        assert_eq!(noted.shape(1), Shape::Ends { longest: 1 });

        noted.note(1, 2, true);
        noted.note(2, 3, false);
        noted.note(3, 2, false);
        assert_eq!(noted.shape(1), Shape::Circles(vec![1, 2, 3, 2]));
    }
}
