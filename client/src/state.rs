//! The shared state: named entries of the user's memory, and their revision.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use pccl_core::element::ElementType;
use pccl_core::id::{ContentHash, EntryIndex, Revision};
use pccl_core::master::MasterConfig;
use pccl_core::shared_state::{EntryInfo, SyncStrategy, SyncVote};
use pccl_core::wire::MAX_ENTRY_NAME_BYTES;
use pccl_kernels::{Content, ContentHashing};
use tokio::task::yield_now;

use crate::element::{Element, bytes_of_mut, elements_of};
use crate::error::Error;
use crate::transfer::Room;

/// What the peers of a group keep identical: named entries that borrow the user's memory, and the
/// revision of their content.
///
/// [`Rounds`](crate::Rounds) makes a `SharedState` for each of its rounds. In a loop of your own, make one for each
/// synchronization and drop it before you train on the memory. It is a small list, and only the revision has to
/// be kept in between:
///
/// ```no_run
/// use pccl::{Communicator, Error, SharedState, SyncStrategy};
///
/// struct Model {
///     weights: Vec<f32>,
///     momentum: Vec<f32>,
///     revision: u64,
/// }
///
/// impl Model {
///     fn synchronize(&mut self, comm: &mut Communicator) -> Result<(), Error> {
///         let mut state = SharedState::at(self.revision);
///         state.entry("weights", &mut self.weights)?;
///         state.entry("momentum", &mut self.momentum)?;
///         comm.sync_shared_state(&mut state, SyncStrategy::EnforcePopular)?;
///         self.revision = state.revision;
///         Ok(())
///     }
/// }
/// ```
///
/// # Revisions
///
/// The first synchronization of a group may have any revision. After that, each peer advances its content
/// exactly once between two synchronizations (`revision += 1`), or no peer does. A peer with an older revision, usually
/// a newcomer, receives the content of the others, and its [`revision`](Self::revision) is set to theirs. A peer that
/// is ahead is evicted from the run.
pub struct SharedState<'a> {
    /// The revision of the content. Add one whenever you advance the content.
    /// [`sync_shared_state`](crate::Communicator::sync_shared_state) sets it to the revision of the group.
    pub revision: u64,
    /// Sorted by name.
    entries: Vec<Entry<'a>>,
}

struct Entry<'a> {
    name: Cow<'a, str>,
    element: ElementType,
    data: &'a mut [u8],
    allow_content_inequality: bool,
}

impl<'a> SharedState<'a> {
    /// A state without entries, whose content has this revision: 0 at the beginning of a run, otherwise the revision of
    /// the last state or of the checkpoint.
    #[must_use]
    pub const fn at(revision: u64) -> Self {
        Self {
            revision,
            entries: Vec::new(),
        }
    }

    /// Adds memory that `sync_shared_state` makes bit-identical on all peers of the group. The order of the entries
    /// does not matter. Name, element type and length have to be the same on all peers.
    ///
    /// # Errors
    /// [`Error::DuplicateEntry`], [`Error::EntryNameTooLong`] (255 bytes) and
    /// [`Error::TooManyEntries`] (16 384). The state is unchanged.
    pub fn entry<T: Element>(
        &mut self,
        name: impl Into<Cow<'a, str>>,
        data: &'a mut [T],
    ) -> Result<&mut Self, Error> {
        self.add(name.into(), T::TYPE, bytes_of_mut(data), false)
    }

    /// Adds memory whose content may differ from peer to peer, such as the position of a data loader. It is not
    /// compared. A peer whose revision is behind receives it with all other entries.
    ///
    /// # Errors
    /// As [`entry`](Self::entry).
    pub fn entry_allowing_inequality<T: Element>(
        &mut self,
        name: impl Into<Cow<'a, str>>,
        data: &'a mut [T],
    ) -> Result<&mut Self, Error> {
        self.add(name.into(), T::TYPE, bytes_of_mut(data), true)
    }

    fn add(
        &mut self,
        name: Cow<'a, str>,
        element: ElementType,
        data: &'a mut [u8],
        allow_content_inequality: bool,
    ) -> Result<&mut Self, Error> {
        let entries_max = MasterConfig::default().entries_max.0 as usize;
        if name.len() > MAX_ENTRY_NAME_BYTES {
            let name = name.into_owned();
            return Err(Error::EntryNameTooLong { name });
        }
        if self.entries.len() >= entries_max {
            return Err(Error::TooManyEntries { entries_max });
        }
        match self.place_of(&name) {
            Ok(_) => Err(Error::DuplicateEntry {
                name: name.into_owned(),
            }),
            Err(place) => {
                let entry = Entry {
                    name,
                    element,
                    data,
                    allow_content_inequality,
                };
                self.entries.insert(place, entry);
                Ok(self)
            }
        }
    }

    /// The elements of an entry: how the work of
    /// [`sync_shared_state_overlapped`](crate::Communicator::sync_shared_state_overlapped) reads the content. `None` if
    /// no entry has this name, or if its elements are of another type.
    ///
    /// ```
    /// use pccl::SharedState;
    ///
    /// let mut weights = [0.5_f32; 4];
    /// let mut state = SharedState::at(0);
    /// state.entry("weights", &mut weights)?;
    /// assert_eq!(state.get::<f32>("weights"), Some(&[0.5; 4][..]));
    /// assert_eq!(state.get::<f32>("momentum"), None);
    /// assert_eq!(state.get::<u32>("weights"), None);
    /// # Ok::<(), pccl::Error>(())
    /// ```
    #[must_use]
    pub fn get<T: Element>(&self, name: &str) -> Option<&[T]> {
        let place = self.place_of(name).ok()?;
        let entry = self.entries.get(place)?;
        let is_of_type = entry.element == T::TYPE;
        is_of_type.then(|| elements_of(entry.data)).flatten()
    }

