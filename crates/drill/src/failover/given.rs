//! A cluster of somebody: a switchover through the REST API of its Patroni, asked for by name, and nothing else.
//!
//! No object is made in it and no setting is changed. Clients commit transactional messages, and what became of them is asked
//! by the numbers of their transactions.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duramen_base::{clock, file};
use duramen_measure::evidence::{Evidence, Measurement, Severity};
use duramen_postgres::connection::Target;
use duramen_reports::suite::{Say, SuiteError};
use serde_json::json;

use super::document::{self, RepetitionView};
use super::options::{Drill, Options};
use crate::error::DrillError;
use crate::http::Endpoint;
use crate::ledger::{Account, Attempt, Ledger};
use crate::patroni::{is_healthy, members, Member};
use crate::writer::{Work, Writers};

/// Clients write for so long before and after.
const WARM: Duration = Duration::from_secs(2);
/// Another node leads, and all stream again, within this.
const LIMIT: Duration = Duration::from_secs(120);
/// The longest configuration file.
const CONFIG_MOST: u64 = 1 << 20;
/// A question is answered within this.
const ANSWER: Duration = Duration::from_secs(30);

/// Where a cluster of somebody is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// The REST API of Patroni on one of its nodes.
    pub rest: Endpoint,
    /// Its nodes, each by a connection string of its own.
    pub nodes: Vec<String>,
}

impl Given {
    /// Reads where the REST API is, and who may use it, in a configuration file of Patroni: `restapi.connect_address` and
    /// `restapi.authentication`. Only plain lines `name: value` are understood.
    ///
    /// # Errors
    /// [`DrillError`], if the file cannot be read or does not say.
    pub fn from_config(path: &Path, nodes: Vec<String>) -> Result<Self, DrillError> {
        let text = file::read_plain(path, CONFIG_MOST).map_err(DrillError::file("read", path))?;
        let mut sections: Vec<(usize, String)> = Vec::new();
        let (mut address, mut name, mut password, mut certificate) = (None, None, None, None);
        for line in text.lines() {
            let trimmed = line.trim_start();
            if trimmed.is_empty() || trimmed.starts_with('#') {
                continue;
            }
            let depth = line.len() - trimmed.len();
            while sections.last().is_some_and(|(before, _)| *before >= depth) {
                sections.pop();
            }
            let Some((key, value)) = trimmed.split_once(':') else { continue };
            let value = value.split(" #").next().unwrap_or_default().trim().trim_matches(['"', '\'']);
            let place: Vec<&str> = sections.iter().map(|(_, section)| section.as_str()).collect();
            if value.is_empty() {
                sections.push((depth, key.trim().to_owned()));
                continue;
            }
            let value = Some(value.to_owned());
            match (place.as_slice(), key.trim()) {
                (["restapi"], "connect_address") => address = value,
                (["restapi"], "certfile") => certificate = value,
                (["restapi", "authentication"], "username") => name = value,
                (["restapi", "authentication"], "password") => password = value,
                _ => {}
            }
        }
        if certificate.is_some() {
            return Err(DrillError::failed(
                format!("reading {}", path.display()),
                "its REST API speaks TLS, which a drill does not: its password would go out in the clear",
            ));
        }
        let address = address.ok_or_else(|| {
            DrillError::failed(
                format!("reading {}", path.display()),
                "it has no plain line connect_address below restapi; give the address as --rest HOST:PORT",
            )
        })?;
        Ok(Self { rest: Endpoint { address, credentials: name.zip(password) }, nodes })
    }
}

pub(super) async fn hold(
    given: &Given,
    options: &Options,
    evidence: &mut Evidence,
    say: Say<'_>,
) -> Result<(), SuiteError> {
    let targets: Vec<(usize, Target)> = given
        .nodes
        .iter()
        .enumerate()
        .map(|(number, dsn)| {
            let target = Target::parse(dsn).map_err(SuiteError::other)?;
            Ok((number, target.application_name("duramen-drill")))
        })
        .collect::<Result<_, SuiteError>>()?;
    let failed = |what: &str, detail: String| SuiteError::from(DrillError::failed(what, detail));
    let before = members(&given.rest).await.map_err(|error| failed("asking Patroni", error))?;
    let has_synchronous = before.iter().any(|member| member.role.ends_with("sync_standby"));
    if before.len() != targets.len() || !is_healthy(&before, targets.len(), has_synchronous) {
        return Err(SuiteError::Preconditions(vec![format!(
            "the cluster has {} members and {} were named by --dsn, or not all of them stream: {before:?}",
            before.len(),
            targets.len()
        )]));
    }
    evidence.configure("nodes", targets.len() as u64);
    evidence.configure("synchronous_mode", has_synchronous);
    evidence.configure("cluster", "given");
    for repetition in 1..=options.times {
        say(&format!("switchover ({repetition} of {})", options.times));
        once(given, options, &targets, has_synchronous, evidence).await?;
    }
    let views = document::repetitions(evidence);
    let gaps: Vec<f64> = views.iter().map(|view| view.gap_s).collect();
    evidence.measurements.push(Measurement::from_values("gap_s/switchover", "s", &gaps));
    let lost: u64 = views.iter().map(|view| view.account.lost).sum();
    let acknowledged: u64 = views.iter().map(|view| view.account.acknowledged).sum();
    evidence.measurements.push(Measurement::scalar("lost_rows/switchover", "rows", lost as f64));
    evidence.check(
        "nothing_lost/switchover",
        lost == 0,
        format!("{lost} of {acknowledged} acknowledged transactions are not committed on the new leader"),
    );
    let text = "On a cluster that is not ours no row is written. A commit counts as lost if the new leader does not know its \
                transaction as committed, or if two commits have the same number; one whose number another client's \
                transaction has taken over is not seen.";
    evidence.find("not_measured", Severity::Info, None, text);
    Ok(())
}

