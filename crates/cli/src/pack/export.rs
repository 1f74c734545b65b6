//! `duramen pack export`: the tables of an access graph as Parquet files.

use super::source::Source;
use crate::context::{Context, Outcome};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    source: Source,
    /// The folder for the tables, a file each; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    parquet: PathBuf,
}

#[cfg(feature = "parquet")]
pub(crate) fn run(context: &Context, export: &Export) -> Outcome {
    use crate::{failure::Failure, output};
    use duramen_access::rows::{export_parquet, Exported};
    use serde_json::json;

    let (file, sync) = export.source.open()?;
    let exported = export_parquet(&file, &sync, &export.parquet);
    let exported = exported.map_err(|error| Failure::Other(error.to_string()))?;
    if context.json {
        let tables = exported.iter().map(
            |Exported { table, path, rows }| json!({ "table": table.name(), "file": path, "rows": rows }),
        );
        output::json(&json!({ "sync": sync.id, "tables": tables.collect::<Vec<_>>() }))?;
    } else {
        let rows =
            exported.iter().map(|Exported { path, rows, .. }| [path.display().to_string(), rows.to_string()]);
        output::print(output::table(["FILE", "ROWS"], rows));
    }
    Ok(std::process::ExitCode::SUCCESS)
}

#[cfg(not(feature = "parquet"))]
pub(crate) fn run(_: &Context, export: &Export) -> Outcome {
    Err(crate::failure::Failure::Other(format!(
        "this program was built without Parquet, so nothing was written to {}: build it with `--features parquet`, or \
         print rows as CSV or JSON (`duramen pack grants {} --effective --json`)",
        export.parquet.display(),
        export.source.file.display()
    )))
}
