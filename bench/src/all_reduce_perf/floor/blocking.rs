//! The ring that waits in `recv` when it has nothing to send: one system call where asking, waiting and
//! asking again would be three.

use super::super::edges::Edges;
use super::super::number::Number;
use super::FloorError;
use super::pass::Pass;

pub(super) fn run<T: Number>(pass: &mut Pass<'_, T>, edges: &mut Edges) -> Result<(), FloorError> {
    edges.block_receives(true)?;
    loop {
        if pass.send(edges)? {
            continue;
        }
        if pass.is_over() {
            return Ok(());
        }
        // With nothing to send, only the previous rank can bring this one on.
        let may_receive = pass.sendable() == 0 || edges.wait(true, pass.receives())?;
        if may_receive {
            pass.receive(edges)?;
        }
    }
}
