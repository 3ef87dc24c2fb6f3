//! What stands below the rows of a session: which lanes were used, how far the figures spread, and where the
//! time went.

use std::fmt::Write;

use super::row::Row;
use super::table::{SEPARATOR, columns};

const WIDTHS: [usize; 4] = [12, 11, 11, 11];
const FLOOR_WIDTHS: [usize; 6] = [11, 11, 11, 8, 8, 8];

/// Of rows with the same peers and lanes.
pub(crate) fn notes(rows: &[Row]) -> String {
    let mut text = String::new();
    let Some(first) = rows.first() else {
        return text;
    };
    writeln!(text, "# lanes    {}", lanes(first, rows)).ok();
    text.push_str(
        "# spread   over the iterations; of the ratio, over the turns that ours and the floor took\n",
    );
    let has_floor = first.floor.ratio.is_some();
    let names = ["size", "min (us)", "median", "max"];
    let floor_names = ["floor min", "median", "max", "ratio", "min", "max"];
    let head = columns(&names, &WIDTHS);
    let floor_head = columns(&floor_names, &FLOOR_WIDTHS);
    write_line(&mut text, &head, has_floor.then_some(floor_head));
    for row in rows {
        let times = [row.time_min_us, row.time_us, row.time_max_us];
        write_line(&mut text, &times_of(row, times), floor(row));
    }
    text.push_str(&phases(rows));
    text
}

/// Where the time of ours went.
fn phases(rows: &[Row]) -> String {
    let mut text = String::from(
        "# phases   of ours, medians: until all peers had called, until all bytes were there, until the verdict\n",
    );
    let names = ["size", "start (us)", "transfer", "commit"];
    write_line(&mut text, &columns(&names, &WIDTHS), None);
    for row in rows {
        let times = [row.start_us, row.transfer_us, row.commit_us];
        write_line(&mut text, &times_of(row, times), None);
    }
    text
}

/// Ours of a line: the size of the row, and three of its times.
fn times_of(row: &Row, times: [f64; 3]) -> String {
    let (of_size, of_times) = WIDTHS.split_at(1);
    let size = columns(&[row.bytes.to_string()], of_size);
    format!("{size}{}", numbers(&times, of_times, 1))
}

/// Asked for and used.
fn lanes(first: &Row, rows: &[Row]) -> String {
    let used = rows.iter().map(|row| row.lanes_used).max().unwrap_or(0);
    let place = if first.lanes_are_local {
        "both ends of each are on this machine, where the library chooses by itself how many it uses"
    } else {
        "not all of them say that they stay on this machine"
    };
    format!("{} (at most {used} used: {place})", first.lanes)
}

/// The floor's side of a line, unless it was left out.
fn floor(row: &Row) -> Option<String> {
    let floor = &row.floor;
    let times = [floor.time_min_us?, floor.time_us?, floor.time_max_us?];
    let ratios = [floor.ratio?, floor.ratio_min?, floor.ratio_max?];
    let (of_times, of_ratios) = FLOOR_WIDTHS.split_at(times.len());
    Some(numbers(&times, of_times, 1) + &numbers(&ratios, of_ratios, 2))
}

fn numbers(values: &[f64], widths: &[usize], digits: usize) -> String {
    let texts: Vec<String> = values
        .iter()
        .map(|value| format!("{value:.digits$}"))
        .collect();
    columns(&texts, widths)
}

/// A line that is a comment to whoever reads the table with a program.
fn write_line(text: &mut String, ours: &str, floor: Option<String>) {
    let floor = floor.map(|floor| format!("{SEPARATOR}{floor}"));
    let ours = ours.replacen(' ', "#", 1);
    writeln!(text, "{ours}{}", floor.unwrap_or_default()).ok();
}
