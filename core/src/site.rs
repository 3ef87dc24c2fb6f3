//! Sites: which peers are near each other.
//!
//! A *site* is a place with a fast network inside: a rack, a data centre, a region of a cloud. A *group* is something
//! else: its members reduce together, wherever they are. [`Algorithm::TwoLevel`](crate::plan::Algorithm::TwoLevel)
//! sends each byte once to each other site, and distributes it inside.
//!
//! Peers name their sites. If no member of a group does, the master [finds](found) the sites.

pub mod found;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::id::PeerId;
use crate::wire::{DIRECT_BUFFER_MAX, SITES_WHOLE_SENT_MAX};

/// Maximum length of a site's name, in bytes.
pub const SITE_NAME_BYTES_MAX: usize = 64;

/// The first character of the names of found sites, and of no others.
const FOUND: char = '~';

/// The name of a site, as users give it: at most [`SITE_NAME_BYTES_MAX`] bytes, without control characters, and
/// without a leading tilde.
///
/// All peers that name no site are at the site without a name, which is the default. A site that the master has
/// [found] is named after one of its peers: `~3` after peer 3.
///
/// ```
/// use pccl_core::site::SiteName;
///
/// let name = SiteName::try_from("eu-west-1".to_string());
/// assert_eq!(name.as_ref().map(SiteName::as_str), Ok("eu-west-1"));
/// assert!(SiteName::try_from("eu\nwest".to_string()).is_err());
/// assert!(SiteName::try_from("~3".to_string()).is_err());
/// assert_eq!(SiteName::default().as_str(), "");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Told", into = "String")]
pub struct SiteName(String);

/// A [`SiteName`] as it arrives: given by a user, or of a found site.
#[derive(Deserialize)]
struct Told(String);

impl SiteName {
    /// The site of all peers that name none.
    pub const NONE: Self = Self(String::new());

    /// The name of the site that was found around a peer.
    #[must_use]
    pub fn found_around(peer: PeerId) -> Self {
        Self(format!("{FOUND}{}", peer.0))
    }

    /// Whether the master found this site, so that no user named it.
    #[must_use]
    pub fn is_found(&self) -> bool {
        self.0.starts_with(FOUND)
    }

    /// Whether the site has a name, and is not [`NONE`](Self::NONE).
    #[must_use]
    pub const fn is_named(&self) -> bool {
        !self.0.is_empty()
    }

    /// The name as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SiteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for SiteName {
    type Error = BadSiteName;

    fn try_from(name: String) -> Result<Self, BadSiteName> {
        if name.len() > SITE_NAME_BYTES_MAX {
            return Err(BadSiteName::TooLong { bytes: name.len() });
        }
        if name.chars().any(char::is_control) {
            return Err(BadSiteName::ControlCharacter);
        }
        if name.starts_with(FOUND) {
            return Err(BadSiteName::Tilde);
        }
        Ok(Self(name))
    }
}

impl TryFrom<Told> for SiteName {
    type Error = BadSiteName;

    fn try_from(Told(name): Told) -> Result<Self, BadSiteName> {
        let number = name.strip_prefix(FOUND).map(str::parse);
        if let Some(Ok(number)) = number {
            let found = Self::found_around(PeerId(number));
            // A number can be written in several ways, of which one is a name.
            return (found.0 == name).then_some(found).ok_or(BadSiteName::Tilde);
        }
        Self::try_from(name)
    }
}

impl From<SiteName> for String {
    fn from(name: SiteName) -> Self {
        name.0
    }
}

/// Why a text is not the name of a site. Correct it in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BadSiteName {
    /// It has more than [`SITE_NAME_BYTES_MAX`] bytes.
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// It has a control character.
    ControlCharacter,
    /// It begins with a tilde, like the names of sites that the master finds.
    Tilde,
}

impl fmt::Display for BadSiteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes } => write!(
                f,
                "the name of a site has {bytes} bytes, and may have {SITE_NAME_BYTES_MAX}"
            ),
            Self::ControlCharacter => f.write_str("the name of a site has a control character"),
            Self::Tilde => f.write_str(
                "the name of a site begins with a tilde, as the names of sites do that the master finds",
            ),
        }
    }
}

impl core::error::Error for BadSiteName {}

/// The site of each rank. Sites have numbers from 0, in the order of their first ranks. So no site is empty, and
/// equal arrangements are equal values.
///
/// ```
/// use pccl_core::site::Sites;
///
/// let sites = Sites::of(["eu", "us", "eu", "us", "asia"]);
///
/// assert_eq!(sites.count(), 3);
/// assert_eq!(sites.of_rank(3), Some(1));
/// assert_eq!(sites.members(0), [0, 2]);
/// assert_eq!(Sites::of(["a", "b", "a", "b", "c"]), sites);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Sites {
    /// By rank: the number of its site.
    of_rank: Vec<u32>,
    /// By site: its ranks, in ascending order.
    members: Vec<Vec<u32>>,
}

impl Sites {
    /// The sites of the ranks from 0 on. Each item is the name of the rank's site, or any value that distinguishes
    /// sites.
    pub fn of<Name: PartialEq>(by_rank: impl IntoIterator<Item = Name>) -> Self {
        let (mut names, mut sites) = (Vec::new(), Self::default());
        for (rank, name) in (0..).zip(by_rank) {
            let known = names.iter().position(|other| *other == name);
            let site = known.unwrap_or_else(|| {
                names.push(name);
                sites.members.push(Vec::new());
                names.len() - 1
            });
            sites.of_rank.push(site as u32);
            if let Some(members) = sites.members.get_mut(site) {
                members.push(rank);
            }
        }
        sites
    }

    /// `world` ranks at one site.
    #[must_use]
    pub fn one(world: u32) -> Self {
        Self::of((0..world).map(|_| ()))
    }

