//! What the tests of the whole are built from.
//!
//! | module | what it is for |
//! |---|---|
//! | [`conformance`] | what every transport must do, as one list of cases |
//! | [`recordings`] | what the machines of a test heard and said, and its replay |
//! | [`over`] | what a run goes over: TCP, TLS, QUIC |
//! | [`processes`] | real processes, as the test that starts them sees them |
//! | [`roles`], [`scripted`] | what such a process is: a master, or a peer |
//! | [`readme`] | a peer that runs a program of the README |
//! | [`talk`] | what test and processes tell each other |
//! | [`trap`] | stopping a peer at an exact moment |
//! | `warnings` | telling a test what the library warns of |
//! | [`times`] | quantiles of measured times |
//! | [`contribution`] | numbers to reduce whose sums can be checked |
//! | [`several`] | several buffers to reduce at once, some of them quantized |
//! | `halves` | a reduce by the other collectives |
//! | [`losses`], [`relay`] | peers that are lost at a point of their talk with the master |
//! | [`churn`] | peers that come and go by a schedule drawn from a seed, and what must be true all the same |
//! | [`crowd`] | many peers of one address that start at once |
//! | [`throttle`] | a transport whose lanes share a link of limited rate (of `pccl-transport-memory`) |
//! | [`policy`] | the master's decisions in situations, under virtual time |
//! | [`simulator`] | whole runs of the real master and the real client code, on one thread and under virtual time |
//! | [`mistakes`] | mistakes that are made by hand, each with the check that has to see it |
//! | [`wan`] | an internet in a box: network namespaces, and a wire with delay, loss and limits between them |
//! | [`fuzz`] | fuzz targets: decoders and machines that are given any bytes |
//! | [`siege`] | garbage for the master and for peers while a run goes on |

pub mod churn;
pub mod conformance;
pub mod contribution;
pub mod crowd;
pub mod fuzz;
mod halves;
pub mod losses;
pub mod mistakes;
pub mod over;
mod overheard;
pub mod policy;
pub mod processes;
pub mod readme;
pub mod recordings;
pub mod relay;
pub mod roles;
pub mod scripted;
pub mod several;
pub mod siege;
pub mod simulator;
pub mod talk;
pub mod times;
pub mod trap;
pub mod wan;
mod warnings;

pub use pccl_transport_memory::throttle;
