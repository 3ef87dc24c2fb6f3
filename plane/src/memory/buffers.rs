//! The user's memory during a collective.

use std::ops::Range;

use super::Backup;

/// The memory that a collective works on. All slices hold the elements of the collective's spec, no
/// more and no less.
#[derive(Debug)]
pub enum UserBuffers<'a> {
    /// The result replaces the contribution. What is overwritten is saved first.
    InPlace {
        /// Contribution before, result after.
        data: &'a mut [u8],
        /// Where overwritten bytes are kept until the next run.
        backup: &'a mut Backup,
    },
    /// The contribution is only read. What the result's memory holds after a failure is unspecified.
    Into {
        /// The contribution.
        src: &'a [u8],
        /// The result.
        dst: &'a mut [u8],
    },
    /// Memory that holds nothing but the contribution, at its place in the result; the rest of the result is written
    /// around it. Nothing is saved. What the memory holds after a failure is unspecified.
    Fresh {
        /// The contribution before, the result after.
        data: &'a mut [u8],
    },
    /// Of a reduce-scatter: the contribution is only read, and this rank's shard of the result has memory of its own.
    /// What that holds after a failure is unspecified.
    Scattered {
        /// The contribution.
        src: &'a [u8],
        /// The shard of the result.
        shard: &'a mut [u8],
        /// Where the shard begins in the contribution.
        at: usize,
        /// Where unfinished pieces wait. Nothing is saved in it.
        aside: &'a mut Backup,
    },
    /// As `Into`, and what this rank's encodings lose is noted. What `losses` holds after a failure is
    /// unspecified.
    Noting {
        /// The contribution.
        src: &'a [u8],
        /// The result.
        dst: &'a mut [u8],
        /// As many elements, of the type in which frames are summed; zeros at the beginning.
        losses: &'a mut [u8],
    },
}

/// Where a part of the result is computed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ResultMemory<'a> {
    /// `data` holds the contribution and is to hold the result; `saved` is to hold what it held.
    Same {
        data: &'a mut [u8],
        saved: &'a mut [u8],
    },
    /// Contribution and result are in different places.
    Apart { own: &'a [u8], result: &'a mut [u8] },
}

