//! One instance: how it stands, what it was started with, its graph and its steps.

use super::{
    steps::{self, Below, Cell},
    Edge, Step, Value, VALUE_MAX,
};
use jiff::Timestamp;
use tokio_postgres::{types::Type, Client, Error, Row};

/// Nodes and activations that are told at most. No graph that a worker runs has more nodes.
const NODES_MAX: i64 = 10_000;
const CELLS_MAX: i64 = 20_000;
/// Bytes of queries and results that are told in all. Behind that, of each its beginning.
const VALUES_MAX: i64 = 4 << 20;
/// Executions, events, signals, long steps and children that are told at most.
const PARTS_MAX: i64 = 200;
/// Instances that are looked through for children: those of the same role that were started while this one went on.
const LOOKED_THROUGH: i64 = 20_000;

const INSTANCE: &str = "\
    SELECT k.id, left(k.label, 1000) AS label, f.status, pg_get_userbyid(k.submitted_by)::text AS role, \
        coalesce(k.database, current_database()::text) AS database, \
        (SELECT left(q.name, 200) FROM df._queue q WHERE q.id = coalesce(i.queue, r.queue, n.queue)) AS queue, k.created_at, \
        coalesce(d.started_at, CASE WHEN w.admitted IS NULL THEN w.started_at END) AS begun_at, d.completed_at AS ended_at, \
        coalesce(d.completed_at, w.updated_at, k.created_at) AS changed_at, f.current_execution_id AS execution, \
        coalesce(w.paused, false) AS paused, w.due_at, n.due_at AS delayed_until, \
        left(f.output, $2) AS output, octet_length(f.output) AS output_bytes, \
        left(x.input, $2) AS input, octet_length(x.input) AS input_bytes, \
        left(x.vars, $2) AS vars, octet_length(x.vars) AS vars_bytes, \
        df._id(coalesce(i.parent, r.parent, n.parent)) AS parent, \
        left(coalesce(i.parent_cell, r.parent_cell, n.parent_cell), 200) AS parent_cell, \
        clock_timestamp() AS at \
    FROM df._known(df._seq($1)) k \
    LEFT JOIN df._instance i ON i.seq = k.seq \
    LEFT JOIN df._ready r ON r.submitted_by = k.submitted_by AND r.seq = k.seq \
    LEFT JOIN df._queued n ON n.submitted_by = k.submitted_by AND n.seq = k.seq \
    LEFT JOIN df._done d ON d.seq = k.seq \
    LEFT JOIN df._work w ON w.seq = k.seq \
    CROSS JOIN LATERAL (SELECT coalesce(i.input, r.input, n.input)::text AS input, coalesce(i.vars, r.vars, n.vars)::text AS vars) x \
    CROSS JOIN LATERAL df.instance_info(k.id) f";
const EXECUTIONS: &str = "\
    SELECT execution_id, left(status, 40) AS status, event_count, duration_ms, left(output, 1000) AS output, \
        octet_length(output) AS output_bytes \
    FROM df.instance_executions($1, $2::int8::int)";
/// Steps that run outside of turns, and tasks for programs of others.
const ACTIVITIES: &str = "\
    SELECT left(a.cell, 200) AS cell, a.kind, NULL::text AS name, a.attempt, NULL::int AS attempts_max, a.queued_at, a.taken_at, \
        NULL::timestamptz AS until, a.owner::text AS worker \
    FROM df._activity a WHERE a.seq = df._seq($1) \
    UNION ALL \
    SELECT left(t.cell, 200), 'task', left(t.name, 200), t.attempt, t.max_attempts, t.queued_at, NULL, t.leased_until, \
        left(t.leased_by, 200) \
    FROM df._task t WHERE t.seq = df._seq($1) LIMIT $2";
/// Signals that were sent and no wait has taken: those that a worker has read, and those that none has.
const SIGNALS: &str = "\
    SELECT left(x.name, 200) AS name, x.sent_at, left(x.data, 1000) AS data, octet_length(x.data) AS data_bytes FROM ( \
        SELECT s.value ->> 0 AS name, NULL::timestamptz AS sent_at, (s.value -> 1)::text AS data \
        FROM df._work w CROSS JOIN LATERAL json_array_elements(w.state -> 'signals') s WHERE w.seq = df._seq($1) \
        UNION ALL \
        SELECT m.name, m.sent_at, m.data::text FROM df._inbox m WHERE m.seq = df._seq($1) AND m.kind = 'signal') x LIMIT $2";
