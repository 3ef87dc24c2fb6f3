//! Benchmarks, one program each. The library holds what a program shares with its test, and those that have
//! several files.
//!
//! | program | what it measures | module |
//! |---|---|---|
//! | `all_reduce_perf` | an all-reduce, in the columns of nccl-tests, beside the best bare exchange of the same run | [`all_reduce_perf`] |
//! | `recovery` | from a SIGKILL in mid-reduce to the next commit | [`recovery`] |
//! | `resident` | the memory of a peer that reduces in place | [`resident`] |
//! | `throttled` | plain and quantized reduces where links are slow | |
//! | `encrypted` | what encryption costs per byte | |
//! | `lane_throughput` | lanes alone: plain TCP, TLS and QUIC | |
//! | `master_cost`, `election_cost` | the master's time per message, and that of an election of shared state | |
//!
//! [`bytes`] reads the sizes on their command lines.
//!
//! `bench/rivals` runs Gloo and Open MPI beside `all_reduce_perf`.

pub mod all_reduce_perf;
pub mod bytes;
#[cfg(feature = "scripted")]
pub mod recovery;
#[cfg(feature = "scripted")]
pub mod resident;
