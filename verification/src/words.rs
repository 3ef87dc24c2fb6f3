//! Numbers as people read them.

use std::time::Duration;

/// With a thin mark after every three digits: `1_234_567` as `1,234,567`.
pub(crate) fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// So many in so much time, per second.
pub(crate) fn rate(number: usize, time: Duration) -> String {
    count(per_second(number, time))
}

/// The same as a number.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss
)]
pub(crate) fn per_second(number: usize, time: Duration) -> usize {
    (number as f64 / time.as_secs_f64().max(1e-6)) as usize
}

/// The chance that two of so many states have the same 64 bits of fingerprint, so that one of them was
/// taken for the other: n² / 2⁶⁵.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn chance_of_collision(states: usize) -> f64 {
    let states = states as f64;
    states * states / 2_f64.powi(65)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_a_comma_after_every_three_digits() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(12_345_678), "12,345,678");
    }

    #[test]
    fn a_hundred_million_states_collide_with_a_chance_of_three_in_ten_thousand() {
        let chance = chance_of_collision(100_000_000);

        assert!((2.6e-4..2.8e-4).contains(&chance));
    }
}
