//! How fast is an all-reduce here? `cargo run --release -p pccl-bench --bin all_reduce_perf`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pccl_bench::all_reduce_perf::main()
}
