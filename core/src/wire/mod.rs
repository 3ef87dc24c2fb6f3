//! The wire format: the exact bytes of every connection, enough to write a second implementation.
//!
//! All integers are little-endian. Offsets and lengths are in bytes. Reserved fields are sent as zero, and a receiver
//! refuses other values: a later version may give them a meaning.
//!
//! # Connections
//!
//! A connection is a *lane*: one ordered, reliable byte stream in each direction, over any transport. A peer has one
//! connection to the master, and accepts all others on one listening port. The first bytes state the purpose of a
//! connection, so that garbage and strangers are refused there.
//!
//! | purpose | dialled by | after the handshake |
//! |---|---|---|
//! | 1 control | the peer, at the master's port ([`DEFAULT_MASTER_PORT`]) | control frames in both directions |
//! | 2 link lane | the end that the master orders to | data frames, from the edge's sender to its receiver |
//! | 3 shared state | the end that the master orders to | requests from the peer that fetches, content in the other direction |
//! | 4 probe | the peer that sends | bytes, and their count in the other direction |
//! | 5 resume | the peer, at the master's port | the session's control frames in both directions |
//!
//! For purposes 2 to 4 the master gives both ends a [`LaneOrder`](crate::topology::LaneOrder) with the same ticket.
//! The end whose order has an address dials it and presents the ticket; the other end expects it. **The end that
//! dials is not always the end that sends**: on a link lane data flows only from the peer whose order is outgoing to
//! the peer whose order is incoming, and in a state transfer both ends know their role from the plan. The two edges
//! between the members of a ring of two have different tickets. The ticket tells the accepting end to which edge a
//! lane belongs.
//!
//! # Handshake
//!
//! The end that dials sends a [`Preamble`] and waits. Its layout is the same in every version of the protocol:
//!
//! | offset | length | field |
//! |---|---|---|
//! | 0 | 4 | magic, `PCCL` in ASCII |
//! | 4 | 2 | version, [`ProtocolVersion::CURRENT`](crate::id::ProtocolVersion::CURRENT) |
//! | 6 | 1 | purpose, as above |
//! | 7 | 1 | reserved, 0 |
//! | 8 | 8 | id of the peer that dials; 0 for control |
//! | 16 | 16 | ticket; 0 for control |
//! | 32 | 2 | number of the lane within the edge or transfer, from 0; 0 for other purposes |
//! | 34 | 2 | number of lanes of the edge or transfer; 1 for other purposes |
//!
//! On an encrypted control lane, whose ends have proved their keys, [`PROOF_BYTES`] bytes more follow at once: the
//! proof that the peer was invited. It is the keyed BLAKE3 hash, under the secret of the join string, of `pccl join
//! proof v1` in ASCII, of the 32 bytes that TLS exports from this very connection under the label
//! `EXPORTER-pccl-join` without a context (RFC 8446, section 7.5), and of the peer's public key. 32 zeros are no
//! proof, which is enough for a key that was admitted before. The master answers after it has checked both. On a
//! plain lane, and on lanes for other purposes, nothing follows.
//!
//! The other end answers with a [`Reply`], whose layout is the same in every version:
//!
//! | offset | length | field |
//! |---|---|---|
//! | 0 | 4 | magic, `PCCL` in ASCII |
//! | 4 | 2 | version |
//! | 6 | 1 | status: 0 accepted, 2 not yet, anything else refused |
//! | 7 | 1 | length n of the text; 0 if accepted |
//! | 8 | n | UTF-8 text for the user of the other end |
//!
//! If accepted, the purpose's own bytes follow at once in both directions. Otherwise the answering end closes. A peer
//! accepts a lane if the ticket, the peer's id, the purpose and the number of lanes are those of an order that it
//! holds, and if it has not accepted a lane of that number for the order before: each lane of an edge is a connection
//! of its own, with the same ticket. A connection that has not completed its preamble within seconds is dropped
//! without an answer.
//!
//! *Not yet* means that the same connection may be accepted a little later: a peer may be dialled before the master's
//! order has reached it, and a master may have no room for another handshake. The end that dialled closes, pauses,
//! and opens another connection, with a doubling pause, until its own time limit. A peer answers *refused* to a
//! ticket that it will never accept again: the lane was accepted before, or the order was given up.
//!
//! # Control frames
//!
//! | offset | length | field |
//! |---|---|---|
//! | 0 | 4 | length n of the body |
//! | 4 | 4 | CRC-32C (Castagnoli) of the body |
//! | 8 | 4 | CRC-32C of the 8 bytes before |
//! | 12 | n | one message: [`ToMaster`](crate::messages::ToMaster) from a peer, [`ToPeer`](crate::messages::ToPeer) from the master |
//!
//! n is at most [`FIRST_CONTROL_FRAME_MAX`] until the master has sent `Welcome`, then [`CONTROL_FRAME_MAX`]. A longer
//! frame ends the connection before its body is read. A body that is not exactly one message ends it as well. So does a
//! wrong checksum, but then the session can go on over another connection.
//!
//! If the highest bit of the length is set, the rest of it is the length of a [`SessionFrame`], which is about the
//! connection and is not counted among the messages:
//!
//! | body | from | frame |
//! |---|---|---|
//! | 0, then 16 bytes and 4 bytes | the master, before `Welcome` | the token of the session, and how many milliseconds the master may be away and still come back |
//! | 1, then 8 bytes | both, before each heartbeat | number of messages that the sender has received |
//! | 2, then 8 bytes and 4 bytes | the master, before a heartbeat | a peer from which it hears nothing, and for how many milliseconds |
//!
//! # Sessions
//!
//! If a control connection breaks, the peer may open another one, for purpose 5, and go on where it was. Its preamble
//! has its own number and, as the ticket, the token of its session. After the preamble and, on an encrypted lane, the
//! proof, come 8 bytes, the number of messages that the peer has received in the session, with the welcome as the
//! first; and 8 bytes, a number that grows with each connection that the peer opens for the session. The master
//! replies; if it accepts, 8 bytes with its own number follow, with the hello as the first. Then each end sends the
//! messages that the other one lacks, and goes on. See [`session`](crate::session).
//!
//! The body is the message's type in [postcard](https://postcard.jamesmunns.com/wire-format) form:
//!
//! | type | bytes |
//! |---|---|
//! | `u8`, `bool` | itself; 0 or 1 |
//! | `u16` to `u128` | varint: 7 bits a byte, low ones first, high bit set if more follow |
//! | struct, tuple, newtype | its fields in the order of their declaration, nothing between |
//! | enum | varint of the variant's position in the declaration, from 0; then its fields |
//! | `Option` | 0, or 1 and the value |
//! | `Result` | 0 and the value, or 1 and the error |
//! | `Vec`, `String` | varint of the length, then the items or the UTF-8 bytes |
//! | `IpAddr` | 0 and 4 bytes, or 1 and 16 bytes |
//! | `SocketAddr` | 0 or 1 and the bytes of the IP address as above, then the port as a varint |
//! | `SiteName` | a `String`, of at most [`SITE_NAME_BYTES_MAX`](crate::site::SITE_NAME_BYTES_MAX) bytes, without control characters |
//! | `PeerName` | a `String`, of at most [`PEER_NAME_BYTES_MAX`](crate::name::PEER_NAME_BYTES_MAX) bytes, without control characters |
//! | `SiteMap` | a `Vec` of the names, each once, in the order of their first ranks; then a `Vec` of varints: by rank, the position of its name |
//!
//! ```
//! use pccl_core::id::{GroupId, ProtocolVersion};
//! use pccl_core::messages::{Hello, ToMaster};
//! use pccl_core::site::SiteName;
//! use pccl_core::wire::encode_control;
//!
//! let hello = ToMaster::Hello(Hello {
//!     protocol: ProtocolVersion(5),
//!     group: GroupId(300),
//!     port: 48149,
//!     advertise: Some([192, 0, 2, 7].into()),
//!     lanes: 16,
//!     site: SiteName::try_from("eu".to_string())?,
//!     name: "a1".to_string().try_into()?,
//! });
//! let mut bytes = Vec::new();
//! encode_control(&hello, &mut bytes)?;
//!
//! assert_eq!(bytes[..4], [20, 0, 0, 0]); // length of the body
//! let body = &bytes[12..]; // after two checksums
//! assert_eq!(body[..2], [0, 5]); // variant Hello; version
//! assert_eq!(body[2..4], [0xac, 0x02]); // 300
//! assert_eq!(body[4..7], [0x95, 0xf8, 0x02]); // 48149
//! assert_eq!(body[7..13], [1, 0, 192, 0, 2, 7]); // present; IPv4; the address
//! assert_eq!(body[13..14], [16]); // lanes
//! assert_eq!(body[14..17], [2, b'e', b'u']); // two bytes of text
//! assert_eq!(body[17..], [2, b'a', b'1']);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Data frames
//!
//! On a lane of a link the sender sends frames, and the receiver sends nothing. A frame is a [`FrameHeader`] and its
//! payload:
//!
//! | offset | length | field |
//! |---|---|---|
//! | 0 | 8 | number of the operation, from `Commence`, or from the `Verdict` that reserved it |
//! | 8 | 8 | position of the payload: byte offset in the whole buffer |
//! | 16 | 4 | payload length n, at most [`DATA_FRAME_MAX`] |
//! | 20 | 4 | step of the [`plan`](crate::plan) |
//! | 24 | 2 | stripe |
//! | 26 | 2 | flags: 1 if the payload was sent between machines on its way, plus 2 if it has a checksum |
//! | 28 | 8 | checksum of the payload, as `pccl_kernels::checksum` describes; 0 without one |
//! | 36 | 4 | CRC-32C (Castagnoli) of the 36 bytes before |
//! | 40 | n | elements, little-endian, without gaps, or their quantized form |
//!
//! The checksum of the header is always there. That of the payload is the sender's choice, frame by frame: on a lane
//! that proves what it carries, such as TLS or QUIC, it would be of no use. A receiver checks it where there is one,
//! before it uses a byte of the payload. A damaged header or payload ends the lane. Who forwards a payload unchanged
//! may forward its checksum.
//!
//! A buffer is divided into shards, one for each rank ([`Shards`](crate::plan::Shards)): in a reduce-scatter and an
//! all-gather in the order of the peers' ids, otherwise in that of the ranks. Their lengths differ by at most one
//! element; in an all-gather of different lengths they are those that `Commence` lists by rank. Each shard is cut into
//! as many chunks as there are stripes ([`stripes_for`](crate::plan::stripes_for)), each of at least
//! [`STRIPE_BYTES_MIN`](crate::plan::STRIPE_BYTES_MIN) of the buffer: chunk i of all shards together is stripe i. In a
//! broadcast the buffer is cut into stripes directly, so each stripe is one range of it. All frames of a stripe take
//! one lane, which the sender chooses with the first of them. The [`Plan`](crate::plan::Plan) of the algorithm that
//! `Commence` names determines what a rank receives in which step, what it does with it and where it sends it; on a
//! ring see [`Algorithm::Ring`](crate::plan::Algorithm::Ring). The rank that contributes a chunk cuts its range into
//! frames of whole elements, of at most [`FRAME_PAYLOAD_MAX`] bytes and, except for the last one, of at least
//! [`FRAME_PAYLOAD_MIN`]. In an all-gather and a broadcast, whose frames are only copied, it may cut frames of up to
//! [`COPIED_PAYLOAD_MAX`] bytes, and does if all members of the group have one address. All other ranks forward them as
//! they are cut. The frames of one step of one stripe come in the order of their offsets. Frames of different steps,
//! stripes and operations may alternate. An empty range has no frame.
//!
//! Each rank adds its own contribution to the arrivals. In an average, the rank that adds the last contribution (to
//! what arrives in step N − 2) divides the sum by N, once, and forwards the result.
//!
//! A quantized frame holds 65,536 elements, or the rest of the chunk, encoded as the documentation of
//! `pccl_kernels::Codec` describes. The offset is that of the elements. A rank that adds decodes, adds and encodes
//! again. The rank that adds the last contribution takes as its own result what the others will decode.
//!
//! A small buffer is sent whole if [`Algorithm::of`](crate::plan::Algorithm::of) chooses it: not quantized, of up to
//! [`WHOLE_BUFFER_MAX`] bytes, and small enough that those of all ranks together fit in [`FRAME_PAYLOAD_MAX`]. It is
//! one stripe, and each rank's contribution is cut into frames like a chunk. In step s, of N − 1, a rank sends the
//! contribution of the rank s places before it, as [`Algorithm::Whole`](crate::plan::Algorithm::Whole) describes.
//! Then every rank adds all contributions, its own included, in the order of the [`Turns`](crate::plan::Turns), and
//! divides an average by N, once. If there are links between all ranks, each rank sends its contribution to each
//! other one, or the ranks gather the contributions in rounds ([`Pattern`](crate::plan::Pattern)).
//!
//! Over such links a buffer that is not quantized may be sent directly, as
//! [`Algorithm::Direct`](crate::plan::Algorithm::Direct) describes. `Commence` decides; without known paths it does
//! so up to [`DIRECT_BUFFER_MAX`] bytes. The buffer is one stripe. In the steps 0 to N − 2 a rank receives the
//! others' contributions to its chunk, in the steps N − 1 to 2N − 3 the results of theirs; the plan determines from
//! which rank in which step. It adds as soon as all contributions have arrived, divides an average by N, and sends
//! the result to each other rank, cut into frames like a contribution.
//!
//! Within a machine a buffer of up to [`CIRCULANT_BUFFER_MAX`] bytes takes rounds in place of that, as
//! [`Algorithm::Circulant`](crate::plan::Algorithm::Circulant) describes. In the steps 0 to N − 2 a rank receives
//! sums of others' contributions to some chunks. It adds each to its own elements once all sums of the chunk have
//! arrived, and sends the sum on, or divides it if it is the result. In the steps N − 1 to 2N − 3 it receives the
//! results of all other chunks and forwards them. Frames that leave together
//! ([`Plan::leaves_with`](crate::plan::Plan::leaves_with)) may be received together.
//!
//! In two levels, as [`Algorithm::TwoLevel`](crate::plan::Algorithm::TwoLevel) describes, a rank receives the
//! contributions of its site to the chunks of which it is the gateway, its own chunk first; then the sums of the
//! other sites for its own chunk; and then the results of all other chunks, in their order. It forwards the results
//! of other sites' chunks inside its own site. Chunks are cut into stripes as around a ring. With a ring among the
//! sites ([`Algorithm::TwoLevelRing`](crate::plan::Algorithm::TwoLevelRing)), a rank receives in the place of these sums
//! one for each chunk of which it is the gateway, unless the sum begins at its site, and it forwards results to the next
//! site as well. With all sums at all sites ([`Algorithm::TwoLevelWhole`](crate::plan::Algorithm::TwoLevelWhole)), it
//! receives the sums of the other sites for each chunk of which it is the gateway, and results of the other chunks from
//! their gateways at its site.
//!
//! An [`ordered`](crate::element::CollectiveSpec::ordered) collective may be relayed around the ring, as
//! [`Algorithm::Relay`](crate::plan::Algorithm::Relay) describes. Each passage of a stripe, or of each chunk of a
//! reduce-scatter, is a step: first the passages of its sums, lap by lap, and then that of the result.
//!
//! A reduce-scatter and an all-gather, of any lengths, are the first and the second half of an all-reduce in chunks,
//! and count their steps from 0. In a broadcast the root sends its buffer to the next rank in step 0, and each other
//! rank forwards what it receives in step 0, except for the rank before the root
//! ([`Algorithm::Chain`](crate::plan::Algorithm::Chain)). Down a tree
//! ([`Algorithm::Tree`](crate::plan::Algorithm::Tree)) and in two levels all of these frames are of step 0, too, and
//! the plan determines to which ranks each rank sends. A barrier has no frames.
//!
//! A receiver may get frames of an operation before its `Commence`, because the sender received that first, or has begun
//! ahead. It leaves them on the lane until it begins the operation, or one with a higher number. Frames of an operation
//! that is over, or has a lower number than one that was begun, are read and discarded.
//!
//! A header that cannot be decoded ends the lane, because the position of the next one is unknown. A valid header
//! that is not that of the next frame of its stripe fails the operation at the receiver; its payload is read and
//! discarded, and the lane remains in use. In both cases the receiver tells the master that the edge is broken.
//! Operations that need nothing more from a lane that ended continue, and so do all others after a misplaced frame.
//! The next collective of the group rebuilds the edge.
//!
//! # Shared state
//!
//! Each peer that fetches has one or more lanes, all with the ticket of one order. It cuts what it lacks into ranges,
//! and requests them on whichever lane is free, with one control frame at a time: a [`StateRequest`] of at most
//! [`STATE_REQUEST_MAX`] bytes, [`STATE_RANGES_MAX`] ranges and [`STATE_RANGE_MAX`] bytes a range. It may send
//! another request before the answer has arrived, so that a lane never runs dry. The serving end answers the requests
//! of a lane one after the other, and each with its ranges in order, a header and the content:
//!
//! | offset | length | field |
//! |---|---|---|
//! | 0 | 4 | number of the entry: its position among the names in byte order |
//! | 4 | 4 | length n |
//! | 8 | 8 | offset of the range in the entry |
//! | 16 | n | elements, little-endian, from that offset on |
//!
//! The fetching end closes its lanes when it has all content. The serving end is done with that peer when one of them
//! has ended in this way. Ranges that a broken lane has not delivered are requested on another one. The fetching end
//! knows each entry's length (elements times element size) in advance. It compares each entry's hash with that of the
//! plan, and writes nothing to the user's memory before the master says that all transfers succeeded. A hash, here as
//! in votes and plans, is the first 16 bytes of the BLAKE3 hash of the elements as they are sent, read as a
//! little-endian `u128` ([`ContentHash`](crate::id::ContentHash)).
//!
//! # Probes
//!
//! Bytes flow in the direction of the order, whichever end dialled, on as many lanes as the order says. When all
//! lanes are up, the sender sends [`PROBE_PINGS`] single bytes on the first lane, each after the answer to the
//! previous one; the receiver sends each back. The shortest of these round trips is that of the edge.
//!
//! Then the sender sends any bytes on all lanes, up to [`PROBE_BYTES_MAX`] in all, and closes its direction of each. On
//! the first lane the receiver sends every 10 ms the number of bytes that have arrived on all lanes without preambles
//! and pings, in 8 bytes, and closes when all lanes have ended. The sender stops when the rate at which that number
//! grows has not grown for four round trips, after four seconds at most. It keeps at most twice as many bytes in flight
//! as arrive in a round trip.
//!
//! # Sequences
//!
//! `P` is a peer, `M` the master, `A` and `B` neighbours on a ring.
//!
//! **A peer joins.** The members' `update_topology` admits it.
//!
//! ```text
//! P → M  preamble(control)
//! M → P  reply(accepted)
//! P → M  Hello
//! M → P  Welcome{peer, …}            or Refused{why}, then close
//!        … from here on both send at least every heartbeat_ms: Heartbeat, if nothing else. P's says
//!        whether bytes have moved on P since the last one: a peer that moves some is not late
//! members → M  UpdateTopology{epoch, broken}  every accepted peer; not needed in an empty run. With an
//!                                    older epoch than the current one it was answered already
//! M → A, B  EstablishLinks{round, links}  only to peers that have links to connect
//! A → B  preamble(link lane, ticket, lane i of n) on n connections; or B → A, as the order says
//! B → A  reply(accepted) on each
//! A, B → M  LinkUp{round, link}      each end, for each of its links. If the end that dials fails:
//!                                    LinkFailed{round, link, failure}. When every link is decided and
//!                                    one of the ring has failed, M orders another round; if any other
//!                                    link has failed, the ring is used alone
//! M → all  TopologyEstablished{topology, layout}  if nothing has changed, only to the peers that called
//! ```
//!
//! `layout` lists the links of the peer, including those to its neighbours on the ring, in ascending order, and for
//! each the round in which its lanes were connected. Both ends of a link get the same round, and use those lanes: the
//! established ones if they are of that round, otherwise those that came up in the last order. Only then are all
//! other lanes dropped: an order does not end established lanes, and after a failed attempt a link may be kept
//! although other lanes were connected for it.
//!
//! A link is named by its direction, as seen from the peer that names it, and by the peer at its other end. Lists of
//! links are in ascending order (outgoing first), each link once.
//!
//! A member gets both messages while it waits in `update_topology`, while it waits for others to join any other call,
//! or while it waits for nothing. It never gets them while a collective that has commenced runs on its ring, or while it
//! measures or moves shared state.
//!
//! **An all-reduce**, or another collective.
//!
//! ```text
//! group → M  InitiateCollective{tag, spec, epoch, broken}   all the same spec, except for `own` of an `AllGatherV`
//! M → group  Commence{tag, seq, algorithm, lengths}     or CollectiveRefused{tag, reason}
//! A → B      frames of seq on the lanes, steps 0 to 2(N−1)−1; to N−2 of one half or a whole buffer; 0 of a broadcast
//! group → M  CompleteCollective{seq, Done, broken}      each after its last frame has been received and sent
//! M → group  Verdict{tag, seq, Committed{epoch, next}}  the peers of the ring of that epoch contributed
//! ```
//!
//! **The same collective again**, if `next` has reserved a number and an algorithm for it. A peer may begin it ahead.
//!
//! ```text
//! A → M      InitiateCollective{tag, spec, epoch, broken}   the same spec as before, no other collective being open at A
//! A → B      frames of next.seq                         at once
//! A → M      CompleteCollective{next.seq, Done, broken}  as soon as it is done; any other outcome after Commence
//! M → group  Commence{tag, seq, algorithm, ...}         when all have voted. If seq is next.seq, A goes on, and whoever has
//!                                    not begun does so; otherwise A drops what it has begun, and begins anew
//! ```
//!
//! A peer also drops what it has begun when another collective commences, and when `CollectiveRefused` or
//! `TopologyEstablished` comes. In these cases its vote on the outcome is void, if it has cast one. What is not done it drops
//! when it withdraws.
//!
//! **A withdrawal.** A peer may withdraw a vote to start. If it withdraws too late, it votes that it gave up, unless it has
//! voted before `Commence` that it is done: that vote counts.
//!
//! ```text
//! P → M      InitiateCollective{tag, spec, epoch, broken}
//! P → M      Withdraw{tag}                              again without effect
//! M → P      CollectiveRefused{tag, Withdrawn}          or Commence, if all had voted:
//! P → M      CompleteCollective{seq, Cancelled, broken}
//! ```
//!
//! **An abort.** A peer is lost, gives up, or loses a lane. The remaining lanes stay in use: every sender completes
//! the frame that it has begun, and sends no more frames of that operation.
//!
//! ```text
//! A → M      CompleteCollective{seq, LaneLost, broken}  or A's control connection ends
//! M → group  Verdict{tag, seq, Aborted(cause)}          each restores its buffer
//! A → B      the rest of a begun frame, then frames of later operations
//! ```
//!
//! **A synchronization.**
//!
//! ```text
//! group → M  SyncSharedState(vote)
//! M → group  SharedStatePlan{round, revision, role}
//! A → B      preamble(shared state, ticket, lane i of n); B → A  reply(accepted)
//! fetching → serving  StateRequest{round, ranges}       repeatedly, on each lane
//! serving → fetching  for each range: header, content
//! group → M  SharedStateDone{round, ok, with}
//! M → group  SharedStateConcluded{round, Ok(revision)}  or Err(why): no content was changed
//! ```
//!
//! **A question.** In any state from `Welcome` on; nothing changes.
//!
//! ```text
//! P → M      WhoIsAwaited
//! M → P      Awaited{waits}                             the peers that have not made the calls in which P waits
//! ```
//!
//! **An end.** A peer that leaves sends `Leave` and closes. A master that stops sends `Stopping` and closes. A peer
//! that broke a rule gets `Kicked(misdeed)` before its connection ends.

