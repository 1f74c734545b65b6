//! `duramen pack convert`: an access graph from one format into another, and a report of what did not fit.

use crate::{
    context::{Context, Outcome},
    failure::Failure,
    output,
};
use clap::{Args, ValueEnum};
use duramen_pack::{
    c1z::{copy, C1z1, C1z1Writer, C1z3, C1z3Writer, Copied, ReadOptions, Version, WriteOptions},
    graph::{GraphPack, GraphSink, GraphSource, GraphStore, Loss, Sync, SyncKind},
};
use serde_json::json;
use std::{
    fs::File,
    io::Read as _,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(Debug, Args)]
pub(crate) struct Convert {
    /// The file to read: a pack of a graph, or a .c1z file of version 1, or of version 3 with tables in the row format or
    /// logs (columnar ones are refused); its content says which
    from: PathBuf,
    /// The file to write
    to: PathBuf,
    /// The format to write; without it, .dpack and .c1z (version 3) by the name of the file
    #[arg(long = "to", value_name = "FORMAT", value_enum)]
    format: Option<Format>,
    /// The sync to copy; without it, all of them, or where one fits the latest full one that has ended
    #[arg(long, value_name = "ID")]
    sync: Option<String>,
}

/// What can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A pack: any number of syncs
    Dpack,
    /// .c1z, version 1: an SQLite database, any number of syncs
    C1z1,
    /// .c1z, version 3: what present tools of the ecosystem read, one sync
    C1z3,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Format::Dpack => "dpack",
            Format::C1z1 => "c1z1",
            Format::C1z3 => "c1z3",
        }
    }

    /// The format that a name asks for.
    fn of_name(path: &Path) -> Result<Format, Failure> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("dpack") => Ok(Format::Dpack),
            Some("c1z") => Ok(Format::C1z3),
            _ => Err(Failure::Usage(format!(
                "{} names no format: end it with .dpack or .c1z, or say --to dpack, c1z1 or c1z3",
                path.display()
            ))),
        }
    }
}

/// What was done, and what was not.
struct Report {
    copied: Copied,
    losses: Vec<Loss>,
}

fn other(error: impl std::fmt::Display) -> Failure {
    Failure::Other(error.to_string())
}

pub(crate) fn run(context: &Context, convert: &Convert) -> Outcome {
    let format = match convert.format {
        Some(format) => format,
        None => Format::of_name(&convert.to)?,
    };
    // A target that is its own source would be all that is left of it, with what its format cannot hold gone.
    let file_of = |path: &Path| std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    if file_of(&convert.to).is_some_and(|to| file_of(&convert.from) == Some(to)) {
        let file = convert.to.display();
        return Err(Failure::Usage(format!(
            "{file} cannot be written while it is read; choose another name"
        )));
    }
    // What is refused is refused before the new file is begun.
    let options = ReadOptions { check_rows: true, ..ReadOptions::default() };
    let report = if is_pack(&convert.from)? {
        let source = GraphPack::open(&convert.from).map_err(other)?;
        into_format(&source, &[], convert, format)?
    } else {
        match Version::of(&convert.from).map_err(other)? {
            Version::V1 => {
                let source = C1z1::open(&convert.from, &options).map_err(other)?;
                into_format(&source, source.left_out(), convert, format)?
            }
            Version::V3 => {
                let source = C1z3::open(&convert.from, &options).map_err(other)?;
                into_format(&source, source.left_out(), convert, format)?
            }
        }
    };
    show(context, convert, format, &report)
}

/// Whether a file is neither of the versions of .c1z: what it is then, the reader of packs says.
fn is_pack(path: &Path) -> Result<bool, Failure> {
    let mut head = Vec::new();
    let file = File::open(path).and_then(|file| file.take(4).read_to_end(&mut head));
    file.map_err(|source| Failure::Io { doing: "read", path: path.display().to_string(), source })?;
    Ok(!head.starts_with(b"C1Z"))
}

fn into_format<S: GraphSource>(
    source: &S,
    left_out: &[Loss],
    convert: &Convert,
    format: Format,
) -> Result<Report, Failure> {
    let (syncs, left) = choose(source.syncs().map_err(other)?, convert, format)?;
    let options = WriteOptions::default();
    let mut report = match format {
        Format::Dpack => {
            let journal = journal_of(&convert.to);
            let is_taken = |(file, least): &(&Path, u64)| {
                file.symlink_metadata().is_ok_and(|found| found.len() >= *least)
            };
            // An empty journal is one that nobody needs.
            let files = [(convert.to.as_path(), 0), (journal.as_path(), 1)];
            if let Some((file, _)) = files.into_iter().find(is_taken) {
                let file = file.display();
                return Err(Failure::Other(format!("{file} exists; remove it, or choose another name")));
            }
            let mut sink = GraphStore::open(&convert.to).map_err(other)?;
            let report = fill(source, &mut sink, &syncs);
            let report = report.and_then(|report| sink.close().map_err(other).map(|()| report));
            if report.is_err() {
                // Neither was there before, and a part of a graph is none.
                let _ = std::fs::remove_file(&convert.to);
                let _ = std::fs::remove_file(&journal);
            }
            report?
        }
        Format::C1z1 => {
            let mut sink = C1z1Writer::create(&convert.to, &options).map_err(other)?;
            let report = fill(source, &mut sink, &syncs)?;
            sink.finish().map_err(other)?;
            report
        }
        Format::C1z3 => {
            let mut sink = C1z3Writer::create(&convert.to, &options).map_err(other)?;
            let report = fill(source, &mut sink, &syncs)?;
            sink.finish().map_err(other)?;
            report
        }
    };
    report.losses.extend(left_out.iter().cloned());
    if let Some(first) = left.first() {
        report.losses.push(Loss {
            row: "sync",
            what: "syncs that were not copied".to_owned(),
            rows: left.len() as u64,
            example: first.id.clone(),
        });
    }
    Ok(report)
}

