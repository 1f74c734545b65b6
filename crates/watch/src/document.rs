//! What was seen as an evidence document, and what it says.

use crate::{
    advice,
    attribution::{Reason, Stage},
    ledger::{Ledger, Stall, Total, STALL},
    watch::{locked, State, Watch, PERIOD},
};
use duramen_base::words::number;
use duramen_measure::{
    evidence::{Evidence, Finding, Measurement, Severity},
    host::{Host, HostError},
    target::Standing,
};
use duramen_postgres::connection::without_password;
use duramen_reports::{
    page::{Report, Tile},
    suite::{self, Headline, Lead, Suite},
    text::{self, narrow_table, wrapped},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt::Write, path::Path, time::Duration};

/// The name of its documents' suite.
pub const SUITE: &str = "watch";
/// Where a document has its stalls.
const STALLS: &str = "stalls";
/// So much of the time may not have been seen.
const BLIND_SHARE: f64 = 0.05;

/// Watching as what its documents are read with. It measures nothing by itself: see [`Watch`].
#[derive(Debug)]
pub struct Watching;

/// A stall as documents have it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StallView {
    /// Since the watching began, in seconds.
    pub begin_s: f64,
    /// How long, in seconds.
    pub length_s: f64,
    /// The most sessions that waited at a time.
    pub sessions: usize,
    /// The stage that it waited for most of the time; empty if it is not known.
    pub stage: String,
    /// What held it up there.
    pub cause: String,
    /// At which standby.
    pub standby: String,
    /// The share of the time for which that was so.
    pub share: f64,
    /// The reader that was in the way.
    pub reader: Option<String>,
}

impl StallView {
    /// Of a stall.
    #[must_use]
    pub fn of(stall: &Stall) -> Self {
        let all: Duration = stall.shares.values().sum();
        let reason = stall.reason();
        let share = reason.and_then(|reason| stall.shares.get(reason));
        let share = share.map_or(0.0, |time| time.as_secs_f64() / all.as_secs_f64().max(1e-9));
        Self {
            begin_s: rounded(stall.begin),
            length_s: rounded(stall.length),
            sessions: stall.sessions,
            stage: reason.map_or_else(String::new, |reason| reason.stage.name().to_owned()),
            cause: reason.map_or_else(String::new, |reason| reason.cause.to_owned()),
            standby: reason.map_or_else(String::new, |reason| reason.standby.clone()),
            share: (share * 1e3).round() / 1e3,
            reader: stall.reader.clone(),
        }
    }
}

/// A line about a stall: `4.1 s, 8 sessions: the standby to replay (s1): a reader's snapshot is in the way`.
#[must_use]
pub fn sentence(stall: &Stall) -> String {
    let sessions = if stall.sessions == 1 { "session" } else { "sessions" };
    let reason = stall.reason().map_or_else(|| "the reason is not known".to_owned(), advice::in_words);
    let reader = stall.reader.as_ref().map_or_else(String::new, |reader| format!(", by {reader}"));
    format!(
        "{} s, {} {sessions} waited for {reason}{reader}",
        number(stall.length.as_secs_f64()),
        stall.sessions
    )
}

/// The document of what was seen up to now.
///
/// # Errors
/// When this machine cannot be described.
pub fn evidence(watch: &Watch, command: Vec<String>) -> Result<Evidence, HostError> {
    let mut evidence = Evidence::new(SUITE, Host::fingerprint(Path::new("."))?);
    evidence.command = command.iter().map(|word| without_password(word)).collect();
    let state = watch.state();
    let state = locked(&state);
    let ledger = &state.ledger;
    if let Ok(watched) = jiff::SignedDuration::try_from(ledger.last()) {
        evidence.started_at -= watched;
    }
    evidence.configure("system_identifier", watch.system_identifier());
    let servers: Vec<String> =
        watch.servers().iter().map(|(server, version)| format!("{server}: PostgreSQL {version}")).collect();
    evidence.configure("servers", servers);
    let settings: Vec<String> =
        watch.settings().iter().map(|(server, setting)| format!("{server}: {setting}")).collect();
    evidence.configure("settings", settings);
    evidence.configure("period_ms", PERIOD.as_millis() as u64);
    let stalls: Vec<StallView> = ledger.stalls().map(StallView::of).collect();
    evidence.configure(STALLS, serde_json::to_value(&stalls).unwrap_or_default());
    figures(ledger, &stalls, &mut evidence.measurements);
    let watched = ledger.last().as_secs_f64();
    let used = 100.0 * watch.processor().as_secs_f64() / watched.max(PERIOD.as_secs_f64());
    evidence.measurements.push(Measurement::scalar("own_processor_percent", "%", used));
    let blind = ledger.blind().as_secs_f64();
    evidence.check(
        "seen throughout",
        blind <= BLIND_SHARE * watched,
        format!(
            "{} looks in {} s; {} s of that were not seen, and the primary did not answer {} times",
            ledger.observations(),
            number(watched),
            number(blind),
            state.missed
        ),
    );
    evidence.findings = found(&evidence);
    evidence.finish();
    Ok(evidence)
}

