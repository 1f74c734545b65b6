//! The whole comparison: what is looked at on both sides, in which order, and what is told of it.
//!
//! The order is what makes it exact: the branch's snapshot is taken before the checkpoint, and the checkpoint is done
//! before its blocks are looked at.

use crate::{
    blocks::{changed_blocks, read_ahead, unshared_blocks, ChangedBlocks, Layout},
    catalogue::{self, Catalogue},
    change::{shown_name, Compared, Ending, LeftOut, Only, Part, Row, Summary, Table},
    diff::{values, Difference, Unmatched, Values},
    error::ChangesError,
    plan::{self, Full, Half, Plan},
    rows::{Lines, Source, LOOK_UP, PLACES_A_STATEMENT, RANGES_A_STATEMENT, SETTINGS},
    sequences,
    tuples::{self, Places},
};
use duramen_base::clock::{self, ms};
use duramen_postgres::quote_identifier;
use std::{
    collections::{BTreeSet, HashSet},
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::sync::mpsc;
use tokio_postgres::{error::SqlState, types::PgLsn, Client};

/// Rows that are told at most, whoever asks.
pub const ROWS_MAX: u64 = 1_000_000;
/// Bytes of rows of one table that are held because the other side does not have them (yet).
const HELD_MAX: usize = 256 << 20;
/// How long a table of the branch may be locked by somebody else.
const LOCK_LIMIT: Duration = Duration::from_secs(5);
/// Tables that are locked at a time: a server has room for a few thousand locks.
const LOCKED_MAX: usize = 100;

const BRANCH: &str = "branch";
const SNAPSHOT: &str = "snapshot";

/// One side of a comparison.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// A session of a superuser in which nothing of anybody else runs, outside of a transaction.
    pub client: &'a Client,
    /// The data directory of its server; of a branch that is [`Written::Apart`], the snapshot that the server's was cloned from.
    pub files: &'a Path,
}

/// What was going on in the cluster when the snapshot was taken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Written {
    /// Its server had been stopped.
    #[default]
    Nothing,
    /// Tables of these ids were being written.
    Tables(BTreeSet<u32>),
    /// Nobody knows: no block is trusted.
    Anything,
    /// The branch is no clone of it. Both are snapshots to which nobody writes, each made for itself, perhaps of one server.
    Apart,
}

/// What is to be compared.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The branch.
    pub branch: Side<'a>,
    /// A second session of the same kind on the branch's server, which holds its tables' definitions.
    pub holding: &'a Client,
    /// A server on a clone of the snapshot that nobody else has.
    pub baseline: Side<'a>,
    /// The snapshot itself, to which nobody writes.
    pub snapshot: &'a Path,
    /// What its server did when it was taken.
    pub written: &'a Written,
    /// Only these tables and sequences, `schema.name`; all if there are none.
    pub only: &'a [String],
    /// Whether columns that the branch alone has are told too, where that can be done: as if they had been NULL before. Rows
    /// whose values in such a column may be others than those that adding it gives them are all told.
    pub whole: bool,
    /// At most so many rows are told, and never more than [`ROWS_MAX`]. All are counted.
    pub rows: u64,
}

