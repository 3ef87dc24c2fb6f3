//! The nodes on a circle in the order of the ring, their edges by cost, and the ring over them.

use std::f64::consts::TAU;
use std::path::Path;

use plotters::prelude::*;

use super::input::Input;
use pccl_core::tour::Node;

const PICTURE: (u32, u32) = (900, 900);
const FONT: &str = "sans-serif";

/// So many edges out of each node are drawn, the cheapest ones.
const EDGES_MAX: usize = 16;

/// More names than this would cover each other.
const NAMES_MAX: usize = 80;

type PlotError = DrawingAreaErrorKind<std::io::Error>;

/// Cheaper edges are darker. Without a ring the nodes stand in the file's order.
pub(crate) fn draw(file: &Path, input: &Input, ring: &[Node]) -> Result<(), PlotError> {
    let area = SVGBackend::new(file, PICTURE).into_drawing_area();
    area.fill(&WHITE)?;
    let order: Vec<usize> = match ring.is_empty() {
        true => (0..input.count()).collect(),
        false => ring.iter().map(|node| node.index()).collect(),
    };
    let mut points = vec![(0, 0); order.len()];
    for (place, node) in order.iter().enumerate() {
        points[*node] = on_circle(place, order.len(), 0.40);
    }
    for (from, to, shade) in edges(input) {
        let style = BLACK.mix(0.05 + 0.35 * shade).stroke_width(1);
        area.draw(&PathElement::new([points[from], points[to]], style))?;
    }
    if !ring.is_empty() {
        let closed = order.iter().chain(order.first()).map(|node| points[*node]);
        area.draw(&PathElement::new(
            closed.collect::<Vec<_>>(),
            RED.stroke_width(3),
        ))?;
    }
    for (place, node) in order.iter().enumerate() {
        area.draw(&Circle::new(points[*node], 4, BLUE.filled()))?;
        if order.len() <= NAMES_MAX {
            let at = on_circle(place, order.len(), 0.44);
            let name = input.names[*node].clone();
            area.draw(&Text::new(name, (at.0 - 6, at.1 - 7), (FONT, 14)))?;
        }
    }
    area.present()
}

fn on_circle(place: usize, count: usize, radius: f64) -> (i32, i32) {
    let angle = TAU * place as f64 / count as f64;
    let (width, height) = (f64::from(PICTURE.0), f64::from(PICTURE.1));
    let x = width / 2.0 + radius * width * angle.sin();
    let y = height / 2.0 - radius * height * angle.cos();
    (x.round() as i32, y.round() as i32)
}

/// The cheapest edges out of each node, the cheapest last, each with its rank among all that are drawn
/// from 0 to 1.
fn edges(input: &Input) -> Vec<(usize, usize, f64)> {
    let mut drawn = Vec::new();
    for from in 0..input.count() {
        let ends = (0..input.count()).filter_map(|to| Some((input.cost(from, to)?, to)));
        let mut ends: Vec<(u64, usize)> = ends.collect();
        ends.sort_unstable();
        drawn.extend(
            ends.into_iter()
                .take(EDGES_MAX)
                .map(|(cost, to)| (cost, from, to)),
        );
    }
    drawn.sort_unstable_by(|one, other| other.cmp(one));
    let count = drawn.len().max(1) as f64;
    let ranked = drawn.into_iter().enumerate();
    ranked
        .map(|(rank, (_, from, to))| (from, to, rank as f64 / count))
        .collect()
}
