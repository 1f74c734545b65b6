//! The bars: what each figure must reach on two cores that the server, the worker and the load share. Set before
//! measuring, beside what the reference reached on a machine of that kind.

use duramen_measure::evidence::{Evidence, Finding, Severity};
use serde_json::Value;

use super::options::Sizes;
pub use crate::branches::bars::{number, Outcome};

use crate::rules::finding;

/// Where one fsync takes longer than this, in milliseconds, concurrency 128 stands in for 32.
pub const SLOW_SYNC_MS: f64 = 1.0;

/// Where the figure of a bar is found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Source {
    /// The p50 of a measurement.
    P50(&'static str),
    /// Instances per second at concurrency 32, or 128 on a slow disk.
    Completed,
}

/// What a figure must not exceed, or with `at_least` not fall below.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
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

/// What a figure must reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// What it is about, in words.
    pub what: &'static str,
    /// Where the figure is found.
    pub source: Source,
    /// What it must reach.
    pub limit: Limit,
    /// What would be better still.
    pub stretch: Option<f64>,
    /// Its unit.
    pub unit: &'static str,
    /// Whether more is better.
    pub at_least: bool,
    /// What the reference reached.
    pub reference: Option<f64>,
    /// Whether it takes all kills.
    pub needs_kills: bool,
}

const fn most(what: &'static str, name: &'static str, limit: Limit, unit: &'static str) -> Bar {
    Bar {
        what,
        source: Source::P50(name),
        limit,
        stretch: None,
        unit,
        at_least: false,
        reference: None,
        needs_kills: false,
    }
}

const fn least(what: &'static str, name: &'static str, limit: f64, unit: &'static str) -> Bar {
    Bar { at_least: true, ..most(what, name, Limit::Fixed(limit), unit) }
}

const fn reference(reached: f64, bar: Bar) -> Bar {
    Bar { reference: Some(reached), ..bar }
}

/// All bars.
pub const BARS: &[Bar] = &[
    Bar {
        source: Source::Completed,
        stretch: Some(8_000.0),
        ..reference(22.9, least("trivial instances completed", "", 5_000.0, "1/s"))
    },
    reference(
        626.0,
        most(
            "end to end, concurrency 1, p50",
            "end_to_end_ms/c=1",
            Limit::Fsyncs { count: 2.0, plus_ms: 3.0, or_ms: 5.0 },
            "ms",
        ),
    ),
    reference(
        1.4,
        most(
            "df.start, serial, p50",
            "start_ms",
            Limit::Fsyncs { count: 1.0, plus_ms: 1.0, or_ms: 0.0 },
            "ms",
        ),
    ),
    reference(958.0, least("starts, one call each, 16 sessions", "started_per_s", 10_000.0, "1/s")),
    least("starts in bulk", "bulk_started_per_s", 50_000.0, "1/s"),
    reference(
        43.0,
        most("commits per trivial instance", "commits_per_instance", Limit::Fixed(2.0), "commits"),
    ),
    reference(
        36.0 * 1024.0,
        most("WAL per trivial instance", "wal_bytes_per_instance", Limit::Fixed(4.0 * 1024.0), "bytes"),
    ),
    reference(
        2.0,
        Bar {
            limit: Limit::PerConnection(0.9),
            ..least("effective parallelism", "effective_parallelism", 0.0, "steps at once")
        },
    ),
    reference(40.0, most("queries of an idle worker", "idle_queries_per_s", Limit::Fixed(0.2), "1/s")),
    Bar { needs_kills: true, ..most("lost under kills", "lost", Limit::Fixed(0.0), "instances and effects") },
    Bar { needs_kills: true, ..most("SQL effects twice", "done_twice", Limit::Fixed(0.0), "effects") },
];

/// A bar with the figure that is held against it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// The bar.
    pub bar: Bar,
    /// The figure.
    pub measured: f64,
    /// What it must reach on this disk and with these connections.
    pub limit: f64,
    /// What one fsync takes, in milliseconds.
    pub fsync_ms: f64,
    /// At which concurrency it was taken, where that depends.
    pub concurrency: Option<usize>,
    /// How it stands.
    pub outcome: Outcome,
}

impl Row {
    /// What it is about, in words.
    #[must_use]
    pub fn what(&self) -> String {
        match self.concurrency {
            Some(concurrency) => format!("{}, concurrency {concurrency}", self.bar.what),
            None => self.bar.what.to_owned(),
        }
    }

