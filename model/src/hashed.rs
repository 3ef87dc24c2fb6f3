//! A shared value with its hash: cheap to clone, and cheap to hash again.
//!
//! Most steps change one machine out of several. A state that shares the others and remembers their
//! hashes is cloned with a few counters and hashed with a few words.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// A value behind an [`Arc`], and 64 bits of hash that stand for it.
///
/// **Invariant:** between two steps it is sealed, so the hash is that of the value.
pub struct Hashed<T> {
    value: Arc<T>,
    /// `None` while the value is being edited.
    hash: Option<u64>,
}

impl<T: Hash + Clone> Hashed<T> {
    /// Takes a value in.
    pub fn new(value: T) -> Self {
        let hash = Some(hash_of(&value));
        let value = Arc::new(value);
        Self { value, hash }
    }

    /// To change the value; its copies elsewhere stay as they are.
    pub fn edit(&mut self) -> &mut T {
        self.hash = None;
        Arc::make_mut(&mut self.value)
    }

    /// Ends the editing.
    pub fn seal(&mut self) {
        if self.hash.is_none() {
            self.hash = Some(hash_of(&*self.value));
        }
    }

    /// The hash that stands for the value.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.hash.unwrap_or_else(|| hash_of(&*self.value))
    }
}

/// With fixed keys, so that a state has the same hash in every run of one program.
pub(crate) fn hasher() -> ahash::RandomState {
    ahash::RandomState::with_seeds(1, 2, 3, 4)
}

fn hash_of<T: Hash>(value: &T) -> u64 {
    hasher().hash_one(value)
}

impl<T> Deref for Hashed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Clone for Hashed<T> {
    fn clone(&self) -> Self {
        Self {
            value: Arc::clone(&self.value),
            hash: self.hash,
        }
    }
}

impl<T: Hash + Clone> Hash for Hashed<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.fingerprint().hash(state);
    }
}

impl<T: PartialEq> PartialEq for Hashed<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.value, &other.value) || self.value == other.value
    }
}

impl<T: Eq> Eq for Hashed<T> {}

impl<T: fmt::Debug> fmt::Debug for Hashed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}
