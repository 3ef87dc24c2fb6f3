//! The data plane over lanes in memory.

mod all_reduce;
mod hostile;
mod interrupted;
mod order;
mod reference;
mod simulated;
mod support;
