//! How stale a read on the standby is right after a commit: what one pays for with the stronger levels.

use crate::error::refused;
use std::sync::atomic::Ordering;
use std::time::Duration;

use duramen_base::{clock, entropy};
use duramen_measure::histogram::LatencyHistogram;

use super::super::outcome::Staleness;
use super::super::scenario::Node;
use super::act::{run_on_primary, REPLAY};
use super::session::{within, PATIENCE};
use super::Bench;
use duramen_reports::suite::SuiteError;

/// So many commits a level are followed, if they do not take longer than [`LONGEST`].
const COMMITS: u64 = 200;
const COMMITS_QUICK: u64 = 20;
const LONGEST: Duration = Duration::from_secs(20);
const LONGEST_QUICK: Duration = Duration::from_secs(3);
/// What is to be seen on the standby is seen within this.
const VISIBLE: Duration = Duration::from_secs(30);

/// Commits at each level, the levels in random order over and over, each followed until the standby shows it.
pub(in super::super) async fn measure(bench: &Bench<'_>) -> Result<Vec<Staleness>, SuiteError> {
    let (commits, longest) = match bench.options.quick {
        true => (COMMITS_QUICK, LONGEST_QUICK),
        false => (COMMITS, LONGEST),
    };
    let table = ["DROP TABLE IF EXISTS staleness", "CREATE TABLE staleness AS SELECT 0::int8 AS version"];
    run_on_primary(bench.pair, table.map(str::to_owned).to_vec()).await?;
    bench.pair.caught_up(REPLAY).await?;
    let primary = bench.pair.connect(Node::Primary).await?;
    let standby = bench.pair.connect(Node::Standby).await?;
    let doing = "prepare the reads of the standby";
    let update = "UPDATE staleness SET version = version + 1 RETURNING version";
    let update = within(PATIENCE, doing, primary.prepare(update)).await?;
    let update = update.map_err(refused(doing, Node::Primary))?;
    let read = within(PATIENCE, doing, standby.prepare("SELECT version FROM staleness")).await?;
    let read = read.map_err(refused(doing, Node::Standby))?;

    let new = |level| Staleness { level, commits: 0, stale: 0, visible_after: LatencyHistogram::new() };
    let mut seen: Vec<Staleness> = bench.options.levels().into_iter().map(new).collect();
    let mut order: Vec<usize> = (0..seen.len()).collect();
    let mut rng = entropy::rng(bench.seed.fetch_add(1, Ordering::Relaxed));
    let begin = clock::now();
    for _ in 0..commits {
        if begin.elapsed() > longest {
            break;
        }
        rng.shuffle(&mut order);
        for at in &order {
            let at = &mut seen[*at];
            let (doing, set) = ("commit", format!("SET synchronous_commit = {}", at.level));
            within(PATIENCE, doing, primary.batch_execute(&set))
                .await?
                .map_err(refused(doing, Node::Primary))?;
            let row = within(PATIENCE, doing, primary.query_one(&update, &[])).await?;
            let version: i64 = row.map_err(refused(doing, Node::Primary))?.get(0);
            let acknowledged = clock::now();
            let mut looks = 0_u64;
            loop {
                let doing = "read on the standby";
                let row = within(PATIENCE, doing, standby.query_one(&read, &[])).await?;
                if row.map_err(refused(doing, Node::Standby))?.get::<_, i64>(0) >= version {
                    break;
                }
                looks += 1;
                if acknowledged.elapsed() > VISIBLE {
                    let what = "a commit to be seen on the standby".to_owned();
                    return Err(SuiteError::Timeout { what, seconds: VISIBLE.as_secs() });
                }
            }
            at.commits += 1;
            at.stale += u64::from(looks > 0);
            let after = if looks > 0 { acknowledged.elapsed() } else { Duration::ZERO };
            at.visible_after.record(after);
        }
    }
    run_on_primary(bench.pair, vec!["DROP TABLE staleness".to_owned()]).await?;
    Ok(seen)
}
