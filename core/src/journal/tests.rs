//! What comes back of a master after a restart.