mod bytes;
mod control;
mod crc32c;
mod frame;
mod handshake;
mod limits;
mod preamble;
mod reply;
mod session;
mod shared_state;
#[cfg(test)]
mod tests;

pub use control::{
    CONTROL_HEAD_BYTES, ControlError, ControlReader, DecodeError, EncodeError, encode_control,
    recv_control, send_control,
};
pub use frame::{FRAME_HEADER_BYTES, FrameError, FrameHeader, PayloadSum};
pub use handshake::{
    HandshakeError, PROOF_BYTES, offer, offer_again, offer_proven, recv_count, recv_preamble,
    recv_proof, recv_reply, refuse, send_reply,
};
pub use limits::{
    CIRCULANT_BUFFER_MAX, COLLECTIVES_MAX, CONTROL_FRAME_MAX, COPIED_PAYLOAD_MAX, DATA_FRAME_MAX,
    DEFAULT_MASTER_PORT, DIRECT_BUFFER_MAX, DIRECT_WITHIN_MACHINE_MAX, FIRST_CONTROL_FRAME_MAX,
    FIRST_PEER_PORT, FRAME_PAYLOAD_MAX, FRAME_PAYLOAD_MIN, KNOWN_DIRECT_BUFFER_MAX,
    MAX_ENTRY_NAME_BYTES, PROBE_BYTES_MAX, REFUSAL_TEXT_MAX, SITE_RING_PAYLOAD_MAX,
    SITE_RING_SHARD_MIN, SITES_WHOLE_SENT_MAX, STATE_RANGE_MAX, STATE_RANGES_MAX,
    STATE_REQUEST_MAX, WHOLE_AMONG_SITES_MAX, WHOLE_BUFFER_MAX,
};
pub use preamble::{MAGIC, PREAMBLE_BYTES, Preamble, PreambleError, Purpose};
pub use reply::{REPLY_HEAD_BYTES, Reply, ReplyError, ReplyHead};
pub use session::{ControlHead, QUIET_MAX, QuietPeer, SessionFrame, SessionTerms};
pub use shared_state::{
    PROBE_ANSWER_BYTES, PROBE_PINGS, STATE_RANGE_HEADER_BYTES, StateRange, StateRequest,
    UnexpectedRange, decode_probe_answer, encode_probe_answer,
};
