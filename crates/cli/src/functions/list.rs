//! `duramen fn list`: instances, page by page.

use super::{
    handle::{note, Handle, Session},
    text,
};
use crate::{
    context::Outcome,
    failure::{Failure, FAILED},
    output,
};
use clap::{Args, ValueEnum};
use duramen_functions::cluster::{Cluster, Found, Group, Wanted};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{json, value::RawValue, Value};
use std::process::ExitCode;
use tokio_postgres::{
    types::{ToSql, Type},
    Row,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen fn list                                 the newest 20
  duramen fn list --status failed --limit 100
  duramen fn list --label nightly --all --json | jq '.instances[].id'
  duramen fn list --queue mail --since 2026-11-24T00:00:00Z --input '{\"customer\": 7}'
  duramen fn list --cluster --status failed       of all shards; exit status 1 if one of them does not answer
  duramen fn list --like 'night%' --count         how many, by status, queue and role";

/// The most rows that the server gives at once, unless its owner says otherwise.
const PAGE_MAX: u32 = 1000;
/// A list by status and label alone, which has indexes of its own; and one by everything.
const PAGE: &str = "SELECT *, NULL::text AS queue, NULL::text AS role FROM df.list_instances($1, $2, $3, $4)";
const FIND: &str = "\
    SELECT *, CASE WHEN status = 'completed' THEN ended_at END AS completed_at \
    FROM df.find_instances($1, $2, $3, $4, $5, $6::text::timestamptz, $7::text::timestamptz, $8::text::jsonb, $9, $10)";
const COUNT: &str = "\
    SELECT status, queue, role, count \
    FROM df.count_instances($1, $2, $3, $4, $5, $6::text::timestamptz, $7::text::timestamptz, $8::text::jsonb)";
const LIMIT: &str = "SELECT nullif(current_setting('df.list_instances_max_limit', true), '')";

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only those with this status
    #[arg(long, value_enum)]
    status: Option<Status>,
    /// Only those with this label
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// Only those whose label fits this pattern, in which % stands for anything
    #[arg(long, value_name = "PATTERN", conflicts_with = "label")]
    like: Option<String>,
    /// Only those that came through this queue, or wait in it
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Only those of this role; others' are seen by the schema's owner
    #[arg(long, value_name = "NAME")]
    role: Option<String>,
    /// Only those that were started at this time or later
    #[arg(long, value_name = "TIME")]
    since: Option<Timestamp>,
    /// Only those that were started at this time or earlier
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
    /// Only those whose input contains this JSON
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// Count them, by status, queue and role
    #[arg(long, conflicts_with_all = ["limit", "all", "after"])]
    count: bool,
    /// At most this many
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// All of them
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Those of all shards of the cluster that the database belongs to, merged by the time of their start
    #[arg(long)]
    cluster: bool,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<u16>,
    id: String,
    label: Option<String>,
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<String>,
    executions: i64,
    created_at: Timestamp,
    completed_at: Option<Timestamp>,
    result: Option<Box<RawValue>>,
    error: Option<String>,
}

impl Instance {
    fn read(row: &Row) -> Instance {
        let status: String = row.get("status");
        let (result, error) = told(&status, row.get("output"));
        Instance {
            shard: None,
            id: row.get("instance_id"),
            label: row.get("label"),
            status,
            queue: row.get("queue"),
            role: row.get("role"),
            executions: row.get("execution_count"),
            created_at: row.get("created_at"),
            completed_at: row.get("completed_at"),
            result,
            error,
        }
    }

