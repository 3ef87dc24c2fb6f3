//! A master that is killed goes on; a journal that is damaged is refused.
