//! The audit log: shown, and checked.

use super::LONG;
use crate::{
    context::{Context, Outcome},
    failure::FAILED,
    output, progress,
};
use serde_json::Value;
use std::process::ExitCode;

pub(super) const EXAMPLES: &str = "\
Examples:
  duramen branch audit             the newest entries, the last one at the bottom
  duramen branch audit --limit 1000 --json | jq -r '.[] | select(.event == \"leased\").entry.name'
  duramen branch audit --verify    check the hash chain of the audit log; exit status 1 if it is broken";

#[derive(Debug, clap::Args)]
pub(crate) struct Audit {
    /// Check that every entry follows from the one before it
    #[arg(long, conflicts_with_all = ["limit", "before"])]
    verify: bool,
    /// At most so many entries
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Entries before this position, as `--json` says it
    #[arg(long, value_name = "POSITION")]
    before: Option<String>,
}

pub(super) async fn run(context: &Context, audit: Audit) -> Outcome {
    if audit.verify {
        return verify(context).await;
    }
    let found = context.connect().await?.audit_log(audit.limit, audit.before.as_deref()).await?;
    if context.json {
        output::json(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    if found.is_empty() {
        output::line("there are no entries before that");
        return Ok(ExitCode::SUCCESS);
    }
    let rows = found.iter().rev().map(|it| {
        let at = it.entry["at"].as_str().unwrap_or_default().to_owned();
        [at, it.event.clone(), rest(&it.entry)]
    });
    output::print(output::table(["AT", "EVENT", "WHAT"], rows));
    Ok(ExitCode::SUCCESS)
}

/// What an entry says beside its name and its time.
fn rest(entry: &Value) -> String {
    let Some(fields) = entry.as_object() else { return String::new() };
    let rest = fields.iter().filter(|(name, _)| !matches!(name.as_str(), "event" | "at"));
    let words = rest.map(|(name, value)| match value {
        Value::String(text) => format!("{name}={}", output::printable(text)),
        other => format!("{name}={other}"),
    });
    words.collect::<Vec<_>>().join(" ")
}

async fn verify(context: &Context) -> Outcome {
    let mut connection = context.connect().await?;
    connection.set_deadline(LONG);
    let found = progress::during("checking the audit log", connection.verify_audit()).await?;
    if context.json {
        output::json(&found)?;
    } else if found.intact {
        output::line(format_args!("intact: {} entries, head {}", found.entries, found.head));
    } else {
        let problem = found.problem.as_deref().unwrap_or("the chain breaks");
        output::line(format_args!(
            "BROKEN after {} good entries (head {}): {problem}",
            found.entries, found.head
        ));
    }
    Ok(if found.intact { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}
