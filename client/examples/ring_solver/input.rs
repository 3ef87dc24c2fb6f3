//! Reads matrices of costs: CSV and TSPLIB.

use std::path::Path;

use pccl_core::tour::{Costs, CostsError, EdgeCost, Node};

/// Digits behind the decimal point that count.
const DECIMALS_MAX: usize = 6;

/// A square matrix of costs and the names of its nodes.
pub(crate) struct Input {
    pub(crate) names: Vec<String>,
    /// Row by row, sender first, in units; `None` for an unreachable edge.
    cells: Vec<Option<u64>>,
    /// Units in one of the file's.
    pub(crate) scale: u64,
}

impl Input {
    pub(crate) fn read(file: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(file);
        let text = text.map_err(|error| format!("{}: {error}", file.display()))?;
        let is_tsplib = text
            .lines()
            .any(|line| line.trim() == "EDGE_WEIGHT_SECTION");
        match is_tsplib {
            true => tsplib(&text),
            false => csv(&text),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.names.len()
    }

    /// What the edge costs, in units.
    pub(crate) fn cost(&self, from: usize, to: usize) -> Option<u64> {
        self.cells[from * self.count() + to].filter(|_| from != to)
    }

    /// The same cost counts for the bottleneck and for the sum.
    pub(crate) fn costs(&self) -> Result<Costs, CostsError> {
        Costs::new(self.count(), |from: Node, to: Node| {
            let cost = self.cost(from.index(), to.index())?;
            let (bottleneck, sum) = (cost, cost);
            Some(EdgeCost { bottleneck, sum })
        })
    }

    fn new(names: Vec<String>, cells: &[&str]) -> Result<Self, String> {
        let count = names.len();
        if cells.len() != count * count {
            return Err(format!("{} costs for {count} nodes", cells.len()));
        }
        let decimals = cells.iter().filter_map(|cell| cell.split_once('.'));
        let decimals = decimals.map(|(_, digits)| digits.len()).max().unwrap_or(0);
        let scale = 10_u64.pow(decimals.min(DECIMALS_MAX) as u32);
        let mut units = Vec::with_capacity(cells.len());
        for (at, cell) in cells.iter().enumerate() {
            let is_diagonal = at / count == at % count;
            units.push(if is_diagonal {
                None
            } else {
                cost(cell, scale)?
            });
        }
        let cells = units;
        Ok(Self {
            names,
            cells,
            scale,
        })
    }
}

/// A cost in units. An edge without one, or with an infinite one, is unreachable.
fn cost(cell: &str, scale: u64) -> Result<Option<u64>, String> {
    let is_unreachable = ["", "-", "x", "inf", "infinity"];
    if is_unreachable.contains(&cell.to_ascii_lowercase().as_str()) {
        return Ok(None);
    }
    let whole = || cell.parse::<u64>().ok()?.checked_mul(scale);
    let decimal = || {
        let cost = cell.parse::<f64>().ok()? * scale as f64;
        (0.0..1e18).contains(&cost).then(|| cost.round() as u64)
    };
    let cost = whole().or_else(decimal);
    cost.map(Some).ok_or_else(|| format!("not a cost: {cell}"))
}

/// Rows of costs. The first row may name the nodes, and then so may the first column.
fn csv(text: &str) -> Result<Input, String> {
    let rows = text.lines().filter(|line| !line.trim().is_empty());
    let rows = rows.map(|line| line.split([',', ';', '\t']).map(str::trim).collect());
    let mut rows: Vec<Vec<&str>> = rows.collect();
    let is_name = |cell: &&str| cost(cell, 1).is_err();
    let mut names = None;
    if rows.first().is_some_and(|row| row.iter().any(is_name)) {
        let mut row = rows.remove(0);
        if row.len() == rows.len() + 1 {
            row.remove(0);
            rows.iter_mut()
                .filter(|row| !row.is_empty())
                .for_each(|row| {
                    row.remove(0);
                });
        }
        names = Some(row.into_iter().map(String::from).collect::<Vec<_>>());
    }
    let names = names.unwrap_or_else(|| numbers(rows.len()));
    for (number, row) in rows.iter().enumerate() {
        if row.len() != names.len() {
            let (has, needs) = (row.len(), names.len());
            return Err(format!("row {} has {has} costs of {needs}", number + 1));
        }
    }
    Input::new(names, &rows.concat())
}

fn tsplib(text: &str) -> Result<Input, String> {
    let (head, body) = text.split_once("EDGE_WEIGHT_SECTION").unwrap_or((text, ""));
    let value = |key: &str| {
        let pairs = head.lines().filter_map(|line| line.split_once(':'));
        let mut pairs = pairs.map(|(key, value)| (key.trim(), value.trim()));
        pairs.find_map(|(known, value)| (known == key).then_some(value))
    };
    if value("EDGE_WEIGHT_FORMAT").is_some_and(|format| format != "FULL_MATRIX") {
        return Err("of TSPLIB's formats only FULL_MATRIX is read".into());
    }
    let count = value("DIMENSION").and_then(|value| value.parse::<usize>().ok());
    let count = count.ok_or("no DIMENSION")?;
    let is_number = |cell: &&str| cell.parse::<f64>().is_ok();
    let cells: Vec<&str> = body.split_whitespace().take_while(is_number).collect();
    Input::new(numbers(count), &cells)
}

/// Names of nodes that have none, counted from one as in TSPLIB.
fn numbers(count: usize) -> Vec<String> {
    (1..=count).map(|number| number.to_string()).collect()
}
