//! The targets: what each figure must reach on two cores that the server, the worker and the load share. Set before
//! measuring, beside what the reference reached on a machine of that kind.

use duramen_base::words::number;
use duramen_measure::evidence::Evidence;
use duramen_measure::target::{self, Outcome, Standing};

use super::options::Sizes;

/// Where one fsync takes longer than this, in milliseconds, concurrency 128 stands in for 32.
pub(crate) const SLOW_SYNC_MS: f64 = 1.0;

/// Where the figure of a target is found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Source {
    /// The p50 of a measurement.
    P50(&'static str),
    /// The p95 of a measurement.
    P95(&'static str),
    /// Instances per second at concurrency 32, or 128 on a slow disk.
    Completed,
}

/// What a figure must not exceed, or with `at_least` not fall below.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Limit {
    /// A number.
    Fixed(f64),
    /// So many fsyncs and so many milliseconds, or this many milliseconds if that is more.
    Fsyncs {
        /// How many fsyncs.
        count: f64,
        /// What is added to them, in milliseconds.
        plus_ms: f64,
        /// What is allowed in any case, in milliseconds.
        or_ms: f64,
    },
    /// For each connection that the worker has for long steps.
    PerConnection(f64),
}

/// Where the figure of a target is found, and what it must reach in which runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Figure {
    source: Source,
    limit: Limit,
    /// What would be better still.
    stretch: Option<f64>,
    /// Whether it takes all kills.
    needs_kills: bool,
}

type Target = target::Target<Figure>;

const fn most(what: &'static str, name: &'static str, limit: Limit, unit: &'static str) -> Target {
    let figure = Figure { source: Source::P50(name), limit, stretch: None, needs_kills: false };
    // What it must reach is computed from the figure.
    Target::most(what, figure, 0.0, unit)
}

const fn least(what: &'static str, name: &'static str, limit: Limit, unit: &'static str) -> Target {
    Target { at_least: true, ..most(what, name, limit, unit) }
}

const fn kills(target: Target) -> Target {
    Target { figure: Figure { needs_kills: true, ..target.figure }, ..target }
}

/// All targets.
pub(crate) const TARGETS: &[Target] = &[
    Target {
        figure: Figure {
            source: Source::Completed,
            limit: Limit::Fixed(5_000.0),
            stretch: Some(8_000.0),
            needs_kills: false,
        },
        ..least("trivial instances completed", "", Limit::Fixed(0.0), "1/s").beside(22.9)
    },
    most(
        "end to end, concurrency 1, p50",
        "end_to_end_ms/c=1",
        Limit::Fsyncs { count: 2.0, plus_ms: 3.0, or_ms: 5.0 },
        "ms",
    )
    .beside(626.0),
    most("df.start, serial, p50", "start_ms", Limit::Fsyncs { count: 1.0, plus_ms: 1.0, or_ms: 0.0 }, "ms")
        .beside(1.4),
    least("starts, one call each, 16 sessions", "started_per_s", Limit::Fixed(10_000.0), "1/s").beside(958.0),
    least("starts in bulk", "bulk_started_per_s", Limit::Fixed(50_000.0), "1/s"),
    most("commits per trivial instance", "commits_per_instance", Limit::Fixed(2.0), "commits").beside(43.0),
    most("WAL per trivial instance", "wal_bytes_per_instance", Limit::Fixed(4.0 * 1024.0), "bytes")
        .beside(36.0 * 1024.0),
    least("effective parallelism", "effective_parallelism", Limit::PerConnection(0.95), "steps at once")
        .beside(2.0),
    Target {
        figure: Figure {
            source: Source::P95("end_to_end_ms/c=128"),
            limit: Limit::Fixed(60.0),
            stretch: None,
            needs_kills: false,
        },
        ..most("end to end, concurrency 128, p95", "", Limit::Fixed(0.0), "ms")
    },
    least("completed at concurrency 128 over 32", "completed_128_over_32", Limit::Fixed(1.0), "x"),
    most(
        "hot tables under a held snapshot over before, the worst of them",
        "hot_bytes_under_snapshot",
        Limit::Fixed(1.1),
        "x",
    ),
    least("rate through a queue over without one", "queue_rate_share", Limit::Fixed(0.9), "x"),
    most("p50 beside a backlog in another queue over alone", "beside_a_backlog", Limit::Fixed(1.5), "x"),
    most("queries of an idle worker", "idle_queries_per_s", Limit::Fixed(0.2), "1/s").beside(40.0),
    kills(most("lost under kills", "lost", Limit::Fixed(0.0), "instances and effects")),
    kills(most("SQL effects twice", "done_twice", Limit::Fixed(0.0), "effects")),
];

