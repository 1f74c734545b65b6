//! The tables of a report, which page, Markdown and terminal have in common.

use crate::{
    figures::{span, Keeps, Latencies, RecordingReport},
    findings::short,
    plans::Plan,
    relations::{Kind, What},
    report::Report,
};
use duramen_base::words::{bytes, counted, number};

/// Rows of a table that are shown.
const ROWS_MAX: usize = 40;

/// A table with its title. Cells are plain text.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) title: &'static str,
    pub(crate) headers: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
    /// What is to be known of it.
    pub(crate) note: String,
    /// The columns that hold SQL or names.
    pub(crate) code: Vec<usize>,
}

impl Part {
    fn new(title: &'static str, headers: &[&'static str], mut rows: Vec<Vec<String>>, note: &str) -> Part {
        let more = rows.len().saturating_sub(ROWS_MAX);
        rows.truncate(ROWS_MAX);
        let note = match more {
            0 => note.to_owned(),
            more => format!("{note} {more} more are in the JSON document.").trim_start().to_owned(),
        };
        Part { title, headers: headers.to_vec(), rows, note, code: Vec::new() }
    }

    fn code(mut self, columns: &[usize]) -> Part {
        self.code = columns.to_vec();
        self
    }
}

/// All tables that have rows, in the order in which they are read.
pub(crate) fn of(report: &Report) -> Vec<Part> {
    let mut parts = vec![
        latencies(report),
        locks(report),
        own_waits(report),
        relations(report),
        queries(report),
        definitions(report),
        statements(report),
        of_load(report),
        errors(report),
    ];
    parts.retain(|part| !part.rows.is_empty());
    parts
}

/// Figures that stand for themselves, with their names.
pub(crate) fn facts(report: &Report) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("source", format!("{}, generation {}", report.source, report.generation)),
        ("command", report.migration.command.clone()),
        ("took", span(report.migration.duration_ms)),
    ];
    if let Some(upgrade) = &report.upgrade {
        facts.push(("before", format!("PostgreSQL {}", upgrade.from)));
    } else {
        facts.push(("log written", log(report)));
    }
    if let Some(load) = &report.load {
        let rate = number((load.rate * 100.0).round() / 100.0);
        let mut words = format!("{} sessions, {rate} transactions a second", load.clients);
        if let Some(seed) = load.seed {
            words = format!("{words}, seed {seed}");
        }
        facts.push(("load", words));
        facts.extend(load.recording.as_ref().map(|recording| ("recording", recorded(recording))));
    }
    if report.upgrade.is_none() {
        let looks = &report.looks;
        facts.push((
            "looked at locks",
            format!("{} times, at most {} apart", number(looks.count as f64), span(looks.longest_gap_ms)),
        ));
    }
    let setting = |name: &str| report.server.get(name).map_or("unknown", String::as_str);
    facts.push((
        "server",
        format!(
            "PostgreSQL {}, wal_level {}, shared_buffers {}, {} parallel workers, autovacuum {}",
            setting("server_version"),
            setting("wal_level"),
            setting("shared_buffers"),
            setting("max_worker_processes"),
            setting("autovacuum")
        ),
    ));
    facts
}

fn recorded(recording: &RecordingReport) -> String {
    let mut words = format!(
        "{} in {} of {} of the database {}, {} long, replayed {}",
        counted(recording.statements, "statement"),
        counted(recording.transactions, "transaction"),
        counted(recording.sessions, "client"),
        recording.database,
        span(recording.span_ms),
        if recording.speed == 1.0 {
            "as fast".to_owned()
        } else {
            format!("{} times as fast", number(recording.speed))
        },
    );
    let left_out = [
        (recording.copies, "COPY from or to a client", "whose data no log has"),
        (recording.without_parameters, "statement", "whose parameters were not logged"),
        (recording.elsewhere, "statement", "of other databases"),
    ];
    for (found, what, why) in left_out.into_iter().filter(|(found, ..)| *found > 0) {
        words = format!("{words}; left out: {} {why}", counted(found, what));
    }
    if recording.errors > 0 {
        words = format!("{words}; {} when it was recorded", counted(recording.errors, "error"));
    }
    words
}

