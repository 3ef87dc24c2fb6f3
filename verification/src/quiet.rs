//! Panics inside the machines are findings, not noise.

use std::sync::{Mutex, PoisonError};

/// Where the last machine panicked, and what it said. A panic hook belongs to the whole program.
static LAST: Mutex<Option<String>> = Mutex::new(None);

/// Keeps panics of the machines off the screen: the model catches them and calls it a broken claim.
/// All others are printed as ever.
pub(crate) fn keep_panics_quiet() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location();
        if place.is_some_and(|place| place.file().contains("core/src")) {
            let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
            *last = Some(panic.to_string());
        } else {
            print(panic);
        }
    }));
}

/// What the last panic of a machine said.
pub(crate) fn last_panic() -> Option<String> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
