//! Quantiles of measured times.

use crate::talk::Nanos;

/// The `share` (0 to 1) of these values that is not larger: 0.5 is the median. Zero without values.
#[must_use]
pub fn quantile(values: impl IntoIterator<Item = Nanos>, share: f64) -> Nanos {
    let mut sorted: Vec<Nanos> = values.into_iter().collect();
    sorted.sort_unstable();
    let last = sorted.len().saturating_sub(1);
    let index = (last as f64 * share).round() as usize;
    sorted.get(index).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        assert_eq!(quantile([5, 1, 9], 0.5), 5);
        assert_eq!(quantile([5, 1, 9], 1.0), 9);
        assert_eq!(quantile([], 0.5), 0);
    }
}
