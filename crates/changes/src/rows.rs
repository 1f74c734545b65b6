//! Reading rows as lines of text, so that nothing runs that somebody else wrote.
//!
//! A whole table is read by `COPY table TO STDOUT`, which plans nothing. Blocks are read by a `SELECT` of ranges of `ctid`:
//! whether planning it is harmless has been looked at by then ([`crate::catalogue`]), and a lock keeps it so. What is left
//! are the functions that write values as text, which have been looked at, too ([`crate::types`]).

use crate::{change::Column, error::ChangesError, tuples::Place};
use bytes::Bytes;
use duramen_postgres::quote_identifier;
use futures_util::{stream::BoxStream, StreamExt};
use std::ops::Range;
use tokio_postgres::Client;

/// For sessions that read: values are written in one way, whatever the settings of roles and databases are.
pub(crate) const SETTINGS: &str = "\
    set datestyle = 'ISO, YMD'; set intervalstyle = 'postgres'; set timezone = 'UTC'; set extra_float_digits = 1; \
    set bytea_output = 'hex'; set lc_monetary = 'C'; set xmloption = 'content'; set constraint_exclusion = off; \
    set jit = off; set max_parallel_workers_per_gather = 0; set row_security = off; set synchronize_seqscans = off";

/// From when on tables are read: places are looked up instead of all rows being read. The catalogue is read faster without.
pub(crate) const LOOK_UP: &str = "\
    set enable_seqscan = off; set enable_indexscan = off; set enable_indexonlyscan = off; set enable_bitmapscan = off; \
    set enable_tidscan = on; set enable_material = off";

/// Rows that one statement looks up by their places.
pub(crate) const PLACES_A_STATEMENT: usize = 8192;
/// Ranges of blocks that one statement reads.
pub(crate) const RANGES_A_STATEMENT: usize = 4096;

/// A table, and the columns that are read of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) schema: &'a str,
    pub(crate) name: &'a str,
    pub(crate) columns: &'a [Column],
}

impl Source<'_> {
    fn table(&self) -> String {
        format!("{}.{}", quote_identifier(self.schema), quote_identifier(self.name))
    }

    fn list(&self) -> String {
        let names: Vec<String> = self.columns.iter().map(|column| quote_identifier(&column.name)).collect();
        names.join(", ")
    }

    /// The statement that reads all rows.
    pub(crate) fn whole(&self) -> String {
        format!("copy {} ({}) to stdout", self.table(), self.list())
    }

    /// The statement that reads the rows at some places; `None` for none.
    pub(crate) fn places(&self, places: &[Place]) -> Option<String> {
        let places: Vec<String> =
            places.iter().map(|(block, number)| format!("\"({block},{number})\"")).collect();
        (!places.is_empty()).then(|| {
            format!(
                "copy (select {} from only {} where ctid = any('{{{}}}'::tid[])) to stdout",
                self.list(),
                self.table(),
                places.join(",")
            )
        })
    }

    /// The statement that reads the rows in some blocks.
    pub(crate) fn blocks(&self, ranges: &[Range<u32>]) -> String {
        let list = |end: fn(&Range<u32>) -> u32| {
            let places: Vec<String> = ranges.iter().map(|range| format!("\"({},0)\"", end(range))).collect();
            places.join(",")
        };
        // Without the offset the inner query would become a part of the outer one, and read all rows for each range.
        format!(
            "copy (select rows.* from unnest('{{{}}}'::tid[], '{{{}}}'::tid[]) ranges (first, behind), \
             lateral (select {} from only {} where ctid >= ranges.first and ctid < ranges.behind offset 0) rows) to stdout",
            list(|range| range.start),
            list(|range| range.end),
            self.list(),
            self.table()
        )
    }
}

/// The lines of a copy.
pub(crate) struct Lines {
    side: &'static str,
    stream: BoxStream<'static, Result<Bytes, tokio_postgres::Error>>,
    message: Bytes,
}

impl Lines {
    pub(crate) async fn open(side: &'static str, client: &Client, sql: &str) -> Result<Lines, ChangesError> {
        let stream = client.copy_out(sql).await.map_err(not_sent(side))?;
        Ok(Lines { side, stream: stream.boxed(), message: Bytes::new() })
    }

    /// The next line, without its end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, ChangesError> {
        while self.message.is_empty() {
            match self.stream.next().await {
                Some(message) => self.message = message.map_err(not_sent(self.side))?,
                None => return Ok(None),
            }
        }
        // A message holds whole lines, and no value holds the end of one.
        let end = self.message.iter().position(|byte| *byte == b'\n').unwrap_or(self.message.len());
        let line = self.message.split_to(end);
        self.message = self.message.split_off(self.message.len().min(1));
        Ok(Some(line))
    }
}

fn not_sent(side: &'static str) -> impl Fn(tokio_postgres::Error) -> ChangesError {
    move |source| ChangesError::Server { side, doing: "did not send its rows", source }
}
