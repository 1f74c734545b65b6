//! Targets: what the figures of a suite must reach, set before measuring, and how those of a run stand to them.

use duramen_base::words::number;

use crate::evidence::{Finding, Severity};

/// What a figure must not exceed, or with `at_least` not fall below.
///
/// `F` says where a suite finds the figure, and which runs the target is for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Target<F> {
    /// What it is about, in words.
    pub what: &'static str,
    /// Where the figure is found.
    pub figure: F,
    /// What it must reach.
    pub limit: f64,
    /// The unit of the limit.
    pub unit: &'static str,
    /// Whether more is better.
    pub at_least: bool,
    /// The best that another project published, in the same unit.
    pub reference: Option<f64>,
}

impl<F: Copy> Target<F> {
    /// A figure that must not exceed a limit.
    #[must_use]
    pub const fn most(what: &'static str, figure: F, limit: f64, unit: &'static str) -> Self {
        Self { what, figure, limit, unit, at_least: false, reference: None }
    }

    /// A figure that must not fall below a limit.
    #[must_use]
    pub const fn least(what: &'static str, figure: F, limit: f64, unit: &'static str) -> Self {
        Self { at_least: true, ..Self::most(what, figure, limit, unit) }
    }

    /// The same beside what another project reached.
    #[must_use]
    pub const fn beside(self, reached: f64) -> Self {
        Self { reference: Some(reached), ..self }
    }

    /// How a figure stands to it.
    #[must_use]
    pub fn hold(&self, measured: f64) -> Standing {
        self.hold_at(self.limit, measured)
    }

    /// How a figure stands to a limit that depends on the run.
    #[must_use]
    pub fn hold_at(&self, limit: f64, measured: f64) -> Standing {
        let holds = if self.at_least { measured >= limit } else { measured <= limit };
        let outcome = if holds { Outcome::Met } else { Outcome::Missed };
        Standing { limit, measured: Some(measured), outcome, ..self.without_figure() }
    }

    /// The target of a run that has no figure for it.
    #[must_use]
    pub fn without_figure(&self) -> Standing {
        Standing {
            name: String::new(),
            what: self.what.to_owned(),
            measured: None,
            interval: None,
            limit: self.limit,
            unit: self.unit,
            at_least: self.at_least,
            limit_note: String::new(),
            floor: None,
            reference: self.reference,
            reference_note: "",
            outcome: Outcome::NotMeasured,
        }
    }
}

/// How a figure stands to its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It reaches it.
    Met,
    /// It does not.
    Missed,
    /// It was taken under another load than the target is for.
    OtherLoad,
    /// It was taken with another amount of data than the target is for.
    OtherSize,
    /// There is no figure.
    NotMeasured,
}

impl Outcome {
    /// The word in tables.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Met => "met",
            Outcome::Missed => "missed",
            Outcome::OtherLoad => "other load",
            Outcome::OtherSize => "other size",
            Outcome::NotMeasured => "not measured",
        }
    }
}

/// A target with the figure of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// The measurement that the figure is of, if it is of one.
    pub name: String,
    /// What it is about, in words.
    pub what: String,
    /// The figure.
    pub measured: Option<f64>,
    /// The interval of the figure, where one is known.
    pub interval: Option<[f64; 2]>,
    /// What it must reach in this run.
    pub limit: f64,
    /// The unit of all of them.
    pub unit: &'static str,
    /// Whether more is better.
    pub at_least: bool,
    /// What is said beside the limit: how it was computed, what would be better still.
    pub limit_note: String,
    /// What the disk alone takes of it, where it waits for the disk.
    pub floor: Option<f64>,
    /// The best that another project published.
    pub reference: Option<f64>,
    /// What is said where another project published no figure.
    pub reference_note: &'static str,
    /// How the figure stands.
    pub outcome: Outcome,
}

impl Standing {
    /// Whether the figure misses its target.
    #[must_use]
    pub fn is_missed(&self) -> bool {
        self.outcome == Outcome::Missed
    }

