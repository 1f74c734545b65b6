//! The dashboard shows what a worker exposes: no more, so that no panel is empty, and no less.

use super::{
    common,
    metrics::{get, measured},
    shell::Shell,
};
use serde_json::Value;
use std::collections::BTreeSet;

const DASHBOARD: &str = include_str!("../../../../../deploy/grafana/duramen-functions.json");
const PAGE: &str = include_str!("../../../../../docs/functions.md");
const PREFIX: &str = "duramen_functions_";
/// What Prometheus gives every series.
const ITS_OWN: [&str; 2] = ["job", "instance"];

/// The values of a key, wherever it is.
fn values<'a>(json: &'a Value, key: &str, found: &mut Vec<&'a Value>) {
    match json {
        Value::Array(items) => items.iter().for_each(|item| values(item, key, found)),
        Value::Object(entries) => {
            found.extend(entries.get(key));
            entries.values().for_each(|item| values(item, key, found));
        }
        _ => {}
    }
}

/// The texts that Prometheus is asked.
fn asked(dashboard: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    values(dashboard, "expr", &mut found);
    values(dashboard, "query", &mut found);
    let texts: Vec<&str> = found.into_iter().filter_map(Value::as_str).collect();
    assert!(texts.len() > 40, "{} questions", texts.len());
    texts
}

fn names(text: &str) -> impl Iterator<Item = &str> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(move |c| !word(c)).filter(|name| name.starts_with(PREFIX))
}

/// The labels that a question names: in selectors, and to group by.
fn labels(text: &str) -> BTreeSet<&str> {
    let selected = text.split(['{', ',']).filter_map(|part| part.split_once('=')).map(|(label, _)| label);
    let grouped = text
        .split("by (")
        .skip(1)
        .filter_map(|part| part.split_once(')'))
        .flat_map(|(list, _)| list.split(", "));
    selected.chain(grouped).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_panel_shows_something_that_a_worker_exposes() {
    let database = common::database().await;
    let (_worker, address) = measured(&Shell::new(&database.url()));
    let page = get(&address, "/metrics");
    let (_, page) = page.split_once("\r\n\r\n").unwrap();
    let series: BTreeSet<&str> = names(page).collect();
    let families: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let known: BTreeSet<&str> = page
        .lines()
        .filter(|line| line.starts_with(PREFIX))
        .filter_map(|line| line.split_once('{'))
        .flat_map(|(_, rest)| rest.split(',').filter_map(|part| part.split_once('=')).map(|(label, _)| label))
        .chain(ITS_OWN)
        .collect();
    assert!(families.len() > 25 && known.len() == 6, "{families:?} {known:?}");

    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut shown = BTreeSet::new();
    for text in asked(&dashboard) {
        for name in names(text) {
            assert!(series.contains(name), "{name} of {text} is not exposed");
            shown.insert(name);
        }
        if text.contains(PREFIX) {
            for label in labels(text) {
                assert!(known.contains(label), "{label} of {text} is no label");
            }
        }
    }
    for family in families {
        let is_shown = shown.iter().any(|name| {
            name.strip_prefix(family).is_some_and(|rest| ["", "_bucket", "_count"].contains(&rest))
        });
        assert!(is_shown, "{family} is on no panel");
        let name = family.strip_prefix(PREFIX).unwrap();
        let is_told = PAGE.contains(&format!("`{name}`")) || PAGE.contains(&format!("`{name}{{"));
        // Those that only tell what an idle worker does need no words.
        let is_obvious = ["wakes_total", "heartbeats_total", "empty_looks_total"].contains(&name);
        assert!(is_told || is_obvious, "{name} is not in docs/functions.md");
    }
}

#[test]
fn no_two_panels_share_a_place_or_a_number() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{}", panel["title"]);
        let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24, "{}", panel["title"]);
        for y in place("y")..place("y") + place("h") {
            for x in place("x")..place("x") + place("w") {
                assert!(cells.insert((x, y)), "{} lies on another panel", panel["title"]);
            }
        }
    }
}
