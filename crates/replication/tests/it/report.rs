//! What the page shows, from the evidence alone.

use duramen_measure::evidence::Evidence;
use duramen_replication::Replication;
use duramen_reports::suite::Suite as _;

use super::synthetic::whole;

#[test]
fn the_page_is_made_of_a_document_that_was_written_and_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("replication.json");
    let evidence = whole();
    evidence.write(&path).unwrap();
    let read = Evidence::read(&path).unwrap();
    assert_eq!(Replication.page(&read).render(), Replication.page(&evidence).render());
}

#[test]
fn every_scenario_has_its_text_its_time_line_and_its_advice() {
    let page = Replication.page(&whole()).render();
    for id in ["S1", "S2", "S3", "S8", "S13", "S14"] {
        let is_of =
            |rest: &str| rest.split_once('>').is_some_and(|(_, text)| text.starts_with(&format!("{id} ")));
        assert!(page.split("<h2").skip(1).any(is_of), "no heading of {id}");
    }
    assert_eq!(page.matches("<p>What to do: ").count(), 6);
    assert!(page.contains("S2 snapshot conflict by VACUUM: the levels, a pass each"));
    assert!(
        page.contains("Set off: snapshot at remote_apply from 3 to 9 s."),
        "the stall is named to those who cannot see it"
    );
    assert!(page.contains("S1 updates of a table with many indexes: the levels interleaved"));
    assert!(page.contains("commits a second by the number of clients"));
}

#[test]
fn the_page_needs_no_script_and_no_network_and_leaves_data_to_the_document() {
    let page = Replication.page(&whole()).render();
    for forbidden in ["<script", "src=", "href=", "url(", "@import", "could not be drawn"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert!(page.contains("<dt>timelines</dt><dd>in the evidence document</dd>"));
}

#[test]
fn what_is_invalid_is_marked_where_it_is_told() {
    let page = Replication.page(&whole()).render();
    assert!(page.contains("<strong>INVALID</strong>"));
    assert!(page.contains("INVALID: what was to be measured was not seen to happen"));
}

#[test]
fn a_document_without_scenarios_makes_a_page_all_the_same() {
    let evidence = Evidence::new("replication", super::synthetic::host());
    assert!(Replication.page(&evidence).render().contains("<h1>Synchronous replication"));
}
