//! A file with an access graph as an argument: which sync of it, and what is allowed to come out of it.

use crate::{failure::Failure, output};
use clap::Args;
use duramen_access::{
    c1z::ReadOptions,
    expand::{Effective, ExpandError},
    file::{FileError, GraphFile},
    graph::{Loss, ResourceId, Sync},
};
use jiff::tz::TimeZone;
use std::path::{Path, PathBuf};

/// How a file is read.
#[derive(Clone, Debug, Args)]
pub(super) struct Read {
    /// How many bytes may come out of a .c1z file, such as 20G; without it, what BATON_DECODER_MAX_DECODED_SIZE_MB says,
    /// or 200 times the file's length, at least 1 GiB and at most 10
    #[arg(long, value_name = "BYTES", value_parser = crate::parse::size)]
    max_decoded_bytes: Option<u64>,
    /// How many times longer than a .c1z file what comes out of it may be; without it, 200
    #[arg(long, value_name = "TIMES", conflicts_with = "max_decoded_bytes", value_parser = clap::value_parser!(u64).range(1..))]
    max_decoded_ratio: Option<u64>,
    /// The time zone of the times in version 1 files, which do not say it, such as Europe/Berlin; without it, UTC
    #[arg(long, value_name = "ZONE", value_parser = zone)]
    zone: Option<TimeZone>,
}

/// A time zone by its name.
fn zone(name: &str) -> Result<TimeZone, String> {
    TimeZone::get(name)
        .map_err(|_| "no time zone has that name; use one such as UTC or Europe/Berlin".to_owned())
}

/// The limit that the ecosystem's tools read, in mebibytes. As in those tools, 0 or anything that is not a number means that
/// no limit is set.
fn decoded_bytes_of_environment() -> Option<u64> {
    let megabytes = std::env::var("BATON_DECODER_MAX_DECODED_SIZE_MB").ok()?.parse::<u64>().ok()?;
    (megabytes > 0).then(|| megabytes.saturating_mul(1 << 20))
}

/// How a file is read whose command has no options for that.
pub(super) fn options_of_environment() -> ReadOptions {
    ReadOptions { decompressed_bytes_max: decoded_bytes_of_environment(), ..ReadOptions::default() }
}

impl Read {
    pub(super) fn options(self) -> ReadOptions {
        let Read { max_decoded_bytes, max_decoded_ratio, zone } = self;
        let of_environment =
            || if max_decoded_ratio.is_none() { decoded_bytes_of_environment() } else { None };
        ReadOptions {
            decompressed_bytes_max: max_decoded_bytes.or_else(of_environment),
            decompression_ratio_max: max_decoded_ratio,
            zone,
            ..ReadOptions::default()
        }
    }
}

/// A sync of a file.
#[derive(Clone, Debug, Args)]
pub(super) struct Source {
    /// The file: a pack of a graph, or a .c1z file of version 1 or 3; its content says which
    pub(super) file: PathBuf,
    /// Which sync [default: the latest full one that has ended]
    #[arg(long, value_name = "ID")]
    sync: Option<String>,
    #[command(flatten)]
    read: Read,
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Failure {
        Failure::Other(error.to_string())
    }
}

impl Source {
    pub(super) fn open(&self) -> Result<(GraphFile, Sync), Failure> {
        let file = GraphFile::open(&self.file, &self.read.clone().options())?;
        let sync = file.sync(self.sync.as_deref())?;
        Ok((file, sync))
    }

    /// What the grants of the sync come to.
    pub(super) fn effective(&self) -> Result<Effective, Failure> {
        let (file, sync) = self.open()?;
        effective(&file, &sync)
    }
}

/// What the grants of a sync come to. What could not be expanded is told.
pub(super) fn effective(file: &GraphFile, sync: &Sync) -> Result<Effective, Failure> {
    let effective = Effective::load(file, &sync.id).map_err(|error| match error {
        ExpandError::Read(error) => error.into(),
        other => Failure::Other(other.to_string()),
    })?;
    for Loss { row, what, rows, example } in effective.left_out() {
        output::warning(&format_args!("not expanded: {what}, of {rows} {row} rows, such as {example:?}"));
    }
    Ok(effective)
}

/// A resource by `TYPE:NAME`: of several ways to read it, the first that is known.
pub(super) fn resource(text: &str, is_known: impl Fn(&ResourceId) -> bool) -> Option<ResourceId> {
    let ways = text.match_indices(':').map(|(at, _)| ResourceId::new(&text[..at], &text[at + 1..]));
    ways.into_iter().find(is_known)
}

/// A resource as an argument of a filter.
pub(super) fn parse_resource(text: &str) -> Result<ResourceId, String> {
    let (kind, name) = text.split_once(':').ok_or("use TYPE:NAME, such as user:ada")?;
    Ok(ResourceId::new(kind, name))
}

/// What a file is called in messages.
pub(super) fn name(path: &Path) -> String {
    path.display().to_string()
}
