//! What a child does: it tells its parent events, and takes its orders.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Tells the parent one event, as a line on standard output.
pub fn tell(event: &impl Serialize) {
    if let Ok(line) = serde_json::to_string(event) {
        println!("{line}");
    }
}

/// Waits for the parent's next order. `None` if the parent is gone, and if the line is not an order.
#[must_use]
pub fn next_order<O: DeserializeOwned>() -> Option<O> {
    let mut line = String::new();
    // A parent that is gone has closed its end: the line stays empty.
    io::stdin().read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

/// Calls `obey` for each order until the parent is gone. Lines that are not orders are skipped.
pub fn obey_orders<O: DeserializeOwned>(mut obey: impl FnMut(O)) {
    for line in io::stdin().lines().map_while(Result::ok) {
        if let Ok(order) = serde_json::from_str(&line) {
            obey(order);
        }
    }
}