const EVENTS: &str = "\
    SELECT left(e.key, 200) AS key, e.set_at, left(e.value::text, 1000) AS value, octet_length(e.value::text) AS value_bytes \
    FROM df._event e WHERE e.seq = df._seq($1) ORDER BY e.set_at LIMIT $2";
const NODES: &str = "\
    WITH told AS MATERIALIZED ( \
        SELECT x.*, sum(least(coalesce(octet_length(x.query), 0), $2) + least(coalesce(octet_length(x.result), 0), $2)) \
            OVER (ORDER BY x.place) AS bytes \
        FROM ROWS FROM (df.instance_nodes($1)) WITH ORDINALITY AS x(node_id, node_type, query, result_name, left_node, \
            right_node, status, result, status_details, inferred_status, ancestor, updated_at, place) \
    ) \
    SELECT t.node_id, left(t.node_type, 40) AS node_type, left(t.result_name, 200) AS name, t.status, t.inferred_status, \
        t.ancestor, t.updated_at, \
        left(t.query, CASE WHEN t.bytes <= $3 THEN $2 ELSE 200 END) AS query, octet_length(t.query) AS query_bytes, \
        left(t.result, CASE WHEN t.bytes <= $3 THEN $2 ELSE 200 END) AS result, octet_length(t.result) AS result_bytes \
    FROM told t ORDER BY t.place LIMIT $4";
const BELOW: &str = "\
    SELECT left(g.node ->> 'left', 12) AS left_node, left(g.node ->> 'right', 12) AS right_node, \
        left(g.node ->> 'condition', 12) AS condition_node, left((g.node -> 'extra')::text, 200000) AS extra \
    FROM df._known(df._seq($1)) k CROSS JOIN LATERAL json_array_elements(k.graph) WITH ORDINALITY AS g(node, place) \
    ORDER BY g.place LIMIT $2";
/// Texts, which are read with care: whoever may write to the tables may have written something else.
const CELLS: &str = "\
    SELECT left(c.key, 200) AS key, left(c.value ->> 's', 20) AS status, left(c.value ->> 'at', 40) AS at, \
        left(c.value ->> 'x', 1000) AS path, left(c.value ->> 'due', 40) AS due, left(c.value ->> 'attempt', 12) AS attempt, \
        left(c.value ->> 'iteration', 12) AS iteration, left(c.value ->> 'began', 40) AS began, left(c.value ->> 'child', 20) AS child, \
        left(c.value ->> 'sqlstate', 10) AS sqlstate, left(c.value ->> 'origin', 200) AS origin, \
        left(c.value -> 'map' ->> 'next', 12) AS items_next, left(c.value -> 'map' ->> 'open', 12) AS items_open \
    FROM df._known(df._seq($1)) k LEFT JOIN df._done d ON d.seq = k.seq LEFT JOIN df._work w ON w.seq = k.seq \
    CROSS JOIN LATERAL json_each(CASE WHEN d.seq IS NULL THEN w.state ELSE d.state END -> 'cells') WITH ORDINALITY AS c(key, value, place) \
    ORDER BY c.place LIMIT $2";
/// Nothing leads from an instance to its children, but they are of its role, and were started while it went on.
const CHILDREN: &str = "\
    WITH k AS MATERIALIZED ( \
        SELECT k.seq, k.submitted_by, k.created_at, coalesce(d.completed_at, 'infinity') AS ended_at \
        FROM df._known(df._seq($1)) k LEFT JOIN df._done d ON d.seq = k.seq \
    ), young AS MATERIALIZED ( \
        SELECT i.seq, i.id, i.label, i.created_at, i.parent, i.parent_cell, k.seq AS of \
        FROM k CROSS JOIN LATERAL (SELECT n.* FROM df._instance n WHERE n.submitted_by = k.submitted_by \
            AND n.created_at >= k.created_at AND n.created_at <= k.ended_at ORDER BY n.created_at LIMIT $3) i \
    ), child AS ( \
        SELECT y.id, y.label, y.created_at, y.parent_cell FROM young y WHERE y.parent = y.of \
        UNION ALL \
        SELECT df._id(r.seq), r.label, r.created_at, r.parent_cell FROM k JOIN df._ready r \
            ON r.submitted_by = k.submitted_by AND r.seq > k.seq AND r.parent = k.seq \
        UNION ALL \
        SELECT df._id(q.seq), q.label, q.created_at, q.parent_cell FROM k JOIN df._queued q \
            ON q.submitted_by = k.submitted_by AND q.seq > k.seq AND q.parent = k.seq \
    ) \
    SELECT c.id, left(c.label, 1000) AS label, df.status(c.id) AS status, c.created_at, left(c.parent_cell, 200) AS cell \
    FROM (SELECT * FROM child ORDER BY created_at LIMIT $2) c";

