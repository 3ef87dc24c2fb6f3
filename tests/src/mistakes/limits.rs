//! The limits of docs/hostile.md, each of them removed.
//!
//! A limit that is gone costs nothing until somebody abuses that. So only its test can notice, and here it has to.
//!
//! | list | whose limits |
//! |---|---|
//! | [`MASTER`] | the master's, on strangers and on peers |
//! | [`PEER`] | a peer's: on strangers, on other members, on the master |
//! | [`TRANSFERS`], [`PLANE`] | a peer's, on those that it exchanges shared state or data with |
//! | [`PROTOCOL`] | those of decoders, and of the master's machine |
//! | [`LIES`] | those that find members out that lie |
//! | [`TRANSPORTS`] | those of TLS, QUIC, keys and join strings |

mod lies;
mod master;
mod peer;
mod plane;
mod protocol;
mod transfers;
mod transports;

pub use lies::LIES;
pub use master::MASTER;
pub use peer::PEER;
pub use plane::PLANE;
pub use protocol::PROTOCOL;
pub use transfers::TRANSFERS;
pub use transports::TRANSPORTS;

use super::Mistake;

/// All of them.
pub const LIMITS: &[Mistake] = &ALL;

const LISTS: [&[Mistake]; 7] = [MASTER, PEER, TRANSFERS, PLANE, PROTOCOL, TRANSPORTS, LIES];

const COUNT: usize = {
    let (mut count, mut list) = (0, 0);
    while list < LISTS.len() {
        count += LISTS[list].len();
        list += 1;
    }
    count
};

const ALL: [Mistake; COUNT] = {
    let mut all = [MASTER[0]; COUNT];
    let (mut next, mut list) = (0, 0);
    while list < LISTS.len() {
        let mut number = 0;
        while number < LISTS[list].len() {
            all[next] = LISTS[list][number];
            number += 1;
            next += 1;
        }
        list += 1;
    }
    all
};
