//! What two branches, or generations, define, compared.

use crate::{
    context::{Context, Outcome},
    output, progress,
};
use duramen_api::model::SchemaDiff;
use std::{process::ExitCode, time::Duration};

/// The daemon gives each side two minutes, and its place among the comparisons half a minute.
pub(crate) const DEADLINE: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Changes and warnings, for people.
    Text,
    /// All of it.
    Json,
    /// A script for psql.
    Ddl,
}

pub(super) async fn run(context: &Context, name: &str, against: Option<&str>, format: Format) -> Outcome {
    let mut connection = context.connect().await?;
    connection.set_deadline(DEADLINE);
    let work = connection.schema_diff(name, against);
    let found = progress::during("comparing the schemas", work).await?;
    show(&found, format)
}

/// Prints a comparison.
pub(crate) fn show(found: &SchemaDiff, format: Format) -> Outcome {
    match format {
        Format::Json => output::json(found)?,
        Format::Ddl => output::print(&found.script),
        Format::Text if found.changes.is_empty() => {
            output::line(format_args!("{} defines what {} does", found.to, found.from));
        }
        Format::Text => {
            output::line(format_args!("from {} to {}", found.from, found.to));
            output::print(output::printable(&found.text));
        }
    }
    Ok(ExitCode::SUCCESS)
}
