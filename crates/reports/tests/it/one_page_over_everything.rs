//! The page is valid HTML, readable by eye, ear and keyboard, fetches nothing, and is bounded, whatever it is made of.

use crate::support::{fixture, fixtures, run, HOSTILE, LOWER};
use duramen_measure::evidence::{Evidence, Finding, Measurement, Severity};
use duramen_measure::target::Standing;
use duramen_reports::page::{Report, Tile};
use duramen_reports::suite::{Headline, Suite};
use duramen_reports::{site, Document};
use scraper::{ElementRef, Html, Selector};

/// What the page of all real documents may take.
const LARGEST: usize = 2 << 20;

fn page(documents: &[Document], history: &[Document]) -> String {
    site::page(documents, history, &["A note.".to_owned()], LOWER, &[]).render()
}

fn select<'a>(html: &'a Html, selector: &str) -> Vec<ElementRef<'a>> {
    html.select(&Selector::parse(selector).unwrap()).collect()
}

fn text(element: ElementRef<'_>) -> String {
    element.text().collect::<String>().trim().to_owned()
}

/// A document in which everything that can be text is hostile.
fn hostile() -> Document {
    let mut document = run(1, 5.0, 1.0);
    let evidence = &mut document.evidence;
    evidence.suite = HOSTILE.to_owned();
    evidence.version = HOSTILE.to_owned();
    evidence.command = vec![HOSTILE.to_owned(); 3];
    evidence.host.cpu = HOSTILE.to_owned();
    evidence.host.kernel = HOSTILE.to_owned();
    evidence.configure(HOSTILE, HOSTILE);
    evidence.configure(
        "timelines",
        serde_json::json!({HOSTILE: {"step_ms": 100, "commits": [1, null, 3], "gaps": [
            {"begin_s": 0.0, "length_s": 1e300, "cause": HOSTILE}]}}),
    );
    for (metric, column) in [("a", "1"), ("a", "2"), ("b/S2", HOSTILE)] {
        let name = format!("{HOSTILE}{metric}/{column}");
        evidence.measurements.push(Measurement::scalar(name, HOSTILE, 1.0));
    }
    evidence.check(HOSTILE, false, HOSTILE);
    evidence.find(HOSTILE, Severity::Problem, Some(1.0), HOSTILE);
    evidence.decide();
    document
}

#[test]
fn it_is_valid_html() {
    for page in [page(&fixtures(), &[]), page(&[hostile(), run(2, 1.0, 1.0)], &[]), page(&[], &[])] {
        let html = Html::parse_document(&page);
        assert!(html.errors.is_empty(), "{:?}", html.errors);
        let ids: Vec<_> = select(&html, "[id]").iter().map(|e| e.value().attr("id").unwrap()).collect();
        let mut unique = ids.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), ids.len(), "{ids:?}");
    }
}

#[test]
fn headings_and_landmarks_are_in_order() {
    let source = page(&fixtures(), &[]);
    let html = Html::parse_document(&source);
    let ranks: Vec<u32> = select(&html, "h1, h2, h3, h4, h5, h6")
        .iter()
        .map(|heading| heading.value().name()[1..].parse().unwrap())
        .collect();
    assert_eq!(ranks.iter().filter(|rank| **rank == 1).count(), 1);
    assert_eq!(ranks[0], 1);
    assert!(ranks.windows(2).all(|pair| pair[1] <= pair[0] + 1), "no rank is left out: {ranks:?}");
    for landmark in ["header", "nav[aria-label]", "main", "footer"] {
        assert_eq!(select(&html, landmark).len(), 1, "{landmark}");
    }
    assert_eq!(select(&html, "html[lang=en]").len(), 1);
    let links = select(&html, "nav a");
    let parts: Vec<String> = select(&html, "h2").into_iter().map(text).collect();
    assert_eq!(links.iter().map(|link| text(*link)).collect::<Vec<_>>(), parts);
    assert_eq!(parts[0], "Overview");
    assert_eq!(parts[parts.len() - 4..], ["Checks", "Findings", "Environment", "Run again"]);
    for link in select(&html, "a") {
        let target = link.value().attr("href").unwrap();
        assert_eq!(select(&html, target).len(), 1, "{target} leads to one place");
    }
}