/// Where a graph that is being written keeps what is not in the file yet.
fn journal_of(graph: &Path) -> PathBuf {
    let mut name = graph.file_name().unwrap_or_default().to_owned();
    name.push(".journal");
    graph.with_file_name(name)
}

fn fill<S: GraphSource, T: GraphSink>(source: &S, sink: &mut T, syncs: &[Sync]) -> Result<Report, Failure> {
    let copied = copy(source, sink, syncs).map_err(other)?;
    Ok(Report { copied, losses: sink.losses().to_vec() })
}

/// The syncs to copy, and those that stay behind.
fn choose(syncs: Vec<Sync>, convert: &Convert, format: Format) -> Result<(Vec<Sync>, Vec<Sync>), Failure> {
    let wanted = match &convert.sync {
        Some(id) if syncs.iter().any(|sync| sync.id == *id) => Some(id.clone()),
        Some(id) => {
            let known: Vec<&str> = syncs.iter().map(|sync| sync.id.as_str()).collect();
            let known = match known.as_slice() {
                [] => "it holds none".to_owned(),
                known => format!("it holds {}", known.join(", ")),
            };
            let file = convert.from.display();
            return Err(Failure::Other(format!("{file} has no sync {id:?}; {known}")));
        }
        None if format == Format::C1z3 => {
            let full = |sync: &&Sync| sync.kind == SyncKind::Full && sync.ended_at.is_some();
            // Of two that ended at one time, the greater id.
            let latest = syncs.iter().filter(full).max_by_key(|sync| (sync.ended_at, &sync.id));
            let latest = latest.or_else(|| syncs.iter().max_by_key(|sync| (sync.started_at, &sync.id)));
            let Some(sync) = latest else {
                let file = convert.from.display();
                return Err(Failure::Other(format!(
                    "{file} holds no sync, and a version 3 file has to hold one"
                )));
            };
            Some(sync.id.clone())
        }
        None if format == Format::Dpack && syncs.is_empty() => {
            let file = convert.from.display();
            return Err(Failure::Other(format!("{file} holds no sync: there is nothing to write")));
        }
        None => None,
    };
    Ok(match wanted {
        Some(id) => syncs.into_iter().partition(|sync| sync.id == id),
        None => (syncs, Vec::new()),
    })
}

fn show(context: &Context, convert: &Convert, format: Format, report: &Report) -> Outcome {
    let size = std::fs::metadata(&convert.to).map_err(|source| Failure::Io {
        doing: "look at",
        path: convert.to.display().to_string(),
        source,
    })?;
    let Report { copied, losses } = report;
    if context.json {
        let losses = losses.iter().map(
            |loss| json!({ "row": loss.row, "what": loss.what, "rows": loss.rows, "example": loss.example }),
        );
        output::json(&json!({
            "file": convert.to,
            "format": format.name(),
            "size_bytes": size.len(),
            "syncs": copied.syncs,
            "resource_types": copied.resource_types,
            "resources": copied.resources,
            "entitlements": copied.entitlements,
            "grants": copied.grants,
            "assets": copied.assets,
            "losses": losses.collect::<Vec<_>>(),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::print(output::pairs(vec![
        ("written", convert.to.display().to_string()),
        ("format", format.name().to_owned()),
        ("size", output::bytes(size.len())),
        ("syncs", copied.syncs.to_string()),
        ("resource types", copied.resource_types.to_string()),
        ("resources", copied.resources.to_string()),
        ("entitlements", copied.entitlements.to_string()),
        ("grants", copied.grants.to_string()),
        ("assets", copied.assets.to_string()),
    ]));
    for loss in losses {
        let Loss { row, what, rows, example } = loss;
        let rows = match rows {
            1 => format!("one {row} row"),
            rows => format!("{rows} {row} rows"),
        };
        match example.as_str() {
            "" => output::line(format_args!("not held: {what}, of {rows}")),
            example => output::line(format_args!("not held: {what}, of {rows}, such as {example:?}")),
        }
    }
    Ok(ExitCode::SUCCESS)
}
