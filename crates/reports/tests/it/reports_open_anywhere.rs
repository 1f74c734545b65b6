//! A report needs no network and no script, shows all text as text, and puts what did not hold first.

use std::time::Duration;

use duramen_measure::evidence::{Evidence, Measurement, Severity};
use duramen_measure::histogram::LatencyHistogram;
use duramen_measure::host::Host;
use duramen_reports::page::{Chart, Report, ReportError};

const HOSTILE: &str = "</title></svg><script>alert(\"1\")</script> & 'x' \u{1}";

fn host() -> Host {
    Host {
        cpu: "A processor".to_owned(),
        cores: 2,
        memory_bytes: 24 << 30,
        kernel: "Linux 6.1 x86_64".to_owned(),
        file_system: "ext4".to_owned(),
        load_average: [0.0; 3],
        fsync_floor_us: 812.0,
    }
}

fn latencies(nanos: impl Iterator<Item = u64>) -> LatencyHistogram {
    nanos.map(Duration::from_nanos).collect()
}

fn specimen() -> Evidence {
    let mut evidence = Evidence::new("forks", host());
    evidence.configure("clients", 100);
    evidence.measurements.push(Measurement::from_values("restart", "s", &[0.5, 0.7]));
    evidence.measurements.push(Measurement::scalar("wal_bytes", "bytes", 18_231.0));
    evidence.check("holds well", true, "12.1 ms");
    evidence.check("holds not", false, "131.4 ms");
    evidence.find("busy", Severity::Warning, Some(3.7), "The machine was busy.");
    evidence.finish();
    evidence
}

fn charts() -> Vec<Chart> {
    let cdf = |series| Chart::cdf("cdf", "ms", series);
    let none: Vec<(&str, Vec<(&str, f64)>)> = Vec::new();
    vec![
        cdf(vec![("a", latencies(1..100_000)), ("b", latencies([3_600_000_000_000].into_iter()))]),
        cdf(vec![("within a decade", latencies((1_100_000..1_200_000).step_by(100)))]),
        cdf(vec![("all equal", latencies(std::iter::repeat_n(3_000_000, 5)))]),
        cdf(vec![("zero", latencies([0, 0].into_iter())), ("empty", LatencyHistogram::new())]),
        Chart::cdf("no series", "parsecs", Vec::<(&str, LatencyHistogram)>::new()),
        Chart::bars("bars", "ms", [("g", vec![("a", 1.0), ("b", 1e12)]), ("h", vec![("b", 2.0)])]),
        Chart::bars("odd", "ms", [("g", vec![("a", -3.0), ("b", f64::NAN), ("c", f64::INFINITY)])]),
        Chart::bars("zero", "ms", [("g", vec![("a", 0.0)])]).with_target("bar", f64::NAN),
        Chart::bars("nothing", "ms", none).with_target("bar", 3.0),
        Chart::line("line", "x", "y", [("a", vec![(0.0, 1.0), (1.0, 2.0)]), ("b", vec![])]),
        Chart::line(
            "odd",
            "x",
            "y",
            [("a", vec![(1.0, 5.0)]), ("b", vec![(f64::NAN, 1.0), (2.0, f64::INFINITY)])],
        ),
        Chart::line("large", "x", "y", [("a", vec![(-1e15, -1e15), (1e15, 1e15)])]),
        Chart::line("no series", "x", "y", Vec::<(&str, Vec<(f64, f64)>)>::new()),
        stall(),
        Chart::timeline(
            "odd",
            "s",
            vec![0.0, f64::NAN, 2.0],
            [("y", vec![("a", vec![Some(f64::INFINITY), Some(1.0)]), ("b", vec![None, None, Some(-3.0)])])],
            [(f64::NAN, 1.0, "no time"), (5.0, 4.0, "backwards"), (0.0, 0.0, "empty")],
        ),
        Chart::timeline(
            "nothing",
            "s",
            Vec::new(),
            [("y", Vec::<(&str, Vec<Option<f64>>)>::new())],
            Vec::<(f64, f64, &str)>::new(),
        ),
        Chart::timeline(
            "no panel",
            "s",
            vec![1.0],
            Vec::<(&str, Vec<(&str, Vec<Option<f64>>)>)>::new(),
            [(0.0, 1.0, "band")],
        ),
    ]
}

