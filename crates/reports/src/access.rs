//! Who gained and who lost access between two states of it, as a page: first the shape of the change, then each change with
//! how it comes about.
//!
//! ```
//! use duramen_reports::access::{AccessChange, AccessReport};
//!
//! let mut report = AccessReport::new("monday.dpack", "tuesday.dpack");
//! report.count(&AccessChange {
//!     is_gain: true,
//!     principal_type: "user",
//!     principal: "user:ada",
//!     entitlement: "app:github:admin",
//!     through: Some("group:staff:member"),
//! });
//! report.tell(true, "user:ada", "app:github:admin", "through group:staff:member");
//! let page = report.page().render();
//! assert!(page.contains("user:ada") && page.contains("held in tuesday.dpack only"));
//! ```

use std::collections::BTreeMap;

use crate::page::{Chart, Item, Report, Tile, Tone};
use duramen_base::words::{counted, number};

/// Rows of a table and bars of a chart: what changed most.
const MOST_ROWS: usize = 20;
const MOST_BARS: usize = 10;
/// Letters of a name in a chart.
const MOST_LETTERS: usize = 60;

/// Something that is held on one side only.
#[derive(Clone, Copy, Debug)]
pub struct AccessChange<'a> {
    /// Held on the newer side; if not, on the older one.
    pub is_gain: bool,
    /// The type of the principal.
    pub principal_type: &'a str,
    /// The principal.
    pub principal: &'a str,
    /// What it holds.
    pub entitlement: &'a str,
    /// The entitlement that it follows from, if not from a grant of its own.
    pub through: Option<&'a str>,
}

/// How much was gained and lost.
#[derive(Clone, Copy, Debug, Default)]
struct Balance {
    gained: u64,
    lost: u64,
}

impl Balance {
    fn count(&mut self, is_gain: bool) {
        *(if is_gain { &mut self.gained } else { &mut self.lost }) += 1;
    }

    fn sum(self) -> u64 {
        self.gained + self.lost
    }
}

/// Changes counted by what they have in common.
type Counts = BTreeMap<String, Balance>;

/// What is told of one change.
#[derive(Clone, Debug)]
struct Told {
    is_gain: bool,
    principal: String,
    entitlement: String,
    how: String,
}

/// A page about all changes, of which some are told one by one.
#[derive(Clone, Debug)]
pub struct AccessReport {
    older: String,
    newer: String,
    total: Balance,
    entitlements: Counts,
    principals: Counts,
    types: Counts,
    through: Counts,
    told: Vec<Told>,
}

impl AccessReport {
    /// A report without a change, of two states by their names.
    pub fn new(older: impl Into<String>, newer: impl Into<String>) -> Self {
        let none = Counts::new;
        Self {
            older: older.into(),
            newer: newer.into(),
            total: Balance::default(),
            entitlements: none(),
            principals: none(),
            types: none(),
            through: none(),
            told: Vec::new(),
        }
    }

    /// Counts a change.
    pub fn count(&mut self, change: &AccessChange<'_>) {
        let is_gain = change.is_gain;
        self.total.count(is_gain);
        let through = change
            .through
            .map_or_else(|| "a grant of its own".to_owned(), |through| format!("through {through}"));
        for (counts, name) in [
            (&mut self.entitlements, change.entitlement),
            (&mut self.principals, change.principal),
            (&mut self.types, change.principal_type),
            (&mut self.through, through.as_str()),
        ] {
            match counts.get_mut(name) {
                Some(balance) => balance.count(is_gain),
                None => {
                    let mut balance = Balance::default();
                    balance.count(is_gain);
                    counts.insert(name.to_owned(), balance);
                }
            }
        }
    }

    /// Tells a change that was counted, with how it comes about in words.
    pub fn tell(
        &mut self,
        is_gain: bool,
        principal: impl Into<String>,
        entitlement: impl Into<String>,
        how: impl Into<String>,
    ) {
        let (principal, entitlement, how) = (principal.into(), entitlement.into(), how.into());
        self.told.push(Told { is_gain, principal, entitlement, how });
    }