/// One instance.
#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    /// Its id.
    pub id: String,
    /// Its label.
    pub label: Option<String>,
    /// `pending`, `running`, `completed`, `failed` or `cancelled`.
    pub status: String,
    /// It begins no further step until it is resumed.
    pub paused: bool,
    /// Who started it.
    pub role: String,
    /// Where its steps run.
    pub database: String,
    /// The queue that it came through, or waits in.
    pub queue: Option<String>,
    /// When it was started.
    pub created_at: Timestamp,
    /// When a worker began it.
    pub begun_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// When it last changed.
    pub changed_at: Timestamp,
    /// When its next timer fires.
    pub due_at: Option<Timestamp>,
    /// Until when its queue does not let it in.
    pub delayed_until: Option<Timestamp>,
    /// Which round of its root loop it is in, from 1.
    pub execution: i64,
    /// What it was started with.
    pub input: Option<Value>,
    /// The variables that it was started with, a JSON object.
    pub variables: Option<Value>,
    /// Its result, if it has completed: JSON.
    pub result: Option<Value>,
    /// Why it failed or was cancelled: text.
    pub reason: Option<Value>,
    /// The instance that has started it.
    pub parent: Option<String>,
    /// The activation of the parent that has.
    pub parent_cell: Option<String>,
    /// The instances that it has started, the earliest first, as far as they were looked for.
    pub children: Vec<Child>,
    /// Its nodes, in the order of the graph: the root is the first.
    pub nodes: Vec<Node>,
    /// How they hang together: a tree.
    pub edges: Vec<Edge>,
    /// Activations of nodes, in the order in which they began.
    pub steps: Vec<Step>,
    /// Steps that wait or run outside of turns, and tasks.
    pub activities: Vec<Activity>,
    /// Signals that no wait has taken.
    pub signals: Vec<Signal>,
    /// What it has told whoever asks.
    pub events: Vec<Event>,
    /// Rounds of its root loop, the newest first.
    pub executions: Vec<Execution>,
    /// Why its graph cannot be shown.
    pub problem: Option<String>,
    /// When this was so, by the server's clock.
    pub at: Timestamp,
}

/// A node of the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: String,
    /// Its type: `SQL`, `THEN`, `SIGNAL`, ...
    pub node_type: String,
    /// The name of its result.
    pub name: Option<String>,
    /// Its text, or its settings as JSON.
    pub query: Option<Value>,
    /// `pending`, `running`, `completed` or `failed`: how it last stood.
    pub status: String,
    /// What the status is taken for in view of the nodes above it: `skipped` too.
    pub inferred_status: String,
    /// The node that decided it.
    pub inferred_from: Option<String>,
    /// Its result as JSON; the text of its failure as a JSON string.
    pub result: Option<Value>,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// A step that waits or runs outside of turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// The activation.
    pub cell: String,
    /// `sql`, `bare`, `http` or `task`.
    pub kind: String,
    /// The name of a task.
    pub name: Option<String>,
    /// How often it was begun.
    pub attempt: i32,
    /// How often a task is begun at most.
    pub attempts_max: Option<i32>,
    /// Since when it waits.
    pub queued_at: Timestamp,
    /// Since when a worker runs it.
    pub taken_at: Option<Timestamp>,
    /// Until when nobody else may claim a task.
    pub leased_until: Option<Timestamp>,
    /// Who runs it.
    pub worker: Option<String>,
}

/// A signal that no wait has taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signal {
    /// Its name.
    pub name: String,
    /// When it was sent, if no worker has read it yet.
    pub sent_at: Option<Timestamp>,
    /// What came with it: JSON.
    pub data: Option<Value>,
}

/// What an instance has told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Under which key.
    pub key: String,
    /// What: JSON.
    pub value: Option<Value>,
    /// When.
    pub set_at: Timestamp,
}

