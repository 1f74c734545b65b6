//! The dashboard shows what a worker exposes, and so does its documentation.

use super::{
    common,
    metrics::{get, measured},
    shell::Shell,
};
use crate::dashboards::{panels_have_places, Page};

const DASHBOARD: &str = include_str!("../../../../../deploy/grafana/duramen-functions.json");
const PAGE: &str = include_str!("../../../../../docs/functions.md");
const PREFIX: &str = "duramen_functions_";

#[tokio::test(flavor = "multi_thread")]
async fn every_panel_shows_something_that_a_worker_exposes() {
    let database = common::database().await;
    let (_worker, address) = measured(&Shell::new(&database.url()));
    let page = get(&address, "/metrics");
    let (_, text) = page.split_once("\r\n\r\n").unwrap();
    let page = Page::new(text, PREFIX);
    let (families, labels) = (page.families(), page.labels());
    assert!(families.len() > 25 && labels.len() == 6, "{families:?} {labels:?}");
    page.is_shown_by(DASHBOARD);
    for family in families {
        let name = family.strip_prefix(PREFIX).unwrap();
        let is_told = PAGE.contains(&format!("`{name}`")) || PAGE.contains(&format!("`{name}{{"));
        // Those that only tell what an idle worker does need no words.
        let is_obvious = ["wakes_total", "heartbeats_total", "empty_looks_total"].contains(&name);
        assert!(is_told || is_obvious, "{name} is not in docs/functions.md");
    }
}

#[test]
fn no_two_panels_share_a_place_or_a_number() {
    panels_have_places(DASHBOARD);
}
