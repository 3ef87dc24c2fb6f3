//! The data plane over lanes in memory.

mod adopting;
mod all_reduce;
mod choosing;
mod copied;
mod damaged;
mod direct;
mod drift;
mod fuzzed;
mod hostile;
mod interrupted;
mod kinds;
mod lengths;
mod levels;
mod misfits;
mod order;
mod quantized;
mod reference;
mod sharing;
mod simulated;
mod stalled;
mod steering;
pub(crate) mod support;
mod together;
mod worker;
