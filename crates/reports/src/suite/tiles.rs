//! The figures of a run that its page shows in large.

use duramen_measure::evidence::{Evidence, Measurement};
use duramen_measure::target::{quantity, Standing};

use crate::page::Tile;

/// A figure that a page shows in large, if the run has it.
#[derive(Debug, Clone, Copy)]
pub struct Lead {
    measurement: &'static str,
    is_p95: bool,
    what: &'static str,
}

impl Lead {
    /// The median of a measurement, and what it is in words.
    #[must_use]
    pub const fn p50(measurement: &'static str, what: &'static str) -> Self {
        Self { measurement, is_p95: false, what }
    }

    /// The 95th percentile of a measurement, and what it is in words.
    #[must_use]
    pub const fn p95(measurement: &'static str, what: &'static str) -> Self {
        Self { measurement, is_p95: true, what }
    }
}

/// The tiles of a document: figures that it has and that are sound, beside the best that another project published.
#[must_use]
pub fn tiles(evidence: &Evidence, leads: &[Lead], standings: &[Standing]) -> Vec<Tile> {
    let tile = |lead: &Lead| {
        let figure = evidence.measurement(lead.measurement).filter(|figure| figure.count > 0)?;
        let value = if lead.is_p95 { figure.p95 } else { figure.p50 };
        let standing = standings.iter().find(|standing| standing.name == lead.measurement);
        let reached = standing.and_then(|standing| Some(quantity(standing.reference?, standing.unit)));
        let beside = reached.map_or_else(String::new, |reached| format!("best published: {reached}"));
        let sound = evidence.is_sound(lead.measurement);
        sound.then(|| Tile { figure: in_words(value, figure), what: lead.what.to_owned(), beside })
    };
    leads.iter().filter_map(tile).collect()
}

/// A value with its unit; a count whose noun is said beside it stands alone.
#[must_use]
pub fn in_words(value: f64, figure: &Measurement) -> String {
    match figure.unit.as_str() {
        "instances" | "effects" | "instances and effects" => quantity(value, ""),
        unit => quantity(value, unit),
    }
}
