//! What this rank's encodings have lost, for whoever adds it to the next contribution.
//!
//! A rank encodes each element once: as a contribution, or as a sum with its own contribution in it. So the losses of
//! all ranks together are exactly what the result lacks. Only sums (and averages) can be made up for like that; for
//! others nothing is noted.

use std::num::NonZeroUsize;
use std::ops::Range;

use pccl_kernels::Op;

use super::fault::Defect;
use super::{RankWork, to_memory};
use crate::floats::Float;
use crate::memory::UserBuffers;
use crate::pace::ENCODED_FRAME_ELEMENTS;

impl RankWork {
    /// Notes what encoding the own contribution will lose: before anything is sent.
    pub(crate) fn note_lost_of_contribution(
        &mut self,
        buffers: &mut UserBuffers<'_>,
    ) -> Result<(), Defect> {
        if self.coding.is_none() || self.sums.op != Op::Sum {
            return Ok(());
        }
        let frame = ENCODED_FRAME_ELEMENTS as usize * self.element_bytes;
        let own = self.stripes.iter().flat_map(|stripe| &stripe.own);
        let own: Vec<Range<u64>> = own.map(|own| own.rest.clone()).collect();
        for own in &own {
            let own = to_memory(own)?;
            for start in own.clone().step_by(frame) {
                let piece = start..own.end.min(start + frame);
                self.note_lost_of_piece(&piece, buffers)?;
            }
        }
        Ok(())
    }

    /// The same for one frame.
    fn note_lost_of_piece(
        &mut self,
        range: &Range<usize>,
        buffers: &mut UserBuffers<'_>,
    ) -> Result<(), Defect> {
        let element_bytes = self.element_bytes;
        let coding = self.coding.as_mut().ok_or(Defect::here())?;
        let float = coding.float;
        let partial = coding.codec.of_sums();
        let at = losses_at(range, element_bytes, float);
        let room = coding
            .room_for(range.len() / element_bytes)
            .ok_or(Defect::here())?;
        let widened = coding.sums.get_mut(..room).ok_or(Defect::here())?;
        let (own, losses) = buffers
            .contribution_and_losses(range.clone(), at)
            .ok_or(Defect::here())?;
        float.of_sums().write(float.read(own), widened);
        partial.residual(widened, frame_elements()?, losses)?;
        Ok(())
    }

    /// Notes what encoding the sums of a frame has lost. Where they are the result, that includes
    /// rounding it to the element type, and is as much more as the sums were divided by.
    pub(super) fn note_lost_of_sums(
        &mut self,
        is_finished: bool,
        range: &Range<usize>,
        buffers: &mut UserBuffers<'_>,
    ) -> Result<(), Defect> {
        if self.sums.op != Op::Sum {
            return Ok(());
        }
        let coding = self.coding.as_ref().ok_or(Defect::here())?;
        let float = coding.float;
        let at = losses_at(range, self.element_bytes, float);
        let divided_by = self.sums.average_over.map_or(1.0, f64::from);
        let sums = coding.sums.get(..at.len()).ok_or(Defect::here())?;
        let pair = buffers.result_and_losses(range.clone(), at);
        let (result, losses) = pair.ok_or(Defect::here())?;
        if is_finished {
            let pairs = float.of_sums().read(sums).zip(float.read(result));
            let lost = pairs.map(|(sum, result)| (sum - result) * divided_by);
            // A frame that is poisoned is not to poison the next round.
            let lost = lost.map(|lost| if lost.is_finite() { lost } else { 0.0 });
            float.of_sums().write(lost, losses);
        } else {
            let partial = coding.codec.of_sums();
            partial.residual(sums, frame_elements()?, losses)?;
        }
        Ok(())
    }
}

fn frame_elements() -> Result<NonZeroUsize, Defect> {
    NonZeroUsize::new(ENCODED_FRAME_ELEMENTS as usize).ok_or(Defect::here())
}

/// Where the losses of a part of the buffer are.
fn losses_at(range: &Range<usize>, element_bytes: usize, float: Float) -> Range<usize> {
    let size = float.of_sums().size();
    range.start / element_bytes * size..range.end / element_bytes * size
}
