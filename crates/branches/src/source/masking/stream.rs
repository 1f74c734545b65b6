//! Rows from one session into a table of another, in the binary form in which servers send them, and masked on their way, by
//! as many threads as there are processors.
//!
//! Of all values that were sent a sum is kept that no order changes. The same sum of what the column holds in the end tells
//! whether it holds these values and no others.

use super::{failed, masker::Masker, pseudonym::Pseudonyms, Failure, SCHEMA};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{SinkExt, StreamExt};
use std::{collections::VecDeque, pin::pin, sync::Arc, thread};
use tokio::task::JoinHandle;
use tokio_postgres::Client;
use xxhash_rust::xxh3::xxh3_128;

/// What every such stream begins with, before flags and the length of an extension.
const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// How many bytes of rows a thread gets at a time.
const BATCH: usize = 256 << 10;
/// How many batches are on their way beyond those that threads work at.
const AHEAD: usize = 2;

/// What is done to the columns of a row, behind the first one, which says where the row is.
pub(super) struct Plan {
    pub(super) drawn: Pseudonyms,
    pub(super) columns: Vec<Planned>,
    /// Columns behind these, which say whose row it is and go no further.
    pub(super) owners: usize,
}

/// What is done to a column.
pub(super) struct Planned {
    pub(super) masker: Masker,
    /// The most characters.
    pub(super) limit: Option<u32>,
    /// Whether values have no blanks at their end.
    pub(super) padded: bool,
    pub(super) not_null: bool,
    /// Which of the columns behind says whose value it is.
    pub(super) owner: Option<usize>,
}

/// What was made of a column's values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) values: u64,
    /// Of all values.
    sum: u128,
}

/// What there was of a column that cannot be in it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Unfit {
    /// Values of which the rule makes nothing.
    pub(super) unmade: u64,
    pub(super) too_long: u64,
    pub(super) null: u64,
}

/// What came through.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) rows: u64,
    pub(super) sums: Vec<Sum>,
    pub(super) unfit: Vec<Unfit>,
}

impl Sum {
    fn add(&mut self, value: &[u8]) {
        self.values += 1;
        self.sum = self.sum.wrapping_add(xxh3_128(value));
    }
}

impl Tally {
    fn new(columns: usize) -> Tally {
        Tally { rows: 0, sums: vec![Sum::default(); columns], unfit: vec![Unfit::default(); columns] }
    }

    fn add(&mut self, other: &Tally) {
        self.rows += other.rows;
        for (sum, more) in self.sums.iter_mut().zip(&other.sums) {
            sum.values += more.values;
            sum.sum = sum.sum.wrapping_add(more.sum);
        }
        for (unfit, more) in self.unfit.iter_mut().zip(&other.unfit) {
            unfit.unmade += more.unmade;
            unfit.too_long += more.too_long;
            unfit.null += more.null;
        }
    }
}

impl Plan {
    /// One that only says where rows are.
    pub(super) fn of_places(drawn: &Pseudonyms) -> Arc<Plan> {
        Arc::new(Plan { drawn: drawn.clone(), columns: Vec::new(), owners: 0 })
    }

    /// What becomes of a value, which does not fit if that is `None`.
    fn value(
        &self,
        column: &Planned,
        unfit: &mut Unfit,
        value: &[u8],
        owner: Option<&[u8]>,
    ) -> Option<Vec<u8>> {
        let Some(mut made) = column.masker.apply(&self.drawn, value, owner) else {
            unfit.unmade += 1;
            return None;
        };
        while column.padded && made.last() == Some(&b' ') {
            made.pop();
        }
        // Continuation bytes do not start a character.
        let letters = || made.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
        if column.limit.is_some_and(|limit| made.len() > limit as usize && letters() > limit as usize) {
            unfit.too_long += 1;
            return None;
        }
        Some(made)
    }

