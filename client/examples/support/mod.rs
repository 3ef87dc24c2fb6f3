//! A task small enough to train in seconds, for the examples that train: handwritten digits, a
//! network that reads them, the optimizers of DiLoCo, and what runs go over and where.
//!
//! In DiLoCo every peer trains alone for some *inner* steps, on data of its own. Then the peers
//! average how far they went (the *pseudo-gradient*: outer parameters minus inner ones) and take one
//! *outer* step with the average, the same on every peer. [`recipe`] holds the
//! numbers that go with it.

// Every program that includes this uses a part of it.
#![allow(dead_code)]

pub(crate) mod digits;
pub(crate) mod hosts;
pub(crate) mod network;
pub(crate) mod optim;
pub(crate) mod over;
pub(crate) mod recipe;
