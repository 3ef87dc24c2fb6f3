//! The transport of a member that lies: what it sends is changed on its way out, as its script says.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use pccl::LaneError;
use pccl_core::id::Identity;
use pccl_core::transport::{Endpoint, Lane, LaneTx, Transport};
use pccl_core::wire::{
    CONTROL_HEAD_BYTES, ControlHead, FRAME_HEADER_BYTES, FrameHeader, PREAMBLE_BYTES,
    REPLY_HEAD_BYTES, STATE_RANGE_HEADER_BYTES, StateRange,
};
use pccl_transport_memory::{Intercepted, Interceptor, on_recv, on_send};

use super::under::Under;

/// What a member lies about. Nothing by default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    /// The header of each data frame.
    pub(crate) frame: Option<fn(&mut FrameHeader)>,
    /// The header of each range of shared state.
    pub(crate) range: Option<fn(&mut StateRange)>,
    /// Each byte of shared state.
    pub(crate) is_content_wrong: bool,
    /// The next message of this kind, by the first byte of its encoding, is sent twice.
    pub(crate) twice: Option<u8>,
    /// Lies that were told.
    pub(crate) told: u64,
}

/// A script that a test changes while the member is at work.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lies(Arc<Mutex<Script>>);

impl Lies {
    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the truth from here on. Returns how many lies were told.
    pub(crate) fn end(&self) -> u64 {
        std::mem::take(&mut *self.script()).told
    }

    /// The transport under test, for a member that lies.
    pub(crate) fn on(&self, under: Under) -> impl Transport + use<> {
        Intercepted::over(Arc::new(under), self.clone())
    }

    fn lying(&self, tx: Box<dyn LaneTx>, mut editor: Editor) -> Box<dyn LaneTx> {
        let lies = self.clone();
        on_send(tx, move |tx, cx, parts| {
            let said = parts.concat();
            let mut script = lies.script();
            editor.learn(&said);
            if editor.purpose() == CONTROL {
                return control(tx, cx, &said, &mut script);
            }
            let mut ahead = editor.clone();
            let before = script.told;
            let changed = ahead.pass(&said, &mut script);
            let sent = tx.poll_send(cx, &[&changed]);
            match sent {
                // What did not leave is looked at again.
                Poll::Ready(Ok(bytes)) => {
                    script.told = before;
                    editor.pass(&said[..bytes], &mut script);
                }
                _ => script.told = before,
            }
            sent
        })
    }
}

impl Interceptor for Lies {
    fn opened(&self, lane: Lane, _: &Endpoint, _: Option<Identity>) -> Lane {
        let tx = self.lying(lane.tx, Editor::after(PREAMBLE_BYTES));
        Lane { tx, ..lane }
    }

    fn accepted(&self, lane: Lane, _: std::net::SocketAddr) -> Lane {
        let editor = Editor::after(REPLY_HEAD_BYTES);
        let heard = Arc::clone(&editor.first);
        let rx = on_recv(lane.rx, move |rx, cx, into| {
            let received = rx.poll_recv(cx, into);
            if let Poll::Ready(Ok(bytes)) = received {
                let mut heard = lock(&heard);
                let missing = PREAMBLE_BYTES.saturating_sub(heard.len());
                heard.extend_from_slice(&into[..bytes.min(missing)]);
            }
            received
        });
        let tx = self.lying(lane.tx, editor);
        Lane { tx, rx, ..lane }
    }
}

/// Purposes of lanes, as the preamble has them.
const CONTROL: u8 = 1;
const LINK_LANE: u8 = 2;
const SHARED_STATE: u8 = 3;

/// Where the purpose is in a preamble.
const PURPOSE_AT: usize = 6;

/// Follows what is sent on a lane.
#[derive(Clone)]
struct Editor {
    /// The first bytes of the end that dialled.
    first: Arc<Mutex<Vec<u8>>>,
    is_dialler: bool,
    /// Bytes before the first frame.
    skip: usize,
    /// What has left of a header.
    head: Vec<u8>,
    /// Payload until the next header.
    left: usize,
}