    fn place_of(&self, name: &str) -> Result<usize, usize> {
        self.entries
            .binary_search_by(|entry| (*entry.name).cmp(name))
    }

    /// What to tell the master. Hashes all content; other tasks get their turns meanwhile.
    pub(crate) async fn vote(&self, options: SyncOptions) -> SyncVote {
        let mut entries = Vec::with_capacity(self.entries.len());
        let mut in_this_turn = 0;
        for entry in &self.entries {
            entries.push(entry.info().await);
            in_this_turn += entry.data.len();
            if in_this_turn >= ContentHashing::STEP_BYTES {
                in_this_turn = 0;
                yield_now().await;
            }
        }
        SyncVote {
            revision: Revision(self.revision),
            strategy: options.strategy,
            restart: options.restart,
            entries,
        }
    }

    /// The content of an entry, in the order of the vote.
    pub(crate) fn content(&self, entry: EntryIndex) -> Option<&[u8]> {
        let index = usize::try_from(entry.0).ok()?;
        self.entries.get(index).map(|entry| &*entry.data)
    }

    /// Replaces the content of an entry by bytes of the same length; false where there is no such.
    pub(crate) fn replace(&mut self, entry: EntryIndex, content: &Room) -> bool {
        let index = usize::try_from(entry.0).ok();
        let entry = index.and_then(|index| self.entries.get_mut(index));
        entry.is_some_and(|entry| content.copy_to(entry.data))
    }
}

impl Entry<'_> {
    async fn info(&self) -> EntryInfo {
        EntryInfo {
            name: self.name.clone().into_owned(),
            element: self.element,
            count: (self.data.len() / self.element.size()) as u64,
            hash: hash_in_turns(ContentHashing::new(self.data), || {}).await,
            allow_content_inequality: self.allow_content_inequality,
        }
    }
}

/// The hash of an entry's content, computed in this task. It gives other tasks their turns: where they
/// share the thread, the signs of life that keep the master from taking this peer for dead are among
/// them. `moved` is called after each step.
pub(crate) async fn hash_in_turns<C: Content + ?Sized>(
    mut hashing: ContentHashing<'_, C>,
    moved: impl Fn(),
) -> ContentHash {
    loop {
        let hash = hashing.step();
        moved();
        if let Some(hash) = hash {
            return ContentHash::from_blake3(hash);
        }
        yield_now().await;
    }
}

impl fmt::Debug for SharedState<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.entries.iter().map(|entry| &*entry.name).collect();
        f.debug_struct("SharedState")
            .field("revision", &self.revision)
            .field("entries", &names)
            .finish()
    }
}

/// How a peer takes part in a synchronization. A [`SyncStrategy`] converts into it.
///
/// # Continuing from older checkpoints
///
/// The master remembers the revision that a group has reached. If all peers that held it are gone,
/// the calls of the others fail with [`SyncFailure::RevisionLost`](crate::SyncFailure::RevisionLost). To continue
/// from older content, such as a checkpoint, every peer of the group
/// calls with [`or_restart`](Self::or_restart). The group then continues from the newest revision among them. All
/// peers have to agree, so that one peer alone cannot set a group back.
///
/// Other content of the revision that was reached needs no restart: if no peer that is there holds what the group
/// synchronized last, the group continues with the most popular content of that revision. A peer that comes back later
/// with the former content is a newcomer, and fetches the group's.
///
/// ```
/// use pccl::{SyncOptions, SyncStrategy};
///
/// let options = SyncOptions::from(SyncStrategy::EnforcePopular).or_restart();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "this only says how to synchronize; hand it to sync_shared_state"]
pub struct SyncOptions {
    strategy: SyncStrategy,
    restart: bool,
}

impl From<SyncStrategy> for SyncOptions {
    fn from(strategy: SyncStrategy) -> Self {
        Self {
            strategy,
            restart: false,
        }
    }
}

impl SyncOptions {
    /// Agrees to continue from an older revision if every peer of the group agrees.
    pub const fn or_restart(mut self) -> Self {
        self.restart = true;
        self
    }
}

/// What a synchronization did at this peer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SyncReport {
    /// The revision that every peer of the group holds.
    pub revision: u64,
    /// Entries of this peer that were replaced.
    pub entries_received: usize,
    /// Bytes of entries that this peer sent to others.
    pub bytes_sent: u64,
    /// Bytes of entries that this peer received.
    pub bytes_received: u64,
    /// From the call to the end of the synchronization.
    pub duration: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn other_tasks_have_turns_while_much_is_hashed() {
        const STEP: usize = ContentHashing::STEP_BYTES;
        let (mut large, mut small) = (vec![0_u8; 2 * STEP + 1], vec![0_u8; STEP / 2]);
        let (mut more, mut last) = (vec![1_u8; STEP / 2], [0_u8; 1]);
        let mut state = SharedState::at(0);
        state.entry("large", &mut large).unwrap();
        state.entry("more", &mut more).unwrap();
        state.entry("small", &mut small).unwrap();
        state.entry("the last", &mut last).unwrap();

        let mut turns = 0;
        let mut voting = std::pin::pin!(state.vote(SyncStrategy::EnforcePopular.into()));
        let vote = std::future::poll_fn(|cx| {
            let polled = voting.as_mut().poll(cx);
            turns += usize::from(polled.is_pending());
            polled
        })
        .await;

        // Two in the large entry, one after it, one after the two halves of a step.
        assert_eq!((turns, vote.entries.len()), (4, 4));
        let hash = pccl_kernels::content_hash(&[0]);
        assert_eq!(vote.entries[3].hash, ContentHash::from_blake3(hash));
    }
}