    /// Whether the limit lies within the interval of the figure: a run of the same thing may be on its other side.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        let is_held = matches!(self.outcome, Outcome::Met | Outcome::Missed);
        is_held && self.interval.is_some_and(|[low, high]| low <= self.limit && self.limit <= high)
    }

    /// The outcome, as a table shows it: what is in doubt is not told as if it were not.
    #[must_use]
    pub fn outcome_in_words(&self) -> String {
        let word = self.outcome.word();
        if self.is_in_doubt() {
            format!("{word}, within its interval")
        } else {
            word.to_owned()
        }
    }

    /// The figure with its unit; empty where there is none.
    #[must_use]
    pub fn measured_in_words(&self) -> String {
        self.measured.map_or_else(String::new, |measured| quantity(measured, self.unit))
    }

    /// The limit with its side, as a table shows it.
    #[must_use]
    pub fn limit_in_words(&self) -> String {
        let side = if self.at_least { ">=" } else { "<=" };
        format!("{side} {}{}", quantity(self.limit, self.unit), self.limit_note)
    }

    /// What another project reached, as a table shows it; may be empty.
    #[must_use]
    pub fn reference_in_words(&self) -> String {
        self.reference.map_or_else(|| self.reference_note.to_owned(), |reached| quantity(reached, self.unit))
    }

    /// What the disk alone takes, as a table shows it; may be empty.
    #[must_use]
    pub fn floor_in_words(&self) -> String {
        self.floor.map_or_else(String::new, |floor| quantity(floor, self.unit))
    }

    /// How the figure stands in words: by how much it misses the target, and what another project reached.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Some(measured) = self.measured else { return format!("{}: not measured.", self.what) };
        let worse = |than: f64| if self.at_least { measured < than } else { measured > than };
        let by =
            |share: f64| if share.is_finite() { format!("{:.0} % ", share * 100.0) } else { String::new() };
        let off = match (worse(self.limit), self.at_least) {
            (false, _) => "within".to_owned(),
            (true, true) => by(1.0 - measured / self.limit) + "below",
            (true, false) => by(measured / self.limit - 1.0) + "above",
        };
        let reference = match self.reference {
            Some(reached) if worse(reached) => {
                format!(" That is worse than the reference, which reached {}.", quantity(reached, self.unit))
            }
            Some(reached) => format!(" The reference reached {}.", quantity(reached, self.unit)),
            None => String::new(),
        };
        let doubt = match self.interval.filter(|_| self.is_in_doubt()) {
            Some([low, high]) => format!(
                " Its interval, {} to {}, holds the target: this run does not tell on which side it is.",
                number(low),
                quantity(high, self.unit)
            ),
            None => String::new(),
        };
        format!(
            "{}: {}, {off} the target of {}.{doubt}{reference}",
            self.what,
            quantity(measured, self.unit),
            quantity(self.limit, self.unit)
        )
    }
}

/// A finding for every target that was missed.
#[must_use]
pub fn missed(standings: &[Standing]) -> Vec<Finding> {
    let missed = standings.iter().filter(|standing| standing.is_missed());
    missed
        .map(|standing| Finding::new("target_missed", Severity::Info, standing.measured, standing.sentence()))
        .collect()
}

/// The targets as a table: its head and its rows, without the columns in which there would be nothing.
#[must_use]
pub fn table(standings: &[Standing]) -> (Vec<&'static str>, Vec<Vec<String>>) {
    type Column = (&'static str, fn(&Standing) -> String);
    let columns: [Column; 6] = [
        ("target", |standing| standing.what.clone()),
        ("measured", Standing::measured_in_words),
        ("limit", Standing::limit_in_words),
        ("fsync", Standing::floor_in_words),
        ("reference", Standing::reference_in_words),
        ("outcome", Standing::outcome_in_words),
    ];
    let is_used = |(_, cell): &&Column| standings.iter().any(|standing| !cell(standing).is_empty());
    let used: Vec<&Column> = columns.iter().filter(is_used).collect();
    let row = |standing: &Standing| used.iter().map(|(_, cell)| cell(standing)).collect();
    (used.iter().map(|(head, _)| *head).collect(), standings.iter().map(row).collect())
}

/// A figure with its unit, in the unit that people would choose: long times in the next one, bytes in decimal ones.
///
/// ```
/// use duramen_measure::target::quantity;
/// assert_eq!(quantity(12_345.0, "us"), "12.35 ms");
/// assert_eq!(quantity(6_300_000.0, "bytes"), "6.3 MB");
/// assert_eq!(quantity(1.07, "ratio"), "1.07 x");
/// ```
#[must_use]
pub fn quantity(value: f64, unit: &str) -> String {
    let magnitude = value.abs();
    let (value, unit) = match unit {
        "us" if magnitude >= 1e3 => (value / 1e3, "ms"),
        "ms" if magnitude >= 1e3 => (value / 1e3, "s"),
        "bytes" if magnitude >= 1e9 => (value / 1e9, "GB"),
        "bytes" if magnitude >= 1e6 => (value / 1e6, "MB"),
        "bytes" if magnitude >= 1e3 => (value / 1e3, "kB"),
        "rows/s" => (value / 1e6, "M rows/s"),
        "ratio" => (value, "x"),
        "1/s" => return format!("{}/s", number(value)),
        "" => return number(value),
        _ => (value, unit),
    };
    format!("{} {unit}", number(value))
}
