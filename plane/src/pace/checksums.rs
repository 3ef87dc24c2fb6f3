//! Which lanes carry checksums of payloads.

use pccl_core::transport::Lane;

/// On which lanes the payloads of collectives are sent with a checksum.
///
/// TCP's own checksum has 16 bits, and network cards and middleboxes have damaged bytes after it was verified. With a
/// checksum of the payload, such bytes never become part of a result: the receiver gives the lane up, the collective
/// is aborted and its buffers are restored, and the next one runs on another lane.
///
/// Each peer decides this for what it sends, and checks whatever arrives with a checksum. So peers with different
/// settings work together. The header of a frame has a checksum on all lanes. Encrypted lanes prove each byte anyway,
/// so their payloads never get one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Checksums {
    /// On no lane. For plain networks that check for themselves.
    Never,
    /// On plain lanes to other machines. Within a machine, bytes do not leave its memory.
    #[default]
    BetweenMachines,
    /// On all plain lanes. For peers that look as if they were on this machine and are not, such as those behind a
    /// tunnel or a port that a program here forwards.
    Always,
}

impl Checksums {
    /// Whether payloads that this end sends on a lane get a checksum.
    pub(crate) fn apply_to(self, lane: &Lane) -> bool {
        let is_plain = lane.proven.is_none();
        match self {
            Self::Never => false,
            Self::BetweenMachines => is_plain && !lane.tx.is_local(),
            Self::Always => is_plain,
        }
    }
}
