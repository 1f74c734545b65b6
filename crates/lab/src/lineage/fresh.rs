//! Children of a branch that has just been written to, while it is written to.

use super::{measure::Run, options::Options};
use crate::branches::figures::note_values;
use duramen_base::clock;
use duramen_measure::evidence::Evidence;
use duramen_reports::suite::{Say, SuiteError};
use std::{
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        Arc,
    },
    time::Duration,
};

/// Bytes of a row that is written before.
const ROW: u64 = 1000;
/// Between two commits of the writer.
const PAUSE: Duration = Duration::from_millis(1);

/// Commits one row after another in the parent, and notes the longest time between two commits.
struct Writer {
    stop: Arc<AtomicBool>,
    /// In microseconds, since it was last taken.
    gap: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<Result<u64, tokio_postgres::Error>>,
}

impl Writer {
    async fn start(url: &str) -> Result<Writer, SuiteError> {
        let fail =
            |error: tokio_postgres::Error| SuiteError::Failed(format!("cannot write to the parent: {error}"));
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.map_err(fail)?;
        tokio::spawn(connection);
        let statement = client.prepare("insert into tick values ($1)").await.map_err(fail)?;
        let (stop, gap) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let task = {
            let (stop, gap) = (Arc::clone(&stop), Arc::clone(&gap));
            tokio::spawn(async move {
                let (mut n, mut last) = (0_i64, clock::now());
                while !stop.load(Ordering::Acquire) {
                    n += 1;
                    client.execute(&statement, &[&n]).await?;
                    let now = clock::now();
                    let took = u64::try_from((now - last).as_micros()).unwrap_or(u64::MAX);
                    gap.fetch_max(took, Ordering::AcqRel);
                    last = now;
                    tokio::time::sleep(PAUSE).await;
                }
                Ok(n.unsigned_abs())
            })
        };
        Ok(Writer { stop, gap, task })
    }

    /// The longest time between two commits since this was last asked, in milliseconds.
    fn take(&self) -> f64 {
        self.gap.swap(0, Ordering::AcqRel) as f64 / 1000.0
    }

    /// How many rows it committed.
    async fn end(self) -> Result<u64, SuiteError> {
        self.stop.store(true, Ordering::Release);
        let ended = self.task.await.map_err(|error| SuiteError::Failed(error.to_string()))?;
        ended.map_err(|error| SuiteError::Failed(format!("the parent refused a row: {error}")))
    }
}

pub(super) async fn measure(
    options: &Options,
    run: &mut Run,
    evidence: &mut Evidence,
    say: Say<'_>,
) -> Result<(), SuiteError> {
    if options.fresh == 0 {
        return Ok(());
    }
    let parent = run.name("fresh", 0);
    run.branch(&parent, None).await?;
    let view = run.connection.branch(&parent).await.map_err(SuiteError::refused("look at a branch"))?;
    let writer = Writer::start(&view.url).await?;
    let (mut created, mut answered, mut gaps, mut usual) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let fill = format!(
        "insert into fresh select n, repeat(md5(n::text), {}) from generate_series(1, {}) n",
        ROW / 32,
        options.fresh_bytes / ROW
    );
    for number in 1..=options.fresh {
        say(&format!("a child of a busy branch: {number} of {}", options.fresh));
        run.query(&parent, "truncate fresh").await?;
        run.query(&parent, &fill).await?;
        // What the machine does without a child being made.
        writer.take();
        tokio::time::sleep(Duration::from_millis(100)).await;
        usual.push(writer.take());
        run.query(&parent, "truncate fresh").await?;
        run.query(&parent, &fill).await?;
        writer.take();
        let child = run.name("fresh", number);
        let (create, answer) = run.branch(&child, Some(&parent)).await?;
        gaps.push(writer.take());
        created.push(create);
        answered.push(answer);
        run.destroy(&child).await?;
    }
    let committed = writer.end().await?;
    let counted = run.query(&parent, "select count(*) from tick").await?;
    evidence.check(
        "parent_lost_nothing",
        counted == format!("[[{committed}]]"),
        format!("{committed} rows were committed in it meanwhile, and it holds {counted}"),
    );
    note_values(evidence, "fresh_create_ms", "ms", &created);
    note_values(evidence, "fresh_ms", "ms", &answered);
    note_values(evidence, "parent_gap_ms", "ms", &gaps);
    note_values(evidence, "parent_gap_without_ms", "ms", &usual);
    run.destroy(&parent).await
}