impl UserBuffers<'_> {
    /// Does the result replace the contribution?
    pub(crate) const fn are_in_place(&self) -> bool {
        match self {
            Self::InPlace { .. } => true,
            Self::Into { .. }
            | Self::Fresh { .. }
            | Self::Scattered { .. }
            | Self::Noting { .. } => false,
        }
    }

    /// Is the contribution overwritten where a result is written?
    pub(crate) const fn overwrite_contribution(&self) -> bool {
        match self {
            Self::InPlace { .. } | Self::Fresh { .. } => true,
            Self::Into { .. } | Self::Scattered { .. } | Self::Noting { .. } => false,
        }
    }

    /// Does the memory of the result hold no more than this rank's shard, which begins there?
    pub(crate) fn are_scattered(&self, range: &Range<usize>) -> bool {
        match self {
            Self::Scattered { shard, at, .. } => *at == range.start && shard.len() == range.len(),
            Self::InPlace { .. } | Self::Into { .. } | Self::Fresh { .. } | Self::Noting { .. } => {
                false
            }
        }
    }

    /// Does the memory hold nothing but the contribution?
    pub(crate) const fn are_fresh(&self) -> bool {
        match self {
            Self::Fresh { .. } => true,
            Self::InPlace { .. }
            | Self::Into { .. }
            | Self::Scattered { .. }
            | Self::Noting { .. } => false,
        }
    }

    /// Are all slices `bytes` long, apart from a shard?
    pub(crate) fn hold(&self, bytes: u64) -> bool {
        let is = |len: usize| u64::try_from(len) == Ok(bytes);
        match self {
            Self::InPlace { data, .. } | Self::Fresh { data } => is(data.len()),
            Self::Into { src, dst } | Self::Noting { src, dst, .. } => {
                is(src.len()) && is(dst.len())
            }
            Self::Scattered { src, .. } => is(src.len()),
        }
    }

    /// Forgets what an earlier run saved, and makes room for a run that writes the result in `slots`
    /// sequences of adjoining pieces.
    pub(crate) fn begin(&mut self, slots: usize) {
        match self {
            Self::InPlace { data, backup } => backup.begin(data.len(), slots),
            Self::Scattered { src, aside, .. } => aside.begin(src.len(), 0),
            Self::Into { .. } | Self::Fresh { .. } | Self::Noting { .. } => {}
        }
    }

    /// This peer's contribution. In place it is there only until the same range is written.
    pub(crate) fn contribution(&self, range: Range<usize>) -> Option<&[u8]> {
        match self {
            Self::InPlace { data, .. } | Self::Fresh { data } => data.get(range),
            Self::Into { src, .. } | Self::Scattered { src, .. } | Self::Noting { src, .. } => {
                src.get(range)
            }
        }
    }

    /// What was written of the result.
    pub(crate) fn result(&self, range: Range<usize>) -> Option<&[u8]> {
        match self {
            Self::InPlace { data, .. } | Self::Fresh { data } => data.get(range),
            Self::Scattered { shard, at, .. } => shard.get(within(*at, range)?),
            Self::Into { dst, .. } | Self::Noting { dst, .. } => dst.get(range),
        }
    }

    /// Where to write what [`overwrite`](Self::overwrite) has opened.
    pub(crate) fn result_mut(&mut self, range: Range<usize>) -> Option<&mut [u8]> {
        match self {
            Self::InPlace { data, .. } | Self::Fresh { data } => data.get_mut(range),
            Self::Scattered { shard, at, .. } => shard.get_mut(within(*at, range)?),
            Self::Into { dst, .. } | Self::Noting { dst, .. } => dst.get_mut(range),
        }
    }

    /// What was set aside.
    pub(crate) fn aside(&self, range: Range<usize>) -> Option<&[u8]> {
        match self {
            Self::InPlace { backup, .. } | Self::Scattered { aside: backup, .. } => {
                backup.memory.get(range)
            }
            // Nothing unfinished waits: nothing is added.
            Self::Fresh { .. } => None,
            Self::Into { dst, .. } | Self::Noting { dst, .. } => dst.get(range),
        }
    }

    /// The contribution, and room for an unfinished piece in memory that is not used otherwise before
    /// the result of the same range is written: that of the result, or where the contribution will be
    /// saved, or memory for that alone.
    pub(crate) fn set_aside(&mut self, range: Range<usize>) -> Option<(&[u8], &mut [u8])> {
        match self {
            Self::InPlace { data, backup } => {
                let own: &[u8] = data.get(range.clone())?;
                Some((own, backup.memory.get_mut(range)?))
            }
            Self::Scattered { src, aside, .. } => {
                Some((src.get(range.clone())?, aside.memory.get_mut(range)?))
            }
            Self::Fresh { .. } => None,
            Self::Into { src, dst } | Self::Noting { src, dst, .. } => {
                Some((src.get(range.clone())?, dst.get_mut(range)?))
            }
        }
    }

    /// Where to compute the next piece of the result of a slot from the contribution. The caller
    /// writes all of it. `None`: out of range, or no neighbour of the slot's last piece; nothing was
    /// written.
    pub(crate) fn finish(&mut self, slot: usize, range: Range<usize>) -> Option<ResultMemory<'_>> {
        match self {
            Self::InPlace { data, backup } => {
                let data = data.get_mut(range.clone())?;
                let saved = backup.claim(slot, range)?;
                Some(ResultMemory::Same { data, saved })
            }
            Self::Fresh { .. } => None,
            Self::Scattered { src, shard, at, .. } => Some(ResultMemory::Apart {
                own: src.get(range.clone())?,
                result: shard.get_mut(within(*at, range)?)?,
            }),
            Self::Into { src, dst } | Self::Noting { src, dst, .. } => Some(ResultMemory::Apart {
                own: src.get(range.clone())?,
                result: dst.get_mut(range)?,
            }),
        }
    }

    /// Opens the next piece of the result of a slot for writing: saves what it holds. `None` as in
    /// [`finish`](Self::finish).
    pub(crate) fn overwrite(&mut self, slot: usize, range: Range<usize>) -> Option<&mut [u8]> {
        match self {
            Self::InPlace { data, backup } => {
                let data = data.get_mut(range.clone())?;
                backup.claim(slot, range)?.copy_from_slice(data);
                Some(data)
            }
            Self::Fresh { data } => data.get_mut(range),
            Self::Scattered { shard, at, .. } => shard.get_mut(within(*at, range)?),
            Self::Into { dst, .. } | Self::Noting { dst, .. } => dst.get_mut(range),
        }
    }

    /// Are losses to be noted?
    pub(crate) const fn note_losses(&self) -> bool {
        match self {
            Self::InPlace { .. }
            | Self::Into { .. }
            | Self::Fresh { .. }
            | Self::Scattered { .. } => false,
            Self::Noting { .. } => true,
        }
    }

    /// The contribution at `of`, and where its losses, which take more or less room, are noted.
    pub(crate) fn contribution_and_losses(
        &mut self,
        of: Range<usize>,
        losses_at: Range<usize>,
    ) -> Option<(&[u8], &mut [u8])> {
        match self {
            Self::InPlace { .. }
            | Self::Into { .. }
            | Self::Fresh { .. }
            | Self::Scattered { .. } => None,
            Self::Noting { src, losses, .. } => Some((src.get(of)?, losses.get_mut(losses_at)?)),
        }
    }

    /// Likewise with the result.
    pub(crate) fn result_and_losses(
        &mut self,
        of: Range<usize>,
        losses_at: Range<usize>,
    ) -> Option<(&[u8], &mut [u8])> {
        match self {
            Self::InPlace { .. }
            | Self::Into { .. }
            | Self::Fresh { .. }
            | Self::Scattered { .. } => None,
            Self::Noting { dst, losses, .. } => Some((dst.get(of)?, losses.get_mut(losses_at)?)),
        }
    }

    /// Of a rank that is alone: the contribution is the result.
    pub(crate) fn keep_contribution(&mut self) {
        match self {
            Self::InPlace { .. } | Self::Fresh { .. } => {}
            Self::Into { src, dst } | Self::Noting { src, dst, .. } => {
                if src.len() == dst.len() {
                    dst.copy_from_slice(src);
                }
            }
            Self::Scattered { src, shard, at, .. } => {
                if let Some(own) = src.get(*at..*at + shard.len()) {
                    shard.copy_from_slice(own);
                }
            }
        }
    }
}

