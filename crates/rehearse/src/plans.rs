//! Plans of given queries before and after: their shapes, rows, times.

use crate::error::RehearseError;
use serde::Serialize;
use serde_json::Value;
use std::{error::Error, time::Duration};
use tokio_postgres::{
    types::{FromSql, Type},
    Client,
};

/// Queries that are looked at.
pub(crate) const QUERIES_MAX: usize = 100;
/// Depth of a plan that is written down.
const DEPTH_MAX: usize = 64;
/// The smallest row count that is used when estimates are compared, so that nothing is divided by zero.
const LEAST_ROWS: f64 = 1.0;
/// A query whose time changed by less than this, in milliseconds, is as fast as it was.
const NOISE_MS: f64 = 1.0;

/// A query, with its plans before and after.
#[derive(Debug, Clone, Serialize)]
pub struct QueryPlans {
    /// Its text.
    pub sql: String,
    /// Its plan before the migration.
    pub before: Plan,
    /// Its plan after.
    pub after: Plan,
    /// Whether the shapes differ.
    pub is_changed: bool,
}

/// A plan of a query, and what it did.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Plan {
    /// Its nodes, a line each, indented by two blanks a level.
    pub shape: Vec<String>,
    /// Time of planning, in milliseconds.
    pub planning_ms: f64,
    /// Time of execution, in milliseconds; none if it was not run to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_ms: Option<f64>,
    /// Rows that it was estimated to give.
    pub estimated_rows: f64,
    /// Rows that it gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<f64>,
    /// Blocks that were in memory.
    pub hit_blocks: u64,
    /// Blocks that were not.
    pub read_blocks: u64,
    /// The node whose estimate is furthest from what it gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst_estimate: Option<Estimate>,
    /// Why it was not run, or has no plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// An estimate, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// The node.
    pub node: String,
    /// Rows that were estimated, a loop.
    pub estimated: f64,
    /// Rows that came, a loop.
    pub actual: f64,
}

impl Estimate {
    /// How far it is off: 1 is exact.
    #[must_use]
    pub fn factor(&self) -> f64 {
        let (estimated, actual) = (self.estimated.max(LEAST_ROWS), self.actual.max(LEAST_ROWS));
        (estimated / actual).max(actual / estimated)
    }
}

impl QueryPlans {
    pub(crate) fn new(sql: String, before: Plan, after: Plan) -> QueryPlans {
        let is_changed = before.shape != after.shape;
        QueryPlans { sql, before, after, is_changed }
    }

    /// How many times longer it took after than before. None if one of them did not end, or both are too short to tell.
    #[must_use]
    pub fn slowdown(&self) -> Option<f64> {
        let (before, after) = (self.before.execution_ms?, self.after.execution_ms?);
        ((after - before).abs() >= NOISE_MS).then(|| after / before.max(0.001))
    }
}

/// JSON as the server writes it.
struct Raw(String);

impl<'a> FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Raw, Box<dyn Error + Sync + Send>> {
        Ok(Raw(std::str::from_utf8(raw)?.to_owned()))
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::JSON
    }
}

/// The plan of a query, run in a transaction that is rolled back. It runs twice, because the first run reads what is not in
/// memory; the second one counts.
pub(crate) async fn explain(session: &mut Client, sql: &str, limit: Duration) -> Result<Plan, RehearseError> {
    let first = explain_once(session, sql, true, limit).await?;
    match first {
        Ok(plan) if plan.execution_ms.unwrap_or_default() * 2.0 < limit.as_secs_f64() * 1e3 => {
            Ok(explain_once(session, sql, true, limit).await?.unwrap_or(plan))
        }
        Ok(plan) => Ok(plan),
        Err(error) => {
            // What takes too long has a plan all the same.
            let plan = explain_once(session, sql, false, limit).await?.unwrap_or_default();
            Ok(Plan { error: Some(error), ..plan })
        }
    }
}

async fn explain_once(
    session: &mut Client,
    sql: &str,
    run: bool,
    limit: Duration,
) -> Result<Result<Plan, String>, RehearseError> {
    let doing = || RehearseError::query("look at the plans of the queries");
    let transaction = session.transaction().await.map_err(doing())?;
    let limits = format!(
        "SET LOCAL statement_timeout = '{0}ms'; SET LOCAL lock_timeout = '{0}ms'",
        limit.as_millis().clamp(1, 86_400_000)
    );
    transaction.batch_execute(&limits).await.map_err(doing())?;
    let how = if run { "ANALYZE, BUFFERS, FORMAT JSON" } else { "FORMAT JSON" };
    // Prepared, so that it is one statement.
    let explained = transaction.query(&format!("EXPLAIN ({how}) {sql}"), &[]).await;
    let plan = match explained {
        Ok(rows) => {
            let raw = rows.first().map(|row| row.try_get::<_, Raw>(0));
            let json = raw.and_then(Result::ok).and_then(|raw| serde_json::from_str(&raw.0).ok());
            json.map(|json: Value| Plan::of(&json)).ok_or_else(|| "its plan cannot be read".to_owned())
        }
        Err(error) => Err(duramen_postgres::connection::with_sources(&error)),
    };
    transaction.rollback().await.map_err(doing())?;
    Ok(plan)
}

