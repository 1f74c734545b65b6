//! Rows from one session into a table of another, or into a file and from there into a table, in the binary form in which
//! servers send them, and masked on their way, by as many threads as there are processors.
//!
//! Of all values that were sent a sum is kept that no order changes. The same sum of what the column holds in the end tells
//! whether it holds these values and no others.

use super::{failed, masker::Masker, pseudonym::Pseudonyms, Failure, SCHEMA};
use crate::files;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{SinkExt, StreamExt};
use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    thread,
};
use tokio::task::JoinHandle;
use tokio_postgres::Client;
use xxhash_rust::xxh3::xxh3_128;

/// What every such stream begins with, before flags and the length of an extension.
const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// What every such stream ends with.
const END: Bytes = Bytes::from_static(&[0xff; 2]);
/// How many bytes of rows a thread gets at a time.
const BATCH: usize = 256 << 10;
/// How many batches are on their way beyond those that threads work at.
const AHEAD: usize = 2;

/// What is done to the columns of a row.
pub(super) struct Plan {
    pub(super) drawn: Pseudonyms,
    /// Whether a first column, before these, says where the row is; it goes on as it is.
    pub(super) placed: bool,
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

impl Planned {
    /// A column whose values go on as they are.
    pub(super) fn as_it_is() -> Planned {
        Planned { masker: Masker::Made, limit: None, padded: false, not_null: false, owner: None }
    }
}

impl Plan {
    /// One that only says where rows are.
    pub(super) fn of_places(drawn: &Pseudonyms) -> Arc<Plan> {
        Arc::new(Plan { drawn: drawn.clone(), placed: true, columns: Vec::new(), owners: 0 })
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
        let lead = usize::from(self.placed);
        let width = lead + self.columns.len();
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
            if self.placed {
                put(&mut out, fields[0])?;
            }
            for (index, column) in self.columns.iter().enumerate() {
                if matches!(column.masker, Masker::Made) && !column.padded && column.limit.is_none() {
                    if let Some(value) = fields[lead + index] {
                        tally.sums[index].add(value);
                    } else if column.not_null {
                        tally.unfit[index].null += 1;
                    }
                    put(&mut out, fields[lead + index])?;
                    continue;
                }
                let unfit = &mut tally.unfit[index];
                let owner = column.owner.and_then(|it| fields[width + it]);
                let made = fields[lead + index].map(|value| self.value(column, unfit, value, owner));
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

/// Where masked rows go.
enum Sink<'a> {
    /// Nowhere: they are only summed up.
    Nothing,
    /// A table, and what is being done, for errors.
    Table(std::pin::Pin<&'a mut tokio_postgres::CopyInSink<Bytes>>, &'a str),
    File(&'a mut Spool),
}

impl Sink<'_> {
    async fn send(&mut self, rows: Bytes) -> Result<(), Failure> {
        match self {
            Sink::Nothing => Ok(()),
            Sink::Table(sink, doing) => sink.send(rows).await.map_err(failed(doing)),
            Sink::File(spool) => spool.write(&rows),
        }
    }
}

/// Masked rows on their way back into the table that they are of: a file without a name.
pub(super) struct Spool {
    file: File,
    path: PathBuf,
}

impl Spool {
    /// An empty one in `dir`.
    pub(super) fn new(dir: &Path) -> Result<Spool, Failure> {
        let path = dir.join("rows");
        let open = || {
            let file =
                files::private(OpenOptions::new().read(true).write(true).truncate(true)).open(&path)?;
            fs::remove_file(&path).map(|()| file)
        };
        let file = open().map_err(|error| files::io_error("make", &path, &error))?;
        Ok(Spool { file, path })
    }

    fn write(&mut self, rows: &[u8]) -> Result<(), Failure> {
        // Into the page cache; the disk is waited for only if the kernel has too much to write.
        let written = tokio::task::block_in_place(|| self.file.write_all(rows));
        written.map_err(|error| files::io_error("write", &self.path, &error).into())
    }

    /// Fills a table with what was written. `copy` is a statement that takes rows in binary form; how many it took.
    pub(super) async fn load(mut self, to: &Client, copy: &str, doing: &str) -> Result<u64, Failure> {
        let path = self.path;
        let unread = |error: io::Error| Failure::from(files::io_error("read", &path, &error));
        self.file.rewind().map_err(&unread)?;
        let sink = to.copy_in(copy).await.map_err(failed(doing))?;
        let mut sink = pin!(sink);
        sink.send(head()).await.map_err(failed(doing))?;
        loop {
            let mut rows = BytesMut::zeroed(BATCH);
            let read = tokio::task::block_in_place(|| self.file.read(&mut rows)).map_err(&unread)?;
            if read == 0 {
                break;
            }
            rows.truncate(read);
            sink.send(rows.freeze()).await.map_err(failed(doing))?;
        }
        sink.send(END).await.map_err(failed(doing))?;
        sink.finish().await.map_err(failed(doing))
    }
}

/// What a stream of rows begins with.
fn head() -> Bytes {
    let mut head = BytesMut::from(&SIGNATURE[..]);
    head.put_u64(0);
    head.freeze()
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
    sink.send(head()).await.map_err(failed(doing))?;
    let tally = masked(stream, plan, reading, Sink::Table(sink.as_mut(), doing)).await?;
    sink.send(END).await.map_err(failed(doing))?;
    let count = sink.finish().await.map_err(failed(doing))?;
    to.batch_execute("commit").await.map_err(failed(doing))?;
    if count != tally.rows {
        return Err(Failure::Wrong(format!("{doing}: {count} of {} rows arrived", tally.rows)));
    }
    Ok(tally)
}

/// Writes the rows of `query` into a file, masked as planned; `reading` describes the query in errors.
pub(super) async fn into_file(
    (from, query, reading): (&Client, &str, &str),
    spool: &mut Spool,
    plan: &Arc<Plan>,
) -> Result<Tally, Failure> {
    let out = from.copy_out(&format!("copy ({query}) to stdout (format binary)")).await;
    masked(pin!(out.map_err(failed(reading))?), plan, reading, Sink::File(spool)).await
}

/// Masks what comes from a query as planned, several batches at a time, and sends them on in their order.
async fn masked(
    stream: std::pin::Pin<&mut tokio_postgres::CopyOutStream>,
    plan: &Arc<Plan>,
    reading: &str,
    mut sink: Sink<'_>,
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
            sink.send(masked).await?;
        }
        if ended {
            return Ok(tally);
        }
    }
}

/// The sums of the columns of a query.
pub(super) async fn sums(
    (from, query, reading): (&Client, &str, &str),
    drawn: &Pseudonyms,
    columns: usize,
) -> Result<Tally, Failure> {
    let columns = (0..columns).map(|_| Planned::as_it_is()).collect();
    let placed = false;
    let plan = Arc::new(Plan { drawn: drawn.clone(), placed, columns, owners: 0 });
    let out = from.copy_out(&format!("copy ({query}) to stdout (format binary)")).await;
    masked(pin!(out.map_err(failed(reading))?), &plan, reading, Sink::Nothing).await
}