    /// Masks the rows of a batch. `None` if the bytes are not whole rows.
    fn batch(&self, rows: &[u8]) -> Option<(Bytes, Tally)> {
        let mut tally = Tally::new(self.columns.len());
        let mut out = BytesMut::with_capacity(rows.len() + rows.len() / 2);
        let mut rest = rows;
        let width = 1 + self.columns.len();
        let mut fields: Vec<Option<&[u8]>> = Vec::with_capacity(width + self.owners);
        while !rest.is_empty() {
            let count = i16::from_be_bytes(cut(&mut rest, 2)?.try_into().ok()?);
            if count == -1 {
                return rest.is_empty().then(|| (out.freeze(), tally));
            }
            fields.clear();
            for _ in 0..count {
                let length = i32::from_be_bytes(cut(&mut rest, 4)?.try_into().ok()?);
                fields.push(if length < 0 {
                    None
                } else {
                    Some(cut(&mut rest, length.unsigned_abs() as usize)?)
                });
            }
            if fields.len() != width + self.owners {
                return None;
            }
            tally.rows += 1;
            out.put_i16(i16::try_from(width).ok()?);
            put(&mut out, fields[0])?;
            for (index, column) in self.columns.iter().enumerate() {
                let unfit = &mut tally.unfit[index];
                let owner = column.owner.and_then(|it| fields[width + it]);
                let made = fields[1 + index].map(|value| self.value(column, unfit, value, owner));
                match &made {
                    Some(Some(value)) => tally.sums[index].add(value),
                    None if column.not_null => unfit.null += 1,
                    _ => (),
                }
                put(&mut out, made.flatten().as_deref())?;
            }
        }
        Some((out.freeze(), tally))
    }
}

fn cut<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(count)?;
    *rest = tail;
    Some(head)
}

fn put(out: &mut BytesMut, value: Option<&[u8]>) -> Option<()> {
    match value {
        None => out.put_i32(-1),
        Some(value) => {
            out.put_i32(i32::try_from(value.len()).ok()?);
            out.put_slice(value);
        }
    }
    Some(())
}

/// The rows of a query, in batches.
struct Rows<'a> {
    stream: std::pin::Pin<&'a mut tokio_postgres::CopyOutStream>,
    begun: bool,
    /// It must not be asked again then.
    ended: bool,
    reading: &'a str,
}

impl Rows<'_> {
    /// The next batch of whole rows; empty at the end.
    async fn next(&mut self) -> Result<BytesMut, Failure> {
        let mut batch = BytesMut::new();
        while batch.len() < BATCH && !self.ended {
            // A server sends each row in a message of its own.
            let Some(message) = self.stream.next().await else {
                self.ended = true;
                break;
            };
            let mut message = message.map_err(failed(self.reading))?;
            if !self.begun {
                self.begun = true;
                let extension = message
                    .get(SIGNATURE.len() + 4..SIGNATURE.len() + 8)
                    .filter(|_| message.starts_with(SIGNATURE));
                let length: [u8; 4] =
                    extension.and_then(|it| it.try_into().ok()).ok_or_else(|| self.odd())?;
                let head = SIGNATURE.len() + 8 + u32::from_be_bytes(length) as usize;
                if message.len() < head {
                    return Err(self.odd());
                }
                message = message.split_off(head);
            }
            batch.extend_from_slice(&message);
        }
        Ok(batch)
    }

    fn odd(&self) -> Failure {
        Failure::Wrong(format!("{}: the server did not send rows in binary form", self.reading))
    }
}

/// Batches that threads work at, in the order of their rows.
struct Work {
    plan: Arc<Plan>,
    open: VecDeque<JoinHandle<Option<(Bytes, Tally)>>>,
    most: usize,
}

impl Work {
    fn new(plan: &Arc<Plan>) -> Work {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        Work { plan: Arc::clone(plan), open: VecDeque::new(), most: threads + AHEAD }
    }

