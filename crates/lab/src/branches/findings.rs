//! What a reader must know beside the figures.

use duramen_api::model::Status;
use duramen_measure::evidence::{Evidence, Finding, Severity};
use duramen_measure::target;
use serde_json::Value;

use super::client::{Failure, Lived};
use super::options::{Options, Runner, Write};
use super::targets;

/// What the document says of a daemon that was there before the run.
pub(crate) const RUNNING_BEFORE: &str = "running before";

/// So many failures are told in full; all are counted.
const SHOWN: usize = 5;

/// Counts what happened to the branches of all rounds.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    branches: usize,
    succeeded: usize,
    deadlocks: usize,
    timed_out: usize,
    /// Branches that did not flush although they were asked to, or the reverse.
    wrong_durability: usize,
    /// Connections of the burst that failed.
    over_the_wire: usize,
    shown: Vec<String>,
    failed: usize,
}

impl Outcomes {
    /// Counts one client.
    pub(crate) fn add(&mut self, lived: &Lived, options: &Options) {
        self.branches += 1;
        self.succeeded += usize::from(lived.failure.is_none() && lived.destroy.is_some());
        // Where fsync itself was set, the word of the source's settings is not the last one.
        let asked = fsync_setting(options).is_none().then_some(options.durable);
        let differs = lived.durable.zip(asked).is_some_and(|(found, asked)| found != asked);
        self.wrong_durability += usize::from(differs);
        if let Some(failure) = &lived.failure {
            self.fail(failure);
        }
    }

    /// Counts a failed connection of the burst over the wire.
    pub(crate) fn add_wire(&mut self, failure: &Failure) {
        self.over_the_wire += 1;
        self.fail(failure);
    }

    fn fail(&mut self, failure: &Failure) {
        self.failed += 1;
        self.deadlocks += usize::from(failure.deadlock);
        self.timed_out += usize::from(failure.timed_out);
        if self.shown.len() < SHOWN {
            self.shown.push(format!("{}: {}", failure.step, failure.message));
        }
    }

    /// Adds the checks that follow.
    pub(crate) fn note(&self, options: &Options, evidence: &mut Evidence) {
        let asked = options.rounds as usize * options.concurrency as usize;
        let mut detail = format!("{} of {asked}", self.succeeded);
        if self.over_the_wire > 0 {
            detail +=
                &format!("; beside the rounds, {} connections over the wire failed", self.over_the_wire);
        }
        let passed = self.succeeded == asked && self.over_the_wire == 0;
        evidence.check("all_branches_succeeded", passed, detail);
        let detail =
            format!("{} deadlocks, {} clients without an answer in time", self.deadlocks, self.timed_out);
        evidence.check("no_deadlocks", self.deadlocks == 0 && self.timed_out == 0, detail);
        for text in &self.shown {
            evidence.find("branch_failed", Severity::Problem, None, text.as_str());
        }
        if self.failed > self.shown.len() {
            let text =
                format!("{} branches failed in all; the first {} are shown.", self.failed, self.shown.len());
            evidence.find("branches_failed", Severity::Problem, Some(self.failed as f64), text);
        }
        if self.wrong_durability > 0 {
            evidence.invalidate(format!(
                "{} of {} branches were not {} as asked",
                self.wrong_durability,
                self.branches,
                if options.durable { "durable" } else { "without flushing" }
            ));
        }
    }
}

/// The value of `fsync` among the asked server settings.
fn fsync_setting(options: &Options) -> Option<&str> {
    let found = options.settings.iter().rev().find(|(name, _)| name.eq_ignore_ascii_case("fsync"));
    found.map(|(_, value)| value.as_str())
}