fn log(report: &Report) -> String {
    let wal = &report.wal;
    let mut words = bytes(wal.bytes);
    if report.load.is_some() {
        words = format!("{words}, of which the load writes about {}", bytes(wal.load_bytes));
    }
    if wal.unlogged_bytes > 0 {
        let unlogged = bytes(wal.unlogged_bytes);
        words =
            format!("{words}; and {unlogged} into new files, which is logged where wal_level is not minimal");
    }
    words
}

fn cells<const N: usize>(cells: [String; N]) -> Vec<String> {
    cells.to_vec()
}

fn latencies(report: &Report) -> Part {
    let rows = report.load.iter().flat_map(|load| {
        (0..3).map(|phase| {
            let Latencies { count, failed, p50_ms, p99_ms, max_ms, blocked_ms } = load.transactions[phase];
            cells([
                load.phases[phase].to_owned(),
                span(load.phases_ms[phase]),
                number(count as f64),
                number(failed as f64),
                span(p50_ms),
                span(p99_ms),
                span(max_ms),
                span(blocked_ms),
            ])
        })
    });
    let headers = ["migration", "lasted", "transactions", "failed", "p50", "p99", "max", "blocked"];
    let note = "Latencies of transactions, from the moment at which each was due. Blocked is the time for which they waited for the migration, all together.";
    Part::new("The load", &headers, rows.collect(), note)
}

fn of_load(report: &Report) -> Part {
    let rows = report.load.iter().flat_map(|load| &load.statements).map(|it| {
        let [before, during, after] = it.phases;
        cells([
            short(&it.text),
            it.script.clone(),
            span(before.p50_ms),
            span(during.p50_ms),
            span(after.p50_ms),
            span(before.max_ms),
            span(during.max_ms),
            span(after.max_ms),
        ])
    });
    let headers = ["statement", "script", "p50 before", "during", "after", "max before", "during", "after"];
    Part::new("Statements of the load", &headers, rows.collect(), "From the start of each.").code(&[0, 1])
}

fn errors(report: &Report) -> Part {
    let rows = report.load.iter().flat_map(|load| &load.errors).map(|error| {
        let [before, during, after] = error.counts.map(|count| number(count as f64));
        cells([short(&error.message), error.code.clone(), before, during, after, short(&error.statement)])
    });
    let headers = ["error", "code", "before", "during", "after", "first in"];
    Part::new("Errors of the load", &headers, rows.collect(), "").code(&[0, 1, 5])
}

fn locks(report: &Report) -> Part {
    let rows = report.locks.iter().map(|table| {
        let held = |mode: &crate::figures::ModeHeld| format!("{} {}", mode.mode, span(mode.longest_ms));
        // What keeps nobody out is told only where nothing else is.
        let keeping: Vec<String> =
            table.modes.iter().filter(|mode| mode.keeps_out > Keeps::Nobody).map(held).collect();
        let modes = match (keeping.is_empty(), table.modes.first()) {
            (false, _) => keeping.join(", "),
            (true, Some(strongest)) => held(strongest),
            (true, None) => "none: it waited".to_owned(),
        };
        cells([
            table.name.clone(),
            modes,
            table.keeps_out().name().to_owned(),
            number(table.waiters as f64),
            span(table.longest_wait_ms),
            span(table.total_wait_ms),
        ])
    });
    let headers = ["relation", "held", "keeps out", "waited", "longest", "together"];
    let note = "On what was there before the migration, the longest time in each mode. Waited: statements of the load that waited for the migration, or behind it.";
    Part::new("Locks", &headers, rows.collect(), note).code(&[0])
}

