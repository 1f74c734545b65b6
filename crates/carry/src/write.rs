//! Writing a change set, from what a comparison tells.

use crate::{
    error::SetError,
    rows,
    set::{
        is_registry, Ddl, Head, Origin, StoredTable, FORMAT, ROWS, ROW_BYTES_MAX, SEQUENCES, STATEMENTS,
        STATEMENT_BYTES_MAX, TABLES,
    },
    statement,
};
use duramen_base::clock;
use duramen_changes::{shown_name, DiffDigest, Ending, LeftOut, Only, Part, Row, Sequence, Table};
use duramen_pack::container::{Kind, PackSummary, PackWriter, SectionOptions};
use serde::Serialize;
use std::path::Path;

/// Bytes of rows in a block, unless one row has more.
const BLOCK_BYTES: usize = 128 << 10;

/// Writes a change set. The file appears under its name by [`finish`](Self::finish) only.
///
/// Memory: one block of rows, and what is known of each table.
#[derive(Debug)]
pub struct ChangeSetWriter {
    pack: PackWriter,
    origin: Origin,
    warnings: Vec<String>,
    statements: u64,
    tables: Vec<StoredTable>,
    sequences: Vec<Sequence>,
    total: Ending,
    open: Option<Open>,
    has_summary: bool,
    digest: DiffDigest,
}

/// The table whose rows are being told.
#[derive(Debug)]
struct Open {
    table: Table,
    /// Whether its rows go into the file.
    is_carried: bool,
    rows: u64,
    block: Vec<u8>,
    first: u64,
    in_block: u32,
}

impl ChangeSetWriter {
    /// Begins a change set at `path` with the statements that change definitions, in the order in which they run.
    ///
    /// # Errors
    /// [`SetError`], when the file cannot be written, or a statement cannot be carried.
    pub fn create(path: &Path, origin: Origin, warnings: Vec<String>, ddl: &[Ddl]) -> Result<Self, SetError> {
        let mut pack = PackWriter::create(path, Kind::Changes)?;
        let carried: Vec<&Ddl> = ddl.iter().filter(|ddl| !statement::is_of_registry(&ddl.sql)).collect();
        for ddl in &carried {
            let begin: String = ddl.sql.chars().take(60).collect();
            let refused =
                |why: String| SetError::NotCarried { what: format!("the statement `{begin}`"), why };
            if ddl.sql.len() > STATEMENT_BYTES_MAX {
                return Err(refused(format!("it has more than {STATEMENT_BYTES_MAX} bytes")));
            }
            if let Some(why) = statement::refused(&ddl.sql) {
                return Err(refused(why.to_owned()));
            }
        }
        section(&mut pack, STATEMENTS, &carried)?;
        pack.begin_section(ROWS, SectionOptions::default())?;
        Ok(Self {
            pack,
            origin,
            warnings,
            statements: carried.len() as u64,
            tables: Vec::new(),
            sequences: Vec::new(),
            total: Ending::default(),
            open: None,
            has_summary: false,
            digest: DiffDigest::new(ddl.iter().map(|ddl| ddl.sql.as_str())),
        })
    }

    /// Takes what a comparison tells, in its order. It has to be one that tells all columns and all rows.
    ///
    /// # Errors
    /// [`SetError`], when it cannot be written, or not all of it be carried.
    pub fn part(&mut self, part: &Part) -> Result<(), SetError> {
        self.digest.part(part);
        match part {
            Part::Table(table) => self.begin(table),
            Part::Row(row) => self.row(row),
            Part::Ending(ending) => self.ending(ending),
            Part::Sequence(sequence) => {
                self.sequences.push(sequence.clone());
                Ok(())
            }
            Part::Summary(_) => {
                self.has_summary = true;
                Ok(())
            }
        }
    }

    fn begin(&mut self, table: &Table) -> Result<(), SetError> {
        let is_carried = !is_registry(&table.schema, &table.name);
        if let Some(column) = table.left_out.iter().find(|it| it.only_in.is_none() && !it.is_generated()) {
            let what = format!("column {} of table {}", column.name, shown_name(&table.schema, &table.name));
            return Err(SetError::NotCarried { what, why: column.why.clone() });
        }
        let told = |column: &LeftOut| {
            column.only_in != Some(Only::Branch) || table.columns.iter().any(|it| it.name == column.name)
        };
        if let Some(column) = table.left_out.iter().find(|column| !told(column) && !column.is_generated()) {
            let what = format!("column {} of table {}", column.name, shown_name(&table.schema, &table.name));
            let why = "its values were not told; the daemon may be of an older version".to_owned();
            return Err(SetError::NotCarried { what, why });
        }
        let table = table.clone();
        self.open = Some(Open { table, is_carried, rows: 0, block: Vec::new(), first: 0, in_block: 0 });
        Ok(())
    }

