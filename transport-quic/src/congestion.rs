//! The congestion control of a connection.

use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig};

/// The congestion control, which limits how much of a connection is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Congestion {
    /// CUBIC (RFC 9438): takes a lost packet for a full queue, so it shares a path fairly with TCP. On a long path
    /// that loses packets for other reasons it is slow.
    #[default]
    Cubic,
    /// BBR (version 1, which quinn calls experimental): sends at the measured delivery rate of the path, whatever is
    /// lost. Other traffic on the path may get less than its share.
    Bbr,
}

impl Congestion {
    /// The controller, with this many bytes in flight at the start, or with its default.
    pub(crate) fn controller(
        self,
        initial: Option<u64>,
    ) -> Arc<dyn ControllerFactory + Send + Sync> {
        match self {
            Self::Cubic => {
                let mut config = CubicConfig::default();
                if let Some(bytes) = initial {
                    config.initial_window(bytes);
                }
                Arc::new(config)
            }
            Self::Bbr => {
                let mut config = BbrConfig::default();
                if let Some(bytes) = initial {
                    config.initial_window(bytes);
                }
                Arc::new(config)
            }
        }
    }
}

/// No congestion control has this name. Use `cubic` or `bbr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownCongestion;

impl fmt::Display for UnknownCongestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QUIC knows the congestion controls `cubic` and `bbr`")
    }
}

impl Error for UnknownCongestion {}

impl FromStr for Congestion {
    type Err = UnknownCongestion;

    fn from_str(name: &str) -> Result<Self, UnknownCongestion> {
        match name {
            "cubic" => Ok(Self::Cubic),
            "bbr" => Ok(Self::Bbr),
            _ => Err(UnknownCongestion),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn congestion_controls_are_known_by_the_names_that_they_have_for_tcp() {
        assert_eq!("cubic".parse(), Ok(Congestion::Cubic));
        assert_eq!("bbr".parse(), Ok(Congestion::Bbr));
        assert_eq!("reno".parse::<Congestion>(), Err(UnknownCongestion));
    }
}
