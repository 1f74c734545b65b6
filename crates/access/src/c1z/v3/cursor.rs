//! A walk over tables that follow each other, block by block.

use super::block::BlockRows;
use super::lsm::Change;
use super::table::{Place, Table, Unpack, ValueBlock};
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
    block: Vec<u8>,
    rows: BlockRows,
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
            block: Vec::new(),
            rows: BlockRows::default(),
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
        self.rows.key.split_last_chunk::<8>().map_or(&[], |(key, _)| key)
    }

    /// Its value.
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        match &self.apart {
            Some(value) => value,
            None => {
                let value = self.rows.value.clone();
                self.block.get(value.start + self.skip..value.end).unwrap_or_default()
            }
        }
    }

    /// The place of the change among changes of the same key: see [`Change::order`].
    #[inline]
    pub(crate) fn order(&self) -> u64 {
        self.order
    }

    /// Goes to the next row; false behind the last one.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool, Bad> {
        loop {
            if !self.inside && !self.open_block()? {
                return Ok(false);
            }
            let found = self.row();
            match found.map_err(|bad| Bad { at: self.block_at(), ..bad })? {
                Step::Row => return Ok(true),
                Step::Nothing => {}
                Step::End => self.inside = false,
            }
        }
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
                self.next_block += 1;
                self.inside = true;
                return self
                    .rows
                    .begin(&self.block)
                    .map(|()| true)
                    .map_err(|bad| Bad { at: self.block_at(), ..bad });
            }
            self.table += 1;
            self.next_block = 0;
            self.value_block = ValueBlock::default();
        }
    }

    #[inline]
    fn row(&mut self) -> Result<Step, Bad> {
        let table = &self.tables[self.table];
        if !self.rows.next(&self.block)? {
            // Walks begin at a block that is found by its separator: one that lies would hide rows.
            if self.key() > table.separator(self.next_block - 1) {
                return Err(Bad::new(0, "a block of a table has keys behind its separator"));
            }
            return Ok(Step::End);
        }
        let at = self.rows.value.start;
        let (_, kind, sequence) = table.parts_of(&self.rows.key, at)?;
        let change = match Change::of_kind(kind, at)? {
            None => return Ok(Step::Nothing),
            Some(Change::DeleteRange) => {
                return Err(Bad::new(at, "a range deletion among the rows of a table"));
            }
            Some(change) => change,
        };
        self.order = change.order(sequence);
        let stored = &self.block[self.rows.value.clone()];
        match table.place_of(kind, stored, at)? {
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
    /// A note, which changes nothing.
    Nothing,
    End,
}
