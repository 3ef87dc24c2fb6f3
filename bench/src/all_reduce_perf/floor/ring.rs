//! The ring that receives and sends by turns what is there, and sleeps when neither direction moves.

use super::super::edges::Edges;
use super::super::number::Number;
use super::FloorError;
use super::pass::Pass;

pub(super) fn run<T: Number>(pass: &mut Pass<'_, T>, edges: &mut Edges) -> Result<(), FloorError> {
    edges.block_receives(false)?;
    loop {
        let received = pass.receive(edges)?;
        let sent = pass.send(edges)?;
        if pass.is_over() {
            return Ok(());
        }
        if !received && !sent {
            edges.wait(pass.sendable() > 0, pass.receives())?;
        }
    }
}