#[test]
fn tables_and_charts_can_be_heard() {
    let source = page(&fixtures(), &[]);
    let html = Html::parse_document(&source);
    for table in select(&html, "table") {
        let captions: Vec<_> = table.select(&Selector::parse("caption").unwrap()).collect();
        assert!(captions.len() == 1 && !text(captions[0]).is_empty(), "{}", table.html());
    }
    assert!(select(&html, "th").iter().all(|th| th.value().attr("scope").is_some()));
    assert_eq!(
        select(&html, "table").len(),
        select(&html, ".scroll[tabindex='0'][role=region] > table").len()
    );
    let charts = select(&html, "figure.chart");
    assert!(charts.len() > 10, "{}", charts.len());
    for chart in charts {
        for part in ["figcaption", "svg[role=img][aria-label]", "details > summary", "details table"] {
            let found = chart.select(&Selector::parse(part).unwrap()).count();
            assert!(found > 0, "{part} in {}", text(chart));
        }
    }
    for svg in select(&html, "svg") {
        let is_told = svg.value().attr("aria-label").is_some() || svg.value().attr("aria-hidden").is_some();
        assert!(is_told, "{}", svg.html());
    }
}

#[test]
fn it_fetches_nothing_and_runs_nothing() {
    for source in [page(&fixtures(), &[]), page(&[hostile()], &[])] {
        let html = Html::parse_document(&source);
        for forbidden in
            ["script", "link", "iframe", "img", "object", "embed", "base", "form", "[src]", "[onload]"]
        {
            assert!(select(&html, forbidden).is_empty(), "{forbidden}");
        }
        for word in ["url(", "@import", "<script"] {
            assert!(!source.contains(word), "{word}");
        }
        for element in select(&html, "*") {
            for (name, value) in element.value().attrs() {
                let is_name = name.starts_with("xmlns");
                assert!(!name.starts_with("on"), "{name}");
                assert!(
                    is_name || !(name == "href" || name == "src") || value.starts_with('#'),
                    "{name}={value}"
                );
            }
        }
    }
}

#[test]
fn what_did_not_hold_comes_first() {
    let mut failed = run(1, 5.0, 1.0);
    failed.evidence.check("it is fast", false, "it is not");
    failed.evidence.find("slow", Severity::Warning, None, "A warning.");
    failed.evidence.find("broken", Severity::Problem, None, "A problem.");
    failed.evidence.find("note", Severity::Info, None, "A note.");
    failed.evidence.decide();
    let source = page(&[failed, fixture("packs")], &[]);
    let place = |text: &str| source.find(text).unwrap_or_else(|| panic!("no {text}"));
    assert!(place("<strong>FAIL</strong> A check did not hold in 1 of 2 runs.") < place("store: Broken"));
    assert!(place("store: Broken") < place("store: Slow") && place("store: Slow") < place("store: Note"));
    assert!(place("store: it is fast") < place("Checks that held"));
    let mut invalid = run(1, 5.0, 1.0);
    invalid.evidence.invalidate("nothing happened");
    let source = page(&[invalid], &[]);
    assert!(source.contains("<strong>INVALID</strong>") && source.contains("This run is invalid"));
}

#[test]
fn figures_at_several_conditions_are_a_heat_map_with_words() {
    let source = page(&[fixture("replication"), fixture("store")], &[]);
    let html = Html::parse_document(&source);
    let heat = |caption: &str| {
        let all = select(&html, "table.heat");
        let found = all.into_iter().find(|table| text(*table).starts_with(caption));
        found.unwrap_or_else(|| panic!("no map {caption}"))
    };
    let store = heat("Figures (medians) at memory, buffered, strict");
    assert!(text(store).contains("kv.put.100B") && text(store).contains('x'), "{}", text(store));
    let replication = heat("latency_ms at remote_write, remote_apply");
    let row =
        replication.select(&Selector::parse("tbody tr").unwrap()).map(text).find(|row| row.starts_with("S2"));
    assert_eq!(row.as_deref(), Some("S22.91 ms 1x1,385 ms 476x"));
    assert!(source.contains("Time line of S2/remote_apply, in steps of 100 ms"));
    assert!(source.contains("Set off: snapshot from"));
}