fn own_waits(report: &Report) -> Part {
    let rows = report.migration.waits.iter().map(|wait| {
        let who = wait.blockers.first().map(|who| short(who)).unwrap_or_default();
        cells([
            wait.what.clone(),
            wait.mode.clone(),
            span(wait.from_ms),
            span(wait.waited_ms),
            short(&wait.statement),
            who,
        ])
    });
    let headers = ["for", "mode", "at", "waited", "statement", "in the way"];
    Part::new("What the migration waited for", &headers, rows.collect(), "").code(&[0, 4, 5])
}

fn statements(report: &Report) -> Part {
    let rows = report.migration.statements.iter().map(|it| {
        let took = if it.is_exact { span(it.took_ms) } else { format!("about {}", span(it.took_ms)) };
        cells([short(&it.text), span(it.from_ms), took, span(it.waited_ms)])
    });
    let note = "As far as they were seen: of short ones that follow each other, some are missing.";
    Part::new("Statements of the migration", &["statement", "at", "took", "waited"], rows.collect(), note)
        .code(&[0])
}

fn relations(report: &Report) -> Part {
    let rows = report.relations.iter().map(|it| {
        let mut what = match it.what {
            What::Rewritten => "new file",
            What::Created => "created",
            What::Dropped => "dropped",
            What::Written => "written",
        }
        .to_owned();
        if !it.is_valid {
            what.push_str(", INVALID");
        }
        if let Some(old) = &it.renamed_from {
            what = format!("{what}, was {old}");
        }
        let rows = |count: u64| if it.kind == Kind::Index { String::new() } else { number(count as f64) };
        cells([
            it.name.clone(),
            it.kind.name().to_owned(),
            what,
            bytes(it.bytes_before),
            bytes(it.bytes_after),
            rows(it.inserted),
            rows(it.updated),
            rows(it.deleted),
        ])
    });
    let headers = ["relation", "kind", "what", "before", "after", "inserted", "updated", "deleted"];
    let note = if report.load.is_some() { "Rows are the migration's and the load's." } else { "" };
    Part::new("Tables and indexes", &headers, rows.collect(), note).code(&[0])
}

fn queries(report: &Report) -> Part {
    let time = |plan: &Plan| match (plan.execution_ms, &plan.error) {
        (Some(time), _) => span(time),
        (None, Some(error)) => short(error),
        (None, None) => "-".to_owned(),
    };
    let rows_of = |plan: &Plan| match plan.rows {
        Some(rows) => format!("{} of {}", number(rows), number(plan.estimated_rows)),
        None => "-".to_owned(),
    };
    let rows = report.queries.iter().map(|query| {
        cells([
            short(&query.sql),
            time(&query.before),
            time(&query.after),
            if query.is_changed { "another" } else { "the same" }.to_owned(),
            query.before.shape.first().cloned().unwrap_or_default(),
            query.after.shape.first().cloned().unwrap_or_default(),
            rows_of(&query.after),
        ])
    });
    let headers = ["query", "before", "after", "plan", "top node before", "after", "rows of estimated"];
    let note = "Each ran twice before and twice after, without the load; the second run counts.";
    Part::new("Plans", &headers, rows.collect(), note).code(&[0, 4, 5])
}

fn definitions(report: &Report) -> Part {
    let changes = report.definitions.iter().flat_map(|diff| &diff.changes);
    let rows = changes.map(|change| {
        let differences = change.differences.iter().map(|it| {
            let value = |value: &Option<String>| value.as_deref().map_or("none", |value| value).to_owned();
            format!("{}: {} -> {}", it.what, value(&it.from), value(&it.to))
        });
        let differences = differences.collect::<Vec<_>>().join("; ");
        cells([change.how.clone(), change.kind.clone(), change.name.clone(), short(&differences)])
    });
    Part::new("Definitions", &["how", "kind", "name", "what"], rows.collect(), "").code(&[2, 3])
}
