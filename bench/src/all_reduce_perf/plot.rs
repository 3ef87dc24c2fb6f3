//! Throughput over size, as a picture.

use std::collections::BTreeMap;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::row::Row;

const PICTURE: (u32, u32) = (960, 640);
const FONT: &str = "sans-serif";

pub(crate) type PlotError = DrawingAreaErrorKind<std::io::Error>;
type Logarithmic = Cartesian2d<LogCoord<f64>, LogCoord<f64>>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Logarithmic>;

/// Bytes and GB/s.
type Point = (f64, f64);

/// A line of the picture.
struct Curve {
    name: String,
    color: HSLColor,
    is_floor: bool,
    points: Vec<Point>,
}

/// Draws a line for every number of peers and of lanes, one more for an optimized ring, and dashed the floor of every
/// number of peers: a colour for each number of peers, lighter with more lanes. Where nothing was measured, nothing is
/// drawn.
pub(crate) fn draw(file: &Path, rows: &[Row]) -> Result<(), PlotError> {
    let area = SVGBackend::new(file, PICTURE).into_drawing_area();
    area.fill(&WHITE)?;
    let curves = curves(rows);
    if !curves.is_empty() {
        let mut chart = axes(&area, &curves)?;
        for curve in &curves {
            add(&mut chart, curve)?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .label_font((FONT, 17))
            .draw()?;
    }
    area.present()
}

/// What is to be drawn. Of the floor, which knows no lanes, the best that was measured.
fn curves(rows: &[Row]) -> Vec<Curve> {
    let mut ours: BTreeMap<(usize, u16, bool), Vec<Point>> = BTreeMap::new();
    let mut floors: BTreeMap<usize, BTreeMap<usize, f64>> = BTreeMap::new();
    for row in rows {
        let line = ours
            .entry((row.peers, row.lanes, row.optimized))
            .or_default();
        line.push((row.total_bytes() as f64, row.algbw_gb_s));
        let of_peers = floors.entry(row.peers).or_default();
        if let Some(floor) = row.floor.algbw_gb_s {
            let best = of_peers.entry(row.total_bytes()).or_insert(floor);
            *best = best.max(floor);
        }
    }
    let mut curves = Vec::new();
    let groups = floors.len() as f64;
    for (group, (peers, floor)) in floors.into_iter().enumerate() {
        let hue = group as f64 / groups;
        let all = (peers, 0, false)..=(peers, u16::MAX, true);
        let lines: Vec<_> = ours.range(all).collect();
        for (number, ((_, lanes, is_optimized), points)) in lines.iter().enumerate() {
            let lightness = 0.25 + 0.4 * number as f64 / lines.len() as f64;
            let optimized = if *is_optimized { ", optimized" } else { "" };
            curves.push(Curve {
                name: format!("{peers} peers, lanes: {lanes}{optimized}"),
                color: HSLColor(hue, 0.8, lightness),
                is_floor: false,
                points: points.to_vec(),
            });
        }
        let floor = floor.into_iter().map(|(bytes, rate)| (bytes as f64, rate));
        curves.push(Curve {
            name: format!("{peers} peers, floor"),
            color: HSLColor(hue, 0.5, 0.5),
            is_floor: true,
            points: floor.collect(),
        });
    }
    curves.retain(|curve| !curve.points.is_empty());
    curves
}

fn axes<'a, 'b>(
    area: &'a DrawingArea<SVGBackend<'b>, Shift>,
    curves: &[Curve],
) -> Result<Chart<'a, 'b>, PlotError> {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let (bytes, rates) = (
        span(points().map(|point| point.0)),
        span(points().map(|point| point.1)),
    );
    let mut chart = ChartBuilder::on(area)
        .caption("all-reduce throughput", (FONT, 26))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(bytes.log_scale().base(2.0), rates.log_scale())?;
    chart
        .configure_mesh()
        .x_desc("bytes of one peer's contribution, of all reduces at once")
        .y_desc("GB/s")
        .x_label_formatter(&|bytes| size(*bytes))
        .y_label_formatter(&|rate| format!("{rate}"))
        .label_style((FONT, 17))
        .axis_desc_style((FONT, 19))
        .light_line_style(TRANSPARENT)
        .draw()?;
    Ok(chart)
}

fn add(chart: &mut Chart<'_, '_>, curve: &Curve) -> Result<(), PlotError> {
    let style = curve.color.stroke_width(2);
    let points = curve.points.iter().copied();
    let drawn = if curve.is_floor {
        chart.draw_series(DashedLineSeries::new(points, 8, 5, style))?
    } else {
        chart.draw_series(LineSeries::new(points, style).point_size(3))?
    };
    let is_floor = curve.is_floor;
    drawn.label(&curve.name).legend(move |(x, y)| {
        let ends = if is_floor { x + 10 } else { x + 20 };
        PathElement::new(vec![(x, y), (ends, y)], style)
    });
    Ok(())
}

/// From the smallest to the largest, with room on both sides.
fn span(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
    for value in values.filter(|value| *value > 0.0) {
        (low, high) = (low.min(value), high.max(value));
    }
    low / 1.5..high * 1.5
}

/// With a binary suffix.
fn size(bytes: f64) -> String {
    let units = [(30, "G"), (20, "M"), (10, "K")];
    let fits = |(shift, _): &(i32, &str)| bytes >= 2.0_f64.powi(*shift);
    match units.into_iter().find(fits) {
        Some((shift, unit)) => format!("{}{unit}", bytes / 2.0_f64.powi(shift)),
        None => format!("{bytes}"),
    }
}
