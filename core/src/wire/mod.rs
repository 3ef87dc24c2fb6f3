//! Bytes: what travels on every connection, exactly. Enough to write a second implementation.
//!
//! All integers are little-endian. Offsets and lengths are in bytes. Reserved fields are sent as zero
//! and refused when they are not: a later version may give them a meaning.
//!
//! # Connections
//!
//! A connection is a *lane*: one ordered, reliable byte stream in each direction, whatever the
//! transport. A peer holds one connection to the master and accepts all others on one listening
//! port. The first bytes say what a connection is for, so that garbage and strangers end there.
//!
//! | purpose | dialled by | after the handshake |
//! |---|---|---|
//! | 1 control | the peer, at the master's port ([`DEFAULT_MASTER_PORT`]) | control frames both ways |
//! | 2 link lane | whom the master tells to | data frames, from the edge's sender to its receiver |
//! | 3 shared state | whom the master tells to | requests from the peer that fetches, what they ask for the other way |
//! | 4 probe | the peer that sends | bytes, then their count the other way |
//!
//! For purposes 2 to 4 the master gives both ends a [`LaneOrder`](crate::topology::LaneOrder) with
//! the same ticket. The end whose order has an address dials it and presents the ticket; the other
//! end expects it. **Who dials says nothing about who sends**: on a link lane data flows only from the
//! peer that got the order as `next` to the one that got it as `previous`, and of a state transfer
//! both ends know their role from the plan. The two edges between the members of a ring of two have
//! different tickets; a ticket tells the accepting end which edge a lane belongs to.
//!
//! # Handshake
//!
//! The end that dials sends a [`Preamble`] and waits. Its layout is the same in every version of the
//! protocol:
//!
//! | offset | length | field |
//! |---|---|---|
//! | 0 | 4 | magic, `PCCL` in ASCII |
//! | 4 | 2 | version, 5 |
//! | 6 | 1 | purpose, as above |
//! | 7 | 1 | reserved, 0 |
//! | 8 | 8 | number of the peer that dials; 0 for control |
//! | 16 | 16 | ticket; 0 for control |
//! | 32 | 2 | which lane of the edge or transfer, from 0; 0 for other purposes |
//! | 34 | 2 | how many lanes the edge or transfer has; 1 for other purposes |
//!
//! On a control lane that is encrypted, and whose ends have therefore proved their keys, [`PROOF_BYTES`]
//! more follow at once, the proof that the peer was invited: the keyed BLAKE3 hash, under the secret of
//! the join string, of `pccl join proof v1` in ASCII, of the 32 bytes that TLS exports from this very
//! connection under the label `EXPORTER-pccl-join` without a context (RFC 8446, section 7.5), and of the
//! peer's public key. 32 zeros show nothing: a key that was let in before needs no proof. The master
//! answers once it has looked at both. On a plain lane, and on lanes for other purposes, nothing follows.
//!
//! The other end answers with a [`Reply`], in every version of this layout:
//!
//! | offset | length | field |
//! |---|---|---|
//! | 0 | 4 | magic, `PCCL` in ASCII |
//! | 4 | 2 | version |
//! | 6 | 1 | status: 0 accepted, 2 not yet, anything else refused |
//! | 7 | 1 | length n of the text; 0 where accepted |
//! | 8 | n | UTF-8 text for whoever runs the other end |
//!
//! Where accepted, the purpose's own bytes follow at once in both directions. Otherwise the
//! answering end closes. A peer accepts a lane when the ticket, the peer's number, the purpose and
//! the lane count are those of an order that it holds, and no lane of that number was accepted for
//! it before: each of an edge's lanes is a connection of its own, with the same ticket. Whoever
//! has not completed its preamble within seconds is dropped without an answer.
//!
//! *Not yet* says that the same connection may be wanted a little later: a peer may be dialled before
//! the master's order has reached it, and a master may have no room for one more handshake. The end
//! that dialled closes, pauses, and opens another connection, with a pause that doubles, until its own
//! time limit. A peer says *refused* of a ticket that it will never take again: the lane was accepted
//! before, or the order was given up.
//!
//! # Control frames
//!
//! | offset | length | field |
//! |---|---|---|
//! | 0 | 4 | length n of the body |
//! | 4 | n | one message: [`ToMaster`](crate::messages::ToMaster) from a peer, [`ToPeer`](crate::messages::ToPeer) from the master |
//!
//! n is at most [`FIRST_CONTROL_FRAME_MAX`] until the master has said `Welcome`, then
//! [`CONTROL_FRAME_MAX`]. A longer one ends the connection before its body is read, and so does a body
//! that is not exactly one message.
//!
//! The body is the message's type in [postcard](https://postcard.jamesmunns.com/wire-format) form:
//!
//! | type | bytes |
//! |---|---|
//! | `u8`, `bool` | itself; 0 or 1 |
//! | `u16` to `u128` | varint: 7 bits a byte, low ones first, high bit set where more follow |
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
//! assert_eq!(bytes[4..6], [0, 5]); // variant Hello; version
//! assert_eq!(bytes[6..8], [0xac, 0x02]); // 300
//! assert_eq!(bytes[8..11], [0x95, 0xf8, 0x02]); // 48149
//! assert_eq!(bytes[11..17], [1, 0, 192, 0, 2, 7]); // present; IPv4; the address
//! assert_eq!(bytes[17..18], [16]); // lanes
//! assert_eq!(bytes[18..21], [2, b'e', b'u']); // two bytes of text
//! assert_eq!(bytes[21..], [2, b'a', b'1']);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Data frames
//!
//! On a lane of a link its sender sends frames; the receiver sends nothing. A frame is a
//! [`FrameHeader`] and its payload:
//!
//! | offset | length | field |
//! |---|---|---|
//! | 0 | 8 | number of the operation, from `Commence` |
//! | 8 | 8 | where the payload belongs: byte offset in the whole buffer |
//! | 16 | 4 | payload length n, at most [`DATA_FRAME_MAX`] |
//! | 20 | 4 | step of the [`plan`](crate::plan) |
//! | 24 | 2 | stripe |
//! | 26 | 2 | flags: 1 where the payload was sent between machines on its way; else 0 |
//! | 28 | 4 | reserved, 0 |
//! | 32 | n | elements, little-endian, without gaps, or what they were quantized to |
//!
//! A buffer is divided into shards, one for each rank ([`Shards`](crate::plan::Shards)): in a reduce-scatter and an
//! all-gather in the order of the peers' ids, else in that of the ranks; they have one length, give or take an element, or
//! in an all-gather of different lengths those that `Commence` names by rank. Each shard is cut into as many chunks as there
//! are stripes ([`stripes_for`](crate::plan::stripes_for)), each of at least
//! [`STRIPE_BYTES_MIN`](crate::plan::STRIPE_BYTES_MIN) of the buffer: chunk i of every shard makes up stripe i. In a
//! broadcast the buffer is cut into stripes directly, so each is one range of it. All frames of a stripe travel on one lane,
//! which the sender chooses with the first of them. What a rank receives in which step, what it does with it
//! and where it sends it on is given by its [`Plan`](crate::plan::Plan), which is that of the algorithm that
//! `Commence` names: around a ring as [`Algorithm::Ring`](crate::plan::Algorithm::Ring) says. The rank that contributes a chunk cuts its range
//! into frames of whole elements, of at most [`FRAME_PAYLOAD_MAX`] bytes and, but for the last one, of at
//! least [`FRAME_PAYLOAD_MIN`]; all others forward them as they are cut. The frames of one step of one stripe
//! come in the order of their offsets; frames of different steps, stripes and operations may alternate.
//! An empty range has no frame.
//!
//! Each rank adds its own contribution to what arrives. Of an average, the rank that adds the last one
//! (what arrives in step N − 2) divides the sum by N, once; what it passes on is the result.
//!
//! Quantized, a frame holds 65,536 elements, or what is left of the chunk, encoded as the documentation
//! of `pccl_kernels::Codec` says; the offset is that of the elements. A rank that adds decodes, adds
//! and encodes again; the one that adds the last contribution takes for its own result what the others
//! will decode.
//!
//! A small buffer travels whole, where [`Algorithm::of`](crate::plan::Algorithm::of) says so: not
//! quantized, of up to [`WHOLE_BUFFER_MAX`] bytes, and small enough for those of all ranks to fit into
//! [`FRAME_PAYLOAD_MAX`]. It is one stripe, and each rank's contribution is cut into frames like a
//! chunk. In step s, of N − 1, a rank sends what the rank s places before it has contributed, as
//! [`Algorithm::Whole`](crate::plan::Algorithm::Whole) says. Then every rank adds all contributions, its own
//! among them, in the order of the [`Turns`](crate::plan::Turns), and divides an average by N, once. If there are links between all
//! ranks, each sends its contribution to each other one, or they gather the contributions in rounds
//! ([`Pattern`](crate::plan::Pattern)).
//!
//! With such links a buffer that is not quantized may travel directly, as
//! [`Algorithm::Direct`](crate::plan::Algorithm::Direct) says: what `Commence` says decides, up to
//! [`DIRECT_BUFFER_MAX`] bytes if nothing is known of the paths. It is one stripe. In the steps 0 to N − 2 a rank
//! receives the others' contributions to its chunk, in the steps N − 1 to 2N − 3 the results of theirs; from which
//! rank in which step the plan says. It adds as far as all contributions are there, divides an average by N, and
//! sends the result to each other rank, cut into frames like a contribution.
//!
//! Within a machine a buffer of up to [`CIRCULANT_BUFFER_MAX`] bytes takes rounds in place of that, as
//! [`Algorithm::Circulant`](crate::plan::Algorithm::Circulant) says. In the steps 0 to N − 2 a rank receives sums of
//! others' contributions to some chunks, adds each to its own elements once all that it gets of this chunk is there, and
//! sends the sum on, or divides it, if it is the result. In the steps N − 1 to 2N − 3 it receives the results of
//! all other chunks and passes them on. Frames that leave together
//! ([`Plan::leaves_with`](crate::plan::Plan::leaves_with)) may be received together.
//!
//! In two levels, as [`Algorithm::TwoLevel`](crate::plan::Algorithm::TwoLevel) says, a rank receives the contributions of
//! its site to the chunks that it is the gateway of, its own chunk first; then the sums of the other sites for its own
//! chunk; and then the results of all other chunks, in their order, of which it passes those of other sites on inside
//! its own. Chunks are cut into stripes as around a ring.
//!
//! What is [`ordered`](crate::element::CollectiveSpec::ordered) may be relayed around the ring, as
//! [`Algorithm::Relay`](crate::plan::Algorithm::Relay) says. Each passage of a stripe, or of each chunk of a reduce-scatter,
//! is a step: first those of its sums, lap by lap, and then that of the result.
//!
//! A reduce-scatter and an all-gather, of whatever lengths, are the first and the second half of an all-reduce in chunks, and count their
//! steps from 0. In a broadcast the root sends its buffer to the next rank, in step 0, and each other rank sends on what
//! it gets, in step 0, but for the one before the root ([`Algorithm::Chain`](crate::plan::Algorithm::Chain)). Of a
//! barrier there are no frames.
//!
//! A receiver may get frames of an operation of which it has not heard `Commence` yet (the sender
//! heard it first): it leaves them on the lane until it has. Frames of an operation that is over are
//! read and thrown away.
//!
//! A header that cannot be understood ends the lane: where the next one begins is not known. A header
//! that is understood but is not that of the next frame of its stripe fails the operation at the
//! receiver; its payload is read and thrown away, and the lane stays in use. Either way the receiver
//! tells the master that the edge is broken. Operations that need nothing more from a lane that ended
//! go on, and so do all others after a misplaced frame; the next collective of the group has the edge
//! built anew.
//!
//! # Shared state
//!
//! One or more lanes per peer that fetches, all with the ticket of one order. The fetching end cuts what
//! it wants into ranges and asks for them on whichever lane is free: one control frame each time, a
//! [`StateRequest`] of at most [`STATE_REQUEST_MAX`] bytes, [`STATE_RANGES_MAX`] ranges and
//! [`STATE_RANGE_MAX`] bytes a range. It may ask again before the answer is there, so that a lane never
//! runs dry. The serving end answers the requests of a lane one after the other, and each with its
//! ranges in their order, a header and the content:
//!
//! | offset | length | field |
//! |---|---|---|
//! | 0 | 4 | number of the entry: its position among the names in byte order |
//! | 4 | 4 | length n |
//! | 8 | 8 | offset of the range in the entry |
//! | 16 | n | elements, little-endian, from that offset on |
//!
//! The fetching end closes its lanes when it has everything; the serving end is done with that peer when
//! one of them has ended so. What a lane that breaks has not brought is asked for on another one. The
//! fetching end knows each entry's length (elements times element size) beforehand. It
//! compares each entry's hash with that of the plan, and nothing is written to the user's memory
//! before the master says that all transfers succeeded. A hash, here as in votes and plans, is the
//! first 16 bytes of the BLAKE3 hash of the elements as they travel, read as a little-endian `u128`
//! ([`ContentHash`](crate::id::ContentHash)).
//!
//! # Probes
//!
//! Bytes flow in the direction that the order says, whoever dialled, on as many lanes as it says. When all of
//! them are up the sender sends [`PROBE_PINGS`] single bytes on the first lane, each after the answer to the one
//! before: the receiver sends each back. The shortest of these round trips is that of the edge.
//!
//! Then the sender sends any bytes on all lanes, up to [`PROBE_BYTES_MAX`] in all, and closes its direction of
//! each. On the first lane the receiver says every 10 ms how many bytes have arrived on all lanes without
//! preambles and pings, in 8 bytes, and closes when all lanes have ended. The sender stops when the rate at which
//! that number grows is stable, after a second at most; it keeps no more on the way than twice what arrives in a
//! round trip.
//!
//! # Sequences
//!
//! `P` is a peer, `M` the master, `A` and `B` neighbours on a ring.
//!
//! **A peer joins.** `update_topology` of the members is what admits it.
//!
//! ```text
//! P → M  preamble(control)
//! M → P  reply(accepted)
//! P → M  Hello
//! M → P  Welcome{peer, …}            or Refused{why}, then close
//!        … from here on both say something at least every heartbeat_ms: Heartbeat, if nothing else.
//!        That of P says whether bytes have moved there since the last one: who moves some is not late
//! members → M  UpdateTopology{epoch, broken}  every accepted peer; not needed in an empty run. On an
//!                                    older ring than the present one it is answered already
//! M → A, B  EstablishLinks{round, links}  who has links to connect; none is told who has not
//! A → B  preamble(link lane, ticket, lane i of n) on n connections; or B → A, as the order says
//! B → A  reply(accepted) on each
//! A, B → M  LinkUp{round, link}      each end, for each of its links; who dials and fails instead:
//!                                    LinkFailed{round, link, failure}. When every link is decided and
//!                                    one of the ring has failed, M orders another round; without one of
//!                                    the others the ring stands alone
//! M → all  TopologyEstablished{topology, layout}  if nothing has changed, to those alone who called
//! ```
//!
//! `layout` names the links of the peer, those to its neighbours in the ring among them, in the order of their
//! names, and for each the round in which its lanes were connected. Both ends of a link hear the same round,
//! and use those lanes: the ones that stand, if they are of that round, else the ones that came up in the last
//! order. All other lanes are dropped then, not before: an order does not end what stands, and after an attempt
//! that came to nothing a link may be kept although other lanes were connected for it.
//!
//! A link is named by its direction, seen from the peer that names it, and by the peer at its other end; lists
//! of links are in ascending order (what goes out first), each link once.
//!
//! A member gets both messages while it waits in `update_topology`, or for others to join any other
//! call, or waits for nothing; never while a collective runs on its ring, or while it measures or moves
//! shared state.
//!
//! **An all-reduce**, or another collective.
//!
//! ```text
//! group → M  InitiateCollective{tag, spec, epoch, broken}   all the same spec, but for `own` of an `AllGatherV`
//! M → group  Commence{tag, seq, algorithm, lengths}     or CollectiveRefused{tag, reason}
//! A → B      frames of seq on the lanes, steps 0 to 2(N−1)−1; to N−2 of one half or a whole buffer; 0 of a broadcast
//! group → M  CompleteCollective{seq, Done, broken}      each when its last frame has come and gone
//! M → group  Verdict{tag, seq, Committed{epoch}}        the peers of the ring of that epoch contributed
//! ```
//!
//! **A withdrawal.** A vote to start may be taken back. Who withdraws too late votes on the outcome.
//!
//! ```text
//! P → M      InitiateCollective{tag, spec, epoch, broken}
//! P → M      Withdraw{tag}                              once
//! M → P      CollectiveRefused{tag, Withdrawn}          or Commence, where all had voted:
//! P → M      CompleteCollective{seq, Cancelled, broken}
//! ```
//!
//! **An abort.** Somebody is lost, breaks off, or loses a lane. The lanes that stand go on to be
//! used: every sender ends the frame that it has begun and sends no further ones of that operation.
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
//! fetching → serving  StateRequest{round, ranges}       again and again, on each lane
//! serving → fetching  for each range: header, content
//! group → M  SharedStateDone{round, ok, with}
//! M → group  SharedStateConcluded{round, Ok(revision)}  or Err(why): nothing has changed
//! ```
//!
//! **A question.** In any state from `Welcome` on; nothing changes.
//!
//! ```text
//! P → M      WhoIsAwaited
//! M → P      Awaited{waits}                             who has not made the calls that P waits in
//! ```
//!
//! **An end.** A peer that goes sends `Leave` and closes. A master that goes sends `Stopping` and
//! closes. A peer that broke a rule reads `Kicked(misdeed)` before its connection ends.