    fn row(&mut self, row: &Row) -> Result<(), SetError> {
        let number = self.tables.len();
        let Some(open) = &mut self.open else { return Ok(()) };
        if !open.is_carried {
            return Ok(());
        }
        let before = open.block.len();
        rows::put(row, &mut open.block);
        open.rows += 1;
        open.in_block += 1;
        if open.block.len() - before > ROW_BYTES_MAX {
            let what = format!("a row of table {}", shown_name(&open.table.schema, &open.table.name));
            return Err(SetError::NotCarried {
                what,
                why: format!("it has more than {ROW_BYTES_MAX} bytes"),
            });
        }
        if open.block.len() >= BLOCK_BYTES {
            self.pack.block(&key(number, open.first), open.in_block, &open.block)?;
            open.block.clear();
            (open.first, open.in_block) = (open.rows, 0);
        }
        Ok(())
    }

    fn ending(&mut self, ending: &Ending) -> Result<(), SetError> {
        let number = self.tables.len();
        let Some(open) = self.open.take() else { return Ok(()) };
        if !open.is_carried {
            return Ok(());
        }
        if ending.is_cut() {
            return Err(SetError::TooManyRows { limit: ending.listed });
        }
        if open.in_block > 0 {
            self.pack.block(&key(number, open.first), open.in_block, &open.block)?;
        }
        // What comes or goes without rows is the statements' business, but for a table that goes: it has to be empty there, too.
        if ending.total() == 0 && open.table.only_in != Some(Only::Snapshot) {
            return Ok(());
        }
        self.total.added += ending.added;
        self.total.removed += ending.removed;
        self.total.changed += ending.changed;
        self.total.listed += ending.listed;
        self.tables.push(StoredTable { table: open.table, rows: *ending });
        Ok(())
    }

    /// Whether nothing differs: no statement, no row, no sequence.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.statements == 0 && self.total.total() == 0 && self.sequences.is_empty()
    }

    /// Ends the change set. The file is durable, and has its name, when this returns.
    ///
    /// # Errors
    /// [`SetError`], when it cannot be written, or the comparison has not come to its end.
    pub fn finish(mut self) -> Result<(Head, PackSummary), SetError> {
        if self.open.is_some() || !self.has_summary {
            let (what, why) =
                ("the comparison".to_owned(), "it has not come to its end; make it again".to_owned());
            return Err(SetError::NotCarried { what, why });
        }
        section(&mut self.pack, TABLES, &self.tables)?;
        section(&mut self.pack, SEQUENCES, &self.sequences)?;
        let head = Head {
            format: FORMAT,
            made_at: clock::utc_now(),
            origin: self.origin,
            diff_digest: self.digest.finish(),
            warnings: self.warnings,
            statements: self.statements,
            tables: self.tables.len() as u64,
            rows: self.total,
            sequences: self.sequences.len() as u64,
        };
        let manifest = json(&head)?;
        let summary = self.pack.finish(&manifest)?;
        Ok((head, summary))
    }
}

/// The key of a block of rows: its table's number, and its first row's number in the table.
pub(crate) fn key(table: usize, row: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&(table as u32).to_be_bytes());
    key[4..].copy_from_slice(&row.to_be_bytes());
    key
}

/// A section of JSON lines. Records are numbered, and a block's key is the number of its first.
fn section(pack: &mut PackWriter, name: &str, records: &[impl Serialize]) -> Result<(), SetError> {
    pack.begin_section(name, SectionOptions::default())?;
    let (mut block, mut first, mut count) = (Vec::new(), 0_u32, 0_u32);
    for record in records {
        let line = json(record)?;
        if count > 0 && block.len() + line.len() > BLOCK_BYTES {
            pack.block(&first.to_be_bytes(), count, &block)?;
            block.clear();
            (first, count) = (first + count, 0);
        }
        block.extend_from_slice(&line);
        block.push(b'\n');
        count += 1;
    }
    if count > 0 {
        pack.block(&first.to_be_bytes(), count, &block)?;
    }
    Ok(())
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, SetError> {
    serde_json::to_vec(value).map_err(|error| SetError::NotCarried {
        what: "a description".to_owned(),
        why: format!("it has no JSON form: {error}"),
    })
}
