//! The data: 8×8 images of handwritten digits, split for training and testing, dealt to peers.

use std::fmt;
use std::io::Read;

use flate2::read::GzDecoder;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

/// Pixels of a row, and rows.
const SIDE: usize = 8;
/// Pixels of an image.
pub(crate) const PIXELS: usize = SIDE * SIDE;
/// Digits there are.
pub(crate) const CLASSES: usize = 10;

const FILE: &[u8] = include_bytes!("../data/digits.csv.gz");
const BRIGHTEST: f32 = 16.0;
/// One image in so many is held back for testing.
const HELD_BACK: usize = 5;
/// Everybody splits alike, or one peer would train on what another tests with.
const SPLIT_SEED: u64 = 1998;
/// A shard is one part in so many of the training images.
const SHARD_PART: usize = 2;

/// Images with their labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Samples {
    /// [`PIXELS`] intensities per image, row by row, from 0 to 1.
    pub(crate) pixels: Vec<f32>,
    /// The digit of each image, below [`CLASSES`].
    pub(crate) labels: Vec<u8>,
}

impl Samples {
    /// Number of images.
    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    /// Each image with its label.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[f32; PIXELS], u8)> {
        self.pixels
            .as_chunks()
            .0
            .iter()
            .zip(self.labels.iter().copied())
    }

    fn push(&mut self, image: &[f32; PIXELS], label: u8) {
        self.pixels.extend_from_slice(image);
        self.labels.push(label);
    }
}

/// The whole set, split the same way in every process.
#[derive(Clone, Debug)]
pub(crate) struct Digits {
    /// Four fifths of the images, to learn from.
    pub(crate) training: Samples,
    /// The other fifth, which no peer ever trains on.
    pub(crate) test: Samples,
}

impl Digits {
    /// Unpacks the data that is compiled in.
    ///
    /// # Errors
    /// The file is damaged; the program was built from a broken checkout.
    pub(crate) fn load() -> Result<Self, DamagedData> {
        let mut text = String::new();
        GzDecoder::new(FILE)
            .read_to_string(&mut text)
            .map_err(|_| DamagedData { line: 0 })?;

        let mut images = Vec::new();
        for (number, line) in text.lines().enumerate() {
            images.push(parse(line).ok_or(DamagedData { line: number + 1 })?);
        }
        images.shuffle(&mut StdRng::seed_from_u64(SPLIT_SEED));

        let (mut training, mut test) = (Samples::default(), Samples::default());
        for (index, (image, label)) in images.iter().enumerate() {
            let part = if index % HELD_BACK == 0 {
                &mut test
            } else {
                &mut training
            };
            part.push(image, *label);
        }
        Ok(Self { training, test })
    }

    /// What the peer with this seed trains on: half of the training images, drawn by the seed.
    ///
    /// Peers come and go, so nobody can deal out disjoint parts. Random halves overlap, but no two
    /// peers see the same data in the same order, and a few peers together see nearly all of it.
    pub(crate) fn shard(&self, seed: u64) -> Shard {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut all: Vec<_> = self.training.iter().collect();
        all.shuffle(&mut rng);

        let mut samples = Samples::default();
        for (image, label) in all.iter().take(self.training.len() / SHARD_PART) {
            samples.push(image, *label);
        }
        Shard { samples, rng }
    }
}

/// 65 small integers separated by commas.
fn parse(line: &str) -> Option<([f32; PIXELS], u8)> {
    let (pixels, label) = line.rsplit_once(',')?;
    let label = label
        .parse()
        .ok()
        .filter(|label| usize::from(*label) < CLASSES)?;

    let mut image = [0.0; PIXELS];
    let mut values = pixels.split(',');
    for pixel in &mut image {
        let value = values
            .next()?
            .parse()
            .ok()
            .map(|value: u8| f32::from(value) / BRIGHTEST)?;
        *pixel = Some(value).filter(|value| *value <= 1.0)?;
    }
    values.next().is_none().then_some((image, label))
}

/// A line of the data cannot be read (0: the file cannot be unpacked). Get the file again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DamagedData {
    line: usize,
}

impl fmt::Display for DamagedData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "examples/data/digits.csv.gz is damaged at line {}",
            self.line
        )
    }
}

impl std::error::Error for DamagedData {}

/// One peer's training images, and an endless stream of batches drawn from them.
#[derive(Debug)]
pub(crate) struct Shard {
    samples: Samples,
    rng: StdRng,
}

impl Shard {
    /// The images that this peer may see.
    pub(crate) fn samples(&self) -> &Samples {
        &self.samples
    }

    /// `len` images drawn at random, repeats included, each a little distorted so that none comes
    /// twice.
    pub(crate) fn next_batch(&mut self, len: usize) -> Samples {
        let images = self.samples.pixels.as_chunks::<PIXELS>().0;
        let mut batch = Samples::default();
        for _ in 0..len {
            let index = self.rng.random_range(0..images.len());
            let distorted = Distortion::draw(&mut self.rng).of(&images[index]);
            batch.push(&distorted, self.samples.labels[index]);
        }
        batch
    }
}

/// A small turn and shift of an image.
struct Distortion {
    cos: f32,
    sin: f32,
    shift: [f32; 2],
}

impl Distortion {
    /// Radians to either side.
    const TURN: f32 = 0.2;
    /// Pixels to either side.
    const SHIFT: f32 = 0.6;

    fn draw(rng: &mut StdRng) -> Self {
        let (sin, cos) = rng.random_range(-Self::TURN..Self::TURN).sin_cos();
        let shift = [(); 2].map(|()| rng.random_range(-Self::SHIFT..Self::SHIFT));
        Self { cos, sin, shift }
    }

    fn of(&self, image: &[f32; PIXELS]) -> [f32; PIXELS] {
        const MIDDLE: f32 = (SIDE - 1) as f32 / 2.0;
        std::array::from_fn(|index| {
            let x = (index % SIDE) as f32 - MIDDLE;
            let y = (index / SIDE) as f32 - MIDDLE;
            let from_x = self.cos * x - self.sin * y + self.shift[0] + MIDDLE;
            let from_y = self.sin * x + self.cos * y + self.shift[1] + MIDDLE;
            between_pixels(image, from_x, from_y)
        })
    }
}

/// The intensity at a point, interpolated between the four pixels around it; dark outside.
fn between_pixels(image: &[f32; PIXELS], x: f32, y: f32) -> f32 {
    let (left, top) = (x.floor(), y.floor());
    let mut sum = 0.0;
    for (row, share_y) in [(top, 1.0 - (y - top)), (top + 1.0, y - top)] {
        for (column, share_x) in [(left, 1.0 - (x - left)), (left + 1.0, x - left)] {
            let inside = 0.0..SIDE as f32;
            if inside.contains(&row) && inside.contains(&column) {
                sum += image[row as usize * SIDE + column as usize] * share_x * share_y;
            }
        }
    }
    sum
}
