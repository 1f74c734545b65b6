//! Pages of instances, the newest first. A page is found along an index: by the time of the start of each role's instances, or by what a status
//! is written in. Whoever asks for what is rare among others by a label or a queue has all between looked through.

use super::{is_id, InspectError, Value, PAGE_MAX};
use jiff::Timestamp;
use tokio_postgres::{
    types::{ToSql, Type},
    Client, Error, Row,
};

/// The longest text that is searched for, in bytes.
const SEARCH_MAX: usize = 1000;
/// Bytes of a reason, and of the text of a step, that a list tells.
const SHOWN_MAX: usize = 300;
/// The statuses that there are.
const STATUSES: [&str; 5] = ["pending", "running", "completed", "failed", "cancelled"];

/// By a status, or all. These have indexes of their own.
const PLAIN: &str = "\
    SELECT row_number() OVER () AS place, l.instance_id AS id, l.label, l.status, l.execution_count AS execution, l.created_at, \
        l.output, l.next_cursor \
    FROM df.list_instances($1, $2, NULL, $3) l";
/// By everything.
const FIND: &str = "\
    SELECT row_number() OVER () AS place, l.instance_id AS id, l.label, l.status, l.execution_count AS execution, l.created_at, \
        l.output, l.next_cursor \
    FROM df.find_instances(status => $1, limit_count => $2, after_cursor => $3, label_like => $4, queue => $5) l";
/// The one with this id.
const ONE: &str = "\
    SELECT 1::int8 AS place, k.id, k.label, f.status, f.current_execution_id AS execution, k.created_at, f.output, \
        NULL::text AS next_cursor \
    FROM df._known(df._seq($1)) k CROSS JOIN LATERAL df.instance_info(k.id) f";
/// What belongs to the instances of a page, each looked up by its number. The step that one is at is told of those whose state is small:
/// one that runs or waits, and of several the one that began last.
const DETAILS: &str = "\
    , seen AS MATERIALIZED (SELECT df._seen_submitters() AS submitters) \
    SELECT p.id, left(p.label, 1000) AS label, p.status, p.execution, p.created_at, p.next_cursor, \
        CASE WHEN p.status <> 'completed' THEN left(p.output, 300) END AS reason, \
        left(k.name, 200) AS queue, pg_get_userbyid(coalesce(i.submitted_by, o.submitted_by))::text AS role, \
        coalesce(d.started_at, CASE WHEN w.admitted IS NULL THEN w.started_at END) AS begun_at, d.completed_at AS ended_at, \
        coalesce(w.paused, false) AS paused, o.due_at AS delayed_until, i.parent IS NOT NULL OR o.parent IS NOT NULL AS is_child, \
        left(s.type, 40) AS step_type, left(s.query, 300) AS step_query, left(s.name, 200) AS step_name, s.at AS step_at, \
        s.due AS step_due, s.attempt AS step_attempt \
    FROM (SELECT p.*, df._seq(p.id) AS seq FROM page p) p CROSS JOIN seen \
    LEFT JOIN LATERAL (SELECT n.submitted_by, n.queue, n.parent, n.graph FROM df._instance n WHERE n.seq = p.seq OFFSET 0) i ON true \
    LEFT JOIN LATERAL (SELECT n.started_at, n.completed_at FROM df._done n WHERE n.seq = p.seq OFFSET 0) d ON true \
    LEFT JOIN LATERAL (SELECT n.seq, n.admitted, n.started_at, n.paused, n.state, n.bytes FROM df._work n \
        WHERE n.seq = p.seq OFFSET 0) w ON true \
    LEFT JOIN LATERAL ( \
        SELECT n.submitted_by, n.queue, n.parent, NULL::timestamptz AS due_at FROM df._ready n \
        WHERE i.submitted_by IS NULL AND n.submitted_by = ANY (seen.submitters) AND n.seq = p.seq \
        UNION ALL \
        SELECT n.submitted_by, n.queue, n.parent, n.due_at FROM df._queued n \
        WHERE i.submitted_by IS NULL AND n.submitted_by = ANY (seen.submitters) AND n.seq = p.seq LIMIT 1) o ON true \
    LEFT JOIN df._queue k ON k.id = coalesce(i.queue, o.queue) \
    LEFT JOIN LATERAL ( \
        SELECT g.node ->> 'type' AS type, g.node ->> 'query' AS query, g.node ->> 'name' AS name, c.at, c.due, c.attempt \
        FROM (SELECT substring(x.key FROM '^[0-9]{1,9}')::int AS index, x.value ->> 'at' AS at, x.value ->> 'due' AS due, \
                x.value ->> 'attempt' AS attempt \
            FROM json_each(CASE WHEN w.bytes <= 65536 AND pg_column_size(i.graph) <= 65536 THEN w.state -> 'cells' END) x \
            WHERE x.value ->> 's' = 'running') c \
        CROSS JOIN LATERAL (SELECT i.graph -> c.index AS node OFFSET 0) g \
        ORDER BY g.node ->> 'type' IN ('SQL', 'SLEEP', 'WAIT_SCHEDULE', 'HTTP', 'HTTP_MULTIPART', 'SIGNAL', 'TASK', 'CALL') DESC, \
            c.due IS NOT NULL DESC, c.at DESC \
        LIMIT 1) s ON true \
    ORDER BY p.place";
