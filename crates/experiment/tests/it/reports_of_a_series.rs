//! The report shows what was computed, what was decided by hand, and nothing that breaks a page or a terminal.

use crate::support;
use crate::support::{begun, effect, ended, judgement, segment};
use duramen_experiment::{
    event::{Event, Verdict},
    log::{Entry, NO_DIGEST},
    report,
    state::State,
};

fn state(events: Vec<Event>) -> State {
    let at = "2026-11-22T12:00:00Z".parse().unwrap();
    let entry = |(seq, event)| Entry { seq, at, prev: NO_DIGEST.to_owned(), event };
    State::from_entries(&(1..).zip(events).map(entry).collect::<Vec<_>>())
}

/// Two keeps of 10 % each and a discard between them.
fn two_keeps(spec: fn(String) -> String) -> Vec<Event> {
    let mut first = segment(1, "c0");
    if let Event::Segment { spec: text, .. } = &mut first {
        *text = spec(std::mem::take(text));
    }
    let keep = || judgement(Verdict::Keep, "better beyond doubt", Some(-0.1));
    vec![
        first,
        support::noise("c0", 0.0125),
        begun(1, "c0", "c1", "one buffer"),
        ended(1, keep(), "c1"),
        begun(2, "c1", "c2", "two buffers"),
        ended(2, judgement(Verdict::Discard, "no better", Some(0.005)), "c1"),
        begun(3, "c1", "c3", "no buffer"),
        ended(3, keep(), "c3"),
    ]
}

