//! Where a peer stands still to be killed.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use pccl_subprocess::{next_order, tell};

use super::talk::Event;
use super::trap::Trap;

/// A point of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Moment {
    /// It has sent a first frame of the parameters that are gathered.
    Gather,
    /// It has the parameters, and is to compute gradients.
    Compute,
    /// It has sent a first frame of the gradients that are reduced.
    Reduce,
    /// Its vote on the reduced gradients is sent, and the verdict is not there.
    Verdict,
    /// It has updated its shard, and nobody else knows the result.
    Update,
    /// It has sent a first frame of a snapshot.
    Snapshot,
}

/// The moment of the first step, from a given one on, that comes to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doom {
    pub(crate) step: u64,
    pub(crate) moment: Moment,
}

/// What a peer is to come to.
pub(crate) struct Fate {
    doom: Option<(Doom, Trap)>,
}

impl Moment {
    /// The library's event, if it is in the middle of a collective.
    const fn traced_as(self) -> Option<&'static str> {
        match self {
            Self::Gather | Self::Reduce | Self::Snapshot => Some("frame_sent"),
            Self::Verdict => Some("completion_voted"),
            Self::Compute | Self::Update => None,
        }
    }
}

impl Fate {
    pub(crate) fn of(doom: Option<Doom>) -> Self {
        Self {
            doom: doom.map(|doom| (doom, Trap::set(stand_still))),
        }
    }

    /// Begins what this moment is in. Does not return, or makes the next collective do so, if this is the doom.
    pub(crate) fn come_to(&self, step: u64, moment: Moment) {
        let Some((doom, trap)) = &self.doom else {
            return;
        };
        if step < doom.step || moment != doom.moment {
            return;
        }
        match moment.traced_as() {
            Some(event) => trap.arm(event),
            None => stand_still(),
        }
    }
}

/// Until it is killed, or the supervisor is gone.
fn stand_still() {
    tell(&Event::StandsStill);
    let _: Option<String> = next_order();
    std::process::exit(1);
}

impl fmt::Display for Doom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = self.moment.to_possible_value();
        let moment = moment.as_ref().map_or("", |value| value.get_name());
        write!(f, "{}:{moment}", self.step)
    }
}

impl FromStr for Doom {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (step, moment) = text.split_once(':').ok_or("no colon")?;
        Ok(Self {
            step: step.parse().map_err(|_| "no step before the colon")?,
            moment: Moment::from_str(moment, false)?,
        })
    }
}
