//! How fast a connection sends.

use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig};

/// What decides how much of a connection is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Congestion {
    /// CUBIC (RFC 9438): a lost packet is taken for a full queue, so the path is shared fairly with TCP. On a
    /// long path that loses packets for other reasons a connection is slow.
    #[default]
    Cubic,
    /// BBR (version 1, which quinn calls experimental): sends at the rate that the path was measured to
    /// deliver, whatever gets lost. Others on the path may get less than their share.
    Bbr,
}

impl Congestion {
    /// With so many bytes in flight at the start, or as many as usual.
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

/// There is no congestion control of this name.
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