    fn found(found: Found) -> Instance {
        let (result, error) = told(&found.status, found.output);
        Instance {
            shard: Some(found.shard),
            id: found.id,
            label: found.label,
            completed_at: found.ended_at.filter(|_| found.status == "completed"),
            status: found.status,
            queue: found.queue,
            role: found.role,
            executions: found.executions,
            created_at: found.created_at,
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

/// What an instance has come to: a result, or why there is none.
fn told(status: &str, output: Option<String>) -> (Option<Box<RawValue>>, Option<String>) {
    match status {
        "completed" => (output.and_then(text::raw), None),
        _ => (None, output),
    }
}

/// What a search is for, as `df.find_instances` and `df.count_instances` take it.
struct Filter {
    status: Option<&'static str>,
    since: Option<String>,
    until: Option<String>,
}

impl List {
    /// Whether it is by status and label alone.
    fn is_plain(&self) -> bool {
        self.like.is_none()
            && self.queue.is_none()
            && self.role.is_none()
            && self.since.is_none()
            && self.until.is_none()
            && self.input.is_none()
    }

    fn wanted(&self) -> Wanted {
        Wanted {
            status: self.status.map(|status| status.name().to_owned()),
            label: self.label.clone(),
            label_like: self.like.clone(),
            queue: self.queue.clone(),
            role: self.role.clone(),
            since: self.since,
            until: self.until,
            input: self.input.clone(),
        }
    }

    fn filter(&self) -> Filter {
        let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
        Filter { status: self.status.map(Status::name), since: time(self.since), until: time(self.until) }
    }

    fn parameters<'a>(&'a self, filter: &'a Filter) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
        vec![
            (&filter.status, Type::TEXT),
            (&self.label, Type::TEXT),
            (&self.like, Type::TEXT),
            (&self.queue, Type::TEXT),
            (&self.role, Type::TEXT),
            (&filter.since, Type::TEXT),
            (&filter.until, Type::TEXT),
            (&self.input, Type::TEXT),
        ]
    }
}

async fn count(handle: &Handle, session: &Session<'_>, list: &List) -> Outcome {
    let filter = list.filter();
    let rows = session.rows(COUNT, &list.parameters(&filter)).await?;
    let group =
        |row: &Row| Group { status: row.get(0), queue: row.get(1), role: row.get(2), count: row.get(3) };
    let groups: Vec<Group> = rows.iter().map(group).collect();
    say_counts(handle, json!({}), &groups)?;
    Ok(ExitCode::SUCCESS)
}

/// Says how many there are; `value` has what else is to be said to programs.
fn say_counts(handle: &Handle, mut value: Value, groups: &[Group]) -> Result<(), Failure> {
    let total: i64 = groups.iter().map(|group| group.count).sum();
    if handle.json {
        (value["total"], value["groups"]) = (json!(total), json!(groups));
        return output::json(&value);
    }
    let rows = groups.iter().map(|group| {
        [
            group.status.clone(),
            text::cell(group.queue.as_deref(), 30),
            group.role.clone(),
            group.count.to_string(),
        ]
    });
    output::print(output::table(["STATUS", "QUEUE", "ROLE", "COUNT"], rows));
    output::line(format!("{total} in all"));
    Ok(())
}

/// Lists, or counts, the instances of all shards.
async fn of_cluster(handle: &Handle, list: &List) -> Outcome {
    let mut lister = Cluster::read(&handle.url).await?.lister(list.wanted());
    let missing_to_json = |missing: &[(u16, String)]| -> Value {
        missing.iter().map(|(shard, error)| json!({ "shard": shard, "error": error })).collect()
    };
    if list.count {
        let (groups, missing) = lister.count().await?;
        say_counts(handle, json!({ "missing": missing_to_json(&missing) }), &groups)?;
        return Ok(without(&missing));
    }
    let limit = if list.all { u64::MAX } else { list.limit };
    let mut instances: Vec<Instance> = Vec::new();
    let mut next = list.after.clone();
    let missing = loop {
        let left = limit - instances.len() as u64;
        let many = u32::try_from(left).unwrap_or(u32::MAX);
        let page = lister.page(many, next.as_deref()).await?;
        instances.extend(page.instances.into_iter().map(Instance::found));
        next = page.next;
        if next.is_none() || instances.len() as u64 >= limit {
            break page.missing;
        }
    };
    if handle.json {
        let missing = missing_to_json(&missing);
        output::json(&json!({ "instances": instances, "next": next, "missing": missing }))?;
    } else {
        let rows = instances.iter().map(|instance| {
            let [id, status, started, took, label, told] = instance.row();
            let shard = instance.shard.map_or_else(String::new, |shard| shard.to_string());
            [shard, id, status, started, took, label, told]
        });
        output::print(output::table(["SHARD", "ID", "STATUS", "STARTED", "TOOK", "LABEL", "OUTPUT"], rows));
        if let Some(next) = next {
            note(format_args!("there are more; see --limit and --all, or continue with --after {next}"));
        }
    }
    Ok(without(&missing))
}

/// Says which shards are not in an answer. It is not a whole one then.
fn without(missing: &[(u16, String)]) -> ExitCode {
    for (shard, error) in missing {
        note(format_args!("without shard {shard}: {error}"));
    }
    if missing.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    }
}

pub(crate) async fn run(handle: &Handle, list: List) -> Outcome {
    if list.cluster {
        return of_cluster(handle, &list).await;
    }
    let session = handle.connect().await?;
    if list.count {
        return count(handle, &session, &list).await;
    }
    let filter = list.filter();
    let limit = if list.all { u64::MAX } else { list.limit };
    let page_max = page_max(&session).await?;
    let mut instances: Vec<Instance> = Vec::new();
    let mut next = list.after.clone();
    loop {
        let left = limit - instances.len() as u64;
        let many = i32::try_from(left.min(page_max.into())).unwrap_or(i32::MAX);
        let rows = if list.is_plain() {
            let parameters: [(&(dyn ToSql + Sync), Type); 4] = [
                (&filter.status, Type::TEXT),
                (&many, Type::INT4),
                (&list.label, Type::TEXT),
                (&next, Type::TEXT),
            ];
            session.rows(PAGE, &parameters).await?
        } else {
            let mut parameters = list.parameters(&filter);
            parameters.push((&many, Type::INT4));
            parameters.push((&next, Type::TEXT));
            session.rows(FIND, &parameters).await?
        };
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