#[test]
fn keeps_multiply_and_their_errors_add_as_squares() {
    let overview = report::overview(&state(two_keeps(|spec| spec)));
    let stack = overview.stack.unwrap();
    assert!(!stack.is_replayed);
    assert!((stack.change.percent - -19.0).abs() < 1e-9, "{:?}", stack.change);
    // Each has 0.9 with an upper end of 0.92: on the logarithmic scale, the root of two of that.
    let upper = (0.81_f64.ln() + 2.0_f64.sqrt() * (0.92_f64 / 0.9).ln()).exp();
    assert!((stack.change.high - (upper - 1.0) * 100.0).abs() < 1e-9, "{:?}", stack.change);
    assert_eq!(overview.verdicts.into_iter().collect::<Vec<_>>(), [("discard", 1), ("keep", 2)]);
    assert_eq!((overview.tries, overview.budget, overview.since_keep), (3, 40, 0));
    assert_eq!(overview.kept.iter().map(|kept| kept.number).collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn a_throughput_that_grows_is_shown_as_growing() {
    let higher = state(two_keeps(|spec| spec.replace("lower", "higher")));
    let rows = report::rows(&higher);
    let change = rows[0].change.unwrap();
    assert!((change.percent - 100.0 / 9.0).abs() < 1e-9, "{change:?}");
    assert!(change.low < change.percent && change.percent < change.high, "{change:?}");
    assert!(report::table(&higher).contains("+11.1 %"), "{}", report::table(&higher));
    let lower = state(two_keeps(|spec| spec));
    assert!(report::table(&lower).contains("-10.0 % [-12.0, -8.0]"), "{}", report::table(&lower));
}

#[test]
fn a_replay_of_this_head_counts_for_more_than_the_product() {
    let mut events = two_keeps(|spec| spec);
    let replayed = |head: &str, share: f64| Event::Replayed {
        start: "c0".to_owned(),
        head: head.to_owned(),
        judgement: judgement(Verdict::Keep, "", Some(share)),
    };
    events.push(replayed("c1", -0.07));
    assert!(!report::overview(&state(events.clone())).stack.unwrap().is_replayed, "that was another head");
    events.push(replayed("c3", -0.15));
    let state = state(events);
    let stack = report::overview(&state).stack.unwrap();
    assert!(stack.is_replayed);
    assert!((stack.change.percent - -15.0).abs() < 1e-9);
    let text = report::markdown(&state);
    assert!(text.contains("-15.0 % [-17.0, -13.0] from start to head, measured by a replay"), "{text}");
}

#[test]
fn all_that_happened_is_in_the_report() {
    let state = state(support::events());
    let (markdown, html) = (report::markdown(&state), report::html(&state));
    let expected = [
        "one buffer for all rows",
        "discard (by hand)",
        "it leaks",
        "exit status 2",
        "keep the buffer",
        "unrolling",
        "split the batch",
        "cannot be left out",
        "plateau",
        "sum_ms",
        "a processor",
    ];
    for expected in expected {
        assert!(markdown.contains(expected), "{expected} is missing:\n{markdown}");
        assert!(html.contains(expected), "{expected} is missing in the page");
    }
    assert!(html.contains("<svg") && html.contains("kept stack"), "there is a chart");
    // It opens without a network and runs nothing.
    for outside in ["<script", "http://", "https://", "<link", "<img", "@import", "url("] {
        let found = html.replace("http://www.w3.org/2000/svg", "").contains(outside);
        assert!(!found, "{outside}");
    }
    let table = report::table(&state);
    assert!(table.contains("discard (by hand)") && table.contains("computed: keep"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 110), "{table}");
    let status = report::status(&state);
    assert!(status.contains("2 of 40 (1 crash, 1 discard)") && status.contains("nothing kept"), "{status}");
    let one = report::one(&state, 1).unwrap();
    assert!(one.contains("check tests: passed") && one.contains("src/sum.c"), "{one}");
    assert_eq!(report::one(&state, 9), None);
}

#[test]
fn what_a_proposer_writes_breaks_neither_page_nor_table_nor_terminal() {
    let evil = "a|b <script>alert(1)</script>\n# heading\n\u{1b}[2J `code`";
    let mut events = vec![segment(1, "c0"), begun(1, "c0", "c1", evil)];
    let mut bad = judgement(Verdict::Discard, evil, Some(0.1));
    bad.scales.insert(evil.to_owned(), effect(0.1));
    events.push(Event::Checked { number: 1, check: evil.to_owned(), passed: false, detail: evil.to_owned() });
    events.push(ended(1, bad, "c0"));
    events.push(Event::Idea {
        idea: 1,
        rank: 1.0,
        text: evil.to_owned(),
        mechanism: evil.to_owned(),
        done: false,
    });
    let state = state(events);
    let html = report::html(&state);
    assert!(!html.contains("<script") && !html.contains('\u{1b}'));
    let markdown = report::markdown(&state);
    assert!(!markdown.contains("<script") && !markdown.contains('\u{1b}'), "{markdown}");
    assert!(!markdown.lines().any(|line| line.starts_with("# heading")), "{markdown}");
    assert!(markdown.contains("a\\|b"), "{markdown}");
    let terminal = [
        report::table(&state),
        report::status(&state),
        report::ideas(&state),
        report::one(&state, 1).unwrap(),
    ];
    assert!(terminal.iter().all(|text| !text.contains('\u{1b}')), "{terminal:?}");
}

#[test]
fn a_series_without_a_baseline_or_tries_has_a_report_too() {
    let empty = state(Vec::new());
    assert!(report::markdown(&empty).contains("No baseline"));
    assert!(report::status(&empty).contains("no baseline yet"));
    assert_eq!(report::table(&empty), "nothing was tried yet\n");
    let begun_only = state(vec![segment(1, "c0"), begun(1, "c0", "c1", "it is faster")]);
    assert!(report::html(&begun_only).contains("open"));
    assert!(report::status(&begun_only).contains("`resume` goes on with it"));
}

#[test]
fn figures_of_a_spec_that_cannot_be_read_are_still_shown() {
    let unreadable = state(two_keeps(|_| "of a later version".to_owned()));
    assert!(report::table(&unreadable).contains("-10.0 %"));
    assert!(report::html(&unreadable).contains("of a later version"));
}
