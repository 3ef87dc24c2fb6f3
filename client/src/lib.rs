//! Placeholder header, replaced by its author.

#[allow(dead_code, unused_imports)]
mod data;