/// The most rows that the server gives at once, if its owner has said so.
const LIMIT: &str = "SELECT nullif(current_setting('df.list_instances_max_limit', true), '')";

/// Which instances are wanted: all that is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Those with this status.
    pub status: Option<String>,
    /// Those that came through this queue, or wait in it.
    pub queue: Option<String>,
    /// The one with this id, or those whose label has this in it, as it is written.
    pub search: Option<String>,
}

impl Filter {
    /// Refuses what nothing can fit.
    pub(super) fn check(&self) -> Result<(), InspectError> {
        if let Some(status) = self.status.as_deref().filter(|status| !STATUSES.contains(status)) {
            let status: String = status.chars().take(50).collect();
            let message = format!("no instance has the status {status:?}; there are {}", STATUSES.join(", "));
            return Err(InspectError::Invalid(message));
        }
        if [&self.queue, &self.search].into_iter().flatten().any(|text| text.len() > SEARCH_MAX) {
            let message = format!("a search is at most {SEARCH_MAX} bytes long; search for less");
            return Err(InspectError::Invalid(message));
        }
        if [&self.queue, &self.search].into_iter().flatten().any(|text| text.contains('\0')) {
            return Err(InspectError::Invalid("no label and no name holds a NUL character".to_owned()));
        }
        Ok(())
    }

    /// The id that is searched for, if it can be one.
    fn id(&self) -> Option<&str> {
        self.search.as_deref().map(str::trim).filter(|text| is_id(text))
    }

    /// The pattern of `LIKE` that labels have to fit.
    fn pattern(&self) -> Option<String> {
        let text = self.search.as_deref().map(str::trim).filter(|text| !text.is_empty())?;
        let mut pattern = String::with_capacity(text.len() + 2);
        pattern.push('%');
        for letter in text.chars() {
            if matches!(letter, '%' | '_' | '\\') {
                pattern.push('\\');
            }
            pattern.push(letter);
        }
        pattern.push('%');
        Some(pattern)
    }
}

/// Where an instance is that goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At {
    /// The type of the node: `SQL`, `SLEEP`, `SIGNAL`, ...
    pub node_type: String,
    /// Its text or its settings, cut.
    pub query: Option<String>,
    /// The name of its result.
    pub name: Option<String>,
    /// Since when.
    pub since: Option<Timestamp>,
    /// When its timer fires.
    pub due_at: Option<Timestamp>,
    /// Which attempt it is, of a retry that waits for its next one.
    pub attempt: Option<u32>,
}

