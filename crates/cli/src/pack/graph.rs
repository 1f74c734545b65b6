//! What the verbs do with the pack of an access graph.

use super::info::Content;
use crate::{
    context::{Context, Outcome},
    failure::Failure,
    output,
};
use clap::{Args, ValueEnum};
use duramen_access::graph::{
    diff, write_csv_rows, Change, CsvTable, Diff, GraphError, GraphPack, ResourceId, SyncStats, Timestamp,
};
use serde_json::{json, Value};
use std::{
    io::{self, StdoutLock, Write},
    path::Path,
    process::ExitCode,
};

/// Which rows of which sync.
#[derive(Debug, Args)]
pub(crate) struct Rows {
    /// Of an access graph: which rows [default: grants]
    #[arg(long, value_enum)]
    table: Option<Table>,
    /// Of an access graph: which sync [default: the latest full one that has ended]
    #[arg(long, value_name = "ID")]
    sync: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Table {
    ResourceTypes,
    Resources,
    Entitlements,
    #[default]
    Grants,
}

impl From<Table> for CsvTable {
    fn from(table: Table) -> Self {
        match table {
            Table::ResourceTypes => CsvTable::ResourceTypes,
            Table::Resources => CsvTable::Resources,
            Table::Entitlements => CsvTable::Entitlements,
            Table::Grants => CsvTable::Grants,
        }
    }
}

pub(super) fn failed(error: GraphError) -> Failure {
    Failure::Other(error.to_string())
}

/// A time as people and JSON read it.
fn time(time: Timestamp) -> String {
    jiff::Timestamp::new(time.seconds, time.nanos)
        .map_or_else(|_| time.seconds.to_string(), |time| time.to_string())
}

/// What `info` says beyond the file: its syncs.
pub(super) fn info(path: &Path) -> Result<Content, Failure> {
    let pack = GraphPack::open(path).map_err(failed)?;
    let read = pack.default_sync().map(|sync| sync.id.clone());
    let mut rows = Vec::new();
    let mut syncs = Vec::new();
    for sync in pack.syncs() {
        let none = SyncStats::default();
        let stats = pack.stats(&sync.id).unwrap_or(&none);
        let ended = sync.ended_at.map(time);
        let state = ended.as_deref().map_or_else(|| "not ended".to_owned(), |at| format!("ended {at}"));
        let counts = format!(
            "{} resource types, {} resources, {} entitlements, {} grants, {} assets",
            stats.resource_types, stats.resources, stats.entitlements, stats.grants, stats.assets
        );
        rows.push(("sync", format!("{} ({}, {state}): {counts}", sync.id, sync.kind_name())));
        syncs.push(json!({
            "id": sync.id,
            "kind": sync.kind_name(),
            "parent": sync.parent,
            "linked": sync.linked,
            "started_at": time(sync.started_at),
            "ended_at": ended,
            "resource_types": stats.resource_types,
            "resources": stats.resources,
            "entitlements": stats.entitlements,
            "grants": stats.grants,
            "assets": stats.assets,
            "principals": stats.principals,
            "replaced": stats.replaced,
            "grants_by_type": stats.grants_by_type,
            "grants_by_principal_type": stats.grants_by_principal_type,
        }));
    }
    rows.push(("read by default", read.clone().unwrap_or_else(|| "nothing: there is no sync".to_owned())));
    Ok(Content { rows, json: ("graph", json!({ "syncs": syncs, "read_by_default": read })) })
}

impl Rows {
    /// The arguments that mean something for access graphs only, where they were given.
    pub(super) fn given(&self) -> Vec<&'static str> {
        named([("--table", self.table.is_some()), ("--sync", self.sync.is_some())])
    }
}

