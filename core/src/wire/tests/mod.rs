//! Stories and properties of the bytes.

mod control;
mod damage;
mod headers;
mod lane;
mod over_lanes;
mod preamble;
mod strategies;

use alloc::vec::Vec;

use super::ControlHead;

/// A frame whose checksums are right and that announces so many bytes.
fn frame(length: usize, body: &[u8]) -> Vec<u8> {
    let sound = ControlHead::of_message(body).unwrap();
    let head = ControlHead { length, ..sound };
    [&head.encode(), body].concat()
}
