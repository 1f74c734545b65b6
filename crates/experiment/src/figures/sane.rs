//! Whether the figures of a run can be believed (X5).

use crate::event::Metrics;
use crate::invariant::{Broken, Condition, ConditionError};
use crate::spec::Spec;

/// The greatest figure that is believed, and one divided by it the least that a primary one may be. What lies
/// beyond is not a measurement in any unit, and would overflow where figures are added.
pub const FIGURE_MAX: f64 = 1e200;

/// The most names of figures that an error lists.
const NAMES_LISTED: usize = 20;

/// Why the figures of a run say nothing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Insane {
    /// A figure that the spec names was not printed, or not as a finite number.
    #[error("there is no finite {role} figure `{metric}`; {there}")]
    Missing {
        /// What the figure is in the spec: `primary`, `secondary` or `sentinel`.
        role: &'static str,
        /// Its name.
        metric: String,
        /// Which figures there are, in words.
        there: String,
    },
    /// A figure that the spec names has a value that no run has.
    #[error("the {role} figure `{metric}` is {value}: {why}")]
    Impossible {
        /// What the figure is in the spec: `primary`, `secondary` or `sentinel`.
        role: &'static str,
        /// Its name.
        metric: String,
        /// Its value.
        value: f64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An invariant does not hold.
    #[error("the invariant {0}")]
    Broken(#[from] Broken),
    /// An invariant does not parse, in a spec that was never checked.
    #[error("an invariant is wrong: {0}")]
    Condition(#[from] ConditionError),
}

/// Whether the figures of one run at a scale with this value can be believed.
///
/// # Errors
/// When the primary figure is missing, zero, negative or not finite; when a secondary or sentinel is missing,
/// negative or not finite (zero allocations are possible, a missing count is a guard that was taken away);
/// when a figure that is named is beyond [`FIGURE_MAX`]; when an invariant does not hold.
pub fn sane(spec: &Spec, scale_value: &str, metrics: &Metrics) -> Result<(), Insane> {
    let primary = check("primary", &spec.primary.metric, metrics)?;
    let impossible = |why| Insane::Impossible {
        role: "primary",
        metric: spec.primary.metric.clone(),
        value: primary,
        why,
    };
    if primary == 0.0 {
        return Err(impossible("nothing takes no time and does no work, so nothing was measured"));
    }
    if primary < 1.0 / FIGURE_MAX {
        return Err(impossible("no measurement is as small as that"));
    }
    for secondary in &spec.secondaries {
        check("secondary", &secondary.metric, metrics)?;
    }
    for sentinel in &spec.sentinels {
        check("sentinel", &sentinel.metric, metrics)?;
    }
    for invariant in &spec.invariants {
        Condition::parse(&invariant.holds)?.holds(scale_value, metrics)?;
    }
    Ok(())
}

fn check(role: &'static str, metric: &str, metrics: &Metrics) -> Result<f64, Insane> {
    let value = match metrics.get(metric) {
        Some(value) if value.is_finite() => *value,
        _ => return Err(Insane::Missing { role, metric: metric.to_owned(), there: there(metrics) }),
    };
    let impossible = |why| Insane::Impossible { role, metric: metric.to_owned(), value, why };
    if value < 0.0 {
        return Err(impossible("it is less than nothing"));
    }
    if value > FIGURE_MAX {
        return Err(impossible("no measurement is as great as that"));
    }
    Ok(value)
}

/// Which figures there are.
fn there(metrics: &Metrics) -> String {
    if metrics.is_empty() {
        return "there are no others".to_owned();
    }
    let names: Vec<String> = metrics.keys().take(NAMES_LISTED).map(|name| format!("`{name}`")).collect();
    let more = metrics.len().saturating_sub(NAMES_LISTED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("there are {}{more}", names.join(", "))
}