/// A round of the root loop; of an instance without one, all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// Its number, from 1.
    pub execution: i64,
    /// `Completed`, `Failed`, `Cancelled`, `ContinuedAsNew`, `Running` or `Pending`.
    pub status: String,
    /// How many activations began or ended in it.
    pub events: i64,
    /// How long it took, or has taken until now, in milliseconds.
    pub duration_ms: Option<i64>,
    /// Its result, or the text of its failure.
    pub output: Option<Value>,
}

/// An instance that another one has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// Its id.
    pub id: String,
    /// Its label.
    pub label: Option<String>,
    /// How it stands.
    pub status: Option<String>,
    /// When it was started.
    pub created_at: Timestamp,
    /// The activation that has started it.
    pub cell: Option<String>,
}

/// What there is to tell of an instance's graph.
pub(super) struct Parts {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    cells: Vec<Cell>,
}

impl Instance {
    /// Takes what its graph and its state say.
    pub(super) fn take(&mut self, parts: Parts) {
        let Parts { nodes, edges, mut cells } = parts;
        // One node that has ended in its first turn has no state: that of the instance says it all.
        if let ([only], true, Some(ended_at)) = (nodes.as_slice(), cells.is_empty(), self.ended_at) {
            if only.status != "pending" {
                let (key, path) = ("0".to_owned(), Some("1".to_owned()));
                let status = only.status.clone();
                cells.push(Cell { key, path, status, at: Some(ended_at), ..Cell::default() });
            }
        }
        let types: Vec<String> = nodes.iter().map(|node| node.node_type.clone()).collect();
        self.steps = steps::steps(&types, &edges, cells, self.begun_at);
        (self.nodes, self.edges) = (nodes, edges);
    }

    /// Whether there is something in its graph that starts others.
    pub(super) fn may_have_children(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node.node_type.as_str(), "CALL" | "STEP"))
    }
}

/// How an instance stands. `None`: there is none that the role may see.
pub(super) async fn read(client: &Client, id: &str) -> Result<Option<Instance>, Error> {
    let most = VALUE_MAX as i32;
    let row = client.query_typed_opt(INSTANCE, &[(&id, Type::TEXT), (&most, Type::INT4)]).await?;
    let Some(row) = row else { return Ok(None) };
    let parts = async |sql| client.query_typed(sql, &[(&id, Type::TEXT), (&PARTS_MAX, Type::INT8)]).await;
    let executions = parts(EXECUTIONS).await?;
    let activities = parts(ACTIVITIES).await?;
    let signals = parts(SIGNALS).await?;
    let events = parts(EVENTS).await?;
    let status: String = row.try_get("status")?;
    let output = Value::of(&row, "output", "output_bytes")?;
    let (result, reason) = if status == "completed" { (output, None) } else { (None, output) };
    Ok(Some(Instance {
        id: row.try_get("id")?,
        label: row.try_get("label")?,
        status,
        paused: row.try_get("paused")?,
        role: row.try_get("role")?,
        database: row.try_get("database")?,
        queue: row.try_get("queue")?,
        created_at: row.try_get("created_at")?,
        begun_at: row.try_get("begun_at")?,
        ended_at: row.try_get("ended_at")?,
        changed_at: row.try_get("changed_at")?,
        due_at: row.try_get("due_at")?,
        delayed_until: row.try_get("delayed_until")?,
        execution: row.try_get("execution")?,
        input: Value::of(&row, "input", "input_bytes")?,
        variables: Value::of(&row, "vars", "vars_bytes")?,
        result,
        reason,
        parent: row.try_get("parent")?,
        parent_cell: row.try_get("parent_cell")?,
        children: Vec::new(),
        nodes: Vec::new(),
        edges: Vec::new(),
        steps: Vec::new(),
        activities: activities.iter().map(activity).collect::<Result<_, _>>()?,
        signals: signals.iter().map(signal).collect::<Result<_, _>>()?,
        events: events.iter().map(event).collect::<Result<_, _>>()?,
        executions: executions.iter().map(execution).collect::<Result<_, _>>()?,
        problem: None,
        at: row.try_get("at")?,
    }))
}

/// What the graph and the state of an instance say.
pub(super) async fn steps(client: &Client, id: &str) -> Result<Parts, Error> {
    let most = VALUE_MAX as i32;
    let parameters = [
        (&id as _, Type::TEXT),
        (&most as _, Type::INT4),
        (&VALUES_MAX as _, Type::INT8),
        (&NODES_MAX as _, Type::INT8),
    ];
    let nodes = client.query_typed(NODES, &parameters).await?;
    let below = client.query_typed(BELOW, &[(&id, Type::TEXT), (&NODES_MAX, Type::INT8)]).await?;
    let cells = client.query_typed(CELLS, &[(&id, Type::TEXT), (&CELLS_MAX, Type::INT8)]).await?;
    let below = below.iter().map(self::below).collect::<Result<Vec<_>, Error>>()?;
    Ok(Parts {
        nodes: nodes.iter().map(node).collect::<Result<_, _>>()?,
        edges: steps::edges(&below),
        cells: cells.iter().map(cell).collect::<Result<_, _>>()?,
    })
}