    /// The page.
    #[must_use]
    pub fn page(&self) -> Report {
        let Balance { gained, lost } = self.total;
        let mut page = Report::new("Who gained and who lost access")
            .pairs([("older", self.older.as_str()), ("newer", self.newer.as_str())]);
        if self.total.sum() == 0 {
            return page.banner(
                Tone::Plain,
                "no change",
                "Everybody holds what they held before, by whatever way.",
            );
        }
        let tile = |figure: u64, what: &str, beside: String| Tile {
            figure: count_of(figure),
            what: what.to_owned(),
            beside,
        };
        page = page.tiles([
            tile(gained, "gained", format!("held in {} only", self.newer)),
            tile(lost, "lost", format!("held in {} only", self.older)),
            tile(self.principals.len() as u64, "principals", only(&self.principals)),
            tile(self.entitlements.len() as u64, "entitlements", only(&self.entitlements)),
        ]);
        for (title, counts) in
            [("Entitlements that changed hands most", &self.entitlements), ("How it was held", &self.through)]
        {
            page = page.chart(chart(title, counts));
        }
        for (title, name, counts) in [
            ("By entitlement", "entitlement", &self.entitlements),
            ("By principal", "principal", &self.principals),
            ("By type of principal", "type", &self.types),
            ("By way", "held by", &self.through),
        ] {
            page = page.table(title, [name, "gained", "lost"], rows(counts));
            if counts.len() > MOST_ROWS {
                let more = counted(counts.len() - MOST_ROWS, "more row");
                page = page.note(format!("{more}, each with fewer changes."));
            }
        }
        for (is_gain, title, sum) in [(false, "Lost", lost), (true, "Gained", gained)] {
            let told: Vec<&Told> = self.told.iter().filter(|told| told.is_gain == is_gain).collect();
            if sum == 0 {
                continue;
            }
            page = page.subheading(format!("{title}: {} of {}", count_of(told.len() as u64), count_of(sum)));
            page = page.list(told.into_iter().map(|told| Item {
                tone: if is_gain { Tone::Good } else { Tone::Bad },
                word: if is_gain { "gained" } else { "lost" }.to_owned(),
                name: format!("{}: {}", told.principal, told.entitlement),
                detail: told.how.clone(),
            }));
        }
        page.with_footer(format!(
            "Made by Duramen {}. Nothing on this page is fetched, and nothing runs.",
            env!("CARGO_PKG_VERSION")
        ))
    }
}

fn count_of(count: u64) -> String {
    number(count as f64)
}

/// How many only gained or only lost.
fn only(counts: &Counts) -> String {
    let gained = counts.values().filter(|balance| balance.lost == 0).count() as u64;
    let lost = counts.values().filter(|balance| balance.gained == 0).count() as u64;
    format!("{} only with gains, {} only with losses", count_of(gained), count_of(lost))
}

/// What changed most first; of the same, in the order of names.
fn most(counts: &Counts) -> Vec<(&str, Balance)> {
    let mut all: Vec<(&str, Balance)> =
        counts.iter().map(|(name, balance)| (name.as_str(), *balance)).collect();
    all.sort_by_key(|(_, balance)| std::cmp::Reverse(balance.sum()));
    all
}

fn rows(counts: &Counts) -> Vec<[String; 3]> {
    let row = |(name, balance): (&str, Balance)| {
        [name.to_owned(), count_of(balance.gained), count_of(balance.lost)]
    };
    most(counts).into_iter().take(MOST_ROWS).map(row).collect()
}

fn chart(title: &str, counts: &Counts) -> Chart {
    let groups = most(counts).into_iter().take(MOST_BARS).map(|(name, balance)| {
        let mut label: String = name.chars().take(MOST_LETTERS).collect();
        if label.len() < name.len() {
            label.push_str("...");
        }
        let bars =
            [("gained", balance.gained), ("lost", balance.lost)].into_iter().filter(|(_, count)| *count > 0);
        (label, bars.map(|(name, count)| (name, count as f64)).collect())
    });
    Chart::bars_of(title, "changes", ["gained", "lost"], groups)
}
