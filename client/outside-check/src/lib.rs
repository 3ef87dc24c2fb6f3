//! The programs that the documentation shows. They are run elsewhere; here they only have to compile.

#![allow(dead_code, reason = "nothing here is run")]

#[path = "../../examples/transport/metered.rs"]
mod metered;

macro_rules! programs {
    ($($name:ident),*) => {
        $(mod $name {
            include!(concat!(env!("OUT_DIR"), "/", stringify!($name), ".rs"));
        })*
    };
}

programs!(loop_run, loop_manual, loop_async, loop_feedback);

fn compute(weights: &[f32]) -> Vec<f32> {
    weights.to_vec()
}
