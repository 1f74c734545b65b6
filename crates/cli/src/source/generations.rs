//! The generations of a source: `duramen source generations|label|timeline|diff`.

use crate::{
    branch::{
        diff::{no_format, FormatName, RowLines, LINE_LIMIT},
        schema_diff,
    },
    context::{Context, Outcome},
    output, progress,
};
use clap::Args;
use duramen_api::{
    data_diff::{DataDiff, DIFF_ROWS, DIFF_ROWS_MAX},
    model::{GenerationView, LabelGeneration, Moment, MomentKind},
};
use duramen_changes::output::Printer;
use std::process::ExitCode;

pub(super) const LIST_EXAMPLES: &str = "\
Examples:
  duramen source generations app             which there are, and what keeps them
  duramen source settings app --keep '7 daily, 4 weekly'";
pub(super) const LABEL_EXAMPLES: &str = "\
Examples:
  duramen source label app 3 before-move     generation 3 is kept, whatever the source's rule says
  duramen source label app 3 before-move --remove
  duramen branch create old --source app --generation before-move";
pub(super) const TIMELINE_EXAMPLES: &str = "\
Examples:
  duramen source timeline app                what branches of it can be made of, and how";
pub(super) const DIFF_EXAMPLES: &str = "\
Examples:
  duramen source diff app 3 4                what generation 4 defines otherwise than 3
  duramen source diff app before-move 4 --format ddl > move.sql
  duramen source diff app 3 4 --data         which rows generation 4 has otherwise
  duramen source diff app 3 4 --data --table public.orders --format jsonl";

#[derive(Debug, Args)]
pub(crate) struct Label {
    /// The source's name
    name: String,
    /// The generation's number, or a label that it has
    generation: String,
    /// The label: a name with a letter in it
    label: String,
    /// Take it away instead
    #[arg(long)]
    remove: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// The source's name
    name: String,
    /// A generation, by its number or a label
    from: String,
    /// Another one, to which the changes lead
    to: String,
    /// Compare rows, and where sequences stand, instead of what they define
    #[arg(long)]
    data: bool,
    /// Only this table or sequence; may be given more than once
    #[arg(long, value_name = "SCHEMA.TABLE", requires = "data")]
    table: Vec<String>,
    /// How it is written [default: text, or table for rows; json, or jsonl for rows, with --json]
    #[arg(long, value_enum)]
    format: Option<FormatName>,
    /// At most so many rows; all are counted [default: 1000 for table, else 1000000]
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(0..=i64::from(DIFF_ROWS_MAX)), requires = "data")]
    limit: Option<u32>,
}

pub(super) async fn list(context: &Context, name: &str) -> Outcome {
    let found = context.connect().await?.generations(name).await?;
    show(context, &found)
}

pub(super) async fn label(context: &Context, wanted: Label) -> Outcome {
    let Label { name, generation, label, remove } = wanted;
    let mut connection = context.connect().await?;
    let request = LabelGeneration { generation, label, remove };
    let work = connection.label_generation(&name, &request);
    let found = progress::during("waiting for the source", work).await?;
    show(context, &found)
}

