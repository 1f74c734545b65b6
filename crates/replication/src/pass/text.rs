//! SQL with the numbers of a scenario in it.

use super::super::scenario::Scenario;
use duramen_reports::suite::SuiteError;

/// The numbers that stand for the names in a scenario's SQL.
#[derive(Debug, Clone)]
pub struct Names {
    values: Vec<(&'static str, u64)>,
}

impl Names {
    /// Those of a scenario, in a default or a quick run.
    #[must_use]
    pub fn new(scenario: &Scenario, quick: bool) -> Self {
        let size = |(name, default, small): &(&'static str, u64, u64)| {
            (*name, if quick { *small } else { *default })
        };
        Self { values: scenario.sizes.iter().map(size).collect() }
    }

    /// The SQL with every `{name}` replaced; braces around anything else stay, as in JSON and arrays.
    #[must_use]
    pub fn fill(&self, sql: &str) -> String {
        self.values.iter().fold(sql.to_owned(), |sql, (name, value)| {
            sql.replace(&format!("{{{name}}}"), &value.to_string())
        })
    }

    /// As [`fill`](Self::fill), for one of several sessions: `{session}` is its number.
    #[must_use]
    pub fn fill_for_session(&self, sql: &str, session: u32) -> String {
        self.fill(sql).replace("{session}", &session.to_string())
    }

    /// A number, or what stands for it.
    pub(super) fn number(&self, text: &str) -> Result<i64, SuiteError> {
        let named = self.values.iter().find(|(name, _)| *name == text);
        named
            .map(|(_, value)| i64::try_from(*value).unwrap_or(i64::MAX))
            .or_else(|| text.parse().ok())
            .ok_or_else(|| {
                SuiteError::Options(format!("{text:?} is neither a number nor a size of the scenario"))
            })
    }
}
