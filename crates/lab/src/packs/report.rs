//! The outcome as a page.

use duramen_measure::evidence::Evidence;
use duramen_measure::report::{Chart, Report};

use super::engine::EngineName;
use super::table::{bars, BAR_HEADERS};

/// The page of a run.
#[must_use]
pub fn page(evidence: &Evidence) -> Report {
    let mut report = Report::new("Access graphs")
        .evidence(evidence)
        .note(
            "Workload unique: grant i is of entitlement i mod 100 and held by user i div 100. A write goes from opening \
             a new file to the closed, durable file; a read opens it and goes through all rows in pages of 10,000, \
             with all fields. Every engine runs in a process of its own.",
        )
        .heading("Bars")
        .table("Measured, bar and reference", BAR_HEADERS, bars(evidence));
    for (title, name) in
        [("Write, processor time", "write_cpu_ms/"), ("Read, processor time", "read_cpu_ms/")]
    {
        let groups: Vec<(String, Vec<(&'static str, f64)>)> = sizes(evidence)
            .into_iter()
            .map(|size| {
                let of = |engine: EngineName| {
                    let figure = evidence.measurement(&format!("{}{name}{size}", engine.prefix()))?;
                    Some((engine.name(), figure.p50))
                };
                let engines = EngineName::ALL.into_iter().filter_map(of).collect();
                (size.clone(), engines)
            })
            .collect();
        if !groups.is_empty() {
            report = report.chart(Chart::bars(title, "ms", groups));
        }
    }
    report
}

fn sizes(evidence: &Evidence) -> Vec<String> {
    let names = evidence.measurements.iter().map(|figure| figure.name.as_str());
    names.filter_map(|name| name.strip_prefix("write_ms/")).map(str::to_owned).collect()
}