/// The instances that an instance has started.
pub(super) async fn children(client: &Client, id: &str) -> Result<Vec<Child>, Error> {
    let parameters =
        [(&id as _, Type::TEXT), (&PARTS_MAX as _, Type::INT8), (&LOOKED_THROUGH as _, Type::INT8)];
    let rows = client.query_typed(CHILDREN, &parameters).await?;
    rows.iter()
        .map(|row| {
            Ok(Child {
                id: row.try_get("id")?,
                label: row.try_get("label")?,
                status: row.try_get("status")?,
                created_at: row.try_get("created_at")?,
                cell: row.try_get("cell")?,
            })
        })
        .collect()
}

fn node(row: &Row) -> Result<Node, Error> {
    let status: Option<String> = row.try_get("status")?;
    let status = status.unwrap_or_else(|| "pending".to_owned());
    Ok(Node {
        id: row.try_get("node_id")?,
        node_type: row.try_get::<_, Option<String>>("node_type")?.unwrap_or_default(),
        name: row.try_get("name")?,
        query: Value::of(row, "query", "query_bytes")?,
        inferred_status: row
            .try_get::<_, Option<String>>("inferred_status")?
            .unwrap_or_else(|| status.clone()),
        inferred_from: row.try_get("ancestor")?,
        result: Value::of(row, "result", "result_bytes")?,
        updated_at: row.try_get("updated_at")?,
        status,
    })
}

fn below(row: &Row) -> Result<Below, Error> {
    let extra: Option<String> = row.try_get("extra")?;
    Ok(Below {
        condition: row.try_get("condition_node")?,
        left: row.try_get("left_node")?,
        right: row.try_get("right_node")?,
        extra: extra.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default(),
    })
}

fn cell(row: &Row) -> Result<Cell, Error> {
    let text = |name: &str| row.try_get::<_, Option<String>>(name);
    let number = |name: &str| Ok::<_, Error>(text(name)?.and_then(|text| text.parse::<u32>().ok()));
    let time = |name: &str| Ok::<_, Error>(text(name)?.and_then(|text| text.parse::<Timestamp>().ok()));
    Ok(Cell {
        key: text("key")?.unwrap_or_default(),
        status: text("status")?.unwrap_or_default(),
        at: time("at")?,
        path: text("path")?,
        due: time("due")?,
        attempt: number("attempt")?,
        iteration: number("iteration")?,
        began: time("began")?,
        child: text("child")?,
        sqlstate: text("sqlstate")?,
        origin: text("origin")?,
        items_begun: number("items_next")?.zip(number("items_open")?),
    })
}

fn activity(row: &Row) -> Result<Activity, Error> {
    Ok(Activity {
        cell: row.try_get("cell")?,
        kind: row.try_get("kind")?,
        name: row.try_get("name")?,
        attempt: row.try_get("attempt")?,
        attempts_max: row.try_get("attempts_max")?,
        queued_at: row.try_get("queued_at")?,
        taken_at: row.try_get("taken_at")?,
        leased_until: row.try_get("until")?,
        worker: row.try_get("worker")?,
    })
}

fn signal(row: &Row) -> Result<Signal, Error> {
    Ok(Signal {
        name: row.try_get::<_, Option<String>>("name")?.unwrap_or_default(),
        sent_at: row.try_get("sent_at")?,
        data: Value::of(row, "data", "data_bytes")?,
    })
}

fn event(row: &Row) -> Result<Event, Error> {
    Ok(Event {
        key: row.try_get("key")?,
        value: Value::of(row, "value", "value_bytes")?,
        set_at: row.try_get("set_at")?,
    })
}

fn execution(row: &Row) -> Result<Execution, Error> {
    Ok(Execution {
        execution: row.try_get("execution_id")?,
        status: row.try_get("status")?,
        events: row.try_get("event_count")?,
        duration_ms: row.try_get("duration_ms")?,
        output: Value::of(row, "output", "output_bytes")?,
    })
}
