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
    color: PaletteColor<Palette99>,
    is_floor: bool,
    points: Vec<Point>,
}

/// Draws a line for every number of peers and of lanes, and dashed the floor of every number of peers.
/// Where nothing was measured, nothing is drawn.
pub(crate) fn draw(file: &Path, rows: &[Row]) -> Result<(), PlotError> {
    let area = SVGBackend::new(file, PICTURE).into_drawing_area();
    area.fill(&WHITE)?;
    let curves = curves(rows);
    if curves.iter().any(|curve| !curve.points.is_empty()) {
        let mut chart = axes(&area, &curves)?;
        for curve in &curves {
            add(&mut chart, curve)?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .label_font((FONT, 14))
            .draw()?;
    }
    area.present()
}

/// What is to be drawn. Of the floor, which knows no lanes, the best that was measured.
fn curves(rows: &[Row]) -> Vec<Curve> {
    let mut ours: BTreeMap<(usize, u16), Vec<Point>> = BTreeMap::new();
    let mut floors: BTreeMap<usize, BTreeMap<usize, f64>> = BTreeMap::new();
    for row in rows {
        let bytes = row.bytes as f64;
        let line = ours.entry((row.peers, row.lanes)).or_default();
        line.push((bytes, row.algbw_gb_s));
        if let Some(floor) = row.floor.algbw_gb_s {
            let best = floors.entry(row.peers).or_default();
            let best = best.entry(row.bytes).or_insert(floor);
            *best = best.max(floor);
        }
    }
    let ours = ours.into_iter().map(|((peers, lanes), points)| {
        let name = format!("{peers} peers, {lanes} lanes");
        (name, false, points)
    });
    let floors = floors.into_iter().map(|(peers, points)| {
        let points = points.into_iter().map(|(bytes, rate)| (bytes as f64, rate));
        (format!("{peers} peers, floor"), true, points.collect())
    });
    let all = ours.chain(floors).enumerate();
    all.map(|(number, (name, is_floor, points))| Curve {
        name,
        color: Palette99::pick(number),
        is_floor,
        points,
    })
    .collect()
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
        .caption("all-reduce throughput", (FONT, 22))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(bytes.log_scale().base(2.0), rates.log_scale())?;
    chart
        .configure_mesh()
        .x_desc("bytes of one peer's contribution")
        .y_desc("GB/s")
        .x_label_formatter(&|bytes| size(*bytes))
        .y_label_formatter(&|rate| format!("{rate}"))
        .label_style((FONT, 14))
        .axis_desc_style((FONT, 16))
        .light_line_style(BLACK.mix(0.05))
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
