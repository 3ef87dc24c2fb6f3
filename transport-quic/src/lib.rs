//! Lanes over QUIC will live here, as a second production implementation of
//! [`pccl_core::transport::Transport`]. The crate holds no code yet; nothing depends on it.