/// Compares, and tells what differs as it is found.
///
/// # Errors
/// [`ChangesError`]. What was told until then holds.
pub async fn compare(request: Request<'_>, told: &mpsc::Sender<Part>) -> Result<Summary, ChangesError> {
    let Request { branch, baseline, holding, only, .. } = request;
    let begin = clock::now();
    tokio::try_join!(
        prepare(BRANCH, branch.client),
        prepare(SNAPSHOT, baseline.client),
        set(BRANCH, holding, "set row_security = off")
    )?;
    let lsn = log_position(branch.client).await?;
    // Whatever the snapshot of the branch's session sees is in the files after that.
    let checkpoint = set(BRANCH, holding, "checkpoint");
    let (new, old, new_sequences, old_sequences, ()) = tokio::try_join!(
        catalogue::read(BRANCH, branch.client, only),
        catalogue::read(SNAPSHOT, baseline.client, only),
        sequences::read(BRANCH, branch.client, only),
        sequences::read(SNAPSHOT, baseline.client, only),
        checkpoint
    )?;
    for name in only {
        let named = std::slice::from_ref(name);
        let tables = new.tables.keys().chain(old.tables.keys());
        let mut all = tables.chain(new_sequences.keys()).chain(old_sequences.keys());
        if !all.any(|(schema, it)| catalogue::is_wanted(named, schema, it)) {
            return Err(ChangesError::UnknownTable(name.clone()));
        }
    }
    let catalogues_ms = ms(begin.elapsed());
    // Whatever the snapshot of this session sees is in the files after that.
    let mut plans = plans(&old, &new, request.written, request.whole);
    let mut summary = Summary { tables: plans.len() as u64, ..Summary::default() };
    if old.layout != new.layout {
        // Servers that were built otherwise have nothing in common.
        plans.iter_mut().filter(|plan| plan.file.is_ok()).for_each(|plan| plan.file = Err(Full::Apart));
    }
    let apart = *request.written == Written::Apart;
    let looked = look(plans, branch.files, request.snapshot, new.layout, apart).await?;
    let blocks_ms = ms(begin.elapsed()) - catalogues_ms;
    let differing: Vec<Looked> = looked.into_iter().filter(Looked::may_differ).collect();
    if !differing.is_empty() {
        tokio::try_join!(set(BRANCH, branch.client, LOOK_UP), set(SNAPSHOT, baseline.client, LOOK_UP))?;
    }
    let mut left = request.rows.min(ROWS_MAX);
    for some in differing.chunks(LOCKED_MAX) {
        hold(holding, some, &new).await?;
        for looked in some {
            let ending = table(request, looked, new.layout, lsn, left, told).await?;
            if ending.total() > 0 {
                left -= ending.listed;
                summary.differing += 1;
                summary.rows.added += ending.added;
                summary.rows.removed += ending.removed;
                summary.rows.changed += ending.changed;
                summary.rows.listed += ending.listed;
            }
        }
        set(BRANCH, holding, "commit").await?;
    }
    for sequence in sequences::differing(&old_sequences, &new_sequences) {
        summary.sequences += 1;
        tell(told, Part::Sequence(sequence)).await?;
    }
    let all_ms = ms(begin.elapsed());
    tracing::debug!(catalogues_ms, blocks_ms, all_ms, "compared");
    tell(told, Part::Summary(summary)).await?;
    Ok(summary)
}

async fn prepare(side: &'static str, client: &Client) -> Result<(), ChangesError> {
    // The first query takes the snapshot.
    let begin = format!("{SETTINGS}; begin isolation level repeatable read, read only; select 1");
    set(side, client, &begin).await
}

/// Where the branch's log ends.
async fn log_position(client: &Client) -> Result<u64, ChangesError> {
    let row = client.query_one("select pg_current_wal_insert_lsn()", &[]).await;
    let doing = "did not tell where its log ends";
    let row = row.map_err(|source| ChangesError::Server { side: BRANCH, doing, source })?;
    Ok(row.get::<_, PgLsn>(0).into())
}

async fn set(side: &'static str, client: &Client, sql: &str) -> Result<(), ChangesError> {
    let doing = "did not do what a comparison begins with";
    client.batch_execute(sql).await.map_err(|source| ChangesError::Server { side, doing, source })
}

async fn tell(told: &mpsc::Sender<Part>, part: Part) -> Result<(), ChangesError> {
    told.send(part).await.map_err(|_| ChangesError::Unheard)
}

/// How each table is compared.
fn plans(old: &Catalogue, new: &Catalogue, written: &Written, whole: bool) -> Vec<Plan> {
    let names: BTreeSet<_> = old.tables.keys().chain(new.tables.keys()).collect();
    let in_old = |relation| Half { relation, types: &old.types };
    let in_new = |relation| Half { relation, types: &new.types };
    let is_written = |id: u32| match written {
        Written::Nothing => old.has_prepared,
        Written::Tables(ids) => old.has_prepared || ids.contains(&id),
        Written::Anything => true,
        Written::Apart => old.has_prepared || new.has_prepared,
    };
    names
        .into_iter()
        .filter_map(|name| match (old.tables.get(name), new.tables.get(name)) {
            (Some(old), Some(new)) => Some(plan::both(in_old(old), in_new(new), is_written(old.id), whole)),
            (Some(old), None) => Some(plan::one(in_old(old), Only::Snapshot)),
            (None, Some(new)) => Some(plan::one(in_new(new), Only::Branch)),
            (None, None) => None,
        })
        .collect()
}

/// A table whose blocks were looked at.
#[derive(Debug, Clone)]
struct Looked {
    plan: Plan,
    /// What has to be read, or why all of it.
    blocks: Result<ChangedBlocks, Full>,
}

impl Looked {
    fn may_differ(&self) -> bool {
        let is_the_same = self.blocks.as_ref().is_ok_and(|blocks| blocks.ranges.is_empty());
        // Tables that come and go are told of, and so are columns.
        !is_the_same || LeftOut::any_one_sided(&self.plan.left_out)
    }

    /// Which blocks may be read by themselves: where a `SELECT` runs code, there are none.
    fn read_by_blocks(&self) -> Result<&ChangedBlocks, Full> {
        match &self.blocks {
            Ok(_) if self.plan.runs_code => Err(Full::Code),
            Ok(blocks) => Ok(blocks),
            Err(full) => Err(*full),
        }
    }
}

