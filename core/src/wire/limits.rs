//! Ports, and how much of anything a connection may carry. Every length that arrives is compared with
//! one of these before memory is set aside for it.

/// The default port of a master (TCP).
pub const DEFAULT_MASTER_PORT: u16 = 48148;

/// The first port that a peer tries to listen on; where it is taken it tries the next.
pub const FIRST_PEER_PORT: u16 = 48149;

/// Longest name of a shared-state entry, in bytes of UTF-8. Names are identifiers such as
/// `layers.3.weight`; the master keeps every peer's.
pub const MAX_ENTRY_NAME_BYTES: usize = 255;

/// Longest body of a control frame on a connection that has no [`PeerId`](crate::id::PeerId) yet. A
/// hello takes some 30 bytes, and the names of its site and of the peer up to 64 more each; strangers get no more
/// memory than this.
pub const FIRST_CONTROL_FRAME_MAX: usize = 4 * 1024;

/// Longest body of a control frame of a registered peer, and of the master. The longest message is
/// a vote to synchronize: 16 384 entries, each with the longest name, take 4.7 MB. Decoded, a message to the
/// master takes up to some fifteen times its length for as long as it is looked at. A message from the master that
/// names very many sites takes up to some fifty times its length, and one of very many lengths eight times.
pub const CONTROL_FRAME_MAX: usize = 5 * 1024 * 1024;

/// Most ranges in one request for shared state: small entries do not cost a round trip each.
pub const STATE_RANGES_MAX: usize = 4096;

/// Most bytes of one range of shared state: enough that a request is little beside its answer, and few
/// enough that no lane has much left to do when the others are done.
pub const STATE_RANGE_MAX: u32 = 4 * 1024 * 1024;

/// Longest body of a request for shared state: [`STATE_RANGES_MAX`] ranges of up to 20 bytes, and a
/// round.
pub const STATE_REQUEST_MAX: usize = 128 * 1024;

/// Most payload bytes that a sender puts into one data frame: large enough that the header and the
/// two system calls per frame do not count, small enough to stay in a core's cache from its arrival
/// to its departure. The rank that contributes a chunk cuts it by this, and all others forward its
/// frames as they are. It also bounds what travels whole, so that all ranks have to agree on it.
pub const FRAME_PAYLOAD_MAX: usize = 256 * 1024;

/// Least payload bytes of a data frame that is not quantized and not the last one of its chunk. A
/// receiver takes a shorter one for a misplaced frame: else a neighbour could make it, and all ranks
/// behind it, spend a header and a turn of their loops on every element.
pub const FRAME_PAYLOAD_MIN: usize = 64;

/// Longest buffer that travels around the ring whole: half as many steps as in chunks. Up to here a step
/// costs more than the additional bytes, measured with two and four peers on one machine, where steps
/// are cheapest.
pub const WHOLE_BUFFER_MAX: u64 = 32 * 1024;

/// Most bytes of a buffer that travels directly, over a mesh: beyond it bytes cost more than latencies, and a
/// ring needs one link in each direction for them.
pub const DIRECT_BUFFER_MAX: u64 = 4 * 1024 * 1024;

/// As [`DIRECT_BUFFER_MAX`], if by what was measured it takes less time directly: a rank keeps about as many bytes as the
/// buffer has until it adds, and a link that is not of the ring has one lane, however many were measured.
pub const KNOWN_DIRECT_BUFFER_MAX: u64 = 16 * 1024 * 1024;

/// Most bytes of a buffer that travels in rounds, within a machine: up to here a message costs more than the bytes
/// that leave the caches because a round waits for the one before. Measured with four and eight peers on two cores.
pub const CIRCULANT_BUFFER_MAX: u64 = 128 * 1024;

/// As [`DIRECT_BUFFER_MAX`], if all members of a group have one address, which is mostly one machine, and there are too
/// few of them for rounds. Steps are cheap there, and the bytes in flight between all pairs at once leave the caches:
/// measured on two cores, a ring is as fast up to here, and up to 1.8 times as fast beyond it.
pub const DIRECT_WITHIN_MACHINE_MAX: u64 = 64 * 1024;

/// Most payload bytes of one data frame that a receiver accepts. A header that claims more ends the
/// lane. Above [`FRAME_PAYLOAD_MAX`] to leave room for parameters that travel with compressed
/// elements.
pub const DATA_FRAME_MAX: usize = 1024 * 1024;

/// Most collectives that a peer has in flight. It holds back what it is asked for beyond them, so a
/// master that allows fewer kicks peers that have done nothing wrong. Peers that start collectives in
/// orders in which one overtakes as many others as this wait for each other.
pub const COLLECTIVES_MAX: usize = 1000;

/// Most bytes that the receiving end of a probe counts before it ends the lane. At 100 Gbit/s they
/// last for more than a second.
pub const PROBE_BYTES_MAX: u64 = 16 * 1024 * 1024 * 1024;

/// Longest text of a refused preamble, in bytes of UTF-8; its length travels in one byte.
pub const REFUSAL_TEXT_MAX: usize = 255;
