//! A queue that keeps its memory: what goes through it costs no allocation, however much that is.
//!
//! Any number of senders, one receiver. A sender never waits. Room for more than was ever in the queue
//! at once is made by doubling, and kept.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Puts messages into a queue.
#[derive(Debug)]
pub(crate) struct Sender<T>(Arc<Shared<T>>);

/// Takes messages out of a queue.
#[derive(Debug)]
pub(crate) struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// Who is woken, as the senders know it.
    waker: Option<Waker>,
}

/// The receiver has closed the queue: the message comes back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused<T>(pub(crate) T);

#[derive(Debug)]
struct Shared<T> {
    /// Something may be in the queue. Set and cleared under the lock, read without it: so a receiver that
    /// looks in vain takes no lock.
    news: AtomicBool,
    queue: Mutex<Queue<T>>,
}

#[derive(Debug)]
struct Queue<T> {
    messages: VecDeque<T>,
    closed: bool,
    waker: Option<Waker>,
}

/// A queue with room for so many messages at first.
pub(crate) fn mailbox<T>(room: usize) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        news: AtomicBool::new(false),
        queue: Mutex::new(Queue {
            messages: VecDeque::with_capacity(room),
            closed: false,
            waker: None,
        }),
    });
    let sender = Sender(Arc::clone(&shared));
    let waker = None;
    (sender, Receiver { shared, waker })
}

impl<T> Shared<T> {
    fn queue(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Sender<T> {
    /// Puts a message at the end, and wakes the receiver where it has seen everything before.
    pub(crate) fn send(&self, message: T) -> Result<(), Refused<T>> {
        let mut queue = self.0.queue();
        if queue.closed {
            return Err(Refused(message));
        }
        queue.messages.push_back(message);
        let had_news = self.0.news.swap(true, Ordering::AcqRel);
        let waker = queue.waker.as_ref().filter(|_| !had_news).cloned();
        drop(queue);
        waker.into_iter().for_each(Waker::wake);
        Ok(())
    }
}

impl<T> Receiver<T> {
    /// Takes the first message out. Where there is none, the task is woken by the next.
    pub(crate) fn poll_recv(&mut self, cx: &Context<'_>) -> Poll<T> {
        let known = self.waker.as_ref();
        let is_known = known.is_some_and(|waker| waker.will_wake(cx.waker()));
        if is_known && !self.shared.news.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        let mut queue = self.shared.queue();
        if let Some(message) = queue.messages.pop_front() {
            return Poll::Ready(message);
        }
        self.shared.news.store(false, Ordering::Release);
        if !is_known {
            self.waker = Some(cx.waker().clone());
            queue.waker.clone_from(&self.waker);
        }
        Poll::Pending
    }

    /// Refuses further messages, and hands out those that are there.
    pub(crate) fn close(&mut self) -> VecDeque<T> {
        let mut queue = self.shared.queue();
        queue.closed = true;
        queue.waker = None;
        mem::take(&mut queue.messages)
    }

    #[cfg(test)]
    pub(crate) fn try_recv(&mut self) -> Option<T> {
        self.shared.queue().messages.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    /// A task that counts how often it is woken.
    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Task {
        fn poll<T>(self: &Arc<Self>, receiver: &mut Receiver<T>) -> Poll<T> {
            let waker = Waker::from(Arc::clone(self));
            receiver.poll_recv(&Context::from_waker(&waker))
        }

        fn woken(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn messages_come_out_in_the_order_in_which_they_went_in() {
        let (sender, mut receiver) = mailbox(1);
        let task = Arc::<Task>::default();

        (0..100).for_each(|number| sender.clone().send(number).unwrap());

        let all: Vec<Poll<i32>> = (0..=100).map(|_| task.poll(&mut receiver)).collect();
        let expected = (0..100).map(Poll::Ready).chain([Poll::Pending]);
        assert!(all.into_iter().eq(expected));
    }

    #[test]
    fn a_task_is_woken_once_for_all_that_it_has_not_seen() {
        let (sender, mut receiver) = mailbox(1);
        let task = Arc::<Task>::default();
        let mut woken = Vec::new();

        for _ in 0..2 {
            while task.poll(&mut receiver).is_ready() {}
            assert!(task.poll(&mut receiver).is_pending());
            for message in [1, 2] {
                sender.send(message).unwrap();
                woken.push(task.woken());
            }
        }

        assert_eq!(woken, [1, 1, 2, 2]);
    }

    #[test]
    fn the_task_that_polled_last_is_woken() {
        let (sender, mut receiver) = mailbox(1);
        let [first, second] = [(), ()].map(|()| Arc::<Task>::default());
        assert!(first.poll(&mut receiver).is_pending());
        assert!(second.poll(&mut receiver).is_pending());

        sender.send(1).unwrap();

        assert_eq!((first.woken(), second.woken()), (0, 1));
    }

    #[test]
    fn what_is_in_a_queue_that_is_closed_is_handed_out_and_nothing_goes_in() {
        let (sender, mut receiver) = mailbox(1);
        sender.send(1).unwrap();
        sender.send(2).unwrap();

        let left = receiver.close();

        assert_eq!(left, [1, 2]);
        assert_eq!(sender.send(3), Err(Refused(3)));
    }

    #[test]
    fn no_message_between_threads_goes_unnoticed() {
        const MESSAGES: usize = 10_000;
        let (sender, mut receiver) = mailbox(1);
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build().unwrap();
        let senders = [(), ()].map(|()| {
            let sender = sender.clone();
            std::thread::spawn(move || (0..MESSAGES).for_each(|n| sender.send(n).unwrap()))
        });

        let receiving = async {
            let mut sum = 0;
            for _ in 0..2 * MESSAGES {
                sum += std::future::poll_fn(|cx| receiver.poll_recv(cx)).await;
            }
            sum
        };
        let guard = std::time::Duration::from_secs(60);
        let sum = runtime.block_on(async { tokio::time::timeout(guard, receiving).await });

        senders
            .into_iter()
            .for_each(|sender| sender.join().unwrap());
        assert_eq!(sum, Ok(MESSAGES * (MESSAGES - 1)));
    }
}
