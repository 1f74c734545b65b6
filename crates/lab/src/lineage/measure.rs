//! The suite from the first request to the last.

use super::{fresh, options::Options, shapes, Lineage};
use crate::branches::{
    checks::{left_in_home, Leftovers},
    control::Control,
    daemon::{self, Place},
    pool::until_idle,
};
use duramen_api::model::{AddSource, CreateBranch, Origin, Policy, PoolSize, QueryRequest, SourceSettings};
use duramen_base::{clock, entropy, file};
use duramen_client::Connection;
use duramen_measure::evidence::Evidence;
use duramen_reports::suite::{begin, conclude, Say, Suite as _, SuiteError};
use std::time::Duration;

/// How long everything may take to be deleted.
const IDLE_LIMIT: Duration = Duration::from_secs(600);
/// A branch that the lab lost sight of goes away by itself after so long.
const TTL_S: i64 = 3600;
/// What the source holds; `fresh` is written to, and `tick` while children are made.
const SCRIPT: &str = "create table airlines (carrier int primary key, name text not null);
insert into airlines select n, 'airline ' || n from generate_series(1, 16) n;
create table fresh (id bigint, payload text);
create table tick (n bigint primary key);
";
/// The first query of a child.
const FIRST: &str = "select name from airlines where carrier = 7";

/// What all parts of a run use.
pub(super) struct Run {
    pub(super) connection: Connection,
    pub(super) source: String,
    /// In the names of its branches, so that they clash with nobody's.
    pub(super) token: String,
}

impl Run {
    /// The name of a branch of this run.
    pub(super) fn name(&self, part: &str, number: u32) -> String {
        format!("lab-{}-{part}-{number}", self.token)
    }

    /// Makes a branch, of another one if that is named, and has it answer its first query. Milliseconds for each.
    pub(super) async fn branch(&mut self, name: &str, from: Option<&str>) -> Result<(f64, f64), SuiteError> {
        let request = CreateBranch {
            source: from.is_none().then(|| self.source.clone()),
            name: Some(name.to_owned()),
            from: from.map(str::to_owned),
            policy: from.is_none().then_some(Policy::ReadWrite),
            ttl_s: Some(TTL_S),
            ..CreateBranch::default()
        };
        let begin = clock::now();
        self.connection.create_branch(&request).await.map_err(SuiteError::refused("create a branch"))?;
        let created = clock::ms(begin.elapsed());
        let rows = self.query(name, FIRST).await?;
        if rows != "[[\"airline 7\"]]" {
            return Err(SuiteError::Failed(format!("branch {name} answered {rows}")));
        }
        Ok((created, clock::ms(begin.elapsed())))
    }

    /// The rows of a statement's result.
    pub(super) async fn query(&mut self, name: &str, sql: &str) -> Result<String, SuiteError> {
        let request =
            QueryRequest { sql: Some(sql.to_owned()), timeout_ms: Some(120_000), ..QueryRequest::default() };
        let reply = self.connection.query(name, &request).await;
        let reply = reply.map_err(SuiteError::refused("run a statement in a branch"))?;
        Ok(reply.results.first().map(|result| result.rows.get().to_owned()).unwrap_or_default())
    }

    pub(super) async fn destroy(&mut self, name: &str) -> Result<(), SuiteError> {
        let destroyed = self.connection.destroy_branch(name).await;
        destroyed.map(drop).map_err(SuiteError::refused("destroy a branch"))
    }
}

/// Measures with the daemon that answers for the home, or with one that is started there and stopped at the end.
pub(super) async fn run(options: &Options, say: Say<'_>) -> Result<Evidence, SuiteError> {
    let place = Place {
        home: &options.home,
        exe: &options.exe,
        volumes: options.volumes,
        volume_size: options.volume_size,
    };
    let mut daemon = daemon::reach(&place, say).await?;
    let owned = daemon.is_owned();
    let measured = with_daemon(options, &mut daemon.control, say).await;
    let stopped = daemon.stop(say).await;
    let (mut evidence, mut leftovers) = measured?;
    stopped?;
    if owned {
        leftovers.add(left_in_home(&options.home));
    }
    let (passed, detail) = leftovers.outcome("no lease, and nothing to delete");
    evidence.check("nothing_left_behind", passed, detail);
    conclude(Lineage.diagnose(&evidence), &mut evidence);
    Ok(evidence)
}

async fn with_daemon(
    options: &Options,
    control: &mut Control,
    say: Say<'_>,
) -> Result<(Evidence, Leftovers), SuiteError> {
    let mut evidence = begin(options, &options.home, say)?;
    options.note(&mut evidence);
    let status = control.status().await?;
    let leases = status.leases;
    evidence.configure("volumes", serde_json::to_value(status.volumes).unwrap_or_default());
    let token = entropy::token(8);
    let source = format!("lineage-{token}");
    let script = options.home.join("logs").join(format!("{source}.sql"));
    file::replace(&script, SCRIPT.as_bytes(), 0o600)
        .map_err(|error| SuiteError::Failed(format!("cannot write {}: {error}", script.display())))?;
    let request = AddSource {
        name: source.clone(),
        origin: Origin::Script { path: script.display().to_string() },
        database: None,
        settings: SourceSettings {
            pool: PoolSize { hot: [(Policy::ReadWrite, 2)].into(), cold: 0 },
            ..SourceSettings::default()
        },
    };
    let imported = control.import(&request, say).await;
    let _ = std::fs::remove_file(&script);
    imported?;
    let mut run = Run { connection: control.another().await?, source: source.clone(), token };
    let measured = parts(options, &mut run, &mut evidence, say).await;
    // Whatever is left of a part that failed.
    let prefix = format!("lab-{}-", run.token);
    let all = run.connection.branches().await.map_err(SuiteError::refused("list the branches"))?;
    for branch in all.iter().filter(|branch| branch.name.starts_with(&prefix)) {
        run.destroy(&branch.name).await?;
    }
    control.remove_source(&source).await?;
    let mut leftovers = Leftovers::default();
    match until_idle(control, IDLE_LIMIT, say).await?.status() {
        Ok(status) => leftovers.look_at(&status, leases),
        Err(reason) => leftovers.add([reason]),
    }
    measured?;
    Ok((evidence, leftovers))
}

async fn parts(
    options: &Options,
    run: &mut Run,
    evidence: &mut Evidence,
    say: Say<'_>,
) -> Result<(), SuiteError> {
    fresh::measure(options, run, evidence, say).await?;
    shapes::spine(options, run, evidence, say).await?;
    shapes::bushy(options, run, evidence, say).await?;
    shapes::fan_out(options, run, evidence, say).await
}