fn figures(ledger: &Ledger, stalls: &[StallView], into: &mut Vec<Measurement>) {
    let mut scalar = |name: String, unit: &str, value: f64| into.push(Measurement::scalar(name, unit, value));
    scalar("watched_s".to_owned(), "s", ledger.last().as_secs_f64());
    scalar("looks".to_owned(), "looks", ledger.observations() as f64);
    scalar("unseen_s".to_owned(), "s", ledger.blind().as_secs_f64());
    scalar("own_disk_wait_s".to_owned(), "s", ledger.own_disk().as_secs_f64());
    let mut by_stage: BTreeMap<Stage, Total> =
        Stage::ALL.into_iter().map(|stage| (stage, Total::default())).collect();
    for (reason, total) in ledger.totals() {
        let sum = by_stage.entry(reason.stage).or_default();
        sum.waited += total.waited;
        sum.stalled += total.stalled;
        sum.stalls += total.stalls;
        scalar(format!("wait_s/{}/{}", reason.stage, slug(reason)), "s", total.waited.as_secs_f64());
    }
    for (stage, total) in by_stage {
        scalar(format!("wait_s/{stage}"), "s", total.waited.as_secs_f64());
        scalar(format!("stalled_s/{stage}"), "s", total.stalled.as_secs_f64());
        scalar(format!("stalls/{stage}"), "stalls", total.stalls as f64);
    }
    let lengths: Vec<f64> = stalls.iter().map(|stall| stall.length_s).collect();
    into.push(Measurement::from_values("stall_s", "s", &lengths));
}

/// As a part of a figure's name.
fn slug(reason: &Reason) -> String {
    let cause = reason.cause.replace(' ', "_").replace('\'', "");
    if reason.standby.is_empty() {
        cause
    } else {
        format!("{cause}/{}", reason.standby.replace('/', "_"))
    }
}

/// The stalls of a document.
#[must_use]
pub fn stalls(evidence: &Evidence) -> Vec<StallView> {
    let value = evidence.config.get(STALLS).cloned().unwrap_or_default();
    serde_json::from_value(value).unwrap_or_default()
}

/// What the stalls of a document say, by their reason.
fn found(evidence: &Evidence) -> Vec<Finding> {
    let mut by_reason: BTreeMap<(Stage, String, String), Vec<StallView>> = BTreeMap::new();
    for stall in stalls(evidence) {
        let stage = Stage::ALL.into_iter().find(|stage| stage.name() == stall.stage);
        if let Some(stage) = stage {
            by_reason.entry((stage, stall.cause.clone(), stall.standby.clone())).or_default().push(stall);
        }
    }
    let mut findings: Vec<(f64, Finding)> = Vec::new();
    for ((stage, cause, standby), stalls) in by_reason {
        let Some(reason) = crate::attribution::reason(stage, &cause, standby) else { continue };
        let all: f64 = stalls.iter().map(|stall| stall.length_s).sum();
        let longest = stalls.iter().map(|stall| stall.length_s).fold(0.0, f64::max);
        let sessions = stalls.iter().map(|stall| stall.sessions).max().unwrap_or(0);
        let reader = stalls.iter().rev().find_map(|stall| stall.reader.clone());
        let reader = reader.map_or_else(String::new, |reader| format!(" The last one: {reader}."));
        let times = if stalls.len() == 1 {
            format!("once, for {} s", number(longest))
        } else {
            format!("{} times, for {} s in all and {} s at most", stalls.len(), number(all), number(longest))
        };
        let text = format!(
            "Commits stopped {times}, up to {sessions} at a time: they waited for {}.{reader} {}",
            advice::in_words(&reason),
            advice::on(&reason)
        );
        let rule = format!("stall_at_{stage}");
        findings.push((all, Finding::new(rule, Severity::Warning, Some(all), text)));
    }
    findings.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut findings: Vec<Finding> = findings.into_iter().map(|(_, finding)| finding).collect();
    let figure = |name: &str| evidence.median(name).unwrap_or(0.0);
    let waits: f64 = Stage::ALL.into_iter().map(|stage| figure(&format!("wait_s/{stage}"))).sum();
    if findings.is_empty() {
        let text = format!(
            "No commit waited for {} ms or longer in {} s. All waits together: {} s.",
            STALL.as_millis(),
            number(figure("watched_s")),
            number(waits)
        );
        findings.push(Finding::new("no_stall", Severity::Info, Some(waits), text));
    }
    let own = figure("own_disk_wait_s");
    if own > waits && own > 1.0 {
        let text = format!(
            "Sessions waited {} s for the primary's own disk and {} s for standbys: the disk of the primary is what \
             commits wait for most.",
            number(own),
            number(waits)
        );
        findings.push(Finding::new("own_disk", Severity::Info, Some(own), text));
    }
    findings
}