/// Looks at the blocks of all tables.
async fn look(
    plans: Vec<Plan>,
    branch: &Path,
    snapshot: &Path,
    layout: Layout,
    apart: bool,
) -> Result<Vec<Looked>, ChangesError> {
    let (branch, snapshot) = (branch.to_owned(), snapshot.to_owned());
    let look = move || {
        plans
            .into_iter()
            .map(|plan| {
                let blocks = match &plan.file {
                    Ok(file) => {
                        let changed = match apart {
                            true => unshared_blocks(&branch, &snapshot, file, layout),
                            false => changed_blocks(&branch, &snapshot, file, layout),
                        };
                        let table = || shown_name(&plan.schema, &plan.name);
                        let changed =
                            changed.map_err(|source| ChangesError::Files { table: table(), source })?;
                        // Reading it block by block would take longer.
                        let is_all = apart && changed.of > 0 && changed.count() == u64::from(changed.of);
                        if is_all {
                            Err(Full::Apart)
                        } else {
                            Ok(changed)
                        }
                    }
                    Err(full) => Err(*full),
                };
                Ok(Looked { plan, blocks })
            })
            .collect()
    };
    tokio::task::spawn_blocking(look).await.map_err(|error| ChangesError::Crashed(error.to_string()))?
}

/// Keeps the definitions of tables as they were when the comparison began, until the transaction ends: others may go on to
/// read and write them, and nobody may alter them or make indexes and statistics on them.
async fn hold(holding: &Client, some: &[Looked], catalogue: &Catalogue) -> Result<(), ChangesError> {
    let names: HashSet<(&str, &str)> = some
        .iter()
        .filter(|it| it.plan.only_in != Some(Only::Snapshot))
        .map(|it| (it.plan.schema.as_str(), it.plan.name.as_str()))
        .collect();
    let limit = LOCK_LIMIT.as_millis();
    set(BRANCH, holding, &format!("begin read only; set local lock_timeout = {limit}")).await?;
    if names.is_empty() {
        return Ok(());
    }
    let tables: Vec<String> = names
        .iter()
        .map(|(schema, name)| format!("only {}.{}", quote_identifier(schema), quote_identifier(name)))
        .collect();
    let lock = format!("lock table {} in share update exclusive mode", tables.join(", "));
    holding.batch_execute(&lock).await.map_err(|source| match source.code() {
        Some(&SqlState::LOCK_NOT_AVAILABLE) => ChangesError::Locked { seconds: LOCK_LIMIT.as_secs() },
        Some(&SqlState::UNDEFINED_TABLE | &SqlState::INVALID_SCHEMA_NAME | &SqlState::WRONG_OBJECT_TYPE) => {
            ChangesError::Restless
        }
        _ => ChangesError::Server { side: BRANCH, doing: "did not hold its tables", source },
    })?;
    let now = catalogue::tables(BRANCH, holding, |schema, name| names.contains(&(schema, name))).await?;
    let is_the_same = names.iter().all(|(schema, name)| {
        let name = ((*schema).to_owned(), (*name).to_owned());
        now.get(&name) == catalogue.tables.get(&name)
    });
    if is_the_same {
        Ok(())
    } else {
        Err(ChangesError::Restless)
    }
}

/// Compares the rows of one table, and tells of it if they differ.
async fn table(
    request: Request<'_>,
    looked: &Looked,
    layout: Layout,
    lsn: u64,
    rows: u64,
    told: &mpsc::Sender<Part>,
) -> Result<Ending, ChangesError> {
    let Plan { schema, name, columns, new_columns, key, left_out, only_in, .. } = &looked.plan;
    let mut unmatched = Unmatched::new(HELD_MAX);
    let source = Source { schema, name, columns };
    let common = &columns[..columns.len() - new_columns.count];
    let old_source = Source { columns: common, ..source };
    let compared = match looked.read_by_blocks() {
        _ if common.is_empty() => Compared::Blocks { changed: 0, of: 0 },
        Ok(blocks) => {
            let places = places(request, looked, blocks, layout, lsn).await?;
            let mut old = places.old.chunks(PLACES_A_STATEMENT);
            let mut new = places.new.chunks(PLACES_A_STATEMENT);
            loop {
                let (old, new) = (old.next(), new.next());
                if old.is_none() && new.is_none() {
                    break;
                }
                let old = old_source.places(old.unwrap_or_default());
                let new = source.places(new.unwrap_or_default());
                read(request, [old, new], &mut unmatched, &looked.plan).await?;
            }
            for ranges in places.whole.chunks(RANGES_A_STATEMENT) {
                let both = [Some(old_source.blocks(ranges)), Some(source.blocks(ranges))];
                read(request, both, &mut unmatched, &looked.plan).await?;
            }
            Compared::Blocks { changed: blocks.count(), of: u64::from(blocks.of) }
        }
        Err(full) => {
            let sql = |side: Source<'_>, without| (*only_in != Some(without)).then(|| side.whole());
            let both = [sql(old_source, Only::Branch), sql(source, Only::Snapshot)];
            read(request, both, &mut unmatched, &looked.plan).await?;
            Compared::Full { why: full.to_string() }
        }
    };
    let differences = unmatched.pair(key);
    let mut ending = Ending::default();
    let is_told = !differences.is_empty() || only_in.is_some() || LeftOut::any_one_sided(left_out);
    if !is_told {
        return Ok(ending);
    }
    let (columns, key, left_out) = (columns.clone(), key.clone(), left_out.clone());
    let (schema, name, only_in) = (schema.clone(), name.clone(), *only_in);
    tell(told, Part::Table(Table { schema, name, columns, key, left_out, only_in, compared })).await?;
    for Difference { old, new, times } in differences {
        match (&old, &new) {
            (Some(_), Some(_)) => ending.changed += times,
            (Some(_), None) => ending.removed += times,
            _ => ending.added += times,
        }
        for _ in 0..times.min(rows - ending.listed) {
            ending.listed += 1;
            let [mut old, new] = [&old, &new].map(|line| line.as_ref().map(|line| text(values(line))));
            if let Some(old) = &mut old {
                let common = old.len() - new_columns.count.min(old.len());
                old[common..].fill(None);
            }
            tell(told, Part::Row(Row { old, new })).await?;
        }
    }
    tell(told, Part::Ending(ending)).await?;
    Ok(ending)
}

