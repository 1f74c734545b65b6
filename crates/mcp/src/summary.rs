//! Sources, branches and evidence in few words.

use super::renewals::TTL_S;
use duramen_api::model::{BranchEvidence, BranchView, ContentHash, SourceView};
use duramen_base::clock;
use serde_json::{json, Value};

/// Sources and branches in a list.
const LIST_MAX: usize = 100;
/// Differences and events in a summary of evidence.
const DETAILS_MAX: usize = 20;

/// All that a caller has and may have.
pub(super) fn list(branches: &[BranchView], sources: &[SourceView]) -> Value {
    let branch = |branch: &BranchView| {
        let mut value = json!({ "name": branch.name, "source": branch.source, "policy": branch.policy.to_string(),
                                "ends": end(branch) });
        if branch.state != "ready" {
            value["state"] = Value::from(branch.state.as_str());
        }
        value
    };
    let source = |source: &SourceView| json!({ "name": source.name, "database": source.database, "data": source.data });
    let mut value = json!({
        "branches": branches.iter().take(LIST_MAX).map(branch).collect::<Vec<_>>(),
        "sources": sources.iter().take(LIST_MAX).map(source).collect::<Vec<_>>(),
    });
    let left_out = branches.len().saturating_sub(LIST_MAX) + sources.len().saturating_sub(LIST_MAX);
    if left_out > 0 {
        value["left_out"] = Value::from(left_out);
    }
    value
}

/// A branch that was just leased, and what to know about its end.
pub(super) fn created(branch: &BranchView, ttl_s: i64) -> Value {
    json!({
        "branch": branch.name,
        "source": branch.source,
        "policy": branch.policy.to_string(),
        "data": branch.data,
        "existing": branch.existing,
        "ends": end(branch),
        "note": format!(
            "A copy of its own: writes do not reach the source. It ends by itself {ttl_s} s after its last use through these \
             tools; use of its URL alone does not count. branch_destroy it when you are done."
        ),
    })
}

/// When a lease ends.
fn end(branch: &BranchView) -> String {
    if branch.protected {
        "never (protected)".to_owned()
    } else {
        branch.expires_at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}

/// How long a branch lasts, in seconds, if it was asked to last so long.
pub(super) fn granted(branch: &BranchView, asked_s: Option<i64>) -> i64 {
    let left_s = branch.expires_at.as_second().saturating_sub(clock::utc_now().as_second());
    asked_s.unwrap_or(TTL_S).min(left_s.max(1))
}

/// The way into a branch.
pub(super) fn url(branch: &BranchView) -> Result<Value, String> {
    if branch.url.is_empty() {
        return Err("no_router: this daemon has no port for PostgreSQL clients (duramen serve --pg-listen); use the tool query".to_owned());
    }
    let mut value = json!({ "branch": branch.name, "url": branch.url, "ends": end(branch) });
    // H5: who came with a token has that, and nothing else, as the password.
    if !branch.url.contains("password=") && !has_password(&branch.url) {
        value["password"] = Value::from("the secret of the token, which is not shown here (PGPASSWORD)");
    }
    Ok(value)
}

fn has_password(url: &str) -> bool {
    let after = url.split_once("://").map_or(url, |(_, rest)| rest);
    after
        .split(['/', '?'])
        .next()
        .and_then(|authority| authority.rsplit_once('@'))
        .is_some_and(|(user, _)| user.contains(':'))
}

/// What was found out about a branch and its source.
pub(super) fn evidence(found: &BranchEvidence) -> Value {
    let intact = found.snapshot_digest == found.snapshot_digest_now;
    let live = match (found.source.comparable, found.source.unchanged, found.source_now.left_out.is_empty()) {
        (false, ..) => "not comparable",
        (_, false, _) => "changed by others since the import",
        (_, true, true) => "unchanged",
        (_, true, false) => "unchanged, except for what is left out",
    };
    let skip = found.events.len().saturating_sub(DETAILS_MAX);
    let event = |event: &Value| {
        let fields = ["at", "event", "detail"];
        let kept = fields.iter().filter_map(|field| Some(((*field).to_owned(), event.get(*field)?.clone())));
        Value::Object(kept.collect())
    };
    let mut value = json!({
        "branch": found.branch.name,
        "source": found.branch.source,
        "snapshot": if intact { "unchanged" } else { "CHANGED" },
        "live_source": live,
        "digest": found.snapshot_digest_now,
        "event_count": found.events.len(),
        "events": found.events.iter().skip(skip).map(event).collect::<Vec<_>>(),
    });
    if !found.source.differences.is_empty() {
        value["differences"] = json!(found.source.differences.iter().take(DETAILS_MAX).collect::<Vec<_>>());
    }
    if !found.source_now.left_out.is_empty() {
        let left_out = found.source_now.left_out.iter().take(DETAILS_MAX);
        value["left_out"] = json!(left_out.map(|(name, why)| format!("{name}: {why}")).collect::<Vec<_>>());
    }
    if let Some(table) = &found.table {
        let rows = |content: &Option<ContentHash>| content.as_ref().map(|content| content.count);
        value["table"] = json!({
            "name": table.name,
            "rows_in_source_at_import": rows(&table.source_at_import),
            "rows_in_source_now": rows(&table.source_now),
            "rows_in_branch": rows(&table.branch_now),
            "source_unchanged": table.source_unchanged,
            "branch_differs": table.branch_differs,
        });
    }
    value
}
