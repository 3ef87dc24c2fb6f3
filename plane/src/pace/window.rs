//! How much of the own contribution may be on its way around the ring.
//!
//! A rank counts the bytes of elements that it has contributed and that have not come back to it as a part of the
//! result. In one half of an all-reduce they do not come back; there what arrives last tells how far the contribution
//! of the next rank has come, which in the end is as much. A rank that lags behind hears of more than it has sent, and
//! has that much more to send at once: at worst a window for each of the others. Within a machine a small window keeps
//! what is under way in the caches. Between machines a frame that is not encoded needs no window: what the next rank
//! does not take waits in memory that is there anyway. Encoded frames wait in memory of their own, so those of all
//! operations share one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pccl_core::wire::FrameHeader;

use super::{ENCODED_WINDOW, Pace, Share};

/// The window of one operation.
pub(crate) struct Window {
    /// Bytes that have left.
    left: u64,
    /// Bytes that have come back; perhaps more than have left.
    back: u64,
    /// How many there may be.
    limit: u64,
    share: Share,
    /// No frame has been around the ring and left the machine on its way.
    is_local: bool,
    /// Where frames travel encoded: the bytes under way of all such operations.
    encoded: Option<Arc<AtomicU64>>,
}

impl Window {
    /// Of contributions that are kept, by others as well, until all are there: what a rank keeps is as much as a buffer
    /// at most. And of those of which nothing tells how far they have come.
    pub(crate) fn unlimited(pace: Pace) -> Self {
        Self::new(pace, u64::MAX, None)
    }

    /// Of frames that travel as they are.
    pub(crate) fn of_elements(pace: Pace) -> Self {
        Self::new(pace, pace.window.unwrap_or(u64::MAX), None)
    }

    /// Of frames that travel encoded, which count here.
    pub(crate) fn of_encoded(pace: Pace, encoded: &Arc<AtomicU64>) -> Self {
        let limit = pace.window.unwrap_or(ENCODED_WINDOW);
        Self::new(pace, limit, Some(Arc::clone(encoded)))
    }

    const fn new(pace: Pace, limit: u64, encoded: Option<Arc<AtomicU64>>) -> Self {
        Self {
            left: 0,
            back: 0,
            limit,
            share: Share::Whole,
            is_local: pace.window.is_some(),
            encoded,
        }
    }

    /// May another frame leave? One always may, unless it is not the operation's turn.
    pub(crate) fn is_open(&self) -> bool {
        let limit = match self.share {
            Share::Nothing => return false,
            Share::Half => self.limit / 2,
            Share::Whole => self.limit,
        };
        let of_all = self.encoded.as_ref();
        let own = self.under_way();
        let under_way = of_all.map_or(own, |all| all.load(Ordering::Relaxed));
        own == 0 || under_way < limit
    }

    /// Bytes that have left and not come back.
    const fn under_way(&self) -> u64 {
        self.left.saturating_sub(self.back)
    }

    /// Own bytes leave.
    pub(crate) fn leave(&mut self, bytes: u64) {
        let before = self.under_way();
        self.left += bytes;
        if let Some(all) = &self.encoded {
            all.fetch_add(self.under_way() - before, Ordering::Relaxed);
        }
    }

    /// Own bytes have been around the ring, in a frame with these flags.
    pub(crate) fn come_back(&mut self, bytes: u64, flags: u16) {
        let before = self.under_way();
        self.back += bytes;
        if let Some(all) = &self.encoded {
            all.fetch_sub(before - self.under_way(), Ordering::Relaxed);
        }
        if self.is_local && flags & FrameHeader::LEFT_MACHINE != 0 {
            // What is enough to keep a machine busy is far too little for a long way.
            self.is_local = false;
            self.limit = match &self.encoded {
                Some(_) => ENCODED_WINDOW,
                None => u64::MAX,
            };
        }
    }

    /// Changes how much of the window may be filled. Returns what it was before.
    pub(crate) const fn set_share(&mut self, share: Share) -> Share {
        std::mem::replace(&mut self.share, share)
    }

    /// Does the ring stay on this machine, as far as frames that have been around it tell?
    pub(crate) const fn is_local(&self) -> bool {
        self.is_local
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        if let Some(all) = &self.encoded {
            all.fetch_sub(self.under_way(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(window: Option<u64>) -> Pace {
        Pace {
            frame_bytes: 1000,
            window,
            stripe_bytes: 1000,
        }
    }

    #[test]
    fn half_a_share_is_half_the_window_and_no_share_is_none() {
        let mut window = Window::of_elements(pace(Some(1000)));
        window.leave(500);

        let open = [Share::Whole, Share::Half, Share::Nothing].map(|share| {
            window.set_share(share);
            window.is_open()
        });

        assert_eq!(open, [true, false, false]);
    }

    #[test]
    fn operations_that_travel_encoded_fill_one_window_and_each_has_a_frame_under_way() {
        let all = Arc::default();
        let mut first = Window::of_encoded(pace(None), &all);
        let mut second = Window::of_encoded(pace(None), &all);

        first.leave(ENCODED_WINDOW);
        let before = (first.is_open(), second.is_open());
        second.leave(1);
        let with_one = second.is_open();
        drop(first);
        let once_it_has_ended = second.is_open();

        assert_eq!(before, (false, true));
        assert_eq!((with_one, once_it_has_ended), (false, true));
    }

    #[test]
    fn what_comes_back_before_it_has_left_counts_once_it_has() {
        let all = Arc::default();
        let mut window = Window::of_encoded(pace(Some(1000)), &all);
        window.come_back(1500, 0);

        let open = [500, 1000, 999, 1].map(|bytes| {
            window.leave(bytes);
            (window.is_open(), all.load(Ordering::Relaxed))
        });

        assert_eq!(open, [(true, 0), (true, 0), (true, 999), (false, 1000)]);
    }

    #[test]
    fn a_frame_that_has_left_the_machine_on_its_way_opens_the_window() {
        let mut window = Window::of_elements(pace(Some(1000)));
        window.leave(3000);

        window.come_back(1000, 0);
        let within = (window.is_open(), window.is_local());
        window.come_back(1000, FrameHeader::LEFT_MACHINE);

        assert_eq!(within, (false, true));
        assert_eq!((window.is_open(), window.is_local()), (true, false));
    }
}
