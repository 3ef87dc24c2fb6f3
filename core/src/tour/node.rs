//! Nodes of a ring problem, and tables with one entry per node.

use alloc::vec::Vec;

/// A node of a ring problem: its row and column in the matrix of costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Node(pub u16);

impl Node {
    /// Position in a table with one entry per node.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    pub(super) fn at(index: usize) -> Self {
        Self(u16::try_from(index).unwrap_or(u16::MAX))
    }

    pub(super) fn all(count: usize) -> impl Iterator<Item = Self> + Clone {
        (0..count).map(Self::at)
    }
}

/// One value per node. A node outside the table reads as the default and cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PerNode<T>(Vec<T>);

impl<T: Copy + Default> PerNode<T> {
    pub(super) fn new(count: usize) -> Self {
        Self(alloc::vec![T::default(); count])
    }

    pub(super) fn get(&self, node: Node) -> T {
        self.0.get(node.index()).copied().unwrap_or_default()
    }

    pub(super) fn set(&mut self, node: Node, value: T) {
        if let Some(entry) = self.0.get_mut(node.index()) {
            *entry = value;
        }
    }

    pub(super) fn update(&mut self, node: Node, change: impl FnOnce(T) -> T) {
        if let Some(entry) = self.0.get_mut(node.index()) {
            *entry = change(*entry);
        }
    }

    pub(super) fn as_slice(&self) -> &[T] {
        &self.0
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T> FromIterator<T> for PerNode<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}
