//! Simulations that do not come to an end: a thread that never gives the others their turn cannot be stopped from
//! inside.

use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The exit code of a process that ends because a simulation hangs.
pub const HANGS: u8 = 3;

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(500);

/// Ends the process if a simulation takes too long, by the clock on the wall.
#[derive(Clone, Debug)]
pub struct Hangs {
    /// Seeds that are being played, each with its beginning.
    playing: Arc<Mutex<Vec<(u64, Instant)>>>,
}

impl Hangs {
    /// Watches from here on. A seed may take so long.
    #[must_use]
    pub fn watch(limit: Duration) -> Self {
        let this = Self {
            playing: Arc::default(),
        };
        let watching = this.clone();
        thread::spawn(move || {
            loop {
                thread::sleep(LOOK);
                let playing = watching.lock().clone();
                let hangs = playing.iter().find(|(_, begun)| begun.elapsed() > limit);
                if let Some((seed, _)) = hangs {
                    println!("seed {seed} HANGS: it has not ended after {limit:?}");
                    process::exit(HANGS.into());
                }
            }
        });
        this
    }

    /// Plays a seed under watch.
    pub fn play<T>(&self, seed: u64, play: impl FnOnce() -> T) -> T {
        self.lock().push((seed, Instant::now()));
        let played = play();
        self.lock().retain(|(other, _)| *other != seed);
        played
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, Instant)>> {
        self.playing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
