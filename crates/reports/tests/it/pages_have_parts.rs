//! The parts that pages are put together from: contents, heat maps, lists, what is folded away, courses of values.

use duramen_base::words::number;
use duramen_measure::histogram::LatencyHistogram;
use duramen_reports::page::{sparkline, Chart, Heat, Item, Report, Tone};
use std::time::Duration;

const HOSTILE: &str = "</h3><script>alert(\"1\")</script> & 'x'";

fn blocks(line: &str) -> Vec<u32> {
    line.chars().map(|c| if c == ' ' { 0 } else { u32::from(c) - 0x2580 }).collect()
}

#[test]
fn contents_lead_to_the_headings() {
    let page = Report::new("All")
        .with_contents()
        .heading("First")
        .note("text")
        .heading(HOSTILE)
        .note("more")
        .render();
    for (id, text) in [("part-1", "First"), ("part-2", "&lt;/h3&gt;")] {
        assert!(page.contains(&format!("<li><a href=\"#{id}\">{text}")), "{page}");
        assert!(page.contains(&format!("<h2 id=\"{id}\">{text}")), "{page}");
    }
    assert!(page.contains("<header>\n<h1>All</h1>") && page.contains("<a class=\"skip\" href=\"#main\">"));
    assert!(page.contains("<nav aria-label=\"Contents\">") && page.contains("<main id=\"main\""));
    let plain = Report::new("All").heading("First").render();
    assert!(!plain.contains("<nav") && plain.contains("<main>\n<h1>All</h1>"));
}

#[test]
fn a_heat_map_says_in_words_what_it_shades() {
    let heat = Heat::new("Latency", "operation", ["memory", "strict", "none"])
        .row("put", "us", [Some(1.0), Some(62.0), None])
        .row("stall", "s", [Some(0.0), Some(3.0)])
        .row("alone", "us", [Some(5.0), None, None])
        .row("odd", "us", [Some(f64::NAN), Some(-2.0), Some(4.0)]);
    assert_eq!(heat.len(), 4);
    let page = Report::new("Heat").heat(heat).render();
    for cell in [
        "heat0\">1 us <small>1x</small>",
        "heat4\">62 us <small>62x</small>",
        "heat0\">0 s<",
        "heat5\">3 s <small>not 0</small>",
        "num\">5 us<",
        "num\">-<",
        "num\">-2 us<",
    ] {
        assert!(page.contains(cell), "{cell}: {page}");
    }
    assert_eq!(page.matches("<th scope=\"row\">").count(), 4);
    assert!(!page.contains("NaN"));
}

#[test]
fn of_rates_the_most_is_the_best() {
    let heat = Heat::new("Rates", "operation", ["one", "two", "three"]).row(
        "puts",
        "1/s",
        [Some(50.0), Some(1000.0), Some(0.0)],
    );
    let page = Report::new("Heat").heat(heat).render();
    for cell in [
        "heat0\">1,000 1/s <small>1x</small>",
        "heat4\">50 1/s <small>20x</small>",
        "heat5\">0 1/s <small>none",
    ] {
        assert!(page.contains(cell), "{cell}: {page}");
    }
}

#[test]
fn amounts_of_work_are_not_held_against_each_other() {
    let heat = Heat::new("Sizes", "figure", ["1000", "100000"]).row("write", "ms", [Some(1.0), Some(90.0)]);
    let page = Report::new("Heat").heat(heat.uncompared()).render();
    assert!(
        page.contains("num\">90 ms<") && !page.contains("class=\"key\"") && !page.contains("90x"),
        "{page}"
    );
}

#[test]
fn a_distribution_marks_its_median_and_its_tail() {
    let mut latencies = LatencyHistogram::new();
    for ms in 1..=100 {
        latencies.record(Duration::from_millis(ms));
    }
    let page = Chart::cdf("Latency", "ms", [("put", latencies)]).render();
    assert!(page.contains("put: p50 50") && page.contains(", p95 95"), "{page}");
    // Two marks in each of the two drawings.
    assert_eq!(page.matches("<circle").count(), 4, "{page}");
}

#[test]
fn parts_that_follow_one_another_are_put_end_to_end() {
    let rounds = [("round 1", vec![("clones", 30.0), ("starts", 70.0)])];
    let page = Chart::stacked("Refill", "ms", rounds.clone()).render();
    assert!(page.contains(">\n100\n</text>"), "the sum is written: {page}");
    assert!(!page.contains(">\n70\n</text>"), "a part is not: {page}");
    let beside = Chart::bars("Refill", "ms", rounds).render();
    assert!(beside.contains(">\n70\n</text>"), "{beside}");
}