/// Commits that stop from the second to the fifth second.
fn stall() -> Chart {
    let times: Vec<f64> = (0..80).map(|step| f64::from(step) / 10.0).collect();
    let is_stalled = |time: &f64| (2.0..5.0).contains(time);
    let commits = times.iter().map(|time| Some(if is_stalled(time) { 0.0 } else { 30.0 })).collect();
    let lag = times.iter().map(|time| is_stalled(time).then_some(*time - 2.0)).collect();
    Chart::timeline(
        "A stall",
        "s",
        times,
        [("commits", vec![("commits", commits)]), ("lag, s", vec![("replay lag", lag)])],
        [(2.0, 5.0, "snapshot")],
    )
}

#[test]
fn a_time_line_names_its_bands_to_those_who_see_and_to_those_who_hear() {
    let html = stall().render();
    assert!(html.contains("Set off: snapshot from 2 to 5 s."), "for screen readers");
    assert!(html.matches(">\nsnapshot\n</text>").count() >= 2, "in both drawings: {html}");
    let rows: Vec<&str> = html.split("<tr>").filter(|row| row.contains("<td>snapshot</td>")).collect();
    assert_eq!(rows.len(), 30, "a step of 100 ms each");
    assert!(rows[0].contains(">2</th>") && rows[0].contains(">0</td>"), "{}", rows[0]);
}

#[test]
fn a_time_line_is_broken_where_there_is_no_value() {
    let values = [1.0, 2.0, 3.0].map(Some).into_iter().chain([None]).chain([1.0, 2.0].map(Some)).collect();
    let lines = |values: Vec<Option<f64>>| {
        let times = (0..values.len()).map(|time| time as f64).collect();
        let none = Vec::<(f64, f64, &str)>::new();
        let html = Chart::timeline("t", "s", times, [("y", vec![("a", values)])], none).render();
        html.matches("<polyline fill=\"none\" opacity=\"1\" stroke=\"#0069AF\"").count()
    };
    assert_eq!(lines(values), 2 * 2);
    assert_eq!(lines(vec![Some(1.0); 6]), 2);
}

#[test]
fn long_lists_among_the_settings_are_left_to_the_document() {
    let mut evidence = specimen();
    evidence.configure("samples", (0..1_000).collect::<Vec<u32>>());
    let page = Report::new("Forks").evidence(&evidence).render();
    assert!(page.contains("<dt>samples</dt><dd>in the evidence document</dd>"));
    assert!(page.contains("<dt>clients</dt><dd>100</dd>") && !page.contains("998,999"));
}

#[test]
fn every_chart_is_drawn_twice_with_a_name() {
    for chart in charts() {
        let html = chart.render();
        assert!(!html.contains("could not be drawn"), "{html}");
        assert_eq!(html.matches("<svg role=\"img\" aria-label=\"").count(), 2, "{html}");
        assert_eq!(html.matches("viewBox=\"0 0 880 ").count(), 1, "{html}");
        assert_eq!(html.matches("viewBox=\"0 0 360 ").count(), 1, "{html}");
        assert!(!html.contains("NaN") && !html.contains("inf,"), "{html}");
    }
}

