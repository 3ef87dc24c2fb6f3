//! Delays, rates, sizes and shares as a topology's file has them: a number and its unit.

use std::fmt;

use serde::Deserialize;

/// Nanoseconds, of a duration or since a wire began.
pub type Nanos = u64;

/// Nanoseconds in a second.
pub const SECOND: Nanos = 1_000_000_000;

/// A text that is no such quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {what}, which is a number and one of {units}")]
pub struct NotThat {
    text: String,
    what: &'static str,
    units: String,
}

/// A duration: `250 us`, `40 ms`, `1.5 s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Span(pub Nanos);

/// Bits per second: `800 kbit/s`, `100 Mbit/s`, `1 Gbit/s`. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Rate(pub u64);

/// A size: `1500 B`, `256 KiB`, `4 MiB`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Bytes(pub u64);

/// A share of all: `0.1 %`. From 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Deserialize)]
#[serde(try_from = "String")]
pub struct Share(pub f64);

const SPANS: &[(&str, f64)] = &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
const RATES: &[(&str, f64)] = &[("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9)];
const SIZES: &[(&str, f64)] = &[
    ("B", 1.0),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
];
const SHARES: &[(&str, f64)] = &[("%", 0.01)];

/// The number in front of the unit, times what the unit stands for.
fn quantity(text: &str, what: &'static str, units: &[(&str, f64)]) -> Result<f64, NotThat> {
    let wrong = || NotThat {
        text: text.into(),
        what,
        units: units
            .iter()
            .map(|(unit, _)| *unit)
            .collect::<Vec<_>>()
            .join(", "),
    };
    let at = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .ok_or_else(wrong)?;
    let (number, unit) = text.split_at(at);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let units = units.iter().find(|(name, _)| *name == unit.trim());
    let (_, factor) = units.ok_or_else(wrong)?;
    Ok(number * factor)
}

impl TryFrom<String> for Span {
    type Error = NotThat;

    fn try_from(text: String) -> Result<Self, NotThat> {
        let nanos = quantity(&text, "duration", SPANS)?;
        Ok(Self(nanos.round() as Nanos))
    }
}

impl TryFrom<String> for Rate {
    type Error = NotThat;

    fn try_from(text: String) -> Result<Self, NotThat> {
        let bits = quantity(&text, "rate", RATES)?;
        Ok(Self((bits.round() as u64).max(1)))
    }
}

impl TryFrom<String> for Bytes {
    type Error = NotThat;

    fn try_from(text: String) -> Result<Self, NotThat> {
        let bytes = quantity(&text, "size", SIZES)?;
        Ok(Self(bytes.round() as u64))
    }
}

impl TryFrom<String> for Share {
    type Error = NotThat;

    fn try_from(text: String) -> Result<Self, NotThat> {
        let share = quantity(&text, "share from 0 to 100", SHARES)?;
        if share > 1.0 {
            return Err(NotThat {
                text,
                what: "share from 0 to 100",
                units: "%".into(),
            });
        }
        Ok(Self(share))
    }
}

impl Span {
    /// So many milliseconds.
    pub const fn millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// In milliseconds.
    pub fn as_millis(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// In seconds.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Rate {
    /// So many megabits per second.
    pub const fn mbit(mbit: u64) -> Self {
        Self(mbit * 1_000_000)
    }

    /// Bytes that pass in that time.
    pub fn bytes_in(self, span: Span) -> u64 {
        let bits = u128::from(self.0) * u128::from(span.0) / u128::from(SECOND);
        u64::try_from(bits / 8).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 as f64 {
            rate if rate >= 1e9 => write!(f, "{:.2} Gbit/s", rate / 1e9),
            rate if rate >= 1e6 => write!(f, "{:.2} Mbit/s", rate / 1e6),
            rate => write!(f, "{:.1} kbit/s", rate / 1e3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_a_number_and_a_unit() {
        assert_eq!(Span::try_from("250 us".to_owned()), Ok(Span(250_000)));
        assert_eq!(Span::try_from("1.5s".to_owned()), Ok(Span(1_500_000_000)));
        assert_eq!(Rate::try_from("100 Mbit/s".to_owned()), Ok(Rate::mbit(100)));
        assert_eq!(Bytes::try_from("2 KiB".to_owned()), Ok(Bytes(2048)));
        let share = Share::try_from("0.1 %".to_owned()).unwrap();
        assert!((share.0 - 0.001).abs() < 1e-12);
    }

    #[test]
    fn what_has_no_unit_or_another_one_is_refused_with_those_that_there_are() {
        let error = Span::try_from("40".to_owned()).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#""40" is no duration, which is a number and one of ns, us, ms, s"#
        );
        assert!(Rate::try_from("1 GB/s".to_owned()).is_err());
        assert!(Bytes::try_from("-1 B".to_owned()).is_err());
        assert!(Share::try_from("101 %".to_owned()).is_err());
    }

    #[test]
    fn a_rate_says_what_passes_in_a_time() {
        assert_eq!(Rate::mbit(1000).bytes_in(Span::millis(100)), 12_500_000);
    }
}