#[test]
fn text_on_every_shade_can_be_read_by_day_and_by_night() {
    let page = Report::new("Colours").render();
    let (day, night) = page.split_once("prefers-color-scheme: dark").expect("both schemes");
    for (scheme, name) in [(day, "day"), (night, "night")] {
        let color = |variable: &str| {
            let (_, rest) = scheme.split_once(&format!("--{variable}: #")).expect("the variable");
            [0, 2, 4]
                .map(|at| f64::from(u8::from_str_radix(&rest[at..at + 2], 16).expect("a colour")) / 255.0)
        };
        for shade in 0..6 {
            let contrast = contrast(color("ink"), color(&format!("heat{shade}")));
            assert!(contrast >= 4.5, "ink on shade {shade} by {name}: {contrast:.2}");
        }
        for (text, ground) in [
            ("link", "page"),
            ("quiet", "page"),
            ("quiet", "band"),
            ("good", "good-band"),
            ("bad", "bad-band"),
            ("doubt", "doubt-band"),
        ] {
            let contrast = contrast(color(text), color(ground));
            assert!(contrast >= 4.5, "{text} on {ground} by {name}: {contrast:.2}");
        }
    }
}

/// The contrast of two colours (Web Content Accessibility Guidelines 2.2).
fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
    let linear = |c: f64| if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) };
    let luminance = |c: [f64; 3]| 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn the_course_of_values_does_not_make_cliffs_of_noise() {
    assert_eq!(blocks(&sparkline(&[Some(1.0), None, Some(8.0)])), [1, 0, 8]);
    assert_eq!(blocks(&sparkline(&[Some(3.0); 4])), [5; 4]);
    assert_eq!(blocks(&sparkline(&[Some(5.063_679); 2])), [5; 2]);
    assert_eq!(blocks(&sparkline(&[Some(0.0), Some(0.0)])), [5; 2]);
    let noise = blocks(&sparkline(&[Some(100.0), Some(101.0), Some(99.0)]));
    assert!(noise.iter().all(|block| (4..=6).contains(block)), "{noise:?}");
    assert_eq!(blocks(&sparkline(&[Some(f64::NAN), Some(-1.0), Some(1.0)])), [0, 1, 8]);
    assert!(sparkline(&[]).is_empty());
}

#[test]
fn blocks_are_not_read_aloud_but_words_beside_them_are() {
    let row = [sparkline(&[Some(1.0), Some(2.0)]), "slower".to_owned()];
    let page = Report::new("T").heading("H").table(
        "Trends",
        ["figure", "course", "in words"],
        [["put", &row[0], &row[1]]],
    );
    let page = page.render();
    assert!(page.contains("<span class=\"spark\" aria-hidden=\"true\">"), "{page}");
    assert!(page.contains("<td>slower</td>"));
    assert!(page.contains("<caption class=\"unseen\">Trends</caption>"));
}

#[test]
fn every_part_escapes_its_text() {
    let item = Item { tone: Tone::Bad, word: HOSTILE.into(), name: HOSTILE.into(), detail: HOSTILE.into() };
    let page = Report::new("All")
        .with_contents()
        .with_footer(HOSTILE)
        .heading(HOSTILE)
        .subheading(HOSTILE)
        .banner(Tone::Doubt, HOSTILE, HOSTILE)
        .list([item.in_part(HOSTILE)])
        .pairs([(HOSTILE, HOSTILE)])
        .commands([HOSTILE])
        .heat(Heat::new(HOSTILE, HOSTILE, [HOSTILE]).row(HOSTILE, HOSTILE, [Some(1.0)]))
        .folded(HOSTILE, Report::new("").note(HOSTILE).table_of(HOSTILE, [HOSTILE], [[HOSTILE]]))
        .render();
    assert!(!page.contains("<script") && !page.contains("'x'"));
    assert!(page.matches("&lt;script&gt;").count() >= 18, "{}", page.matches("&lt;script&gt;").count());
}

#[test]
fn a_part_without_sections_has_no_heading() {
    let page = Report::new("All").part("Nothing", Report::new("")).part("Some", Report::new("").note("text"));
    let page = page.render();
    assert!(!page.contains("Nothing") && page.contains("Some"));
    assert!(Report::new("x").is_empty());
}

#[test]
fn nothing_has_no_sign() {
    assert_eq!([number(-0.0), number(0.0), number(-0.5)], ["0", "0", "-0.5"]);
}
