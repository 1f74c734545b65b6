//! A walk over tables that follow each other, block by block.

use super::block::BlockRows;
use super::column_block::ColumnRows;
use super::lsm::Change;
use super::table::{self, Place, Table, ValueBlock};
use super::unpack::Unpack;
use crate::c1z::error::Bad;

/// Where the walk stands: one block is in memory at a time.
pub(crate) struct Cursor<'a> {
    /// Tables in the order of their keys.
    tables: &'a [Table],
    table: usize,
    /// The block of that table that is read next.
    next_block: usize,
    /// Whether a block is being walked.
    inside: bool,
    /// Whether the walk stands on a row.
    stands: bool,
    /// Whether a row of the table was met.
    met: bool,
    block: Vec<u8>,
    /// The block that is walked is one of columns, or one of rows.
    is_columnar: bool,
    columns: ColumnRows,
    rows: BlockRows,
    /// The key that the walk stands on, when it is not the one that is stored.
    shown: Option<Vec<u8>>,
    /// Whether the block can hold keys before the first that is shown, and behind the last.
    check_first: bool,
    check_last: bool,
    unpack: Unpack,
    value_block: ValueBlock,
    /// The value that the walk stands on, when it lies apart from its key.
    apart: Option<Vec<u8>>,
    skip: usize,
    order: u64,
}