impl Plan {
    /// What `EXPLAIN (FORMAT JSON)` printed.
    fn of(json: &Value) -> Plan {
        let top = &json[0];
        let root = &top["Plan"];
        let mut plan = Plan {
            planning_ms: top["Planning Time"].as_f64().unwrap_or_default(),
            execution_ms: top["Execution Time"].as_f64(),
            estimated_rows: root["Plan Rows"].as_f64().unwrap_or_default(),
            rows: root["Actual Rows"].as_f64(),
            hit_blocks: root["Shared Hit Blocks"].as_u64().unwrap_or_default(),
            read_blocks: root["Shared Read Blocks"].as_u64().unwrap_or_default(),
            ..Plan::default()
        };
        plan.add(root, 0);
        plan
    }

    fn add(&mut self, node: &Value, depth: usize) {
        if depth >= DEPTH_MAX {
            return;
        }
        let name = described(node);
        if let (Some(estimated), Some(actual)) = (node["Plan Rows"].as_f64(), node["Actual Rows"].as_f64()) {
            let found = Estimate { node: name.clone(), estimated, actual };
            let ran = node["Actual Loops"].as_f64().unwrap_or_default() > 0.0;
            if ran && self.worst_estimate.as_ref().is_none_or(|worst| found.factor() > worst.factor()) {
                self.worst_estimate = Some(found);
            }
        }
        self.shape.push(format!("{}{name}", "  ".repeat(depth)));
        for below in node["Plans"].as_array().into_iter().flatten() {
            self.add(below, depth + 1);
        }
    }
}

fn described(node: &Value) -> String {
    let text = |key: &str| node[key].as_str().unwrap_or_default();
    let mut words = vec![text("Node Type").to_owned()];
    if let Some(kind) = node["Join Type"].as_str().filter(|kind| *kind != "Inner") {
        words.push(format!("({kind})"));
    }
    if let Some(strategy) = node["Strategy"].as_str().filter(|strategy| *strategy != "Plain") {
        words.push(format!("({strategy})"));
    }
    if let Some(index) = node["Index Name"].as_str() {
        words.push(format!("using {index}"));
    }
    for key in ["Relation Name", "CTE Name", "Function Name"] {
        if let Some(name) = node[key].as_str() {
            words.push(format!("on {name}"));
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_shape_and_the_worst_estimate_are_those_of_the_plan() {
        let json = json!([{
            "Plan": { "Node Type": "Nested Loop", "Join Type": "Left", "Plan Rows": 10, "Actual Rows": 20.0, "Actual Loops": 1, "Shared Hit Blocks": 7, "Plans": [
                { "Node Type": "Seq Scan", "Relation Name": "orders", "Plan Rows": 1, "Actual Rows": 900, "Actual Loops": 1 },
                { "Node Type": "Index Scan", "Index Name": "customer_pkey", "Relation Name": "customer", "Plan Rows": 5000, "Actual Rows": 0, "Actual Loops": 0 },
            ] },
            "Planning Time": 0.5, "Execution Time": 3.5
        }]);
        let plan = Plan::of(&json);
        let shape =
            ["Nested Loop (Left)", "  Seq Scan on orders", "  Index Scan using customer_pkey on customer"];
        assert_eq!(plan.shape, shape);
        assert_eq!((plan.execution_ms, plan.rows, plan.hit_blocks), (Some(3.5), Some(20.0), 7));
        let worst = plan.worst_estimate.clone().unwrap();
        assert_eq!(
            (worst.node.as_str(), worst.factor()),
            ("Seq Scan on orders", 900.0),
            "what never ran estimated nothing"
        );
        let faster =
            QueryPlans::new(String::new(), plan.clone(), Plan { execution_ms: Some(7.0), ..plan.clone() });
        assert_eq!((faster.slowdown(), faster.is_changed), (Some(2.0), false));
        let same = QueryPlans::new(String::new(), plan.clone(), Plan { execution_ms: Some(3.6), ..plan });
        assert_eq!(same.slowdown(), None);
    }
}