/// Notes what only the daemon knows of the conditions, and that the branches are not what is measured here if so.
pub(crate) fn note_daemon(options: &Options, status: &Status, evidence: &mut Evidence) {
    if status.degraded {
        evidence.invalidate(format!(
            "degraded: plain copies ({}). Branches are copied byte by byte, which is not what is measured here.",
            status.volumes_reason
        ));
    }
    let others: u32 =
        status.pools.iter().filter(|pool| pool.source != options.source).map(|pool| pool.target).sum();
    evidence.configure("other_pools", others);
    let is_ours = |pool: &&duramen_api::model::PoolView| {
        pool.source == options.source && pool.policy == options.write.policy()
    };
    evidence.configure("pool_kept", status.pools.iter().find(is_ours).map(|pool| pool.target));
}

/// Everything that the rules find in a document: the conditions of the run, and missed targets.
pub(crate) fn find(evidence: &Evidence) -> Vec<Finding> {
    let text = |name: &str| evidence.config.get(name).and_then(Value::as_str);
    let count = |name: &str| evidence.config.get(name).and_then(Value::as_u64);
    let mut found = Vec::new();
    let mut add =
        |rule, severity, figure, text: String| found.push(Finding::new(rule, severity, figure, text));
    if is_unflushed(evidence) && text("write").is_some_and(|write| write != Write::None.name()) {
        let text = "Write figures (those with `write` in their names) were taken with fsync=off: a branch's commits are not \
                    flushed to disk and do not survive a crash of the machine. Measure with --durable for the other row.";
        add("fsync_off", Severity::Warning, None, text.to_owned());
    }
    if text("daemon") == Some(RUNNING_BEFORE) {
        let text = "The daemon was running already: its own volumes hold, not those of the options.";
        add("running_daemon", Severity::Info, None, text.to_owned());
    }
    if let Some(others) = count("other_pools").filter(|others| *others > 0) {
        let text = format!("Pools of other sources keep {others} more branches ready in this home.");
        add("other_pools", Severity::Warning, Some(others as f64), text);
    }
    if let (Some(kept), Some(pool)) = (count("pool_kept"), count("pool")) {
        if kept < pool {
            let text = format!(
                "The daemon keeps {kept} branches ready, not the {pool} that were asked for: more do not fit."
            );
            add("pool_cut", Severity::Warning, Some(kept as f64), text);
        }
    }
    if let (Some(pool), Some(clients)) = (count("pool"), count("concurrency")) {
        if pool < clients {
            let text = format!(
                "The pool holds {pool} branches for {clients} clients: some leases wait for the refill."
            );
            add("small_pool", Severity::Warning, None, text);
        }
    }
    let runner = text("runner");
    if runner == Some(Runner::Wire.name()) {
        let text =
            "Queries went over a new PostgreSQL connection to each branch. wire_first_query_ms holds the \
                    connection; first_query_ms is the query alone.";
        add("wire", Severity::Info, None, text.to_owned());
    }
    if runner == Some(Runner::Psql.name()) {
        let text = "Queries were made by psql. Each has a process of its own, whose start and end are in the figure, except \
                    for psql_second_query_ms: that process was held open, and had answered a query before.";
        add("psql", Severity::Info, None, text.to_owned());
    }
    if runner == Some(Runner::NodePg.name()) {
        let text = "Queries were made by one process of Node for all branches of a round, with a new client of the package \
                    pg for each. node_pg_first_query_ms holds the connection; no figure holds the start of Node.";
        add("node_pg", Severity::Info, None, text.to_owned());
    }
    found.extend(target::missed(&targets::standings(evidence)));
    found
}

/// Whether branches ran without flushing, as far as the options say. A document that does not say is not of a run.
fn is_unflushed(evidence: &Evidence) -> bool {
    let settings = evidence.config.get("settings").and_then(Value::as_object);
    let set = settings.and_then(|all| all.iter().find(|(name, _)| name.eq_ignore_ascii_case("fsync")));
    let Some(value) = set.and_then(|(_, value)| value.as_str()).map(str::to_ascii_lowercase) else {
        return evidence.config.get("durable").and_then(Value::as_bool) == Some(false);
    };
    // The server takes these words and their beginnings for false.
    value.len() >= 2 && ["off", "false", "no"].iter().any(|word| word.starts_with(&value)) || value == "0"
}
