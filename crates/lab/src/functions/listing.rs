//! Listing very many instances page by page while they run.

use std::collections::HashSet;
use std::time::Duration;

use duramen_base::clock;
use duramen_measure::evidence::{Evidence, Measurement};

use super::bench::{Bench, TRIVIAL};
use super::checks;
use super::error::database;
use duramen_reports::suite::SuiteError;

const LABEL: &str = "listing";
const PAGE: i32 = 1_000;
/// What was listed has ended within this.
pub(crate) const DRAIN: Duration = Duration::from_secs(300);

pub(crate) async fn measure(bench: &mut Bench<'_>, evidence: &mut Evidence) -> Result<(), SuiteError> {
    bench.worker_up().await?;
    let count = bench.sizes.listing;
    bench.say(&format!("listing {count} instances"));
    let started: HashSet<String> = bench.start_many(TRIVIAL, LABEL, count).await?.into_iter().collect();
    let client = bench.clients(1).await?.remove(0);
    let failed = || database("list instances");
    let statement = client
        .raw()
        .prepare("SELECT instance_id, next_cursor FROM df.list_instances(NULL, $1, $2, $3)")
        .await
        .map_err(failed())?;
    let mut listed = Vec::with_capacity(count);
    let mut cursor: Option<String> = None;
    let mut pages = Vec::new();
    loop {
        let begin = clock::now();
        let rows = client.raw().query(&statement, &[&PAGE, &LABEL, &cursor]).await.map_err(failed())?;
        pages.push(clock::ms(begin.elapsed()));
        listed.extend(rows.iter().map(|row| row.get::<_, String>(0)));
        cursor = rows.last().and_then(|row| row.get(1));
        // A cursor that leads nowhere must not lead there for ever.
        if cursor.is_none() || listed.len() > 2 * count {
            break;
        }
    }
    evidence.measurements.push(Measurement::from_values("list_page_ms", "ms", &pages));
    evidence.checks.push(checks::listing_complete(&started, &listed));
    Ok(())
}