    fn begin(&mut self, batch: BytesMut) {
        let plan = Arc::clone(&self.plan);
        self.open.push_back(tokio::task::spawn_blocking(move || plan.batch(&batch)));
    }

    async fn finish(&mut self, reading: &str) -> Result<Option<(Bytes, Tally)>, Failure> {
        let Some(first) = self.open.pop_front() else { return Ok(None) };
        let odd = || Failure::Wrong(format!("{reading}: the rows that the server sent cannot be read"));
        let done = first.await.map_err(|_| odd())?;
        done.ok_or_else(odd).map(Some)
    }
}

/// Creates a table with `columns` (`name type`, ...) and fills it with the rows of `query`, masked as planned; `reading`
/// describes the query in errors. Created and filled in one transaction, it needs no WAL.
pub(super) async fn into_table(
    (from, query, reading): (&Client, &str, &str),
    to: &Client,
    (table, columns): (&str, &[String]),
    plan: &Arc<Plan>,
) -> Result<Tally, Failure> {
    let doing = "copying within the copy";
    let create = format!("begin; create table {SCHEMA}.{table} ({})", columns.join(", "));
    to.batch_execute(&create).await.map_err(failed(doing))?;
    let out = from.copy_out(&format!("copy ({query}) to stdout (format binary)")).await;
    let stream = pin!(out.map_err(failed(reading))?);
    let sink = to.copy_in(&format!("copy {SCHEMA}.{table} from stdin (format binary)")).await;
    let mut sink = pin!(sink.map_err(failed(doing))?);
    let mut head = BytesMut::from(&SIGNATURE[..]);
    head.put_u64(0);
    sink.send(head.freeze()).await.map_err(failed(doing))?;
    let tally = masked(stream, plan, reading, Some((sink.as_mut(), doing))).await?;
    sink.send(Bytes::from_static(&[0xff; 2])).await.map_err(failed(doing))?;
    let count = sink.finish().await.map_err(failed(doing))?;
    to.batch_execute("commit").await.map_err(failed(doing))?;
    if count != tally.rows {
        return Err(Failure::Wrong(format!("{doing}: {count} of {} rows arrived", tally.rows)));
    }
    Ok(tally)
}

/// Masks what comes from a query as planned, several batches at a time, and sends them on in their order, if there is a sink.
async fn masked(
    stream: std::pin::Pin<&mut tokio_postgres::CopyOutStream>,
    plan: &Arc<Plan>,
    reading: &str,
    mut sink: Option<(std::pin::Pin<&mut tokio_postgres::CopyInSink<Bytes>>, &str)>,
) -> Result<Tally, Failure> {
    let mut rows = Rows { stream, begun: false, ended: false, reading };
    let mut tally = Tally::new(plan.columns.len());
    let mut work = Work::new(plan);
    loop {
        let batch = rows.next().await?;
        let ended = batch.is_empty();
        if !ended {
            work.begin(batch);
        }
        while work.open.len() >= work.most || ended {
            let Some((masked, more)) = work.finish(reading).await? else { break };
            tally.add(&more);
            if let Some((sink, doing)) = &mut sink {
                sink.send(masked).await.map_err(failed(doing))?;
            }
        }
        if ended {
            return Ok(tally);
        }
    }
}

/// The sums of the columns of a query behind its first one.
pub(super) async fn sums(
    (from, query, reading): (&Client, &str, &str),
    drawn: &Pseudonyms,
    columns: usize,
) -> Result<Tally, Failure> {
    let as_it_is =
        || Planned { masker: Masker::Made, limit: None, padded: false, not_null: false, owner: None };
    let columns = (0..columns).map(|_| as_it_is()).collect();
    let plan = Arc::new(Plan { drawn: drawn.clone(), columns, owners: 0 });
    let out = from.copy_out(&format!("copy ({query}) to stdout (format binary)")).await;
    masked(pin!(out.map_err(failed(reading))?), &plan, reading, None).await
}