/// What one fsync takes on the disk of a run, in milliseconds.
pub(crate) fn fsync_ms(evidence: &Evidence) -> f64 {
    evidence.measurement("fsync_floor").map_or(evidence.host.fsync_floor_us, |floor| floor.p50) / 1e3
}

/// The concurrency at which completed instances are counted on a disk.
pub(crate) fn counted_at(fsync_ms: f64) -> usize {
    if fsync_ms > SLOW_SYNC_MS {
        128
    } else {
        32
    }
}

/// What it must reach on this disk and with these connections, and what is said beside that.
fn limit(figure: &Figure, fsync_ms: f64, connections: u64) -> (f64, String) {
    let (limit, mut note) = match figure.limit {
        Limit::Fixed(limit) => (limit, String::new()),
        Limit::Fsyncs { count, plus_ms, or_ms } => {
            let by_disk = count * fsync_ms + plus_ms;
            let note = format!(" ({} fsync + {} ms)", number(count), number(plus_ms));
            (by_disk.max(or_ms), if by_disk > or_ms { note } else { String::new() })
        }
        Limit::PerConnection(share) => {
            (share * connections as f64, format!(" ({} of the connections)", number(share)))
        }
    };
    if let Some(stretch) = figure.stretch {
        note.push_str(&format!(", better {}", number(stretch)));
    }
    (limit, note)
}

/// Holds a run against every target that it has a figure for, in the order of [`TARGETS`].
pub(crate) fn standings(evidence: &Evidence) -> Vec<Standing> {
    let fsync_ms = fsync_ms(evidence);
    let number_of = |name: &str| evidence.count_set(name).unwrap_or(0);
    let kills = |name: &str| u32::try_from(number_of(name)).unwrap_or(u32::MAX);
    let all_kills = Sizes::are_all_kills(kills("worker_kills"), kills("postgres_kills"));
    let standing = |target: &Target| {
        let (name, what) = match target.figure.source {
            Source::P50(name) | Source::P95(name) => (name.to_owned(), target.what.to_owned()),
            Source::Completed => {
                let at = counted_at(fsync_ms);
                (format!("completed_per_s/c={at}"), format!("{}, concurrency {at}", target.what))
            }
        };
        let figure = evidence.measurement(&name)?;
        let measured = if matches!(target.figure.source, Source::P95(_)) { figure.p95 } else { figure.p50 };
        let (limit, limit_note) = limit(&target.figure, fsync_ms, number_of("connections"));
        let mut standing = target.hold_at(limit, measured);
        if target.figure.needs_kills {
            standing.reference_note = "not guaranteed";
            // A few kills can show that something is wrong, and not that nothing is.
            if !all_kills && !standing.is_missed() {
                standing.outcome = Outcome::OtherLoad;
            }
        }
        let floor = matches!(target.figure.limit, Limit::Fsyncs { .. }).then_some(fsync_ms);
        Some(Standing { name, what, limit_note, floor, ..standing })
    };
    TARGETS.iter().filter_map(standing).collect()
}

/// What the in-database extension completes, in instances a second.
pub(crate) fn completed_by_reference() -> Option<f64> {
    TARGETS.iter().find(|target| target.figure.source == Source::Completed)?.reference
}
