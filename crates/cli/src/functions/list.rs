//! `duramen fn list`: instances, page by page.

use super::{
    handle::{note, Handle, Session},
    text,
};
use crate::{context::Outcome, failure::Failure, output};
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{json, value::RawValue};
use std::process::ExitCode;
use tokio_postgres::{types::Type, Row};

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen fn list                                 the newest 20
  duramen fn list --status failed --limit 100
  duramen fn list --label nightly --all --json | jq '.instances[].id'";

/// The most rows that the server gives at once, unless its owner says otherwise.
const PAGE_MAX: u32 = 1000;
const PAGE: &str = "SELECT * FROM df.list_instances($1, $2, $3, $4)";
const LIMIT: &str = "SELECT nullif(current_setting('df.list_instances_max_limit', true), '')";

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only those with this status
    #[arg(long, value_enum)]
    status: Option<Status>,
    /// Only those with this label
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// At most this many
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// All of them
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Continue an earlier list: its `next`
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Status {
    /// No worker has begun it
    Pending,
    /// It has begun
    Running,
    /// It has a result
    Completed,
    /// A step failed
    Failed,
    /// It was ended from outside
    Cancelled,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::Running => "running",
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }
}

#[derive(Debug, Serialize)]
struct Instance {
    id: String,
    label: Option<String>,
    status: String,
    executions: i64,
    created_at: Timestamp,
    completed_at: Option<Timestamp>,
    result: Option<Box<RawValue>>,
    error: Option<String>,
}

impl Instance {
    fn read(row: &Row) -> Instance {
        let status: String = row.get("status");
        let output: Option<String> = row.get("output");
        let (result, error) = match status.as_str() {
            "completed" => (output.and_then(text::raw), None),
            _ => (None, output),
        };
        Instance {
            id: row.get("instance_id"),
            label: row.get("label"),
            status,
            executions: row.get("execution_count"),
            created_at: row.get("created_at"),
            completed_at: row.get("completed_at"),
            result,
            error,
        }
    }

    fn row(&self) -> [String; 6] {
        let took = self.completed_at.map(|end| text::span(text::between(self.created_at, end)));
        let output = self.result.as_ref().map(|result| result.get()).or(self.error.as_deref());
        [
            self.id.clone(),
            self.status.clone(),
            output::time(self.created_at),
            took.unwrap_or_else(|| "-".to_owned()),
            text::cell(self.label.as_deref(), 30),
            text::cell(output, 60),
        ]
    }
}

pub(crate) async fn run(handle: &Handle, list: List) -> Outcome {
    let session = handle.connect().await?;
    let limit = if list.all { u64::MAX } else { list.limit };
    let page_max = page_max(&session).await?;
    let mut instances: Vec<Instance> = Vec::new();
    let mut next = list.after.clone();
    loop {
        let left = limit - instances.len() as u64;
        let many = i32::try_from(left.min(page_max.into())).unwrap_or(i32::MAX);
        let rows = session
            .rows(
                PAGE,
                &[
                    (&list.status.map(Status::name), Type::TEXT),
                    (&many, Type::INT4),
                    (&list.label, Type::TEXT),
                    (&next, Type::TEXT),
                ],
            )
            .await?;
        instances.extend(rows.iter().map(Instance::read));
        next = rows.last().and_then(|row| row.get("next_cursor"));
        if next.is_none() || instances.len() as u64 >= limit {
            break;
        }
    }
    if handle.json {
        output::json(&json!({ "instances": instances, "next": next }))?;
    } else if instances.is_empty() {
        output::line("no such instances; start one with `duramen fn start`");
    } else {
        let head = ["ID", "STATUS", "STARTED", "TOOK", "LABEL", "OUTPUT"];
        output::print(output::table(head, instances.iter().map(Instance::row)));
    }
    if let (Some(next), false) = (next, handle.json) {
        note(format_args!("there are more; see --limit and --all, or continue with --after {next}"));
    }
    Ok(ExitCode::SUCCESS)
}

async fn page_max(session: &Session<'_>) -> Result<u32, Failure> {
    let setting: Option<String> = session.row(LIMIT, &[]).await?.get(0);
    Ok(setting.and_then(|setting| setting.parse().ok()).unwrap_or(PAGE_MAX).clamp(1, PAGE_MAX))
}