impl Suite for Watching {
    fn name(&self) -> &'static str {
        SUITE
    }

    fn about(&self) -> &'static str {
        "What commits of a live pair waited for (`duramen lab watch replication`)"
    }

    fn targets(&self, _evidence: &Evidence) -> Vec<Standing> {
        Vec::new()
    }

    fn diagnose(&self, evidence: &Evidence) -> Vec<Finding> {
        found(evidence)
    }

    fn headline(&self, evidence: &Evidence) -> Option<Headline> {
        let watched = evidence.median("watched_s")?;
        let stalls = stalls(evidence);
        let longest = stalls.iter().map(|stall| stall.length_s).fold(0.0, f64::max);
        let figure = format!("{} stalls of commits, the longest {} s", stalls.len(), number(longest));
        Some(Headline::new(figure, format!("in {} s", number(watched))))
    }

    fn tiles(&self, evidence: &Evidence) -> Vec<Tile> {
        let leads = [
            Lead::p50("watched_s", "watched"),
            Lead::p50("stall_s", "the stall in the middle"),
            Lead::p50("wait_s/replay", "waited for the replay, over sessions"),
            Lead::p50("wait_s/write", "waited for the standby to receive"),
        ];
        suite::tiles(evidence, &leads, &[])
    }

    fn table(&self, evidence: &Evidence) -> String {
        let mut out = String::new();
        let rows = rows(evidence);
        // A String takes everything.
        if !rows.is_empty() {
            let _ = writeln!(out, "{}\n", narrow_table(&HEADERS, rows));
        }
        for finding in text::findings(&evidence.findings).lines() {
            let _ = writeln!(out, "{}", wrapped(finding, 2));
        }
        for check in text::checks(evidence).lines() {
            let _ = writeln!(out, "{}", wrapped(check, 6));
        }
        out
    }

    fn page(&self, evidence: &Evidence) -> Report {
        suite::page(self, "What commits waited for", evidence, NOTE, &[])
            .table("Stalls", HEADERS, rows(evidence))
            .measurements(&evidence.measurements)
    }
}

const HEADERS: [&str; 6] = ["begin s", "s", "sessions", "stage", "cause", "standby"];
const NOTE: &str =
    "A stall is a time in which there was always a commit that had waited for 250 ms or longer. The \
                    primary was looked at ten times a second; nothing was changed on it.";

fn rows(evidence: &Evidence) -> Vec<[String; 6]> {
    let row = |stall: StallView| {
        [
            number(stall.begin_s),
            number(stall.length_s),
            stall.sessions.to_string(),
            stall.stage,
            stall.cause,
            stall.standby,
        ]
    };
    stalls(evidence).into_iter().map(row).collect()
}

fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e3).round() / 1e3
}

/// A line about now: `4 commits wait; s1 is 1.2 MB behind; 3 stalls, 4.1 s`.
#[must_use]
pub fn status(state: &State) -> String {
    let Some(seen) = &state.last else { return "the primary does not answer".to_owned() };
    let mut parts = Vec::new();
    match state.ledger.current() {
        Some(stall) => parts.push(format!("stalled for {}", sentence(stall))),
        None => parts.push(format!("{} commits wait", seen.waiters.len())),
    }
    for standby in &seen.standbys {
        let behind = seen.flushed.saturating_sub(standby.positions.replayed);
        let sync = if standby.is_synchronous { "" } else { " (asynchronous)" };
        parts.push(format!("{}{sync} is {} kB behind", standby.name, behind / 1_024));
    }
    let stalls: u64 = state.ledger.totals().values().map(|total| total.stalls).sum();
    let stalled: f64 = state.ledger.totals().values().map(|total| total.stalled.as_secs_f64()).sum();
    parts.push(format!("{stalls} stalls, {} s", number(stalled)));
    parts.join("; ")
}
