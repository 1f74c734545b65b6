//! Waiting for the pool: until it is full, and until nothing waits to be deleted either.

use std::time::{Duration, Instant};

use duramen_api::model::{Policy, RefillReport, Status};
use duramen_base::clock;

use super::control::Control;
use duramen_reports::suite::SuiteError;

/// How exactly a refill is timed. Asking more often would take the refill's own time.
const FULL_EVERY: Duration = Duration::from_millis(5);
const IDLE_EVERY: Duration = Duration::from_millis(50);
/// What the pool is given at least, and for each of its branches: ten times what a busy machine needs.
const BASE: Duration = Duration::from_secs(120);
const EACH: Duration = Duration::from_millis(500);
/// A pool that reports an error and has gained nothing for so long will not be filled.
const STUCK: Duration = Duration::from_secs(20);
/// How often a waiting person is told.
const SAY_EVERY: Duration = Duration::from_secs(1);

/// How long a pool of some size may take.
pub(crate) fn deadline(branches: u32) -> Duration {
    BASE + EACH * branches
}

/// How waiting ended.
#[derive(Debug)]
pub(crate) enum Waited {
    /// All is full and deleted.
    Yes(Box<Status>),
    /// It was not in time; why, in words.
    No(String),
}

impl Waited {
    /// The status, or the reason as an error.
    pub(crate) fn status(self) -> Result<Box<Status>, String> {
        match self {
            Waited::Yes(status) => Ok(status),
            Waited::No(reason) => Err(reason),
        }
    }
}

/// Waits until every pool is full and nothing waits to be deleted.
pub(crate) async fn until_idle(
    control: &mut Control,
    within: Duration,
    say: &dyn Fn(&str),
) -> Result<Waited, SuiteError> {
    let begin = clock::now();
    let mut said_at = begin;
    let mut best: Option<(u32, u32, Instant)> = None;
    loop {
        let status = control.status().await?;
        if status.settled {
            return Ok(Waited::Yes(Box::new(status)));
        }
        let hot: u32 = status.pools.iter().map(|pool| pool.hot).sum();
        let target: u32 = status.pools.iter().map(|pool| pool.target).sum();
        // Deletions and clones are progress as well as hot branches are.
        let seen = (hot + status.cold, status.to_delete);
        if best.is_none_or(|(made, to_delete, _)| (made, to_delete) != seen) {
            best = Some((seen.0, seen.1, clock::now()));
        }
        let idle = best.map_or(Duration::ZERO, |(_, _, since)| since.elapsed());
        let stuck = status.pool_error.is_some() && idle > STUCK;
        if stuck || begin.elapsed() > within {
            let error = status.pool_error.map_or_else(String::new, |error| format!(": {error}"));
            return Ok(Waited::No(format!(
                "after {:.0} s, {hot} of {target} branches were ready and {} were yet to be deleted{error}",
                begin.elapsed().as_secs_f64(),
                status.to_delete,
            )));
        }
        if said_at.elapsed() > SAY_EVERY {
            said_at = clock::now();
            say(&format!(
                "waiting for the pool: {hot} of {target} ready, {} cold, {} to delete",
                status.cold, status.to_delete
            ));
        }
        tokio::time::sleep(IDLE_EVERY).await;
    }
}

/// Waits until one pool is full, and returns how long that took since `since`; `None` if it never was.
pub(crate) async fn until_full(
    control: &mut Control,
    source: &str,
    policy: Policy,
    since: Instant,
    within: Duration,
) -> Result<Option<Duration>, SuiteError> {
    loop {
        match control.pool(source, policy).await? {
            // The time is taken when the answer is there: that is when a caller could know.
            Some(pool) if pool.hot >= pool.target => return Ok(Some(since.elapsed())),
            _ if since.elapsed() > within => return Ok(None),
            _ => tokio::time::sleep(FULL_EVERY).await,
        }
    }
}

/// The reports of `after` that were not yet in `before`. Both are the newest ones, oldest first, of a list
/// from which old ones are dropped, so the longest end of `before` that `after` begins with is what they
/// share.
#[must_use]
pub(crate) fn newer<'a>(before: &[RefillReport], after: &'a [RefillReport]) -> &'a [RefillReport] {
    let same = |(a, b): (&RefillReport, &RefillReport)| {
        (a.branches, a.total_ms.to_bits(), a.clone_ms.to_bits(), a.start_ms.to_bits(), a.connect_ms.to_bits())
            == (
                b.branches,
                b.total_ms.to_bits(),
                b.clone_ms.to_bits(),
                b.start_ms.to_bits(),
                b.connect_ms.to_bits(),
            )
    };
    let shared = (0..=before.len().min(after.len()))
        .rev()
        .find(|shared| before[before.len() - shared..].iter().zip(after).all(same))
        .unwrap_or(0);
    &after[shared..]
}