/// An instance as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its id.
    pub id: String,
    /// Its label.
    pub label: Option<String>,
    /// `pending`, `running`, `completed`, `failed` or `cancelled`.
    pub status: String,
    /// It begins no further step until it is resumed.
    pub paused: bool,
    /// The queue that it came through, or waits in.
    pub queue: Option<String>,
    /// Who started it.
    pub role: Option<String>,
    /// Which round of its root loop it is in.
    pub execution: i64,
    /// When it was started.
    pub created_at: Timestamp,
    /// When a worker began it.
    pub begun_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Until when its queue does not let it in.
    pub delayed_until: Option<Timestamp>,
    /// Another instance has started it.
    pub is_child: bool,
    /// Why it failed or was cancelled, cut.
    pub reason: Option<String>,
    /// The step that it is at or waits for, if it goes on and its state is small.
    pub at: Option<At>,
}

/// A page of instances.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The instances, the newest first.
    pub instances: Vec<Listed>,
    /// Where the next page begins. `None`: there is none.
    pub next: Option<String>,
}

pub(super) async fn read(
    client: &Client,
    filter: &Filter,
    many: u32,
    cursor: Option<&str>,
) -> Result<Page, Error> {
    if let (Some(id), None) = (filter.id(), cursor) {
        let found = rows(client, ONE, &[(&id as _, Type::TEXT)]).await?;
        // It may be a part of a label all the same.
        if !found.is_empty() {
            return page(&found);
        }
    }
    let allowed: Option<String> = client.query_typed_one(LIMIT, &[]).await?.try_get(0)?;
    let allowed = allowed.and_then(|allowed| allowed.parse().ok()).unwrap_or(PAGE_MAX);
    let many = i32::try_from(many.clamp(1, PAGE_MAX).min(allowed)).unwrap_or(1);
    let mut parameters: Vec<(&(dyn ToSql + Sync), Type)> =
        vec![(&filter.status, Type::TEXT), (&many, Type::INT4), (&cursor, Type::TEXT)];
    let pattern = filter.pattern();
    if filter.queue.is_none() && pattern.is_none() {
        return page(&rows(client, PLAIN, &parameters).await?);
    }
    parameters.extend([(&pattern as _, Type::TEXT), (&filter.queue as _, Type::TEXT)]);
    page(&rows(client, FIND, &parameters).await?)
}

async fn rows(
    client: &Client,
    page: &str,
    parameters: &[(&(dyn ToSql + Sync), Type)],
) -> Result<Vec<Row>, Error> {
    client.query_typed(&format!("WITH page AS MATERIALIZED ({page}){DETAILS}"), parameters).await
}

fn page(rows: &[Row]) -> Result<Page, Error> {
    let next = rows.last().map(|row| row.try_get("next_cursor")).transpose()?.flatten();
    Ok(Page { instances: rows.iter().map(listed).collect::<Result<Vec<_>, Error>>()?, next })
}

fn listed(row: &Row) -> Result<Listed, Error> {
    let cut = |text: Option<String>| text.map(|text| Value::cut(text, 0, SHOWN_MAX).text);
    let time = |name: &str| -> Result<Option<Timestamp>, Error> {
        Ok(row.try_get::<_, Option<String>>(name)?.and_then(|text| text.parse().ok()))
    };
    let at = match row.try_get::<_, Option<String>>("step_type")? {
        None => None,
        Some(node_type) => Some(At {
            node_type,
            query: cut(row.try_get("step_query")?),
            name: row.try_get("step_name")?,
            since: time("step_at")?,
            due_at: time("step_due")?,
            attempt: row.try_get::<_, Option<String>>("step_attempt")?.and_then(|text| text.parse().ok()),
        }),
    };
    Ok(Listed {
        id: row.try_get("id")?,
        label: row.try_get("label")?,
        status: row.try_get("status")?,
        paused: row.try_get("paused")?,
        queue: row.try_get("queue")?,
        role: row.try_get("role")?,
        execution: row.try_get("execution")?,
        created_at: row.try_get("created_at")?,
        begun_at: row.try_get("begun_at")?,
        ended_at: row.try_get("ended_at")?,
        delayed_until: row.try_get("delayed_until")?,
        is_child: row.try_get("is_child")?,
        reason: cut(row.try_get("reason")?),
        at,
    })
}
