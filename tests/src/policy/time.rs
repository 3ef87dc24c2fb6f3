//! Virtual time: microseconds since the simulation began.

/// An instant, or a length of time, in microseconds.
pub type Micros = u64;

/// One millisecond.
pub const MILLISECOND: Micros = 1_000;
/// One second.
pub const SECOND: Micros = 1_000 * MILLISECOND;
/// One minute.
pub const MINUTE: Micros = 60 * SECOND;

/// As text: minutes from ten minutes on, milliseconds below ten seconds.
#[must_use]
pub fn show(time: Micros) -> String {
    if time >= 10 * MINUTE {
        format!("{:.1} min", time as f64 / MINUTE as f64)
    } else if time >= 10 * SECOND {
        format!("{:.1} s", time as f64 / SECOND as f64)
    } else {
        format!("{} ms", time / MILLISECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_in_the_unit_that_fits_it() {
        let shown = [0, 9_999 * MILLISECOND, 61_500 * MILLISECOND, 11 * MINUTE].map(show);

        assert_eq!(shown, ["0 ms", "9999 ms", "61.5 s", "11.0 min"]);
    }
}
