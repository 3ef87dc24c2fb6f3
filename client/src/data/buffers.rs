//! The user's memory during a collective, and the copy that undoes what was written to it.

use std::collections::BTreeMap;
use std::ops::Range;

/// The memory that a collective works on. All slices hold the elements of the collective's spec, no
/// more and no less.
#[derive(Debug)]
pub(crate) enum RingBuffers<'a> {
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
}

impl RingBuffers<'_> {
    /// Are all slices `bytes` long?
    pub(super) fn hold(&self, bytes: u64) -> bool {
        let is = |len: usize| u64::try_from(len) == Ok(bytes);
        match self {
            Self::InPlace { data, .. } => is(data.len()),
            Self::Into { src, dst } => is(src.len()) && is(dst.len()),
        }
    }

    /// Forgets what an earlier run saved.
    pub(super) fn begin(&mut self) {
        match self {
            Self::InPlace { data, backup } => backup.begin(data.len()),
            Self::Into { .. } => {}
        }
    }

    /// This peer's contribution. In place it is there only until the same range is written.
    pub(super) fn contribution(&self, range: Range<usize>) -> Option<&[u8]> {
        match self {
            Self::InPlace { data, .. } => data.get(range),
            Self::Into { src, .. } => src.get(range),
        }
    }

    /// What was written before.
    pub(super) fn written(&self, range: Range<usize>) -> Option<&[u8]> {
        match self {
            Self::InPlace { data, .. } => data.get(range),
            Self::Into { dst, .. } => dst.get(range),
        }
    }

    /// Writes part of the result. `None`: out of range, nothing was written.
    pub(super) fn write_result(&mut self, at: usize, bytes: &[u8]) -> Option<()> {
        let range = at..at.checked_add(bytes.len())?;
        match self {
            Self::InPlace { data, backup } => {
                let target = data.get_mut(range)?;
                backup.save_unless_set_aside(at, target);
                target.copy_from_slice(bytes);
            }
            Self::Into { dst, .. } => dst.get_mut(range)?.copy_from_slice(bytes),
        }
        Some(())
    }

    /// Sets an unfinished piece aside where its result will be written later. `None`: out of range,
    /// nothing was written.
    pub(super) fn set_aside(&mut self, at: usize, bytes: &[u8]) -> Option<()> {
        let range = at..at.checked_add(bytes.len())?;
        match self {
            Self::InPlace { data, backup } => {
                let target = data.get_mut(range)?;
                backup.save(at, target);
                backup.set_aside.insert(at, target.len());
                target.copy_from_slice(bytes);
            }
            Self::Into { dst, .. } => dst.get_mut(range)?.copy_from_slice(bytes),
        }
        Some(())
    }

    /// The ring of one: the contribution is the result.
    pub(super) fn keep_contribution(&mut self) {
        match self {
            Self::InPlace { .. } => {}
            Self::Into { src, dst } => {
                if src.len() == dst.len() {
                    dst.copy_from_slice(src);
                }
            }
        }
    }
}

/// What a collective in place has overwritten, in the order in which it did.
///
/// Keep one per buffer and use it again: its memory, as much as the buffer's, is then allocated once.
#[derive(Debug, Default)]
pub(crate) struct Backup {
    saved: Vec<u8>,
    pieces: Vec<Piece>,
    /// Start and length of what was written early and will be written once more.
    set_aside: BTreeMap<usize, usize>,
}

#[derive(Debug)]
struct Piece {
    at: usize,
    len: usize,
}

impl Backup {
    /// Puts back every byte that the last run wrote; then there is nothing left to put back. `data` is
    /// the slice of that run.
    pub(crate) fn restore(&mut self, data: &mut [u8]) {
        // Backwards: where something was saved twice, the older bytes win.
        for piece in self.pieces.drain(..).rev() {
            let kept_from = self.saved.len().saturating_sub(piece.len);
            let target = data.get_mut(piece.at..piece.at.saturating_add(piece.len));
            if let (Some(target), Some(old)) = (target, self.saved.get(kept_from..)) {
                target.copy_from_slice(old);
            }
            self.saved.truncate(kept_from);
        }
        self.set_aside.clear();
    }

    fn begin(&mut self, bytes: usize) {
        self.saved.clear();
        self.pieces.clear();
        self.set_aside.clear();
        self.saved.reserve(bytes);
    }

    fn save_unless_set_aside(&mut self, at: usize, old: &[u8]) {
        if self.set_aside.get(&at) != Some(&old.len()) {
            self.save(at, old);
        }
    }

    fn save(&mut self, at: usize, old: &[u8]) {
        self.saved.extend_from_slice(old);
        match self.pieces.last_mut() {
            Some(last) if last.at + last.len == at => last.len += old.len(),
            Some(_) | None => self.pieces.push(Piece { at, len: old.len() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_was_written_is_put_back() {
        let original: Vec<u8> = (0..100).collect();
        let mut data = original.clone();
        let mut backup = Backup::default();
        let mut buffers = RingBuffers::InPlace {
            data: &mut data,
            backup: &mut backup,
        };
        buffers.begin();

        buffers.write_result(90, &[1; 10]).unwrap();
        buffers.write_result(10, &[2; 5]).unwrap();
        buffers.write_result(15, &[3; 5]).unwrap();
        assert_ne!(data, original);
        backup.restore(&mut data);

        assert_eq!(data, original);
    }

    #[test]
    fn what_was_set_aside_is_saved_once_and_put_back() {
        let original: Vec<u8> = (0..100).collect();
        let mut data = original.clone();
        let mut backup = Backup::default();
        let mut buffers = RingBuffers::InPlace {
            data: &mut data,
            backup: &mut backup,
        };
        buffers.begin();

        buffers.set_aside(20, &[1; 10]).unwrap();
        buffers.write_result(20, &[2; 10]).unwrap();
        let saved = backup.saved.len();
        backup.restore(&mut data);

        assert_eq!(saved, 10);
        assert_eq!(data, original);
    }

    #[test]
    fn a_range_saved_twice_is_put_back_to_its_oldest_content() {
        let original: Vec<u8> = (0..100).collect();
        let mut data = original.clone();
        let mut backup = Backup::default();
        let mut buffers = RingBuffers::InPlace {
            data: &mut data,
            backup: &mut backup,
        };
        buffers.begin();

        buffers.set_aside(20, &[1; 10]).unwrap();
        buffers.write_result(15, &[2; 10]).unwrap();
        backup.restore(&mut data);

        assert_eq!(data, original);
    }

    #[test]
    fn nothing_is_written_outside_of_the_memory() {
        let mut dst = [0; 10];
        let mut buffers = RingBuffers::Into {
            src: &[5; 10],
            dst: &mut dst,
        };

        let outcomes = [
            buffers.write_result(8, &[1; 3]),
            buffers.write_result(usize::MAX, &[1; 3]),
            buffers.set_aside(10, &[1; 1]),
        ];

        assert_eq!(outcomes, [None; 3]);
        assert_eq!(dst, [0; 10]);
    }
}
