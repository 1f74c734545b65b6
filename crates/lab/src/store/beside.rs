//! A run beside the published figures of another database.

use duramen_base::words::number;
use duramen_measure::evidence::Evidence;
use duramen_measure::target::quantity;
use duramen_reports::suite::{Block, Part};
use duramen_store::Durability;

use super::checks::is_one_sync;
use super::matrix::{Cell, Matrix};
use super::published::{Defect, Row, Shown, DEFECTS, MACHINE, NAME, ROWS, SOURCE, SUCCESSOR, SYNC_US};

/// The part of a page that shows all operations at all levels beside what is published, and the defects. None without
/// an operation that has a published figure.
pub(crate) fn part(evidence: &Evidence) -> Option<Part> {
    let matrix = Matrix::from_evidence(evidence);
    let (rows, compared, lost) = operations(&matrix);
    if compared == 0 {
        return None;
    }
    let host = &evidence.host;
    let here = format!("{}, {} cores, {}", host.cpu, host.cores, host.kernel);
    let lost = if lost.is_empty() {
        "none of ours is slower.".to_owned()
    } else {
        format!("{} of ours are slower: {}.", lost.len(), lost.join(", "))
    };
    let conditions = format!(
        "Medians. Ours: {here}; one sync of the disk takes {}. Published: {NAME} by {SOURCE}, on another, faster machine \
         ({MACHINE}); one sync took about {} there. A strict commit waits for the disk, so what can be compared of two \
         machines is how many syncs it takes. The level that we call memory is called none there.",
        quantity(matrix.sync_floor_us, "us"),
        quantity(SYNC_US, "us")
    );
    let outcome =
        format!("Of {compared} published figures, {lost} Rows without a published figure are ours alone.");
    let defects = "The six defects that the report names, and what of this run shows whether we have them:";
    let mut headers = vec!["operation".to_owned()];
    for level in Durability::ALL {
        headers.extend([level.to_string(), "published".to_owned()]);
    }
    headers.extend(["one sync then", "strict, in syncs", "published", "slower at"].map(str::to_owned));
    let of_defects = Block::Table {
        headers: ["published defect", "shown by", "here", ""].map(str::to_owned).to_vec(),
        rows: DEFECTS.iter().map(|defect| defect_row(&matrix, defect)).collect(),
    };
    Some(Part {
        title: "The store beside published figures".to_owned(),
        blocks: vec![
            Block::Text(conditions),
            Block::Text(outcome),
            Block::Table { headers, rows },
            Block::Text(defects.to_owned()),
            of_defects,
            Block::Text(SUCCESSOR.to_owned()),
        ],
    })
}

/// A row for each operation, how many figures stand beside a published one, and which of those are slower.
fn operations(matrix: &Matrix<'_>) -> (Vec<Vec<String>>, usize, Vec<String>) {
    let mut table = Beside::default();
    let one = |op: &str| ROWS.iter().find(|row| row.ours.len() == 1 && row.ours.contains(&op));
    for (op, threads) in matrix.operations() {
        let at = |level| {
            let is_it = |cell: &&Cell<'_>| (cell.op, cell.threads, cell.level) == (op, threads, level);
            matrix.cells.iter().find(is_it).map(Ours::of)
        };
        let name = threads.map_or_else(|| op.to_owned(), |threads| format!("{op}, threads: {threads}"));
        table.add(name, Durability::ALL.map(at), one(op).filter(|_| threads.is_none()));
    }
    for published in ROWS.iter().filter(|row| row.ours.len() > 1) {
        let cells = Durability::ALL.map(|level| Ours::sum(matrix, published.ours, level));
        if cells.iter().any(Option::is_some) {
            table.add(published.ours.join(" + "), cells, Some(published));
        }
    }
    (table.rows, table.compared, table.lost)
}

/// Our figures beside published ones.
#[derive(Default)]
struct Beside {
    rows: Vec<Vec<String>>,
    compared: usize,
    /// Those of ours that are slower, in words.
    lost: Vec<String>,
}

impl Beside {
    /// Adds an operation at the three levels.
    fn add(&mut self, name: String, cells: [Option<Ours<'_>>; 3], published: Option<&Row>) {
        let mut row = vec![name.clone()];
        let mut slower = Vec::new();
        for (place, level) in Durability::ALL.into_iter().enumerate() {
            let theirs = published.map(|published| published.us[place]);
            row.push(cells[place].as_ref().map_or_else(String::new, Ours::in_words));
            row.push(theirs.map_or_else(String::new, |us| quantity(us, "us")));
            let (Some(ours), Some(theirs)) = (&cells[place], theirs) else { continue };
            self.compared += 1;
            if ours.value > theirs {
                slower.push(level.to_string());
                let against = format!("({} against {})", ours.in_words(), quantity(theirs, "us"));
                self.lost.push(format!("{name} at {level} {against}"));
            }
        }
        // Of what waits for the disk: how long it waits, in syncs of the same moment.
        let floor = cells[2].as_ref().and_then(|strict| Some((strict.value, strict.floor?)));
        row.push(floor.map_or_else(String::new, |(_, floor)| quantity(floor, "us")));
        row.push(floor.map_or_else(String::new, |(us, floor)| number(us / floor.max(1e-3))));
        // What takes less than half a sync does not sync.
        let theirs = published.map(|published| published.us[2] / SYNC_US).filter(|syncs| *syncs >= 0.5);
        row.push(theirs.map_or_else(String::new, number));
        row.push(slower.join(", "));
        self.rows.push(row);
    }
}

/// A figure of ours.
struct Ours<'m> {
    value: f64,
    unit: &'m str,
    /// What one sync took right before.
    floor: Option<f64>,
}