#[test]
fn nothing_is_fetched_or_run() {
    let page = charts().into_iter().fold(Report::new("All").evidence(&specimen()), Report::chart).render();
    for forbidden in ["<script", "src=", "href=", "url(", "@import", "<link", "<iframe", "onload"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert!(page.contains("<meta name=\"viewport\"") && page.contains("prefers-color-scheme"));
}

#[test]
fn all_text_is_escaped() {
    let mut evidence = Evidence::new(HOSTILE, host());
    evidence.host.cpu = HOSTILE.to_owned();
    evidence.version = HOSTILE.to_owned();
    evidence.command = vec![HOSTILE.to_owned()];
    evidence.configure(HOSTILE, HOSTILE);
    evidence.configure("list", vec![HOSTILE]);
    evidence.measurements.push(Measurement::scalar(HOSTILE, HOSTILE, 1.0));
    evidence.measurements.push(Measurement::from_values(HOSTILE, HOSTILE, &[1.0, 2.0]));
    evidence.check(HOSTILE, true, HOSTILE);
    evidence.find(HOSTILE, Severity::Info, Some(1.0), HOSTILE);
    let page = Report::new(HOSTILE)
        .evidence(&evidence)
        .evidence(&evidence)
        .heading(HOSTILE)
        .note(HOSTILE)
        .table(HOSTILE, [HOSTILE], [[HOSTILE]])
        .chart(Chart::cdf(HOSTILE, HOSTILE, [(HOSTILE, latencies(1..9))]))
        .chart(Chart::bars(HOSTILE, HOSTILE, [(HOSTILE, vec![(HOSTILE, 1.0)])]).with_target(HOSTILE, 1.0))
        .chart(Chart::line(HOSTILE, HOSTILE, HOSTILE, [(HOSTILE, vec![(1.0, 1.0)])]))
        .chart(Chart::timeline(
            HOSTILE,
            HOSTILE,
            vec![0.0, 1.0],
            [(HOSTILE, vec![(HOSTILE, vec![Some(1.0), None])])],
            [(0.0, 1.0, HOSTILE)],
        ))
        .render();
    assert!(!page.contains("<script") && !page.contains('\u{1}'));
    assert_eq!(page.matches("</title>").count(), 1 + 2 * 4, "the page's and that of each drawing");
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
}

#[test]
fn what_did_not_hold_comes_first_and_in_words() {
    let page = Report::new("Forks").evidence(&specimen()).render();
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}"));
    assert!(place("<strong>FAIL</strong> 1 of 2 checks did not hold.") < place("holds not"));
    assert!(place("holds not") < place("holds well"));
    assert!(page.contains(">fail</span>") && page.contains(">pass</span>"));
    assert!(place("18,231") < place("812 us"));
    assert!(page.contains("24 GiB") && page.contains("<dt>clients</dt><dd>100</dd>"));
}

#[test]
fn an_invalid_run_says_that_its_figures_say_nothing() {
    let mut evidence = specimen();
    evidence.invalidate("no checkpoint happened");
    let page = Report::new("Forks").evidence(&evidence).render();
    assert!(page.contains("<strong>INVALID</strong>") && page.contains("no checkpoint happened"));
}

#[test]
fn sections_keep_their_order_and_tables_their_alignment() {
    let rows = [["fork p95", "< 15 ms", "12.1 ms", "met"], ["forks at once", "< 100 ms", "131 ms", "missed"]];
    let page = Report::new("Forks")
        .note("first\n\nsecond")
        .table("third", ["Figure", "Bar", "Measured", "Outcome"], rows)
        .note("fourth")
        .render();
    let places: Vec<_> = ["<p>first</p>", "<p>second</p>", "<h3>third</h3>", "<p>fourth</p>"]
        .map(|text| page.find(text))
        .into();
    assert!(places.iter().all(Option::is_some) && places.is_sorted());
    assert!(page.contains("<td class=\"num\">&lt; 15 ms</td>"));
    assert!(page.contains("<span class=\"word bad\">missed</span>"));
    assert!(page.contains("<div class=\"scroll\""));
}

#[test]
fn a_report_is_written_whole_or_refused_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("report.html");
    let report = Report::new("Forks").evidence(&specimen());
    report.write(&path).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), report.render());
    let error = report.write(&dir.path().join("missing/report.html")).unwrap_err();
    assert!(matches!(error, ReportError::Io { .. }));
    assert!(error.to_string().contains("missing/report.html"), "{error}");
}
