//! `duramen change make`: what a branch changed, as a file.

use super::counts;
use crate::{
    branch::diff::part,
    context::{Context, Outcome},
    failure::Failure,
    output, progress,
};
use clap::Args;
use duramen_api::{data_diff::DIFF_ROWS_MAX, model::SchemaDiff};
use duramen_carry::{ChangeSetWriter, Ddl, Head, Origin};
use duramen_client::{Client, Connection};
use duramen_pack::container::{hex, PackSummary};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// How long the next line of a comparison may take: a table that was rewritten is read as a whole.
const LINE_LIMIT: Duration = Duration::from_secs(3600);

#[derive(Debug, Args)]
pub(crate) struct Make {
    /// The branch
    name: String,
    /// The file [default: the branch's name, and .dpack]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A change set that was written.
pub(crate) struct Made {
    pub(crate) file: PathBuf,
    pub(crate) head: Head,
    pub(crate) pack: PackSummary,
}

pub(crate) async fn run(context: &Context, make: Make) -> Outcome {
    let file = make.out.unwrap_or_else(|| default_file(&make.name));
    let client = context.client()?;
    let work = write(&client, &make.name, &file);
    let made = progress::during("comparing the branch", work).await?;
    match (made, context.json) {
        (None, true) => output::json(&json!({ "file": null, "changes": null }))?,
        (None, false) => output::line(format_args!("nothing differs in {}; no file was written", make.name)),
        (Some(made), true) => output::json(&json!({
            "file": made.file,
            "digest": hex(&made.pack.root_digest),
            "size_bytes": made.pack.bytes,
            "changes": made.head,
        }))?,
        (Some(made), false) => output::line(described(&made)),
    }
    Ok(ExitCode::SUCCESS)
}

/// The file of a branch that is not told another.
pub(crate) fn default_file(branch: &str) -> PathBuf {
    PathBuf::from(format!("{branch}.dpack"))
}

/// What was written, in words.
pub(crate) fn described(made: &Made) -> String {
    format!(
        "{}: {}; {}; digest {}",
        made.file.display(),
        counts(&made.head),
        output::bytes(made.pack.bytes),
        hex(&made.pack.root_digest)
    )
}

/// Compares a branch with what it was made of, and writes what differs. `None` if nothing does.
pub(crate) async fn write(client: &Client, name: &str, file: &Path) -> Result<Option<Made>, Failure> {
    let mut connection = client.connect().await?;
    connection.set_deadline(LINE_LIMIT);
    let schema = connection.schema_diff(name, None).await?;
    let origin = origin(&mut connection, name, &schema).await?;
    let warnings =
        schema.warnings.iter().map(|it| format!("{}: {} {}: {}", it.risk, it.kind, it.name, it.message));
    let statements: Vec<Ddl> = ddl(&schema);
    let mut writer = ChangeSetWriter::create(file, origin, warnings.collect(), &statements)?;
    let mut told = Ok(());
    connection
        .whole_data_diff(name, DIFF_ROWS_MAX, |line| {
            if told.is_ok() {
                told = part(&line).and_then(|part| Ok(writer.part(&part)?));
            }
        })
        .await?;
    told?;
    // Definitions and rows were looked at one after the other.
    if ddl(&connection.schema_diff(name, None).await?) != statements {
        let message = format!(
            "{name} was being changed while it was compared; let that end, and make the change set again"
        );
        return Err(Failure::Other(message));
    }
    if writer.is_empty() {
        return Ok(None);
    }
    let (head, pack) = writer.finish()?;
    Ok(Some(Made { file: file.to_owned(), head, pack }))
}

fn ddl(schema: &SchemaDiff) -> Vec<Ddl> {
    schema.ddl.iter().map(|it| Ddl { sql: it.sql.clone(), in_transaction: it.in_transaction }).collect()
}

async fn origin(connection: &mut Connection, name: &str, schema: &SchemaDiff) -> Result<Origin, Failure> {
    let branch = connection.branch(name).await?;
    // Of an earlier generation only the number is known here.
    let source = connection.source(&branch.source).await.ok().filter(|it| it.generation == branch.generation);
    Ok(Origin {
        branch: branch.name,
        branch_id: branch.id,
        source: branch.source,
        generation: branch.generation,
        snapshot_digest: source.map(|source| source.digest).filter(|digest| !digest.is_empty()),
        compared_with: schema.from.clone(),
        data: branch.data,
    })
}
