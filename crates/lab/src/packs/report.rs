//! The outcome as a page.

use duramen_measure::evidence::Evidence;
use duramen_measure::target::quantity;
use duramen_reports::page::{Chart, Report, Tile};
use duramen_reports::suite;

use super::engine::EngineName;
use super::targets::standings;
use super::{largest, Packs};

/// The page of a run.
pub(crate) fn page(evidence: &Evidence) -> Report {
    let note = "Workload unique: grant i is of entitlement i mod 100 and held by user i div 100. A write goes from opening \
                a new file to the closed, durable file; a read opens it and goes through all rows in pages of 10,000, \
                with all fields. Every engine runs in a process of its own.";
    let mut report = suite::page(&Packs, "Access graphs", evidence, note, &standings(evidence));
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

/// The figures of the largest size, beside SQLite in the same run.
pub(crate) fn tiles(evidence: &Evidence) -> Vec<Tile> {
    let Some(largest) = largest(evidence) else { return Vec::new() };
    let tile = |name: &str, what: &str| {
        let figure = |prefix: &str| evidence.measurement(&format!("{prefix}{name}/{largest}"));
        let own = figure("")?;
        let beside = figure("sqlite.").map(|other| format!("SQLite: {}", quantity(other.p50, &other.unit)));
        Some(Tile {
            figure: quantity(own.p50, &own.unit),
            what: what.to_owned(),
            beside: beside.unwrap_or_default(),
        })
    };
    let write = format!("of processor time to write {largest} grants");
    let tiles = [
        tile("write_cpu_ms", &write),
        tile("read_cpu_ms", "of processor time to read all of them"),
        tile("lookup_us", "to open it and find one user's grants"),
        tile("put_one_us", "for one more grant"),
        tile("file_bytes", "for the file"),
        tile("peak_rss_bytes", "of memory at most"),
    ];
    tiles.into_iter().flatten().collect()
}
