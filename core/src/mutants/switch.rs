//! What switches mistakes on, and the list of them into names.

use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};

use crate::id::PeerId;
use crate::topology::Ring;

use super::Mutant;

/// Position in [`Mutant::ALL`], from one; zero: the protocol is what it should be.
static ON: AtomicU16 = AtomicU16::new(0);

/// The mistake was made at least once.
static TAKEN: AtomicBool = AtomicBool::new(false);

static TIMES_SWITCHED: AtomicU64 = AtomicU64::new(0);

/// Makes one mistake from here on, and no other. `None`: none at all.
///
/// It holds for the whole process: for all machines, those that exist already included.
pub fn switch_on(mutant: Option<Mutant>) {
    let number = mutant.map_or(0, Mutant::number);
    ON.store(number, Ordering::SeqCst);
    TAKEN.store(false, Ordering::SeqCst);
    TIMES_SWITCHED.fetch_add(1, Ordering::SeqCst);
}

/// How often [`switch_on`] was called. What a machine did at another count says nothing about what it does.
#[must_use]
pub fn times_switched() -> u64 {
    TIMES_SWITCHED.load(Ordering::Acquire)
}

/// Did a machine come to the place of the mistake since it was switched on? It may have made no
/// difference there.
#[must_use]
pub fn taken() -> bool {
    TAKEN.load(Ordering::SeqCst)
}

macro_rules! mutants {
    ($($(#[doc = $doc:literal])+ $mutant:ident = $name:literal,)+) => {
        /// One mistake: what is done wrong, and what a user would see of it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Mutant {
            $($(#[doc = $doc])+ $mutant,)+
        }

        impl Mutant {
            /// Every mutant.
            pub const ALL: &'static [Self] = &[$(Self::$mutant),+];

            /// Its name on a command line.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$mutant => $name,)+
                }
            }

            /// What is done wrong, and what a user would see of it; lines begin with a space.
            #[must_use]
            pub const fn story(self) -> &'static str {
                match self {
                    $(Self::$mutant => concat!($($doc),+),)+
                }
            }
        }
    };
}

impl Mutant {
    /// The mutant of this name, as [`name`](Self::name) spells it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|mutant| mutant.name() == name)
    }

    const fn number(self) -> u16 {
        self as u16 + 1
    }

    /// Is this the one that is switched on? Its place was reached then.
    pub(crate) fn is_made(self) -> bool {
        let made = ON.load(Ordering::Relaxed) == self.number();
        // Every thread reads this; it is written once.
        if made && !TAKEN.load(Ordering::Relaxed) {
            TAKEN.store(true, Ordering::Relaxed);
        }
        made
    }
}

impl Ring {
    /// The same neighbours, counted from another peer.
    pub(crate) fn counted_from(&self, peer: PeerId) -> Self {
        let mut ring = self.clone();
        ring.0.rotate_left(self.rank_of(peer).unwrap_or(0));
        ring
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::format;
    use alloc::string::String;

    use super::*;

    fn kebab(camel: &str) -> String {
        let mut name = String::new();
        for letter in camel.chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.extend(letter.to_lowercase());
        }
        name
    }

    #[test]
    fn every_mutant_is_found_by_its_name_and_no_two_share_one() {
        let names: BTreeSet<&str> = Mutant::ALL.iter().map(|mutant| mutant.name()).collect();

        assert_eq!(names.len(), Mutant::ALL.len());
        for mutant in Mutant::ALL {
            assert_eq!(mutant.name(), kebab(&format!("{mutant:?}")));
            assert_eq!(Mutant::from_name(mutant.name()), Some(*mutant));
        }
        assert_eq!(Mutant::from_name("no-mistake"), None);
    }
}
