//! Benchmarks. Each is a program; this library holds what is more than one file of it.
//!
//! | module | program |
//! |---|---|
//! | [`all_reduce_perf`] | how fast an all-reduce is, for those who know nccl-tests |

pub mod all_reduce_perf;