#[test]
fn trends_are_of_the_history_and_environments_are_compared() {
    let history: Vec<Document> = [5.0, 5.1, 4.9, 5.0, 7.5, 7.6, 7.4]
        .iter()
        .enumerate()
        .map(|(hour, value)| run(i64::try_from(hour).unwrap(), *value, 1.0))
        .collect();
    let newest = run(9, 7.5, 1.0);
    let source = page(std::slice::from_ref(&newest), &history);
    assert!(
        source.contains("Trends of store, version 0.1.0") && source.contains("slower by 50 %"),
        "{source}"
    );
    assert!(source.contains("Figures that differ between the last runs (1)"));
    assert!(!source.contains("between machines"));
    let mut other = run(1, 5.0, 1.0);
    other.evidence.host.cores = 64;
    other.evidence.configure("rows", 5);
    let source = page(&[newest, other], &[]);
    let html = Html::parse_document(&source);
    let rows: Vec<String> = select(&html, "tr").into_iter().map(text).collect();
    for row in ["Cores642differs", "Kernel", "rows51000differs"] {
        assert!(rows.iter().any(|found| found.starts_with(row)), "{row}: {rows:?}");
    }
    assert!(source.contains("DURAMEN_SEED=9 duramen lab run store"));
}

#[test]
fn its_size_is_bounded() {
    let real = page(&fixtures(), &[]);
    assert!(real.len() < LARGEST, "{} bytes", real.len());
    let mut large = run(1, 5.0, 1.0);
    for index in 0..20_000 {
        large.evidence.measurements.push(Measurement::scalar(format!("figure{index}/a"), "us", 1.0));
        large.evidence.measurements.push(Measurement::scalar(format!("figure{index}/b"), "us", 2.0));
    }
    for index in 0..5_000 {
        large.evidence.check(format!("check {index}"), true, "held");
        large.evidence.find(format!("rule {index}"), Severity::Warning, None, "text");
    }
    let page = page(&[large], &[]);
    assert!(page.len() < LARGEST, "{} bytes", page.len());
    assert!(page.contains("4700 more are in the documents") && page.contains("are in the document."));
}

/// A suite that shows one figure in large.
struct Shown;

impl Suite for Shown {
    fn name(&self) -> &'static str {
        "store"
    }

    fn about(&self) -> &'static str {
        "nothing"
    }

    fn targets(&self, _: &Evidence) -> Vec<Standing> {
        Vec::new()
    }

    fn diagnose(&self, _: &Evidence) -> Vec<Finding> {
        Vec::new()
    }

    fn headline(&self, _: &Evidence) -> Option<Headline> {
        None
    }

    fn tiles(&self, _: &Evidence) -> Vec<Tile> {
        vec![Tile { figure: "7 us".to_owned(), what: "to fork".to_owned(), beside: String::new() }]
    }

    fn table(&self, _: &Evidence) -> String {
        String::new()
    }

    fn page(&self, _: &Evidence) -> Report {
        Report::new("")
    }
}

#[test]
fn figures_come_before_findings_and_failed_checks_before_figures() {
    let parts = |documents: &[Document]| {
        let page = site::page(documents, &[], &[], LOWER, &[&Shown]).render();
        let html = Html::parse_document(&page);
        let tile = select(&html, ".tiles li").first().map(|tile| text(*tile));
        (select(&html, "h2").into_iter().map(text).collect::<Vec<_>>(), tile)
    };
    let mut document = run(1, 5.0, 1.0);
    document.evidence.suite = "store".to_owned();
    document.evidence.check("kept", true, "all are there");
    document.evidence.decide();
    let (held, tile) = parts(std::slice::from_ref(&document));
    assert_eq!(held, ["Overview", "Suite store", "Checks", "Environment", "Run again"]);
    let tile = tile.expect("the figure of the suite");
    assert!(tile.contains("7 us") && tile.contains("store: to fork"), "{tile}");
    document.evidence.check("kept_again", false, "one was lost");
    document.evidence.find("noise", Severity::Warning, None, "the machine was busy");
    document.evidence.decide();
    let (failed, _) = parts(&[document]);
    assert_eq!(failed, ["Overview", "Checks", "Suite store", "Findings", "Environment", "Run again"]);
}
