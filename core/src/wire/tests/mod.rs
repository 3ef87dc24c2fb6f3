//! Stories and properties of the bytes.

mod control;
mod damage;
mod headers;
mod lane;
mod over_lanes;
mod preamble;
mod strategies;
