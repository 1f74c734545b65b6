//! `duramen fn show`: one instance, its steps, its executions.

use super::{
    handle::{unknown, Handle, Session},
    text,
};
use crate::{context::Outcome, failure::Failure, output};
use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use std::{process::ExitCode, time::Duration};
use tokio_postgres::types::Type;

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen fn show 1a2b3c4d
  duramen fn show 1a2b3c4d --json | jq '.nodes[] | select(.status == \"failed\")'
  duramen fn show 1a2b3c4d --executions 100
  duramen fn show 1a2b3c4d --timeline             what happened to it, in order";

const INSTANCE: &str = "\
    SELECT i.label, i.status, i.submitted_by::text, i.database, i.created_at, i.updated_at, i.completed_at, \
        f.current_execution_id, f.output, \
        coalesce((SELECT w.paused FROM df._work w WHERE w.seq = df._seq(i.id)), false) AS paused \
    FROM df.instances i CROSS JOIN LATERAL df.instance_info(i.id) f WHERE i.id = $1";
const NODES: &str = "\
    SELECT node_id, node_type, query, result_name, left_node, right_node, status, result, inferred_status, \
        inferred_status_from_ancestor_id, status_details, updated_at \
    FROM df.instance_nodes($1)";
const TIMELINE: &str = "SELECT at, after_ms, event, node_id, generation, detail FROM df.timeline($1)";
const EXECUTIONS: &str = "\
    SELECT execution_id, status, event_count, duration_ms, output FROM df.instance_executions($1, $2)";

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The instance's id
    pub(super) id: String,
    /// Show at most this many executions, the newest
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(i32).range(1..))]
    executions: i32,
    /// Show what happened to it, in order, in the place of its steps
    #[arg(long)]
    timeline: bool,
}

/// One thing that happened.
#[derive(Debug, Serialize)]
struct Moment {
    at: Timestamp,
    after_ms: f64,
    event: String,
    node: Option<String>,
    generation: Option<String>,
    detail: Option<String>,
}

#[derive(Debug, Serialize)]
struct Instance {
    id: String,
    label: Option<String>,
    status: String,
    paused: bool,
    submitted_by: String,
    database: String,
    created_at: Timestamp,
    updated_at: Timestamp,
    completed_at: Option<Timestamp>,
    execution: i64,
    result: Option<Box<RawValue>>,
    error: Option<String>,
    nodes: Vec<Node>,
    executions: Vec<Execution>,
}

#[derive(Debug, Serialize)]
struct Node {
    id: String,
    r#type: String,
    query: Option<String>,
    name: Option<String>,
    left: Option<String>,
    right: Option<String>,
    status: String,
    /// What the status is taken for in view of the nodes above it.
    inferred_status: Option<String>,
    inferred_from: Option<String>,
    result: Option<Box<RawValue>>,
    details: Option<Box<RawValue>>,
    updated_at: Option<Timestamp>,
}

#[derive(Debug, Serialize)]
struct Execution {
    execution: i64,
    status: String,
    event_count: i64,
    duration_ms: Option<i64>,
    output: Option<Box<RawValue>>,
}

pub(crate) async fn run(handle: &Handle, show: &Show) -> Outcome {
    let session = handle.connect().await?;
    if show.timeline {
        return timeline(handle, &session, &show.id).await;
    }
    let instance = read(&session, show).await?;
    if handle.json {
        output::json(&instance)?;
    } else {
        print(&instance);
    }
    Ok(ExitCode::SUCCESS)
}

async fn timeline(handle: &Handle, session: &Session<'_>, id: &str) -> Outcome {
    let rows = session.rows(TIMELINE, &[(&id, Type::TEXT)]).await?;
    let moments: Vec<Moment> = rows
        .iter()
        .map(|row| Moment {
            at: row.get(0),
            after_ms: row.get(1),
            event: row.get(2),
            node: row.get(3),
            generation: row.get(4),
            detail: row.get(5),
        })
        .collect();
    if moments.is_empty() {
        return Err(unknown(id));
    }
    if handle.json {
        output::json(&moments)?;
    } else {
        let rows = moments.into_iter().map(|moment| {
            [
                output::time(moment.at),
                format!("+{}", text::span(Duration::from_secs_f64(moment.after_ms.max(0.0) / 1000.0))),
                moment.event,
                moment.node.unwrap_or_default(),
                moment.generation.unwrap_or_default(),
                text::cell(moment.detail.as_deref(), 80),
            ]
        });
        output::print(output::table(["AT", "AFTER", "EVENT", "NODE", "ROUND", "DETAIL"], rows));
    }
    Ok(ExitCode::SUCCESS)
}