async fn once(
    given: &Given,
    options: &Options,
    targets: &[(usize, Target)],
    has_synchronous: bool,
    evidence: &mut Evidence,
) -> Result<(), SuiteError> {
    let failed = |detail: String| SuiteError::from(DrillError::failed("the switchover", detail));
    let seen = members(&given.rest).await.map_err(failed)?;
    let leader = |members: &[Member]| {
        members.iter().find(|member| member.role == "leader").map(|member| member.name.clone())
    };
    let old = leader(&seen).ok_or_else(|| failed("nobody leads".to_owned()))?;
    let others = || seen.iter().filter(|member| member.role != "leader");
    let candidate = others().find(|member| member.role.ends_with("sync_standby")).or_else(|| others().next());
    let candidate = candidate.map(|member| member.name.clone());
    let ledger = Arc::new(Ledger::new());
    let origin = clock::now();
    let since = || clock::now().duration_since(origin);
    let ways = (0..options.clients).map(|client| {
        let mut way = targets.to_vec();
        way.rotate_left(client % targets.len());
        way
    });
    let writers = Writers::begin(ways.collect(), Work::Messages, &ledger, origin);
    tokio::time::sleep(WARM).await;
    let first = ledger.attempts().into_iter().rev().find(|attempt| attempt.is_acknowledged);
    let Some(Attempt { node: old_node, .. }) = first else {
        return Err(failed("no commit was acknowledged before it, so it was not begun".to_owned()));
    };
    let begin = since();
    let body = json!({ "leader": old, "candidate": candidate });
    let answer = given.rest.ask("POST", "/switchover", Some(&body), LIMIT).await.map_err(failed)?;
    if !matches!(answer.status, 200 | 202) {
        return Err(failed(format!("Patroni says {}: {}", answer.status, answer.body.trim())));
    }
    let begun = clock::now();
    let new = loop {
        if let Ok(seen) = members(&given.rest).await {
            let new = leader(&seen).filter(|new| *new != old);
            if let Some(new) = new.filter(|_| is_healthy(&seen, targets.len(), has_synchronous)) {
                break new;
            }
        }
        if begun.elapsed() > LIMIT {
            return Err(failed(format!(
                "after {} s not all members stream from another leader",
                LIMIT.as_secs()
            )));
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    };
    let end = since();
    tokio::time::sleep(WARM).await;
    writers.end().await?;
    let attempts = ledger.attempts();
    let acknowledged: Vec<&Attempt> = attempts.iter().filter(|attempt| attempt.is_acknowledged).collect();
    let first_commit = ledger.first_after(begin, |node| node != old_node);
    let gaps = (0..options.clients).map(|client| {
        ledger.longest_gap([begin, end], |attempt| usize::try_from(attempt.client) == Ok(client))
    });
    let lost = lost(targets, &acknowledged).await?;
    let view = RepetitionView {
        drill: Drill::Switchover.name().to_owned(),
        leaders: [old, new],
        gap_s: ledger.longest_gap([begin, end], |_| true).as_secs_f64(),
        stopped_s: None,
        client_gaps_s: gaps.map(|gap| gap.as_secs_f64()).collect(),
        detected_s: None,
        elected_s: None,
        promoted_s: None,
        first_commit_s: first_commit.map(|at| at.saturating_sub(begin).as_secs_f64()),
        healthy_s: (end - begin).as_secs_f64(),
        account: Account {
            attempted: attempts.len() as u64,
            acknowledged: acknowledged.len() as u64,
            lost,
            ..Account::default()
        },
        errors: ledger.errors(),
    };
    document::push(evidence, &view);
    Ok(())
}

/// How many acknowledged transactions the leader does not know as committed, or share their number with another one.
async fn lost(targets: &[(usize, Target)], acknowledged: &[&Attempt]) -> Result<u64, SuiteError> {
    let failed =
        |detail: String| SuiteError::from(DrillError::failed("asking what became of commits", detail));
    let mut numbers: Vec<i64> = acknowledged.iter().map(|attempt| attempt.number).collect();
    numbers.sort_unstable();
    let before = numbers.len();
    numbers.dedup();
    let doubled = (before - numbers.len()) as u64;
    for (_, target) in targets {
        let Ok(client) = target.connect().await else { continue };
        let asking = async {
            if client.query_one("SELECT pg_is_in_recovery()", &[]).await?.get::<_, bool>(0) {
                return Ok(None);
            }
            // A number that is not given yet is an error when it is asked for.
            let sql = "SELECT count(*) FROM unnest($1::bigint[]) AS number
                       WHERE CASE WHEN number >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint THEN true
                       ELSE pg_xact_status(number::text::xid8) IS DISTINCT FROM 'committed' END";
            Ok::<_, tokio_postgres::Error>(Some(client.query_one(sql, &[&numbers]).await?.get::<_, i64>(0)))
        };
        let asked = tokio::time::timeout(ANSWER, asking).await;
        let asked = asked.map_err(|_| failed("no answer in time".to_owned()))?;
        if let Some(count) = asked.map_err(|error| failed(crate::writer::said(&error)))? {
            return Ok(doubled + u64::try_from(count).unwrap_or(0));
        }
    }
    Err(failed("no node takes writes".to_owned()))
}
