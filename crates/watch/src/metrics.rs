//! What was seen, as Prometheus reads it.

use crate::{attribution::Reason, watch::State};
use std::fmt::Write;

/// All figures in the text format.
#[must_use]
pub fn text(state: &State) -> String {
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, lines: Vec<(String, f64)>| {
        // A String takes everything.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in lines {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    };
    let ledger = &state.ledger;
    let by_reason = |value: fn(&crate::ledger::Total) -> f64| {
        ledger.totals().iter().map(|(reason, total)| (labels(reason), value(total))).collect::<Vec<_>>()
    };
    let waiting = state.last.as_ref().map_or(0, |seen| seen.waiters.len());
    family(
        "duramen_watch_up",
        "gauge",
        "Whether the primary answers.",
        vec![(String::new(), f64::from(u8::from(state.last.is_some())))],
    );
    family(
        "duramen_watch_looks_total",
        "counter",
        "Looks at the primary.",
        vec![(String::new(), ledger.observations() as f64)],
    );
    family(
        "duramen_watch_missed_looks_total",
        "counter",
        "Looks that the primary did not answer.",
        vec![(String::new(), state.missed as f64)],
    );
    family(
        "duramen_commits_waiting",
        "gauge",
        "Sessions whose commit waits for a standby.",
        vec![(String::new(), waiting as f64)],
    );
    family(
        "duramen_commit_wait_seconds_total",
        "counter",
        "Time that commits waited for standbys, added up over sessions.",
        by_reason(|total| total.waited.as_secs_f64()),
    );
    family(
        "duramen_commit_stall_seconds_total",
        "counter",
        "Time of stalls that have ended: a commit waited for 250 ms or longer.",
        by_reason(|total| total.stalled.as_secs_f64()),
    );
    family(
        "duramen_commit_stalls_total",
        "counter",
        "Stalls that have ended, by what they waited for most of the time.",
        by_reason(|total| total.stalls as f64),
    );
    family(
        "duramen_commit_stalled_seconds",
        "gauge",
        "How long commits have been stalled now.",
        vec![(String::new(), ledger.current().map_or(0.0, |stall| stall.length.as_secs_f64()))],
    );
    family(
        "duramen_own_disk_wait_seconds_total",
        "counter",
        "Time that sessions waited for the primary's own WAL to be on its disk, added up over sessions.",
        vec![(String::new(), ledger.own_disk().as_secs_f64())],
    );
    let mut lag = Vec::new();
    for standby in state.last.iter().flat_map(|seen| &seen.standbys) {
        let flushed = state.last.as_ref().map_or(0, |seen| seen.flushed);
        let at = standby.positions;
        for (position, lsn) in
            [("sent", at.sent), ("written", at.written), ("flushed", at.flushed), ("replayed", at.replayed)]
        {
            let labels = format!("{{standby=\"{}\",position=\"{position}\"}}", escaped(&standby.name));
            lag.push((labels, flushed.saturating_sub(lsn) as f64));
        }
    }
    // Two standbys may have one name.
    lag.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
    lag.dedup_by(|a, b| a.0 == b.0);
    family(
        "duramen_standby_lag_bytes",
        "gauge",
        "WAL on the primary's disk that the standby has not come to.",
        lag,
    );
    text
}

fn labels(reason: &Reason) -> String {
    format!(
        "{{stage=\"{}\",cause=\"{}\",standby=\"{}\"}}",
        reason.stage,
        escaped(reason.cause),
        escaped(&reason.standby)
    )
}

/// As a value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