async fn read(session: &Session<'_>, show: &Show) -> Result<Instance, Failure> {
    let id = &show.id;
    let row = session.maybe(INSTANCE, &[(id, Type::TEXT)]).await?.ok_or_else(|| unknown(id))?;
    let nodes = session.rows(NODES, &[(id, Type::TEXT)]).await?;
    let executions = session.rows(EXECUTIONS, &[(id, Type::TEXT), (&show.executions, Type::INT4)]).await?;
    let json = |text: Option<String>| text.and_then(text::raw);
    let status: String = row.get("status");
    let output: Option<String> = row.get("output");
    let (result, error) = if status == "completed" { (json(output), None) } else { (None, output) };
    Ok(Instance {
        id: id.clone(),
        label: row.get("label"),
        status,
        paused: row.get("paused"),
        submitted_by: row.get("submitted_by"),
        database: row.get("database"),
        created_at: row.get("created_at"),
        updated_at: row.get("updated_at"),
        completed_at: row.get("completed_at"),
        execution: row.get("current_execution_id"),
        result,
        error,
        nodes: nodes
            .iter()
            .map(|row| Node {
                id: row.get(0),
                r#type: row.get(1),
                query: row.get(2),
                name: row.get(3),
                left: row.get(4),
                right: row.get(5),
                status: row.get(6),
                result: json(row.get(7)),
                inferred_status: row.get(8),
                inferred_from: row.get(9),
                details: json(row.get(10)),
                updated_at: row.get(11),
            })
            .collect(),
        executions: executions
            .iter()
            .map(|row| Execution {
                execution: row.get(0),
                status: row.get(1),
                event_count: row.get(2),
                duration_ms: row.get(3),
                output: json(row.get(4)),
            })
            .collect(),
    })
}

fn print(instance: &Instance) {
    let status = if instance.paused { "running (paused)" } else { &instance.status };
    let mut facts = vec![
        ("instance", instance.id.clone()),
        ("label", text::cell(instance.label.as_deref(), 100)),
        ("status", status.to_owned()),
        ("role", instance.submitted_by.clone()),
        ("database", instance.database.clone()),
        ("started", output::time(instance.created_at)),
        ("changed", output::time(instance.updated_at)),
    ];
    if let Some(end) = instance.completed_at {
        facts.push(("took", text::span(text::between(instance.created_at, end))));
    }
    if let Some(result) = &instance.result {
        facts.push(("result", text::short(result.get(), 200)));
    }
    if let Some(error) = &instance.error {
        facts.push(("reason", text::short(error, 1000)));
    }
    output::print(output::pairs(facts));
    let rows = instance.nodes.iter().map(|node| {
        [
            node.id.clone(),
            node.r#type.clone(),
            node.inferred_status.as_ref().unwrap_or(&node.status).clone(),
            text::cell(node.name.as_deref(), 20),
            text::cell(node.query.as_deref(), 50),
            text::cell(node.result.as_ref().map(|result| result.get()), 50),
        ]
    });
    let head = ["NODE", "TYPE", "STATUS", "NAME", "QUERY", "RESULT"];
    output::print(format_args!("\n{}", output::table(head, rows)));
    let rows = instance.executions.iter().map(|execution| {
        let duration_ms = execution.duration_ms.and_then(|ms| u64::try_from(ms).ok());
        let took = duration_ms.map(|ms| text::span(Duration::from_millis(ms)));
        [
            execution.execution.to_string(),
            execution.status.clone(),
            execution.event_count.to_string(),
            took.unwrap_or_else(|| "-".to_owned()),
            text::cell(execution.output.as_ref().map(|output| output.get()), 60),
        ]
    });
    let head = ["EXECUTION", "STATUS", "EVENTS", "TOOK", "OUTPUT"];
    output::print(format_args!("\n{}", output::table(head, rows)));
}