impl<'a> Cursor<'a> {
    /// Stands before the first row of `tables` that is not before `key`, and perhaps some rows earlier.
    pub(crate) fn before(tables: &'a [Table], key: &[u8]) -> Cursor<'a> {
        let behind = |table: &Table| table.seek(key) == table.blocks();
        let table = tables.iter().take_while(|table| behind(table)).count();
        let next_block = tables.get(table).map_or(0, |table| table.seek(key));
        Cursor {
            tables,
            table,
            next_block,
            inside: false,
            stands: false,
            met: false,
            block: Vec::new(),
            is_columnar: false,
            columns: ColumnRows::default(),
            rows: BlockRows::default(),
            shown: None,
            check_first: false,
            check_last: false,
            unpack: Unpack::default(),
            value_block: ValueBlock::default(),
            apart: None,
            skip: 0,
            order: 0,
        }
    }

    /// What errors call the table that the walk stands in.
    pub(crate) fn part(&self) -> &str {
        self.tables.get(self.table).map_or("the tables", |table| table.name.as_str())
    }

    /// The key of the row that the walk stands on.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        match &self.shown {
            Some(key) => key,
            None => self.stored_key(),
        }
    }

    #[inline]
    fn stored_key(&self) -> &[u8] {
        if self.is_columnar {
            return &self.columns.key;
        }
        self.rows.key.split_last_chunk::<8>().map_or(&[], |(key, _)| key)
    }

    /// Its value.
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        if let Some(value) = &self.apart {
            return value;
        }
        let value = if self.is_columnar { &self.columns.value } else { &self.rows.value };
        self.block.get(value.start + self.skip..value.end).unwrap_or_default()
    }

    /// The place of the change among changes of the same key: see [`Change::order`].
    #[inline]
    pub(crate) fn order(&self) -> u64 {
        self.order
    }

    /// Goes to the next row; false behind the last one.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool, Bad> {
        self.stands = false;
        loop {
            if !self.inside && !self.open_block()? {
                return Ok(false);
            }
            let found = self.row();
            match found.map_err(|bad| Bad { at: self.block_at(), ..bad })? {
                Step::Row => {
                    self.stands = true;
                    return Ok(true);
                }
                Step::Nothing => {}
                Step::End => self.inside = false,
            }
        }
    }

    /// Goes to the first row that is not before `key`, if the walk is not there or further already; false when there is
    /// none. Blocks in between are not read.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<bool, Bad> {
        if self.stands && self.key() >= key {
            return Ok(true);
        }
        let mut ahead = self.table;
        while let Some(table) = self.tables.get(ahead) {
            let block = table.seek(key);
            if block < table.blocks() {
                // The block that is walked is the one before the next.
                let here = self.next_block.saturating_sub(usize::from(self.inside));
                if ahead > self.table || block > here {
                    (self.table, self.next_block) = (ahead, block);
                    (self.inside, self.met) = (false, false);
                    self.value_block = ValueBlock::default();
                }
                break;
            }
            ahead += 1;
        }
        if ahead == self.tables.len() {
            (self.table, self.inside, self.stands) = (ahead, false, false);
            return Ok(false);
        }
        while self.advance()? {
            if self.key() >= key {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Where the block that is walked begins in its table, in bytes.
    pub(crate) fn block_at(&self) -> u64 {
        let table = self.tables.get(self.table);
        table.map_or(0, |table| table.offset(self.next_block.saturating_sub(1)))
    }

    /// Reads the next block of the table, or of one that follows.
    fn open_block(&mut self) -> Result<bool, Bad> {
        loop {
            let Some(table) = self.tables.get(self.table) else { return Ok(false) };
            if self.next_block < table.blocks() {
                table.read(self.next_block, &mut self.unpack, &mut self.block)?;
                let bounds = table.view.bounds.as_ref();
                self.check_first = bounds.is_some_and(|_| self.next_block == table.seek(&[]));
                // Where keys are changed, separators say nothing of those that are shown.
                self.check_last = bounds.is_some_and(|bounds| {
                    table.changes_keys() || bounds.end_before(table.separator(self.next_block))
                });
                self.shown = table.changes_keys().then(|| self.shown.take().unwrap_or_default());
                self.is_columnar = table.is_columnar();
                self.next_block += 1;
                self.inside = true;
                let begun = if self.is_columnar {
                    self.columns.begin(&self.block)
                } else {
                    self.rows.begin(&self.block)
                };
                return begun.map(|()| true).map_err(|bad| Bad { at: self.block_at(), ..bad });
            }
            self.table += 1;
            self.met = false;
            self.next_block = self.tables.get(self.table).map_or(0, |table| table.seek(&[]));
            self.value_block = ValueBlock::default();
        }
    }

    /// Tables are chosen by the keys between which the MANIFEST lists them: rows outside would be found or missed by
    /// chance.
    fn check_listed(&self, table: &Table) -> Result<(), Bad> {
        let key = self.key();
        match &table.keys {
            Some(keys) if key < keys.first.as_slice() || keys.end_before(key) => {
                Err(Bad::new(0, "a table has keys outside of those that the MANIFEST lists"))
            }
            _ => Ok(()),
        }
    }

    #[inline]
    fn row(&mut self) -> Result<Step, Bad> {
        // Apart from the walk, which changes beside it.
        let tables = self.tables;
        let table = &tables[self.table];
        let more =
            if self.is_columnar { self.columns.next(&self.block)? } else { self.rows.next(&self.block)? };
        if !more {
            // Walks begin at a block that is found by its separator: one that lies would hide rows.
            if self.stored_key() > table.separator(self.next_block - 1) {
                return Err(Bad::new(0, "a block of a table has keys behind its separator"));
            }
            if self.next_block == table.blocks() && self.met {
                self.check_listed(table)?;
            }
            return Ok(Step::End);
        }
        let (trailer, value, at) = if self.is_columnar {
            (self.columns.trailer, self.columns.value.clone(), 0)
        } else {
            let at = self.rows.value.start;
            (table::split(&self.rows.key, at)?.1, self.rows.value.clone(), at)
        };
        if let Some(shown) = &mut self.shown {
            shown.clear();
            shown.extend_from_slice(&table.view.prefix);
            let (key, stem) = if self.is_columnar {
                (self.columns.key.as_slice(), self.columns.stem)
            } else {
                let key = table::split(&self.rows.key, at)?.0;
                (key, key.len())
            };
            shown.extend_from_slice(if table.view.suffix.is_empty() { key } else { &key[..stem] });
            shown.extend_from_slice(&table.view.suffix);
        }
        if let Some(bounds) = table.view.bounds.as_ref().filter(|_| self.check_first || self.check_last) {
            if self.check_last && bounds.end_before(self.key()) {
                self.next_block = table.blocks();
                return Ok(Step::End);
            }
            if self.key() < bounds.first.as_slice() {
                return Ok(Step::Nothing);
            }
            self.check_first = false;
        }
        let (kind, sequence) = table.kind_and_number(trailer);
        let change = match Change::of_kind(kind, at)? {
            None => return Ok(Step::Nothing),
            Some(Change::DeleteRange) => {
                return Err(Bad::new(at, "a range deletion among the rows of a table"));
            }
            Some(change) => change,
        };
        if !self.met {
            self.check_listed(table)?;
            self.met = true;
        }
        self.order = change.order(sequence);
        let stored = &self.block[value];
        let place = match (self.is_columnar, self.columns.is_apart) {
            (true, false) => Place::Here { skip: 0 },
            (true, true) => Place::of_prefix(stored, at)?,
            (false, _) => table.place_of(kind, stored, at)?,
        };
        match place {
            Place::Here { skip } => {
                self.skip = skip;
                self.apart = None;
            }
            Place::Apart => {
                let mut value = self.apart.take().unwrap_or_default();
                table.value_apart(&stored[1..], &mut self.value_block, &mut self.unpack, &mut value)?;
                self.apart = Some(value);
            }
        }
        Ok(Step::Row)
    }
}

enum Step {
    Row,
    /// A note, or a row that is not shown.
    Nothing,
    End,
}
