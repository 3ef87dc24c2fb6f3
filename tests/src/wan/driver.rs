//! The thread that carries packets: reads what hosts send, asks the wire, and writes what has arrived.
//!
//! One thread does it all, because a packet costs what its two system calls cost, and those of the receiver
//! include most of its TCP.

use std::io::{self, IoSlice};
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::setpriority_process;
use rustix::thread::set_current_timer_slack;
use tun_rs::SyncDevice;

use super::counts::Counts;
use super::packet::heading;
use super::plan::Plan;
use super::resets::Resets;
use super::train::{FRONT, HEADERS_MAX};
use super::units::{Nanos, SECOND};
use super::wire::{Fate, Packet, Wire};
use super::yard::{Seat, Yard};

/// Trains read from a host before the others get their turn.
const TURN: usize = 16;

/// Packets may be so late, so that many of them go at once: what a network card does to spare its processor.
const REST: Nanos = 100_000;

/// The priority that goes before all others of usual threads.
const FIRST: i32 = -20;

/// The thread looks so often whether it shall end, and tells its counts.
const LOOK: Nanos = SECOND / 20;

/// A wire at work. It ends with this value.
#[derive(Debug)]
pub struct Driver {
    is_over: Arc<AtomicBool>,
    counts: Arc<Mutex<Vec<Counts>>>,
    begun: Instant,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Driver {
    /// Begins to carry packets between the devices of hosts, which must not block.
    pub fn start(plan: &Plan, seed: u64, devices: Vec<SyncDevice>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let counts = Arc::new(Mutex::new(vec![Counts::default(); plan.ways.len()]));
        let begun = Instant::now();
        let mut carrier = Carrier {
            wire: Wire::new(plan, seed),
            resets: Resets::new(plan),
            yard: Yard::default(),
            parts: vec![None; plan.ways.len()],
            open: Vec::new(),
            plan: plan.clone(),
            devices,
            begun,
            is_over: Arc::clone(&is_over),
            told: Arc::clone(&counts),
            next_look: 0,
        };
        let thread = thread::spawn(move || carrier.carry());
        Self {
            is_over,
            counts,
            begun,
            thread: Some(thread),
        }
    }

    /// What became of the packets of each way, a moment ago.
    pub fn counts(&self) -> Vec<Counts> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.clone()
    }

    /// When the wire began, which cuts and resets are counted from.
    pub const fn begun(&self) -> Instant {
        self.begun
    }

    /// Whether it carries packets. It ends by itself only if something failed, which [`Driver::end`] tells.
    pub fn is_running(&self) -> bool {
        self.thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
    }

    /// Ends it, and says what became of all packets.
    ///
    /// # Errors
    /// A device had failed.
    pub fn end(mut self) -> io::Result<Vec<Counts>> {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let result = thread.join();
            result.unwrap_or_else(|_| Err(io::Error::other("the wire has panicked")))?;
        }
        Ok(self.counts())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // What it says was of interest to `end` only.
            let _ = thread.join();
        }
    }
}

/// What the thread has.
struct Carrier {
    wire: Wire<Seat>,
    resets: Resets,
    yard: Yard,
    /// Of each way: what has arrived and was not written yet, packets of one train that follow each other.
    parts: Vec<Option<(u32, Range<usize>)>>,
    /// The ways of which there is something.
    open: Vec<usize>,
    plan: Plan,
    devices: Vec<SyncDevice>,
    begun: Instant,
    is_over: Arc<AtomicBool>,
    told: Arc<Mutex<Vec<Counts>>>,
    next_look: Nanos,
}

impl Carrier {
    fn carry(&mut self) -> io::Result<()> {
        // While this thread waits for a core, the lines of a wire run empty that would be full. Linux means a
        // thread by this, and not the whole process.
        let _ = setpriority_process(None, FIRST);
        // The default would make every packet up to 50 us late.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let mut is_readable = vec![true; self.devices.len()];
        while !self.is_over.load(Ordering::Relaxed) {
            self.deliver(self.now())?;
            for (host, is_readable) in is_readable.iter_mut().enumerate() {
                if *is_readable {
                    *is_readable = self.read(host)?;
                    self.deliver(self.now())?;
                }
            }
            let now = self.now();
            if now >= self.next_look {
                self.next_look = now + LOOK;
                self.tell();
            }
            self.reset(now)?;
            // Others than those that are known to have more are asked each time, so that none starves.
            let is_busy = is_readable.contains(&true);
            self.wait(now, is_busy, &mut is_readable)?;
        }
        self.tell();
        Ok(())
    }

    fn now(&self) -> Nanos {
        Nanos::try_from(self.begun.elapsed().as_nanos()).unwrap_or(Nanos::MAX)
    }

