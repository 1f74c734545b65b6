//! `duramen pack import`: the tables of an access graph, in Parquet files, as a file.

use super::convert::Target;
use crate::context::{Context, Outcome};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The folder with the tables: resource_types.parquet, resources.parquet, entitlements.parquet and grants.parquet
    #[arg(long, value_name = "DIR")]
    parquet: PathBuf,
    /// The file to write
    to: PathBuf,
    /// The format to write; without it, .dpack and .c1z (version 3) by the name of the file
    #[arg(long = "to", value_name = "FORMAT", value_enum)]
    format: Option<Target>,
}

#[cfg(feature = "parquet")]
pub(crate) fn run(context: &Context, import: &Import) -> Outcome {
    use super::convert;
    use crate::{failure::Failure, output};
    use duramen_access::{
        graph::Loss,
        rows::{import_parquet, Imported},
    };
    use serde_json::json;

    let format = convert::format(import.format, &import.to)?;
    let Imported { sync, copied, losses, findings, file_bytes } =
        import_parquet(&import.parquet, &import.to, format)
            .map_err(|error| Failure::Other(error.to_string()))?;
    if context.json {
        let told = |all: &[Loss]| -> Vec<_> {
            let each = all.iter().map(|loss| {
                json!({ "row": loss.row, "what": loss.what, "rows": loss.rows, "example": loss.example })
            });
            each.collect()
        };
        output::json(&json!({
            "file": import.to,
            "format": format.name(),
            "size_bytes": file_bytes,
            "sync": sync.id,
            "resource_types": copied.resource_types,
            "resources": copied.resources,
            "entitlements": copied.entitlements,
            "grants": copied.grants,
            "losses": told(&losses),
            "findings": told(&findings),
        }))?;
        return Ok(std::process::ExitCode::SUCCESS);
    }
    output::print(output::pairs(vec![
        ("written", import.to.display().to_string()),
        ("format", format.name().to_owned()),
        ("size", output::bytes(file_bytes)),
        ("sync", sync.id),
        ("resource types", copied.resource_types.to_string()),
        ("resources", copied.resources.to_string()),
        ("entitlements", copied.entitlements.to_string()),
        ("grants", copied.grants.to_string()),
    ]));
    convert::print_losses(&losses);
    for Loss { row, what, rows, example } in &findings {
        output::warning(&format_args!("noticed: {rows} {row} rows {what}, such as {example:?}"));
    }
    Ok(std::process::ExitCode::SUCCESS)
}

#[cfg(not(feature = "parquet"))]
pub(crate) fn run(_: &Context, import: &Import) -> Outcome {
    let _ = import.format;
    Err(crate::failure::Failure::Other(format!(
        "this program was built without Parquet, so {} was not read and {} not written: build it with `--features parquet`",
        import.parquet.display(),
        import.to.display()
    )))
}