fn text(values: Values) -> Vec<Option<String>> {
    // What is no UTF-8 comes from a database that does not say what its texts are written in.
    let text = |value: Vec<u8>| {
        String::from_utf8(value)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    };
    values.into_iter().map(|value| value.map(text)).collect()
}

/// Finds what in its changed blocks may differ.
async fn places(
    request: Request<'_>,
    looked: &Looked,
    blocks: &ChangedBlocks,
    layout: Layout,
    lsn: u64,
) -> Result<Places, ChangesError> {
    let Ok(file) = looked.plan.file.clone() else { return Ok(Places::default()) };
    if *request.written == Written::Apart {
        // Equal bytes of two histories may be other rows: what is out of line, and the fate of transactions, are not in them.
        return Ok(Places { whole: blocks.ranges.clone(), ..Places::default() });
    }
    let [branch, snapshot, baseline] =
        [request.branch.files, request.snapshot, request.baseline.files].map(PathBuf::from);
    let ranges = blocks.ranges.clone();
    let find = move || {
        // Where pages are cold, one by one would take several times as long. It is only for speed.
        for dir in [&snapshot, &baseline, &branch] {
            let _ = read_ahead(dir, &file, layout, &ranges);
        }
        tuples::places(&branch, &snapshot, &file, layout, &ranges, lsn)
    };
    let found = tokio::task::spawn_blocking(find).await;
    let table = shown_name(&looked.plan.schema, &looked.plan.name);
    found
        .map_err(|error| ChangesError::Crashed(error.to_string()))?
        .map_err(|source| ChangesError::Files { table, source })
}

/// Reads rows of the snapshot and of the branch, at the same pace.
async fn read(
    request: Request<'_>,
    [old, new]: [Option<String>; 2],
    unmatched: &mut Unmatched,
    plan: &Plan,
) -> Result<(), ChangesError> {
    let open = |side: &'static str, client, sql: Option<String>| async move {
        match sql {
            Some(sql) => Lines::open(side, client, &sql).await.map(Some),
            None => Ok(None),
        }
    };
    let (mut old, mut new) = tokio::try_join!(
        open(SNAPSHOT, request.baseline.client, old),
        open(BRANCH, request.branch.client, new)
    )?;
    // What the snapshot does not have was NULL, or something that no value is.
    let absent = if plan.new_columns.are_filled { &b"\t\0"[..] } else { b"\t\\N" };
    let behind = absent.repeat(plan.new_columns.count);
    let mut longer = Vec::new();
    let too_much = |error: crate::diff::TooMany| ChangesError::TooMuch {
        table: shown_name(&plan.schema, &plan.name),
        bytes_max: error.bytes_max,
    };
    while old.is_some() || new.is_some() {
        if let Some(lines) = &mut old {
            match lines.next().await? {
                Some(line) if behind.is_empty() => unmatched.old(&line).map_err(too_much)?,
                Some(line) => {
                    longer.clear();
                    longer.extend_from_slice(&line);
                    longer.extend_from_slice(&behind);
                    unmatched.old(&longer).map_err(too_much)?;
                }
                None => old = None,
            }
        }
        if let Some(lines) = &mut new {
            match lines.next().await? {
                Some(line) => unmatched.new_line(&line).map_err(too_much)?,
                None => new = None,
            }
        }
    }
    Ok(())
}
