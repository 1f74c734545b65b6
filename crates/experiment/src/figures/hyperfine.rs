//! The document of hyperfine's `--export-json`.

use super::{objects, Figures, ReadError};
use crate::spec::Reader;
use serde::Deserialize;

#[derive(Deserialize)]
struct Document {
    results: Vec<Outcome>,
}

/// Times are in seconds. Fields that we do not read come and go with the version.
#[derive(Deserialize)]
struct Outcome {
    command: String,
    mean: Option<f64>,
    /// Absent for a single run.
    stddev: Option<f64>,
    median: Option<f64>,
    user: Option<f64>,
    system: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    /// `null` for a run that a signal ended.
    #[serde(default)]
    exit_codes: Vec<Option<i64>>,
}

pub(super) fn read(text: &str, figures: &mut Figures) -> Result<(), ReadError> {
    let mut results = Vec::new();
    for value in objects(Reader::Hyperfine, "results", text)? {
        let document: Document = serde_json::from_value(value)
            .map_err(|error| ReadError::Malformed { reader: Reader::Hyperfine, what: error.to_string() })?;
        results.extend(document.results);
    }
    let alone = results.len() == 1;
    for outcome in &results {
        // With `--ignore-failure` hyperfine itself succeeds.
        if let Some(code) = outcome.exit_codes.iter().find(|code| **code != Some(0)) {
            let how = code.map_or_else(|| "by a signal".to_owned(), |code| format!("with the status {code}"));
            return Err(ReadError::Failed { what: format!("`{}` ended {how}", outcome.command) });
        }
        for (figure, value) in [
            ("mean", outcome.mean),
            ("stddev", outcome.stddev),
            ("median", outcome.median),
            ("user", outcome.user),
            ("system", outcome.system),
            ("min", outcome.min),
            ("max", outcome.max),
        ] {
            figures.put_number(&format!("{}/{figure}", outcome.command), value)?;
            if alone {
                figures.put_number(figure, value)?;
            }
        }
    }
    Ok(())
}