mod bytes;
mod control;
mod frame;
mod handshake;
mod limits;
mod preamble;
mod reply;
mod shared_state;
#[cfg(test)]
mod tests;

pub use control::{
    CONTROL_HEAD_BYTES, ControlError, ControlReader, DecodeError, EncodeError, encode_control,
    recv_control, send_control,
};
pub use frame::{FRAME_HEADER_BYTES, FrameError, FrameHeader};
pub use handshake::{
    HandshakeError, PROOF_BYTES, offer, offer_proven, recv_preamble, recv_proof, recv_reply,
    refuse, send_reply,
};
pub use limits::{
    CIRCULANT_BUFFER_MAX, COLLECTIVES_MAX, CONTROL_FRAME_MAX, DATA_FRAME_MAX, DEFAULT_MASTER_PORT,
    DIRECT_BUFFER_MAX, DIRECT_WITHIN_MACHINE_MAX, FIRST_CONTROL_FRAME_MAX, FIRST_PEER_PORT,
    FRAME_PAYLOAD_MAX, FRAME_PAYLOAD_MIN, KNOWN_DIRECT_BUFFER_MAX, MAX_ENTRY_NAME_BYTES,
    PROBE_BYTES_MAX, REFUSAL_TEXT_MAX, STATE_RANGE_MAX, STATE_RANGES_MAX, STATE_REQUEST_MAX,
    WHOLE_BUFFER_MAX,
};
pub use preamble::{MAGIC, PREAMBLE_BYTES, Preamble, PreambleError, Purpose};
pub use reply::{REPLY_HEAD_BYTES, Reply, ReplyError, ReplyHead};
pub use shared_state::{
    PROBE_ANSWER_BYTES, PROBE_PINGS, STATE_RANGE_HEADER_BYTES, StateRange, StateRequest,
    UnexpectedRange, decode_probe_answer, encode_probe_answer,
};
