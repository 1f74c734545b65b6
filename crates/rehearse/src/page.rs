//! A report as a page.

use crate::{
    figures::{span, Bucket, Keeps},
    parts,
    plans::Plan,
    report::{Outcome, Report},
};
use duramen_base::words::{bytes, number};
use duramen_reports::page::{Chart, Item, Report as Page, Tile, Tone};

/// Bars of a chart.
const BARS_MAX: usize = 12;
/// Letters of a name in a chart.
const LETTERS_MAX: usize = 48;

/// The report as one page that opens in any browser, without network and without scripts.
#[must_use]
pub fn page(report: &Report) -> Page {
    let tone = match report.outcome {
        Outcome::Succeeded => Tone::Good,
        Outcome::Invalid => Tone::Doubt,
        Outcome::GateExceeded | Outcome::MigrationFailed | Outcome::Deadline => Tone::Bad,
    };
    let what = if report.upgrade.is_some() { "an upgrade" } else { "a migration" };
    let mut page = Page::new(format!("Rehearsal of {what} of {}", report.source))
        .with_contents()
        .banner(tone, report.outcome.name(), report.sentence())
        .tiles(tiles(report));
    if let Some(load) = &report.load {
        page = page.chart(course(&load.course, report.migration.duration_ms));
    }
    if !report.findings.is_empty() {
        page = page.heading("What was noticed");
        let mut findings: Vec<_> = report.findings.iter().collect();
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        page = page.list(findings.into_iter().map(Item::of_finding));
    }
    if let Some(chart) = held(report) {
        page = page.heading("Who is kept out").chart(chart);
    }
    page = page.heading("In detail");
    for part in parts::of(report) {
        let rows = part.rows.iter().map(|row| row.iter().map(String::as_str));
        page = page.table(part.title, part.headers.iter().copied(), rows);
        if !part.note.is_empty() {
            page = page.note(part.note);
        }
    }
    page = plans(page, report);
    if let Some(diff) = report.definitions.as_ref().filter(|diff| !diff.changes.is_empty()) {
        let inside = Page::new("").commands(diff.script.lines());
        page = page.folded("The same change of definitions as statements", inside);
    }
    if !report.migration.output.is_empty() {
        let inside = Page::new("").commands(report.migration.output.iter().map(String::as_str));
        page = page.folded("The end of what the command printed", inside);
    }
    page.heading("Where")
        .pairs(parts::facts(report))
        .pairs([("started", report.started_at.to_string()), ("finished", report.finished_at.to_string())])
        .with_footer(format!(
            "Made by Duramen {}. Nothing on this page is fetched, and nothing runs.",
            report.version
        ))
}

fn tiles(report: &Report) -> Vec<Tile> {
    let tile = |figure: String, what: &str, beside: String| Tile { figure, what: what.to_owned(), beside };
    if let Some(upgrade) = &report.upgrade {
        let versions = format!("{} to {}", upgrade.from, upgrade.to);
        let mut tiles = vec![tile(span(report.migration.duration_ms), "pg_upgrade", versions)];
        let changed = report.queries.iter().filter(|query| query.is_changed).count();
        if !report.queries.is_empty() {
            let beside = format!("of {}", report.queries.len());
            tiles.push(tile(number(changed as f64), "queries with another plan", beside));
        }
        return tiles;
    }
    let mut tiles = vec![tile(span(report.migration.duration_ms), "the migration", String::new())];
    if let Some(load) = &report.load {
        let beside = format!("{} statements waited", number(load.waits as f64));
        tiles.push(tile(span(load.longest_wait_ms), "longest wait for it", beside));
        let [before, during, _] = load.transactions;
        let beside = format!("{} before", span(before.p99_ms));
        tiles.push(tile(span(during.p99_ms), "p99 latency meanwhile", beside));
    }
    let longest = report.locks.iter().max_by(|a, b| a.kept_out_ms().total_cmp(&b.kept_out_ms()));
    if let Some((table, mode)) = longest.and_then(|table| Some((table, table.longest()?))) {
        let beside = format!("{}, {}", table.name, mode.keeps_out.name());
        tiles.push(tile(span(mode.longest_ms), "longest lock that keeps others out", beside));
    }
    let beside = match report.wal.unlogged_bytes {
        0 => String::new(),
        unlogged => format!("and {} of new files", bytes(unlogged)),
    };
    tiles.push(tile(bytes(report.wal.bytes), "log written meanwhile", beside));
    tiles
}

fn course(course: &[Bucket], migration_ms: f64) -> Chart {
    let times = course.iter().map(|bucket| bucket.at_s).collect();
    let latency = vec![
        ("median", course.iter().map(|bucket| bucket.p50_ms).collect()),
        ("longest", course.iter().map(|bucket| bucket.max_ms).collect()),
    ];
    let waiting = vec![("waiting", course.iter().map(|bucket| Some(bucket.waiting as f64)).collect())];
    Chart::timeline(
        "Latency of the load, and sessions that wait for the migration",
        "s",
        times,
        [("latency, ms", latency), ("sessions", waiting)],
        [(0.0, migration_ms / 1e3, "migration")],
    )
}

/// How long locks that keep others out were held.
fn held(report: &Report) -> Option<Chart> {
    let long = report.locks.iter().filter(|table| table.kept_out_ms() > 0.0);
    let groups: Vec<(String, Vec<(&str, f64)>)> = long
        .take(BARS_MAX)
        .map(|table| {
            let mut bars = Vec::new();
            let strongest = |keeps: Keeps| {
                let modes = table.modes.iter().filter(move |mode| mode.keeps_out == keeps);
                modes.map(|mode| mode.longest_ms).fold(0.0, f64::max)
            };
            for (name, keeps) in [("readers and writers", Keeps::Everybody), ("writers", Keeps::Writers)] {
                if strongest(keeps) > 0.0 {
                    bars.push((name, strongest(keeps)));
                }
            }
            (shortened(&table.name), bars)
        })
        .collect();
    let title = "How long locks that keep others out were held";
    (!groups.is_empty()).then(|| Chart::bars_of(title, "ms", ["readers and writers", "writers"], groups))
}

fn shortened(name: &str) -> String {
    match name.char_indices().nth(LETTERS_MAX) {
        Some((at, _)) => format!("{}...", &name[..at]),
        None => name.to_owned(),
    }
}

fn plans(mut page: Page, report: &Report) -> Page {
    for query in report.queries.iter().filter(|query| query.is_changed) {
        let lines = |plan: &Plan| {
            plan.shape.iter().map(|line| line.replace("  ", "\u{a0}\u{a0}")).collect::<Vec<_>>()
        };
        let inside = Page::new("")
            .commands(query.sql.lines())
            .subheading("Before")
            .commands(lines(&query.before))
            .subheading("After")
            .commands(lines(&query.after));
        page = page.folded(format!("Another plan: {}", crate::findings::short(&query.sql)), inside);
    }
    page
}
