//! Dashboards for Grafana are held against what programs expose: they show no more, so that no panel is empty, and no less.

use serde_json::Value;
use std::collections::BTreeSet;

/// What Prometheus gives every series.
const ITS_OWN: [&str; 2] = ["job", "instance"];
/// What follows on the name of a family in those of its series that panels ask for.
const PARTS: [&str; 5] = ["", "_bucket", "_count", "_total", "_info"];

/// The text of a program's figures.
pub(crate) struct Page<'a> {
    text: &'a str,
    prefix: &'static str,
}

impl<'a> Page<'a> {
    pub(crate) fn new(text: &'a str, prefix: &'static str) -> Page<'a> {
        Page { text, prefix }
    }

    /// The names of what is described.
    pub(crate) fn families(&self) -> BTreeSet<&'a str> {
        self.text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect()
    }

    /// The labels of its series, and those that Prometheus gives them.
    pub(crate) fn labels(&self) -> BTreeSet<&'a str> {
        let lines = self.text.lines().filter(|line| line.starts_with(self.prefix));
        lines
            .filter_map(|line| line.split_once('{'))
            .flat_map(|(_, rest)| rest.split(','))
            .filter_map(|part| part.split_once('=').map(|(label, _)| label))
            .chain(ITS_OWN)
            .collect()
    }

    fn names<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let (word, prefix) = (|c: char| c.is_ascii_alphanumeric() || c == '_', self.prefix);
        text.split(move |c| !word(c)).filter(move |name| name.starts_with(prefix))
    }

    /// Every panel asks for what is on the page, by labels that are there, and all of the page is on a panel.
    pub(crate) fn is_shown_by(&self, dashboard: &str) {
        let dashboard: Value = serde_json::from_str(dashboard).unwrap();
        let (series, labels) = (self.names(self.text).collect::<BTreeSet<_>>(), self.labels());
        let mut shown = BTreeSet::new();
        for text in asked(&dashboard) {
            for name in self.names(text) {
                assert!(series.contains(name), "{name} of {text} is not exposed");
                shown.insert(name);
            }
            if text.contains(self.prefix) {
                for label in labels_of(text) {
                    assert!(labels.contains(label), "{label} of {text} is no label");
                }
            }
        }
        for family in self.families() {
            let is_part = |name: &&str| name.strip_prefix(family).is_some_and(|rest| PARTS.contains(&rest));
            assert!(shown.iter().any(is_part), "{family} is on no panel");
        }
    }
}

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

/// The labels that a question names: in selectors, and to group by.
fn labels_of(text: &str) -> BTreeSet<&str> {
    let selected = text.split(['{', ',']).filter_map(|part| part.split_once('=')).map(|(label, _)| label);
    let grouped = text
        .split("by (")
        .skip(1)
        .filter_map(|part| part.split_once(')'))
        .flat_map(|(list, _)| list.split(", "))
        .filter(|label| *label != "le");
    selected.chain(grouped).collect()
}

/// No two panels share a place or a number.
pub(crate) fn panels_have_places(dashboard: &str) {
    let dashboard: Value = serde_json::from_str(dashboard).unwrap();
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
