//! What a training loop keeps identical on all peers.

use crate::element::Element;
use crate::error::Error;
use crate::state::SharedState;

/// Memory that [`Rounds`](crate::Rounds) keeps identical on all peers of the group.
///
/// A `Vec` of elements is one entry. A model with several entries names each of them; [`Rounds`](crate::Rounds)
/// has an example.
pub trait Shared {
    /// Adds the entries to `state`, which has none yet: each time the same names, types and lengths, on all peers.
    ///
    /// # Errors
    /// What [`SharedState::entry`] returns, which ends the loop.
    fn share<'a>(&'a mut self, state: &mut SharedState<'a>) -> Result<(), Error>;
}

/// One entry, named `elements`.
impl<T: Element> Shared for Vec<T> {
    fn share<'a>(&'a mut self, state: &mut SharedState<'a>) -> Result<(), Error> {
        state.entry("elements", self).map(drop)
    }
}
