//! What a reader must know beside the figures.

use duramen_branches::model::Status;
use duramen_measure::evidence::{Evidence, Severity};

use super::client::{Failure, Lived};
use super::options::{Options, Runner, Write};

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

/// Whether branches run without flushing, as far as the options say.
fn fsync_off(options: &Options) -> bool {
    let Some(value) = fsync_setting(options).map(str::to_ascii_lowercase) else { return !options.durable };
    // The server takes these words and their beginnings for false.
    value.len() >= 2 && ["off", "false", "no"].iter().any(|word| word.starts_with(&value)) || value == "0"
}

/// Adds the findings that follow from the options and the daemon.
pub(crate) fn note_conditions(options: &Options, status: &Status, own_daemon: bool, evidence: &mut Evidence) {
    if fsync_off(options) && options.write != Write::None {
        evidence.find(
            "fsync_off",
            Severity::Warning,
            None,
            "Write figures (write_ms, write_server_ms) were taken with fsync=off: a branch's commits are not flushed \
             to disk and do not survive a crash of the machine. Measure with --durable for the other row.",
        );
    }
    if status.degraded {
        evidence.invalidate(format!(
            "degraded: plain copies ({}). Branches are copied byte by byte, which is not what is measured here.",
            status.volumes_reason
        ));
    }
    if !own_daemon {
        evidence.find(
            "running_daemon",
            Severity::Info,
            None,
            "The daemon was running already: its own volumes and way of refilling hold, not those of the options.",
        );
    }
    let others: u32 =
        status.pools.iter().filter(|pool| pool.source != options.source).map(|pool| pool.target).sum();
    if others > 0 {
        let text = format!("Pools of other sources keep {others} more branches ready in this home.");
        evidence.find("other_pools", Severity::Warning, Some(f64::from(others)), text);
    }
    let pool = status
        .pools
        .iter()
        .find(|pool| pool.source == options.source && pool.policy == options.write.policy());
    if let Some(pool) = pool.filter(|pool| pool.target < options.pool_size()) {
        let text = format!(
            "The daemon keeps {} branches ready, not the {} that were asked for: more do not fit.",
            pool.target,
            options.pool_size()
        );
        evidence.find("pool_cut", Severity::Warning, Some(f64::from(pool.target)), text);
    }
    if options.pool_size() < options.concurrency {
        let text = format!(
            "The pool holds {} branches for {} clients: some leases wait for the refill.",
            options.pool_size(),
            options.concurrency
        );
        evidence.find("small_pool", Severity::Warning, None, text);
    }
    if options.runner == Runner::Wire {
        evidence.find(
            "wire",
            Severity::Info,
            None,
            "Queries went over a new PostgreSQL connection to each branch. wire_first_query_ms holds the connection; \
             first_query_ms is the query alone.",
        );
    }
    let load = evidence.host.load_average[0];
    if load > evidence.host.cores as f64 {
        let text = format!(
            "The load average was {load:.1} on {} cores when the run began: other work took part of the machine.",
            evidence.host.cores
        );
        evidence.find("busy_machine", Severity::Warning, Some(load), text);
    }
}