fn show(context: &Context, found: &[GenerationView]) -> Outcome {
    if context.json {
        output::json(found)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = found.iter().map(|view| {
        let past = view.moment.as_ref().map(|past| match (&past.at, &past.lsn) {
            (Some(at), _) => format!("moment {at}"),
            (None, lsn) => format!("position {}", lsn.as_deref().unwrap_or(&past.replayed_to)),
        });
        let promoted = view.promoted.as_ref().map(|of| format!("branch {}", of.name));
        let of = past.or(promoted).unwrap_or_else(|| "origin".to_owned());
        [
            view.generation.to_string(),
            output::time(view.imported_at),
            of,
            output::bytes(view.bytes),
            if view.labels.is_empty() { "-".to_owned() } else { view.labels.join(", ") },
            view.branches.to_string(),
            needed_by(view),
        ]
    });
    output::print(output::table(["GENERATION", "MADE", "OF", "SIZE", "LABELS", "BRANCHES", "KEPT BY"], rows));
    Ok(ExitCode::SUCCESS)
}

fn needed_by(view: &GenerationView) -> String {
    let mut by: Vec<&str> = Vec::new();
    by.extend(view.current.then_some("current"));
    by.extend((!view.labels.is_empty()).then_some("label"));
    by.extend((view.branches > 0).then_some("branches"));
    by.extend(view.kept_by.iter().map(String::as_str));
    if by.is_empty() {
        // It goes with the next look.
        "nothing".to_owned()
    } else {
        by.join(", ")
    }
}

pub(super) async fn timeline(context: &Context, name: &str) -> Outcome {
    let found = context.connect().await?.timeline(name).await?;
    if context.json {
        output::json(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = found.iter().map(|moment| [moment.at.to_string(), what(moment), how(name, moment)]);
    output::print(output::table(["AT", "WHAT", "BRANCH IT WITH"], rows));
    Ok(ExitCode::SUCCESS)
}

fn what(moment: &Moment) -> String {
    match (moment.kind, &moment.branch) {
        (MomentKind::Snapshot, Some(branch)) => {
            format!("branch {branch}, of generation {}", moment.generation)
        }
        (MomentKind::Stretch, _) => {
            let until = moment.until.map(|until| format!("history up to {until}")).unwrap_or_default();
            let ended = moment.ended.as_ref().map(|why| format!("; then {why}")).unwrap_or_default();
            format!("{until}{ended}")
        }
        (MomentKind::Moment, _) => format!("moment, as generation {}", moment.generation),
        _ if moment.labels.is_empty() => format!("generation {}", moment.generation),
        _ => format!("generation {} ({})", moment.generation, moment.labels.join(", ")),
    }
}

fn how(source: &str, moment: &Moment) -> String {
    match (&moment.branch, &moment.snapshot) {
        (Some(branch), Some(snapshot)) => format!("branch create --from {branch}@{snapshot}"),
        _ if moment.kind == MomentKind::Stretch => {
            let positions = moment.lsn.as_deref().zip(moment.until_lsn.as_deref());
            let positions =
                positions.map(|(from, until)| format!(" (or --lsn {from} to {until})")).unwrap_or_default();
            format!("branch create --source {source} --at TIME{positions}")
        }
        _ => format!("branch create --source {source} --generation {}", moment.generation),
    }
}

pub(super) async fn diff(context: &Context, wanted: Diff) -> Outcome {
    if wanted.data {
        return rows(context, wanted).await;
    }
    let otherwise = if context.json { FormatName::Json } else { FormatName::Text };
    let format = wanted.format.unwrap_or(otherwise).of_schemas();
    let format = format.ok_or_else(|| no_format("a comparison without --data", "text, json and ddl"))?;
    let mut connection = context.connect().await?;
    connection.set_deadline(schema_diff::DEADLINE);
    let work = connection.generation_diff(&wanted.name, &wanted.from, &wanted.to);
    let found = progress::during("comparing the schemas", work).await?;
    schema_diff::show(&found, format)
}

async fn rows(context: &Context, wanted: Diff) -> Outcome {
    let Diff { name, from, to, table, format, limit, .. } = wanted;
    let otherwise = if context.json { FormatName::Jsonl } else { FormatName::Table };
    let format = format.unwrap_or(otherwise);
    let written = format.of_rows().ok_or_else(|| no_format("--data", "table, jsonl, csv and sql"))?;
    let limit = limit.unwrap_or(if format == FormatName::Table { DIFF_ROWS } else { DIFF_ROWS_MAX });
    let tables = (!table.is_empty()).then(|| table.join(","));
    let titles = [&from, &to].map(|which| format!("generation {which}"));
    let mut lines = RowLines::new(Printer::between(written, &titles[0], &titles[1]));
    let mut connection = context.connect().await?;
    connection.set_deadline(LINE_LIMIT);
    let told = |line: DataDiff| lines.line(&line);
    connection.generation_data_diff(&name, [&from, &to], tables.as_deref(), limit, told).await?;
    lines.outcome(format)
}