/// The names of the arguments that were given.
pub(super) fn named<const N: usize>(arguments: [(&'static str, bool); N]) -> Vec<&'static str> {
    arguments.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
}

/// Refuses arguments that mean nothing for what a file holds: to leave them out in silence would answer another question.
pub(super) fn refuse(given: &[&str], file: &Path, holds: &str) -> Result<(), Failure> {
    match given.first() {
        Some(first) => Err(Failure::Usage(format!(
            "{first} means nothing for {}, which holds {holds}: leave it out",
            file.display()
        ))),
        None => Ok(()),
    }
}

/// Prints rows as CSV.
pub(super) fn cat(context: &Context, path: &Path, rows: &Rows, limit: Option<u64>) -> Outcome {
    if context.json {
        return Err(Failure::Usage(
            "the rows of an access graph are printed as CSV: leave --json out".to_owned(),
        ));
    }
    let view = match GraphPack::open(path).map_err(failed)?.view(rows.sync.as_deref()) {
        Err(GraphError::NoSync { id }) => {
            let file = path.display();
            return Err(Failure::Other(format!(
                "there is no sync {id:?} in {file}; `duramen pack info {file}` names those that there are"
            )));
        }
        view => view.map_err(failed)?,
    };
    let table = rows.table.unwrap_or(Table::Grants).into();
    let mut out = Pipe::new();
    match write_csv_rows(&view, table, limit.unwrap_or(u64::MAX), &mut out) {
        Err(error) if !out.has_no_reader => Err(failed(error)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// The standard output. That its reader has left (`| head`) ends the work, and is not an error.
pub(super) struct Pipe {
    out: StdoutLock<'static>,
    has_no_reader: bool,
}

impl Pipe {
    pub(super) fn new() -> Pipe {
        Pipe { out: io::stdout().lock(), has_no_reader: false }
    }

    pub(super) fn has_no_reader(&self) -> bool {
        self.has_no_reader
    }

    fn note<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        self.has_no_reader |= done.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        done
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.out.write(bytes);
        self.note(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.out.flush();
        self.note(done)
    }
}

/// Prints what differs between the syncs that are read by default.
pub(super) fn compare(context: &Context, left: &Path, right: &Path, limit: usize) -> Outcome {
    let older = GraphPack::open(left).map_err(failed)?.view(None).map_err(failed)?;
    let newer = GraphPack::open(right).map_err(failed)?.view(None).map_err(failed)?;
    let mut changes = Vec::new();
    let counts = diff(&older, &newer, |found| {
        if changes.len() < limit {
            changes.extend(describe(found));
        }
        Ok(())
    })
    .map_err(failed)?;
    if context.json {
        let changes: Vec<Value> = changes
            .iter()
            .map(|(change, kind, id)| json!({ "change": word(*change), "kind": kind, "id": id }))
            .collect();
        output::json(&json!({
            "left": left,
            "right": right,
            "added": counts.added,
            "removed": counts.removed,
            "modified": counts.changed,
            "changes": changes,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for (change, kind, id) in &changes {
        output::line(format!("{change} {kind} {id}"));
    }
    output::line(format!("{} added, {} removed, {} modified", counts.added, counts.removed, counts.changed));
    Ok(ExitCode::SUCCESS)
}

fn word(change: char) -> &'static str {
    match change {
        '+' => "added",
        '-' => "removed",
        _ => "modified",
    }
}

fn name(id: &ResourceId) -> String {
    format!("{}:{}", id.resource_type, id.resource)
}

/// A change as its sign, the kind of row and its id; nothing for kinds that this version does not know.
fn describe(found: Diff) -> Option<(char, &'static str, String)> {
    fn split<Row>(change: Change<Row>) -> (char, Row) {
        match change {
            Change::Added(row) => ('+', row),
            Change::Removed(row) => ('-', row),
            Change::Changed(row) => ('~', row),
        }
    }
    Some(match found {
        Diff::ResourceType(change) => {
            let (sign, row) = split(change);
            (sign, "resource type", row.id)
        }
        Diff::Resource(change) => {
            let (sign, row) = split(change);
            (sign, "resource", name(&row.id))
        }
        Diff::Entitlement(change) => {
            let (sign, row) = split(change);
            (sign, "entitlement", row.id)
        }
        Diff::Grant(change) => {
            let (sign, row) = split(change);
            (sign, "grant", row.id)
        }
        Diff::Asset(change) => {
            let (sign, row) = split(change);
            (sign, "asset", row.id)
        }
        _ => return None,
    })
}