    fn tell(&self) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.clear();
        told.extend_from_slice(self.wire.counts());
    }

    /// Reads some trains of a host. Whether there may be more.
    fn read(&mut self, host: usize) -> io::Result<bool> {
        for _ in 0..TURN {
            let length = match self.devices[host].recv(self.yard.buffer()) {
                Ok(length) => length,
                Err(error) => {
                    return match error.kind() {
                        io::ErrorKind::WouldBlock => Ok(false),
                        io::ErrorKind::Interrupted => Ok(true),
                        _ => Err(error),
                    };
                }
            };
            self.send(host, length);
        }
        Ok(true)
    }

    /// Gives the wire what was read of a host, packet by packet.
    fn send(&mut self, from: usize, length: usize) {
        let Some((id, train)) = self.yard.keep(length) else {
            return;
        };
        let packet = self.yard.get(id).1.get(FRONT..).unwrap_or_default();
        let heading = heading(packet);
        let way = heading.and_then(|heading| {
            let to = self.plan.host_at(heading.to)?;
            Some((self.plan.way(from, to)?, heading.flow))
        });
        let Some((way, flow)) = way else {
            return self.yard.leave(id, train.packets());
        };
        self.resets.on_sent(from, way % self.devices.len(), packet);
        let now = self.now();
        let mut dropped = 0;
        for number in 0..train.packets() {
            let seat = Seat {
                train: id,
                packet: u16::try_from(number).unwrap_or(u16::MAX),
            };
            let packet = Packet {
                way,
                bytes: u32::try_from(train.bytes(number)).unwrap_or(u32::MAX),
                flow,
                load: seat,
            };
            dropped += usize::from(self.wire.send(now, packet).is_err());
        }
        if dropped > 0 {
            self.yard.leave(id, dropped);
        }
    }

    /// Writes what has arrived by then. What arrives together of a train is written as one.
    fn deliver(&mut self, now: Nanos) -> io::Result<()> {
        while let Some(fate) = self.wire.due(now) {
            match fate {
                Fate::Arrived(packet) => self.board(packet.way, packet.load)?,
                Fate::Dropped(packet, _) => self.yard.leave(packet.load.train, 1),
            }
        }
        while let Some(way) = self.open.pop() {
            self.write(way)?;
        }
        Ok(())
    }

    /// A packet has arrived: it goes with the one before it, if it follows it.
    fn board(&mut self, way: usize, seat: Seat) -> io::Result<()> {
        let number = usize::from(seat.packet);
        match &mut self.parts[way] {
            Some((train, packets)) if *train == seat.train && packets.end == number => {
                packets.end += 1;
                return Ok(());
            }
            Some(_) => self.write(way)?,
            None => self.open.push(way),
        }
        self.parts[way] = Some((seat.train, number..number + 1));
        Ok(())
    }

    /// Writes what has arrived of a way.
    fn write(&mut self, way: usize) -> io::Result<()> {
        let Some((id, packets)) = self.parts[way].take() else {
            return Ok(());
        };
        let (from, to) = self.ends(way);
        let (train, read) = self.yard.get(id);
        let mut headers = [0; HEADERS_MAX];
        let (length, payload) = train.part(read, packets.clone(), &mut headers);
        let (headers, payload) = (&headers[..length], &read[payload]);
        let header = if length > 0 { headers } else { payload };
        self.resets.on_delivered(from, to, &header[FRONT..]);
        let slices = [IoSlice::new(headers), IoSlice::new(payload)];
        is_heard(self.devices[to].send_vectored(&slices))?;
        self.yard.leave(id, packets.len());
        Ok(())
    }

    fn reset(&mut self, now: Nanos) -> io::Result<()> {
        for (host, packet) in self.resets.due(now) {
            let slices = [IoSlice::new(&[0; FRONT]), IoSlice::new(&packet)];
            is_heard(self.devices[host].send_vectored(&slices))?;
        }
        Ok(())
    }

    /// Where a way begins and ends.
    fn ends(&self, way: usize) -> (usize, usize) {
        (way / self.devices.len(), way % self.devices.len())
    }

    /// Waits until a host sends, or something is due.
    fn wait(&self, now: Nanos, is_busy: bool, is_readable: &mut [bool]) -> io::Result<()> {
        let due = self.wire.next_due().unwrap_or(Nanos::MAX);
        let until = due.max(now + REST).min(self.next_look);
        let until = until.min(self.resets.next_due().unwrap_or(Nanos::MAX));
        let span = if is_busy {
            0
        } else {
            until.saturating_sub(now)
        };
        let timeout = Timespec {
            tv_sec: i64::try_from(span / SECOND).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(span % SECOND).unwrap_or(0),
        };
        let devices = self.devices.iter();
        let mut polled: Vec<_> = devices
            .map(|device| PollFd::new(device, PollFlags::IN))
            .collect();
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for (is_readable, polled) in is_readable.iter_mut().zip(&polled) {
            *is_readable = polled.revents().contains(PollFlags::IN);
        }
        Ok(())
    }
}

/// A host whose device is down, or whose kernel has no memory for it, does not hear it. Everything else is a
/// failure.
fn is_heard(written: io::Result<usize>) -> io::Result<()> {
    use rustix::io::Errno;
    let Err(error) = written else {
        return Ok(());
    };
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    match code {
        Some(Errno::IO | Errno::NOBUFS | Errno::NOMEM | Errno::AGAIN | Errno::INTR) => Ok(()),
        Some(_) | None => Err(error),
    }
}
