//! Ports, and limits on everything that a connection carries. Each received length is compared with one of these
//! before memory is allocated for it.

/// The default port of a master (TCP).
pub const DEFAULT_MASTER_PORT: u16 = 48148;

/// The first port on which a peer tries to listen. If it is taken, the peer tries the next one.
pub const FIRST_PEER_PORT: u16 = 48149;

/// Maximum length of the name of a shared-state entry, in bytes of UTF-8. Names are identifiers such as
/// `layers.3.weight`. The master keeps those of every peer.
pub const MAX_ENTRY_NAME_BYTES: usize = 255;

/// Maximum length of the body of a control frame on a connection that has no [`PeerId`](crate::id::PeerId) yet. A
/// hello takes some 30 bytes, and the names of its site and of the peer up to 64 more each. Strangers get no more
/// memory than this.
pub const FIRST_CONTROL_FRAME_MAX: usize = 4 * 1024;

/// Maximum length of the body of a control frame of a registered peer, and of the master. The longest message is a
/// vote to synchronize: 16,384 entries, each with the longest name, take 4.7 MB. A decoded message to the master
/// takes up to some fifteen times its length while it is processed. A message from the master takes up to some fifty
/// times its length if it names very many sites, and eight times if it lists very many lengths.
pub const CONTROL_FRAME_MAX: usize = 5 * 1024 * 1024;

/// Maximum number of ranges in one request for shared state, so that small entries do not cost a round trip each.
pub const STATE_RANGES_MAX: usize = 4096;

/// Maximum number of bytes of one range of shared state: enough that a request is small beside its answer, and few
/// enough that no lane has much left to do when the others are done.
pub const STATE_RANGE_MAX: u32 = 4 * 1024 * 1024;

/// Maximum length of the body of a request for shared state: [`STATE_RANGES_MAX`] ranges of up to 20 bytes, and a
/// round.
pub const STATE_REQUEST_MAX: usize = 128 * 1024;

/// Maximum number of payload bytes that a sender puts in one data frame: large enough that the header and the two
/// system calls per frame are negligible, small enough to stay in a core's cache from arrival to departure. The rank
/// that contributes a chunk cuts it by this size, and all others forward its frames unchanged. It also limits which
/// buffers are sent whole, so all ranks must agree on it.
pub const FRAME_PAYLOAD_MAX: usize = 256 * 1024;

/// Maximum number of payload bytes of a data frame that its receiver copies to the result, as in an all-gather and a
/// broadcast. Senders use it within a machine only: nothing is added to such a frame while it is in a cache, so fewer
/// frames cost less. Between machines a rank that forwards it would wait too long for its last byte.
pub const COPIED_PAYLOAD_MAX: usize = 1024 * 1024;

/// Minimum number of payload bytes of a data frame that is not quantized and not the last one of its chunk. A
/// receiver treats a shorter one as misplaced. Otherwise a neighbour could make it, and all ranks behind it, process
/// a header for every element.
pub const FRAME_PAYLOAD_MIN: usize = 64;

/// Maximum number of bytes of a buffer that is sent whole around the ring, in half as many steps as in chunks. Up to
/// here a step costs more than the additional bytes, measured with two and four peers on one machine, where steps are
/// cheapest.
pub const WHOLE_BUFFER_MAX: u64 = 32 * 1024;

/// Maximum number of bytes of a buffer that is sent directly, over a mesh. Beyond it bytes cost more than latencies,
/// and a ring needs only one link in each direction for them.
pub const DIRECT_BUFFER_MAX: u64 = 4 * 1024 * 1024;

/// As [`DIRECT_BUFFER_MAX`], if a direct exchange takes less time by the measured costs. A rank keeps about as many
/// bytes as the buffer has until it adds, and a link that is not part of the ring has one lane, however many were
/// measured.
pub const KNOWN_DIRECT_BUFFER_MAX: u64 = 16 * 1024 * 1024;

/// Bytes of a shard above which a reduce or a gather at three sites or more takes a ring of the sites, if paths are not
/// known, they are not within one machine, and, in an all-reduce, sites are even. The ring gains up to an eighth if a
/// shard takes longer than a latency, and more while connections are young, because fewer packets find a queue full: at
/// four sites of four members, with 20 Mbit/s and 50 ms between sites, nothing with shards of 256 KiB, 6 % with 1 MiB
/// and 11 % with 4 MiB. It costs up to M − 1 times as much among M sites if a shard takes much less than a latency.
/// With 50 ms, this size takes longer than a latency up to about 150 Mbit/s.
pub const SITE_RING_SHARD_MIN: u64 = 1024 * 1024;

/// Maximum number of bytes of the buffers of all ranks that travel whole at several sites, if paths are not known and
/// the ranks are not within one machine. Larger ones take two levels, with all sums at all sites if these are few: as
/// many latencies between the sites and fewer bytes, but more messages one after the other inside. At four sites of
/// four members, with 20 Mbit/s and 50 ms between sites, these take 0.97 of the time of whole buffers with 1 KiB, 0.91
/// with 4 KiB and 0.75 with 16 KiB.
pub const WHOLE_AMONG_SITES_MAX: u64 = 64 * 1024;

/// Maximum number of bytes that a member of the smallest of three sites or more sends to other sites in an all-reduce
/// with all sums at all sites, if paths are not known. It saves a latency between the sites, and sends about M/2 times
/// as many bytes among M sites as in two levels.
pub const SITES_WHOLE_SENT_MAX: u64 = 48 * 1024;

/// Maximum number of bytes of a frame's payload in a ring of sites, unless it is encoded. A frame is forwarded when all
/// of it has arrived, so shorter ones keep more sites busy; the paths are slow enough for a system call each.
pub const SITE_RING_PAYLOAD_MAX: usize = 64 * 1024;

/// Maximum number of bytes of a buffer that is sent in rounds, within a machine. Up to here a message costs more than
/// the bytes that leave the caches because a round waits for the one before. Measured with four and eight peers on
/// two cores.
pub const CIRCULANT_BUFFER_MAX: u64 = 128 * 1024;

/// As [`DIRECT_BUFFER_MAX`], if all members of a group have one address, which usually means one machine, and there
/// are too few of them for rounds. Steps are cheap there, and the bytes in flight between all pairs leave the caches:
/// measured on two cores, a ring is as fast up to here, and up to 1.8 times as fast beyond it.
pub const DIRECT_WITHIN_MACHINE_MAX: u64 = 64 * 1024;

/// Maximum number of payload bytes of one data frame that a receiver accepts. A header that announces more ends the
/// lane. It is larger than [`FRAME_PAYLOAD_MAX`] to leave room for the parameters of compressed elements, which are
/// never cut by [`COPIED_PAYLOAD_MAX`].
pub const DATA_FRAME_MAX: usize = 1024 * 1024;

/// Maximum number of collectives that a peer has in flight. It holds back further calls itself, so a master with a
/// lower limit evicts correct peers. If two peers start collectives in orders in which one collective overtakes this
/// many others, they wait for each other.
pub const COLLECTIVES_MAX: usize = 1000;

/// Maximum number of bytes that the receiving end of a probe counts before it ends the lane. At 100 Gbit/s they last
/// for more than a second.
pub const PROBE_BYTES_MAX: u64 = 16 * 1024 * 1024 * 1024;

/// Maximum length of the text of a refused preamble, in bytes of UTF-8. Its length is sent in one byte.
pub const REFUSAL_TEXT_MAX: usize = 255;
