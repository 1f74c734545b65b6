//! `duramen pack convert`: an access graph from one format into another, and a report of what did not fit.

use super::source::Read;
use crate::{
    context::{Context, Outcome},
    failure::Failure,
    output,
};
use clap::{Args, ValueEnum};
use duramen_access::{
    convert::{Conversion, ConvertError, Converted, Format, ZoneOffset},
    graph::Loss,
};
use jiff::tz::TimeZone;
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(Debug, Args)]
pub(crate) struct Convert {
    /// The file to read: a pack of a graph, or a .c1z file of version 1 or 3; its content says which
    from: PathBuf,
    /// The file to write
    to: PathBuf,
    /// The format to write; without it, .dpack and .c1z (version 3) by the name of the file
    #[arg(long = "to", value_name = "FORMAT", value_enum)]
    format: Option<Target>,
    /// The sync to copy; without it, all of them, or where one fits the latest full one that has ended
    #[arg(long, value_name = "ID")]
    sync: Option<String>,
    #[command(flatten)]
    read: Read,
}

/// What can be written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Target {
    /// A pack: any number of syncs
    Dpack,
    /// .c1z, version 1: an SQLite database, any number of syncs
    C1z1,
    /// .c1z, version 3: what present tools of the ecosystem read, one sync
    C1z3,
}

impl From<Target> for Format {
    fn from(target: Target) -> Format {
        match target {
            Target::Dpack => Format::Pack,
            Target::C1z1 => Format::C1z1,
            Target::C1z3 => Format::C1z3,
        }
    }
}

impl From<ConvertError> for Failure {
    fn from(error: ConvertError) -> Failure {
        match error {
            ConvertError::SameFile { .. } => Failure::Usage(error.to_string()),
            other => Failure::Other(other.to_string()),
        }
    }
}

pub(crate) fn run(context: &Context, convert: Convert) -> Outcome {
    let Convert { from, to, format, sync, read } = convert;
    let format = self::format(format, &to)?;
    let read = read.options();
    let conversion = Conversion { from, to, format, sync, read };
    let converted = conversion.run()?;
    print(context, &conversion, &converted)
}

/// The format to write: the one that is named, or that the name of the file asks for.
pub(super) fn format(named: Option<Target>, to: &Path) -> Result<Format, Failure> {
    named.map(Format::from).or_else(|| Format::of_name(to)).ok_or_else(|| {
        Failure::Usage(format!(
            "{} names no format: end it with .dpack or .c1z, or say --to dpack, c1z1 or c1z3",
            to.display()
        ))
    })
}

fn print(context: &Context, conversion: &Conversion, converted: &Converted) -> Outcome {
    let Conversion { to, format, .. } = conversion;
    let Converted { copied, losses, file_bytes, zone_offset } = converted;
    if let Some(offset) = zone_offset {
        let zone = conversion.read.zone.as_ref().and_then(TimeZone::iana_name).unwrap_or("UTC");
        let ZoneOffset { seconds, sync } = offset;
        let (hours, minutes) = (seconds.abs() / 3600, seconds.abs() / 60 % 60);
        let way = if *seconds > 0 { "after" } else { "before" };
        output::warning(&format_args!(
            "times were read as {zone}, but sync {sync} then begins {hours}:{minutes:02} h {way} its id was made: \
             if they were written in another zone, use --zone"
        ));
    }
    if context.json {
        let losses = losses.iter().map(
            |loss| json!({ "row": loss.row, "what": loss.what, "rows": loss.rows, "example": loss.example }),
        );
        output::json(&json!({
            "file": to,
            "format": format.name(),
            "size_bytes": file_bytes,
            "syncs": copied.syncs,
            "resource_types": copied.resource_types,
            "resources": copied.resources,
            "entitlements": copied.entitlements,
            "grants": copied.grants,
            "assets": copied.assets,
            "losses": losses.collect::<Vec<_>>(),
            "zone_offset_s": zone_offset.as_ref().map(|offset| offset.seconds),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::print(output::pairs(vec![
        ("written", to.display().to_string()),
        ("format", format.name().to_owned()),
        ("size", output::bytes(*file_bytes)),
        ("syncs", copied.syncs.to_string()),
        ("resource types", copied.resource_types.to_string()),
        ("resources", copied.resources.to_string()),
        ("entitlements", copied.entitlements.to_string()),
        ("grants", copied.grants.to_string()),
        ("assets", copied.assets.to_string()),
    ]));
    print_losses(losses);
    Ok(ExitCode::SUCCESS)
}

/// Says what did not fit.
pub(super) fn print_losses(losses: &[Loss]) {
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
}