    /// Number of ranks.
    #[must_use]
    pub fn world(&self) -> u32 {
        u32::try_from(self.of_rank.len()).unwrap_or(u32::MAX)
    }

    /// Number of sites.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.members.len()).unwrap_or(u32::MAX)
    }

    /// Whether there are several sites, and several ranks at one of them.
    #[must_use]
    pub fn has_two_levels(&self) -> bool {
        (2..self.world()).contains(&self.count())
    }

    /// Whether there are also three sites or more, so that a ring of them is no mesh.
    #[must_use]
    pub fn has_site_ring(&self) -> bool {
        self.has_two_levels() && self.count() > 2
    }

    /// Whether no site has more than 1.5 times as many ranks as another. Otherwise a small site sends more than a tenth
    /// more in an all-reduce around a ring of the sites than in a mesh of them.
    #[must_use]
    pub fn are_even(&self) -> bool {
        let most = self.members.iter().map(Vec::len).max().unwrap_or(0);
        most.saturating_mul(2) <= self.least_size().saturating_mul(3)
    }

    /// Number of ranks at the smallest site.
    fn least_size(&self) -> usize {
        self.members.iter().map(Vec::len).min().unwrap_or(0)
    }

    /// Maximum number of bytes of an all-reduce that has all sums at all sites, if paths are not known: between two
    /// sites [`DIRECT_BUFFER_MAX`], because a rank that is alone at its site keeps as much as the buffer, and among
    /// more of them as many that [`SITES_WHOLE_SENT_MAX`] leave a member of the smallest one.
    #[must_use]
    pub fn whole_buffer_max(&self) -> u64 {
        match self.count() {
            0..=2 => DIRECT_BUFFER_MAX,
            sites => {
                let all = SITES_WHOLE_SENT_MAX.saturating_mul(self.least_size() as u64);
                all / u64::from(sites.saturating_sub(1)).max(1)
            }
        }
    }

    /// The site of a rank. `None` if there is no such rank.
    #[must_use]
    pub fn of_rank(&self, rank: u32) -> Option<u32> {
        self.of_rank.get(rank as usize).copied()
    }

    /// The ranks at a site, in ascending order. Empty if there is no such site.
    #[must_use]
    pub fn members(&self, site: u32) -> &[u32] {
        let members = self.members.get(site as usize);
        members.map_or(&[], Vec::as_slice)
    }
}

/// The site of each rank with its name, in the form of the wire: the names, numbered in the order of their first
/// ranks, and for each rank the number of its site. The numbers are those of [`Sites`].
///
/// Decoding accepts nothing else. It fails if a number has no name, if a name has no rank or appears twice, or if the
/// numbers are in another order. Clones share their content.
///
/// ```
/// use pccl_core::site::{SiteMap, SiteName, Sites};
///
/// let [eu, us] = ["eu", "us"].map(|name| SiteName::try_from(name.to_string()).unwrap());
/// let map = SiteMap::new([&eu, &us, &eu]);
///
/// assert!(map.is_of(3));
/// assert_eq!(map.name_of(2), Some(&eu));
/// assert_eq!(map.sites(), Sites::of([0, 1, 0]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(try_from = "Named")]
pub struct SiteMap(Arc<Named>);

/// The content of a [`SiteMap`]. [`SiteMap::try_from`] checks it on arrival.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
struct Named {
    /// The names, by number.
    names: Vec<SiteName>,
    /// By rank: the number of its site.
    of_rank: Vec<u32>,
}

impl SiteMap {
    /// The map of the ranks from 0 on, each with the name of its site.
    #[must_use]
    pub fn new<'a>(by_rank: impl IntoIterator<Item = &'a SiteName>) -> Self {
        let (mut map, mut numbers) = (Named::default(), BTreeMap::new());
        for name in by_rank {
            let next = numbers.len() as u32;
            let number = *numbers.entry(name).or_insert(next);
            if number == next {
                map.names.push(name.clone());
            }
            map.of_rank.push(number);
        }
        Self(Arc::new(map))
    }

    /// Whether it has this number of ranks.
    #[must_use]
    pub fn is_of(&self, world: usize) -> bool {
        self.0.of_rank.len() == world
    }

    /// The name of a rank's site. `None` if there is no such rank.
    #[must_use]
    pub fn name_of(&self, rank: usize) -> Option<&SiteName> {
        let number = self.0.of_rank.get(rank)?;
        self.0.names.get(*number as usize)
    }

    /// The names of the ranks' sites, from rank 0 on.
    pub fn by_rank(&self) -> impl Iterator<Item = &SiteName> + '_ {
        (0..self.0.of_rank.len()).filter_map(|rank| self.name_of(rank))
    }

    /// The site of each rank, without the names.
    #[must_use]
    pub fn sites(&self) -> Sites {
        Sites::of(&self.0.of_rank)
    }
}

impl Serialize for SiteMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().serialize(serializer)
    }
}

impl TryFrom<Named> for SiteMap {
    type Error = BadSiteMap;

    fn try_from(arrived: Named) -> Result<Self, BadSiteMap> {
        let numbers = arrived.of_rank.iter();
        let by_rank = numbers.map(|number| arrived.names.get(*number as usize));
        let by_rank: Option<Vec<&SiteName>> = by_rank.collect();
        let map = Self::new(by_rank.ok_or(BadSiteMap)?);
        let is_map = *map.0 == arrived;
        is_map.then_some(map).ok_or(BadSiteMap)
    }
}

/// Numbers and names that are not a valid [`SiteMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct BadSiteMap;

impl fmt::Display for BadSiteMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the sites of a ring are not numbered in the order of its ranks")
    }
}
