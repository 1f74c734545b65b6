//! The document of pytest-benchmark's `--benchmark-json`.

use super::{objects, Figures, ReadError};
use crate::spec::Reader;
use serde::Deserialize;

#[derive(Deserialize)]
struct Document {
    benchmarks: Vec<Benchmark>,
}

/// Fields that we do not read come and go with the version.
#[derive(Deserialize)]
struct Benchmark {
    /// With its parameters: `test_rows[1000]`.
    name: String,
    /// Of a benchmark that failed there are none.
    stats: Option<Stats>,
}

/// In seconds.
#[derive(Deserialize)]
struct Stats {
    mean: Option<f64>,
    median: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    stddev: Option<f64>,
}

pub(super) fn read(text: &str, figures: &mut Figures) -> Result<(), ReadError> {
    let mut benchmarks = Vec::new();
    for value in objects(Reader::PytestBenchmark, "benchmarks", text)? {
        let document: Document = serde_json::from_value(value).map_err(|error| ReadError::Malformed {
            reader: Reader::PytestBenchmark,
            what: error.to_string(),
        })?;
        benchmarks.extend(document.benchmarks);
    }
    let alone = benchmarks.len() == 1;
    for Benchmark { name, stats } in &benchmarks {
        let Some(stats) = stats else {
            return Err(ReadError::Failed { what: format!("`{name}` has no times") });
        };
        for (figure, value) in [
            ("mean", stats.mean),
            ("median", stats.median),
            ("min", stats.min),
            ("max", stats.max),
            ("stddev", stats.stddev),
        ] {
            figures.put_number(&format!("{name}/{figure}"), value)?;
            if alone {
                figures.put_number(figure, value)?;
            }
        }
    }
    Ok(())
}
