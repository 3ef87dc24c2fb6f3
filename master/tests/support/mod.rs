//! What the master's tests are built from.

pub(crate) mod client;
pub(crate) mod fuzz;
pub(crate) mod messages;
pub(crate) mod pipes;
pub(crate) mod proven;

use pccl_core::wire::ControlHead;

/// The beginning of a frame that announces a message of so many bytes, which need not come; or a session frame, if the
/// highest bit is set.
pub(crate) fn announcing(length: u32, beginning: &[u8]) -> Vec<u8> {
    let sums = ControlHead::of_message(beginning).expect("a beginning is short");
    let head = ControlHead {
        is_session: length >> 31 == 1,
        length: (length & !(1 << 31)) as usize,
        ..sums
    };
    [&head.encode(), beginning].concat()
}
