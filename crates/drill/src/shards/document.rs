//! What a run says: its tables and pages.

use std::fmt::Write;

use duramen_base::words::number;
use duramen_measure::evidence::{Evidence, Finding, Severity};
use duramen_measure::target::Standing;
use duramen_reports::page::{Report, Tile};
use duramen_reports::suite::{self, Headline, Scenario, Suite};
use duramen_reports::text::{self, narrow_table, wrapped};

/// The name of its documents' suite.
pub const SUITE: &str = "shards";

/// The suite.
#[derive(Debug)]
pub struct Shards;

const NOTE: &str = "Clients start instances on four shards, each instance with a key of its own, and try a start again until they are told \
    that it was made. An instance has four effects: a short step, a slow one, one of a child, and one after a timer. Each must be there \
    once. The gap is the longest time without a start on the shard whose leader was killed, and on each of the others meanwhile.";

/// The figures that a table shows.
const SHOWN: [&str; 10] = [
    "acknowledged_instances",
    "lost_instances",
    "failed_instances",
    "undone_effects",
    "doubled_effects",
    "strange_effects",
    "starts_tried_again",
    "instances_per_s",
    "gap_s/failed_over",
    "gap_s/others",
];

fn rows(evidence: &Evidence) -> Vec<[String; 4]> {
    let row = |name: &&str| {
        let found = evidence.measurements.iter().find(|measurement| measurement.name == **name)?;
        Some([(*name).to_owned(), number(found.p50), number(found.max), found.count.to_string()])
    };
    SHOWN.iter().filter_map(row).collect()
}

/// What the figures of a document say.
pub(super) fn found(evidence: &Evidence) -> Vec<Finding> {
    let Some(gap) = evidence.measurements.iter().find(|it| it.name == "gap_s/failed_over") else {
        return Vec::new();
    };
    let text = format!(
        "When the leader of a shard was killed, nothing could be started there for {} to {} s, in {} failovers.",
        number(gap.min),
        number(gap.max),
        gap.count
    );
    vec![Finding::new("gap", Severity::Info, Some(gap.max), text)]
}

impl Suite for Shards {
    fn name(&self) -> &'static str {
        SUITE
    }

    fn about(&self) -> &'static str {
        "Durable functions over four shards while leaders and workers are killed: nothing lost, nothing twice (`duramen lab drill shards`)"
    }

    fn scenarios(&self) -> Vec<Scenario> {
        vec![Scenario {
            id: "H1".to_owned(),
            name: "storm".to_owned(),
            what: "Under load, leaders of two pairs under Patroni and workers are killed. Alone: lab drill shards".to_owned(),
        }]
    }

    fn targets(&self, _evidence: &Evidence) -> Vec<Standing> {
        Vec::new()
    }

    fn diagnose(&self, evidence: &Evidence) -> Vec<Finding> {
        found(evidence)
    }

    fn headline(&self, evidence: &Evidence) -> Option<Headline> {
        let of = |name: &str| evidence.median(name);
        let all = of("acknowledged_instances")?;
        let (lost, twice) = (of("lost_instances")?, of("doubled_effects")?);
        Some(Headline::new(
            format!("{} instances over four shards", number(all)),
            format!("{} lost, {} effects twice", number(lost), number(twice)),
        ))
    }

    fn tiles(&self, evidence: &Evidence) -> Vec<Tile> {
        let tile = |name: &str, what: &str| {
            Some(Tile {
                figure: number(evidence.median(name)?),
                what: what.to_owned(),
                beside: String::new(),
            })
        };
        [
            tile("acknowledged_instances", "instances started"),
            tile("lost_instances", "instances lost"),
            tile("doubled_effects", "effects twice"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn table(&self, evidence: &Evidence) -> String {
        let mut out = String::new();
        // A String takes everything.
        let _ = writeln!(out, "{}\n", narrow_table(&["figure", "median", "most", "samples"], rows(evidence)));
        for finding in text::findings(&evidence.findings).lines() {
            let _ = writeln!(out, "{}", wrapped(finding, 2));
        }
        for check in text::checks(evidence).lines() {
            let _ = writeln!(out, "{}", wrapped(check, 6));
        }
        out
    }

    fn page(&self, evidence: &Evidence) -> Report {
        suite::page(self, "Shards", evidence, NOTE, &[])
            .table("Figures", ["figure", "median", "most", "samples"], rows(evidence))
            .measurements(&evidence.measurements)
    }
}