impl<'m> Ours<'m> {
    fn of(cell: &Cell<'m>) -> Self {
        let floor = cell.sync_floor().map(|floor| floor.p50);
        Self { value: cell.figure.p50, unit: &cell.figure.unit, floor }
    }

    /// What several operations take one after the other.
    fn sum(matrix: &Matrix<'m>, ops: &[&str], level: Durability) -> Option<Self> {
        let all: Option<Vec<Self>> = ops.iter().map(|op| matrix.cell(op, level).map(Self::of)).collect();
        all?.into_iter().reduce(|sum, next| Self {
            value: sum.value + next.value,
            unit: sum.unit,
            floor: sum.floor.or(next.floor),
        })
    }

    fn in_words(&self) -> String {
        quantity(self.value, self.unit)
    }
}

/// A defect, what shows it, what that is in this run, and whether we have it.
fn defect_row(matrix: &Matrix<'_>, defect: &Defect) -> Vec<String> {
    let (shown_by, found) = seen(matrix, defect.shown_by);
    let (here, outcome) = match found {
        Some((here, true)) => (here, "here, too"),
        Some((here, false)) => (here, "not here"),
        None => (String::new(), "not measured"),
    };
    [defect.what.to_owned(), shown_by, here, outcome.to_owned()].to_vec()
}

/// The most that any of these operations has of a cost. None where one of them was not measured.
fn most<'m>(
    matrix: &Matrix<'m>,
    ops: &[&str],
    level: Durability,
    cost: fn(&Cell<'m>) -> Option<f64>,
) -> Option<f64> {
    let all = ops.iter().map(|op| cost(matrix.cell(op, level)?)).collect::<Option<Vec<f64>>>()?;
    all.into_iter().reduce(f64::max)
}

/// What shows a defect, and what it is in this run: in words, and whether that is the defect. None where something of it was not
/// measured.
fn seen(matrix: &Matrix<'_>, shown: Shown) -> (String, Option<(String, bool)>) {
    let syncs = |count: f64| format!("{} syncs each at most", number(count));
    match shown {
        Shown::BufferedSyncs(ops) => {
            let count = most(matrix, ops, Durability::Buffered, Cell::syncs_per_op);
            // The log syncs ten times a second by itself, whatever is written meanwhile.
            (format!("{}, buffered", ops.join(", ")), count.map(|count| (syncs(count), count > 0.1)))
        }
        Shown::ReadSyncs(ops) => {
            let count = most(matrix, ops, Durability::Strict, Cell::syncs_per_op);
            (format!("{}, strict", ops.join(", ")), count.map(|count| (syncs(count), count > 0.0)))
        }
        Shown::SeveralSyncs(ops) => {
            let count = most(matrix, ops, Durability::Strict, Cell::syncs_per_op);
            let is_more = |op: &&str| {
                let cell = matrix.cell(op, Durability::Strict);
                cell.is_some_and(|cell| cell.syncs_per_op() > Some(1.0) && !is_one_sync(cell))
            };
            let found = count.map(|count| (syncs(count), ops.iter().any(is_more)));
            (format!("{}, strict", ops.join(", ")), found)
        }
        Shown::Appends(op) => {
            let count = most(matrix, &[op], Durability::Strict, Cell::appends_per_op);
            let found =
                count.map(|count| (format!("{} records of the log each", number(count)), count > 0.0));
            (format!("{op}, strict"), found)
        }
        Shown::Times(op, base, limit) => {
            let p50 = |op| matrix.cell(op, Durability::Memory).map(|cell| cell.figure.p50);
            let times = p50(op).zip(p50(base)).map(|(op, base)| op / base.max(1e-3));
            let found = times.map(|times| (format!("{} times", number(times)), times >= limit));
            (format!("{op} over {base}, memory"), found)
        }
        Shown::Takes(op, limit) => {
            let found = matrix.cell(op, Durability::Strict).map(|cell| {
                let floor = cell.sync_floor().map_or(matrix.sync_floor_us, |floor| floor.p50);
                let times = cell.figure.p50 / floor.max(1e-3);
                let took = quantity(cell.figure.p50, "us");
                (format!("{took}, {} syncs of the disk", number(times)), times > limit)
            });
            (format!("{op}, strict"), found)
        }
    }
}
