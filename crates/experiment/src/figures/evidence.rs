//! Our own evidence documents.

use super::{objects, Figures, ReadError};
use crate::spec::Reader;
use duramen_measure::evidence::{Evidence, Verdict, SCHEMA_ID};

pub(super) fn read(text: &str, figures: &mut Figures) -> Result<(), ReadError> {
    for value in objects(Reader::Evidence, "schema", text)? {
        document(value, figures)?;
    }
    Ok(())
}

fn document(value: serde_json::Value, figures: &mut Figures) -> Result<(), ReadError> {
    let malformed = |what: String| ReadError::Malformed { reader: Reader::Evidence, what };
    // The schema's name first: to a document of another version, "unknown field" would explain less.
    match value.get("schema").and_then(serde_json::Value::as_str) {
        Some(SCHEMA_ID) => {}
        _ => return Err(malformed(format!("its schema is {}, and not {SCHEMA_ID}", value["schema"]))),
    }
    let evidence: Evidence = serde_json::from_value(value).map_err(|error| malformed(error.to_string()))?;
    if evidence.verdict != Verdict::Pass {
        let failed = evidence.checks.iter().find(|check| !check.passed).map(|check| {
            format!(
                "the verdict is {}, the check {:?} failed: {}",
                evidence.verdict, check.name, check.detail
            )
        });
        let what = failed.unwrap_or_else(|| format!("the verdict is {}", evidence.verdict));
        return Err(ReadError::Failed { what });
    }
    for one in &evidence.measurements {
        // No values are not a figure: all fields are 0 then.
        if one.count == 0 {
            continue;
        }
        figures.put_number(&one.name, Some(one.mean))?;
        if one.count > 1 {
            for (part, value) in [
                ("min", one.min),
                ("p50", one.p50),
                ("p90", one.p90),
                ("p95", one.p95),
                ("p99", one.p99),
                ("max", one.max),
            ] {
                figures.put_number(&format!("{}/{part}", one.name), Some(value))?;
            }
        }
    }
    Ok(())
}
