//! What branches cost, measured where it can be measured: in the process that makes them.

use crate::{
    branch::Branch,
    engine::Engine,
    error::{EngineError, Kind, SourceError},
    model::{ColdBranch, Policy},
    trial::Trial,
};
use duramen_base::clock::{self, ms};
use duramen_measure::process;
use duramen_postgres::{Guard, Statement};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long freeing the space of earlier branches may take.
const RECLAIM_LIMIT: Duration = Duration::from_secs(10);

impl Engine {
    /// Makes one branch without the pool, asks it one question, warms it, weighs it and throws it away.
    ///
    /// # Errors
    /// Unknown source, or the branch cannot be made.
    pub async fn measure_cold(
        self: &Arc<Self>,
        source: &str,
        policy: Policy,
    ) -> Result<ColdBranch, EngineError> {
        let generation = self
            .shared
            .registry
            .generation(source)
            .ok_or_else(|| SourceError::NoGeneration { name: source.to_owned() })?;
        generation.admits(policy)?;
        let environment = self.shared.environment.clone();
        generation.check(&environment.store)?;
        // What the branch before this one left to the file system is not this one's work.
        let store = &environment.store;
        tokio::task::block_in_place(|| store.volumes.reclaim(&store.root));
        let begun = clock::now();
        while store.volumes.reclaiming(&store.root) && begun.elapsed() < RECLAIM_LIMIT {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let own_before = process::self_cpu_time();
        let started = clock::now();
        let mut ended = EndedChildren::default();
        let (trial, clone_ms, start_ms) = tokio::task::block_in_place(|| {
            let volume = environment.clone_snapshot(&generation)?;
            let clone_ms = ms(started.elapsed());
            let branch = Arc::new(Branch::new(&environment, generation, policy, volume, None));
            let trial = Trial { environment: &environment, branch };
            trial.branch.start_observed(&mut |postmaster| ended.look(postmaster))?;
            trial.branch.place_relation_cache();
            Ok::<_, EngineError>((trial, clone_ms, ms(started.elapsed()) - clone_ms))
        })?;
        let (first_query_ms, cpu, pss_bytes) = weigh(&trial.branch, started, own_before, &mut ended).await?;
        let connect_ms = first_query_ms - clone_ms - start_ms;
        Ok(ColdBranch { first_query_ms, clone_ms, start_ms, connect_ms, cpu_ms: ms(cpu), pss_bytes })
    }

    /// Proportional memory of idle hot branches, at most `sample` of them.
    ///
    /// # Errors
    /// When `/proc` does not tell.
    pub async fn idle_pss(&self, source: &str, sample: u32) -> Result<Vec<u64>, EngineError> {
        let branches = self.shared.registry.idle_branches(source, sample);
        tokio::task::block_in_place(|| branches.iter().filter_map(|branch| branch.pid()).map(pss).collect())
    }
}

/// First query, warm-up, and then: the time of the first query's answer, the CPU time of everything so far, and the
/// memory of the branch.
async fn weigh(
    branch: &Arc<Branch>,
    started: Instant,
    own_before: Duration,
    ended: &mut EndedChildren,
) -> Result<(f64, Duration, u64), EngineError> {
    let guard = Guard { read_only: true, timeout: Duration::from_secs(30), row_limit: 1, byte_limit: 1024 };
    let one = Statement { sql: "select 1".to_owned(), parameters: Vec::new() };
    branch.connect(false).await?;
    branch.run(&[one], guard).await?;
    let first_query_ms = ms(started.elapsed());
    branch.warm_up().await?;
    let own = process::self_cpu_time().saturating_sub(own_before);
    let pid =
        branch.pid().ok_or_else(|| EngineError::new(Kind::Failed, "server_failed", "the server is gone"))?;
    ended.look(pid);
    let postmaster = process::cpu_time(pid).map_err(|error| no_figures(pid, &error))?;
    Ok((first_query_ms, own + postmaster + ended.total(), pss(pid)?))
}

/// CPU time of the processes that a postmaster starts, as last seen: some (the startup process) end within
/// milliseconds, and `/proc` tells their time only while they live.
#[derive(Debug, Default)]
struct EndedChildren(BTreeMap<u32, Duration>);

impl EndedChildren {
    fn look(&mut self, postmaster: u32) {
        for pid in process::children(postmaster) {
            if let Ok(time) = process::cpu_time(pid) {
                self.0.insert(pid, time);
            }
        }
    }

    fn total(&self) -> Duration {
        self.0.values().sum()
    }
}

fn no_figures(pid: u32, error: &std::io::Error) -> EngineError {
    EngineError::new(Kind::Failed, "no_figures", format!("/proc/{pid}: {error}"))
}

fn pss(postmaster: u32) -> Result<u64, EngineError> {
    let mut total = 0;
    for pid in std::iter::once(postmaster).chain(process::tree(postmaster)) {
        total += process::pss_bytes(pid).map_err(|error| no_figures(pid, &error))?;
    }
    Ok(total)
}