    /// The limit with its side, as a table shows it.
    #[must_use]
    pub fn limit_in_words(&self) -> String {
        let Bar { limit, unit, at_least, stretch, .. } = self.bar;
        let side = if at_least { ">=" } else { "<=" };
        let mut text = format!("{side} {}", quantity(self.limit, unit));
        match limit {
            Limit::Fsyncs { count, plus_ms, .. } if self.is_by_disk() => {
                text.push_str(&format!(" ({} fsync + {} ms)", number(count), number(plus_ms)));
            }
            Limit::PerConnection(share) => text.push_str(&format!(" ({} of the connections)", number(share))),
            _ => {}
        }
        if let Some(stretch) = stretch {
            text.push_str(&format!(", better {}", number(stretch)));
        }
        text
    }

    fn is_by_disk(&self) -> bool {
        matches!(self.bar.limit, Limit::Fsyncs { or_ms, .. } if self.limit > or_ms)
    }

    /// What the reference reached, as a table shows it.
    #[must_use]
    pub fn reference(&self) -> String {
        match self.bar.reference {
            Some(reached) => quantity(reached, self.bar.unit),
            None if self.bar.needs_kills => "not guaranteed".to_owned(),
            None => String::new(),
        }
    }

    /// What the disk alone takes of it, for what waits for the disk.
    #[must_use]
    pub fn floor(&self) -> String {
        match self.bar.limit {
            Limit::Fsyncs { .. } => format!("{} ms", number(self.fsync_ms)),
            _ => String::new(),
        }
    }

    /// A missed bar in words: by how much, and what the reference reached.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Bar { unit, at_least, .. } = self.bar;
        let off = match (at_least, self.limit > 0.0) {
            (true, _) => format!("{:.0} % below", (1.0 - self.measured / self.limit) * 100.0),
            (false, true) => format!("{:.0} % above", (self.measured / self.limit - 1.0) * 100.0),
            (false, false) => "above".to_owned(),
        };
        let reference = match self.bar.reference {
            Some(reached) => format!(" The reference reached {}.", quantity(reached, unit)),
            None => String::new(),
        };
        format!(
            "{}: {}, {off} the bar of {}.{reference}",
            self.what(),
            quantity(self.measured, unit),
            quantity(self.limit, unit)
        )
    }
}

/// A value with its unit: bytes in kilobytes, rates without fractions where they are large.
#[must_use]
pub fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "bytes" => format!("{} KB", number(value / 1024.0)),
        "1/s" => format!("{}/s", number(value)),
        _ => format!("{} {unit}", number(value)),
    }
}

/// What one fsync takes on the disk of a run, in milliseconds.
#[must_use]
pub fn fsync_ms(evidence: &Evidence) -> f64 {
    evidence.measurement("fsync_floor").map_or(evidence.host.fsync_floor_us, |floor| floor.p50) / 1e3
}

/// The concurrency at which completed instances are counted on a disk.
#[must_use]
pub fn counted_at(fsync_ms: f64) -> usize {
    if fsync_ms > SLOW_SYNC_MS {
        128
    } else {
        32
    }
}

/// Holds a run against every bar that it has a figure for, in the order of [`BARS`].
#[must_use]
pub fn compare(evidence: &Evidence) -> Vec<Row> {
    let fsync_ms = fsync_ms(evidence);
    let number_of = |name: &str| evidence.config.get(name).and_then(Value::as_u64).unwrap_or(0);
    let kills = |name: &str| u32::try_from(number_of(name)).unwrap_or(u32::MAX);
    let all_kills = Sizes::are_all_kills(kills("worker_kills"), kills("postgres_kills"));
    let row = |bar: &Bar| {
        let (name, concurrency) = match bar.source {
            Source::P50(name) => (name.to_owned(), None),
            Source::Completed => {
                let at = counted_at(fsync_ms);
                (format!("completed_per_s/c={at}"), Some(at))
            }
        };
        let measured = evidence.measurement(&name)?.p50;
        let limit = match bar.limit {
            Limit::Fixed(limit) => limit,
            Limit::Fsyncs { count, plus_ms, or_ms } => (count * fsync_ms + plus_ms).max(or_ms),
            Limit::PerConnection(share) => share * number_of("connections") as f64,
        };
        let holds = if bar.at_least { measured >= limit } else { measured <= limit };
        let outcome = match (holds, bar.needs_kills && !all_kills) {
            (false, _) => Outcome::Missed,
            // A few kills can show that something is wrong, and not that nothing is.
            (true, true) => Outcome::Unlike,
            (true, false) => Outcome::Met,
        };
        Some(Row { bar: *bar, measured, limit, fsync_ms, concurrency, outcome })
    };
    BARS.iter().filter_map(row).collect()
}

/// A finding for every bar that was missed.
#[must_use]
pub fn missed(evidence: &Evidence) -> Vec<Finding> {
    let rows = compare(evidence).into_iter().filter(|row| row.outcome == Outcome::Missed);
    rows.map(|row| finding("bar_missed", Severity::Warning, Some(row.measured), row.sentence())).collect()
}