/// Where a range of the buffer is in a shard that begins there. `None`: before it.
fn within(at: usize, range: Range<usize>) -> Option<Range<usize>> {
    Some(range.start.checked_sub(at)?..range.end.checked_sub(at)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs in place on the numbers from 0 to 99, restores, and expects them all to be there again.
    fn is_undone(run: impl FnOnce(&mut UserBuffers<'_>)) {
        let original: Vec<u8> = (0..100).collect();
        let mut data = original.clone();
        let mut backup = Backup::default();
        let mut buffers = UserBuffers::InPlace {
            data: &mut data,
            backup: &mut backup,
        };
        buffers.begin(2);

        run(&mut buffers);
        let changed = data != original;
        backup.restore(&mut data);

        assert!(changed);
        assert_eq!(data, original);
    }

    #[test]
    fn everything_that_was_written_is_put_back() {
        is_undone(|buffers| {
            buffers.overwrite(0, 90..100).unwrap().fill(1);
            buffers.overwrite(1, 10..15).unwrap().fill(2);
            buffers.overwrite(1, 15..20).unwrap().fill(3);
        });
    }

    #[test]
    fn what_was_computed_in_place_is_put_back() {
        is_undone(|buffers| match buffers.finish(0, 40..60).unwrap() {
            ResultMemory::Same { data, saved } => {
                saved.copy_from_slice(data);
                data.fill(200);
            }
            ResultMemory::Apart { .. } => panic!("it is in place"),
        });
    }

    #[test]
    fn what_was_set_aside_leaves_the_contribution_alone_until_the_result_comes() {
        is_undone(|buffers| {
            let (own, aside) = buffers.set_aside(20..30).unwrap();
            assert_eq!(own[0], 20);
            aside.fill(1);
            assert_eq!(buffers.aside(20..30).unwrap(), [1; 10]);
            assert_eq!(buffers.contribution(20..22).unwrap(), [20, 21]);

            buffers.overwrite(0, 20..30).unwrap().fill(2);
        });
    }

    #[test]
    fn nothing_is_opened_outside_of_the_memory_or_out_of_order() {
        let mut data = [0; 10];
        let mut backup = Backup::default();
        let mut buffers = UserBuffers::InPlace {
            data: &mut data,
            backup: &mut backup,
        };
        buffers.begin(1);
        buffers.overwrite(0, 0..2).unwrap();

        assert_eq!(buffers.overwrite(0, 2..11), None);
        assert_eq!(buffers.overwrite(0, 4..6), None, "a gap");
        assert_eq!(buffers.overwrite(0, 0..2), None, "twice");
        assert_eq!(buffers.overwrite(1, 0..2), None, "no such slot");
        assert_eq!(buffers.finish(0, 5..11), None);
        assert_eq!(buffers.set_aside(9..11), None);
    }

    #[test]
    fn the_result_of_a_scatter_is_written_to_the_shard_and_nowhere_else() {
        let src: Vec<u8> = (0..30).collect();
        let mut shard = [0; 10];
        let mut aside = Backup::default();
        let mut buffers = UserBuffers::Scattered {
            src: &src,
            shard: &mut shard,
            at: 10,
            aside: &mut aside,
        };
        buffers.begin(1);

        match buffers.finish(0, 12..15).unwrap() {
            ResultMemory::Apart { own, result } => {
                assert_eq!(own, [12, 13, 14]);
                result.fill(1);
            }
            ResultMemory::Same { .. } => panic!("it is not in place"),
        }
        buffers.overwrite(0, 19..20).unwrap().fill(2);
        buffers.set_aside(0..5).unwrap().1.fill(3);

        assert!(buffers.are_scattered(&(10..20)) && !buffers.are_scattered(&(10..19)));
        assert_eq!(buffers.overwrite(0, 9..12), None);
        assert_eq!(buffers.overwrite(0, 18..21), None);
        assert_eq!(buffers.aside(0..5).unwrap(), [3; 5]);
        assert_eq!(buffers.contribution(9..13).unwrap(), [9, 10, 11, 12]);
        assert_eq!(shard, [0, 0, 1, 1, 1, 0, 0, 0, 0, 2]);
    }
}