impl Editor {
    fn after(skip: usize) -> Self {
        Self {
            first: Arc::default(),
            is_dialler: skip == PREAMBLE_BYTES,
            skip,
            head: Vec::new(),
            left: 0,
        }
    }

    fn learn(&self, said: &[u8]) {
        let mut first = lock(&self.first);
        if self.is_dialler && first.is_empty() {
            first.extend_from_slice(&said[..said.len().min(PREAMBLE_BYTES)]);
        }
    }

    fn purpose(&self) -> u8 {
        lock(&self.first).get(PURPOSE_AT).copied().unwrap_or(0)
    }

    /// What leaves in the place of these bytes: as many.
    fn pass(&mut self, mut said: &[u8], script: &mut Script) -> Vec<u8> {
        let mut out = Vec::with_capacity(said.len());
        let purpose = self.purpose();
        let header = match purpose {
            LINK_LANE => FRAME_HEADER_BYTES,
            SHARED_STATE => STATE_RANGE_HEADER_BYTES,
            _ => return said.to_vec(),
        };
        while !said.is_empty() {
            if self.skip > 0 {
                let taken = take(&mut said, self.skip);
                self.skip -= taken.len();
                out.extend_from_slice(taken);
            } else if self.left > 0 {
                let taken = take(&mut said, self.left);
                self.left -= taken.len();
                let mask = if purpose == SHARED_STATE && script.is_content_wrong {
                    script.told += 1;
                    0xff
                } else {
                    0
                };
                out.extend(taken.iter().map(|byte| byte ^ mask));
            } else {
                let before = self.head.len();
                self.head.extend(take(&mut said, header - before));
                let head = std::mem::take(&mut self.head);
                if head.len() < header {
                    out.extend_from_slice(&head[before..]);
                    self.head = head;
                } else {
                    let (changed, left) = changed(purpose, &head, script);
                    out.extend_from_slice(&changed[before..]);
                    self.left = left;
                }
            }
        }
        out
    }
}

/// A header as it leaves, and the length of what follows.
fn changed(purpose: u8, head: &[u8], script: &mut Script) -> (Vec<u8>, usize) {
    if purpose == LINK_LANE {
        let bytes = head.first_chunk().expect("a whole header");
        let mut frame = FrameHeader::decode(bytes).expect("a sound header");
        let length = frame.length as usize;
        if let Some(lie) = script.frame {
            lie(&mut frame);
            script.told += 1;
        }
        return (frame.encode().to_vec(), length);
    }
    let bytes = head.first_chunk().expect("a whole header");
    let mut range = StateRange::decode(bytes);
    let length = range.length as usize;
    if let Some(lie) = script.range {
        lie(&mut range);
        script.told += 1;
    }
    (range.encode().to_vec(), length)
}

/// Sends messages to the master, one of them twice if the script says so.
fn control(
    tx: &mut dyn LaneTx,
    cx: &mut Context<'_>,
    said: &[u8],
    script: &mut Script,
) -> Poll<Result<usize, LaneError>> {
    let twice = script.twice.and_then(|kind| message_of(said, kind));
    let Some(message) = twice else {
        return tx.poll_send(cx, &[said]);
    };
    script.twice = None;
    script.told += 1;
    // A lane that is idle takes two messages whole.
    let all = [said, &message].concat();
    match tx.poll_send(cx, &[&all]) {
        Poll::Ready(Ok(bytes)) => {
            assert_eq!(bytes, all.len(), "the lane is full");
            Poll::Ready(Ok(said.len()))
        }
        other => other,
    }
}

/// The first message of this kind among whole frames.
fn message_of(mut frames: &[u8], kind: u8) -> Option<Vec<u8>> {
    while let Some(head) = frames.first_chunk::<CONTROL_HEAD_BYTES>() {
        let head = ControlHead::decode(*head)?;
        let (frame, rest) = frames.split_at_checked(CONTROL_HEAD_BYTES + head.length)?;
        if !head.is_session && frame.get(CONTROL_HEAD_BYTES) == Some(&kind) {
            return Some(frame.to_vec());
        }
        frames = rest;
    }
    None
}

fn take<'a>(from: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (taken, rest) = from.split_at(most.min(from.len()));
    *from = rest;
    taken
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
