//! The outcome as tables for a terminal.

use std::fmt::Write as _;

use duramen_measure::evidence::Evidence;
use duramen_store::Durability;

use super::matrix::{Cell, Matrix};
use super::targets::standings;
use duramen_base::words::number;
use duramen_measure::target::quantity;
use duramen_reports::text::{outcome, table, targets};

/// The matrix of operations and levels with its costs, the targets, the checks and the findings, as text for a terminal.
pub(crate) fn print_table(evidence: &Evidence) -> String {
    let matrix = Matrix::from_evidence(evidence);
    let mut text = String::new();
    writeln!(
        text,
        "Latencies in us: p50 / p95 / p99; one sync of the disk takes {} us, reading the clock {} us.\n",
        number(matrix.sync_floor_us),
        number(evidence.measurement("timer").map_or(0.0, |timer| timer.p50))
    )
    .ok();
    let (headers, rows) = latencies(&matrix);
    writeln!(text, "{}\n", table(&headers, rows)).ok();
    writeln!(text, "Costs: operations per second, syncs and bytes of the log for each operation.\n").ok();
    let (headers, rows) = costs(&matrix);
    writeln!(text, "{}\n", table(&headers, rows)).ok();
    text.push_str(&targets(&standings(evidence)));
    text.push_str(&outcome(evidence));
    text
}

fn name_of(op: &str, threads: Option<u32>) -> String {
    threads.map_or_else(|| op.to_owned(), |threads| format!("{op} @{threads}"))
}

/// A table of one row per operation and one group of columns per level.
pub(crate) fn latencies(matrix: &Matrix<'_>) -> (Vec<String>, Vec<Vec<String>>) {
    let show = |cell: &Cell<'_>| {
        if cell.is_latency() {
            let [p50, p95, p99] = [cell.figure.p50, cell.figure.p95, cell.figure.p99].map(number);
            format!("{p50} / {p95} / {p99}")
        } else {
            quantity(cell.figure.p50, &cell.figure.unit)
        }
    };
    by_level(matrix, &["us"], |cell| vec![show(cell)])
}

pub(crate) fn costs(matrix: &Matrix<'_>) -> (Vec<String>, Vec<Vec<String>>) {
    let show = |figure: Option<f64>| figure.map_or_else(String::new, number);
    by_level(matrix, &["ops/s", "syncs/op", "log B/op"], |cell| {
        let rate = cell.ops_per_s().map_or_else(String::new, |rate| format!("{rate:.0}"));
        vec![rate, show(cell.syncs_per_op()), show(cell.log_bytes_per_op())]
    })
}

fn by_level(
    matrix: &Matrix<'_>,
    columns: &[&str],
    show: impl Fn(&Cell<'_>) -> Vec<String>,
) -> (Vec<String>, Vec<Vec<String>>) {
    let levels: Vec<Durability> = matrix.levels();
    let mut headers = vec!["operation".to_owned()];
    for level in &levels {
        headers.extend(columns.iter().map(|column| format!("{level} {column}")));
    }
    let rows = matrix.operations().into_iter().map(|(op, threads)| {
        let mut row = vec![name_of(op, threads)];
        for level in &levels {
            let is_it = |cell: &&Cell<'_>| (cell.op, cell.threads, cell.level) == (op, threads, *level);
            let cells = matrix.cells.iter().find(is_it).map(&show);
            row.extend(cells.unwrap_or_else(|| vec![String::new(); columns.len()]));
        }
        row
    });
    let rows = rows.collect();
    (headers, rows)
}
