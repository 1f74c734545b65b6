//! A page about who gained and who lost access counts all changes, and names of others are text in it, whatever they hold.

use duramen_reports::access::{AccessChange, AccessReport};

const HOSTILE: &str = "user:<script>alert('x')</script>&\"";

fn change<'a>(
    is_gain: bool,
    principal: &'a str,
    entitlement: &'a str,
    through: Option<&'a str>,
) -> AccessChange<'a> {
    AccessChange { is_gain, principal_type: "user", principal, entitlement, through }
}

#[test]
fn all_changes_are_counted_and_what_changed_most_comes_first() {
    let mut report = AccessReport::new("a.dpack", "b.dpack");
    for number in 0..30 {
        let principal = format!("user:u{number}");
        report.count(&change(number % 3 == 0, &principal, "app:many", Some("group:staff")));
    }
    for number in 0..25 {
        report.count(&change(true, "user:u0", &format!("app:few-{number:02}"), None));
    }
    report.tell(true, "user:u0", "app:few-00", "directly");
    let page = report.page().render();
    // Which file something is held in only is said where it is counted.
    assert!(page.contains("held in b.dpack only") && page.contains("held in a.dpack only"), "{page}");
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is missing"));
    assert!(place("app:many") < place("app:few-00"));
    assert!(page.contains("through group:staff") && page.contains("6 more rows, each with fewer changes."));
    assert!(page.contains("Gained: 1 of 35") && page.contains("Lost: 0 of 20"));
    assert!(!page.contains("app:few-24"), "the least of many is not in the tables");
}

/// The drawing for wide windows, and the legend over it, of each chart.
fn charts(page: &str) -> Vec<(String, String)> {
    let between = |text: &str, from: &str, to: &str| {
        text.split_once(from)
            .and_then(|(_, rest)| rest.split_once(to))
            .map(|(inside, _)| inside.to_owned())
            .unwrap()
    };
    let figures = page.split("<figure class=\"chart\">").skip(1);
    figures
        .map(|figure| {
            (
                between(figure, "<ul class=\"legend\">", "</ul>"),
                between(figure, "<div class=\"wide\">", "</div>"),
            )
        })
        .collect()
}

#[test]
fn a_chart_has_rows_for_what_changed_only_and_whole_numbers_at_its_axis() {
    let mut report = AccessReport::new("a.dpack", "b.dpack");
    report.count(&change(true, "user:ada", "app:admin", None));
    report.count(&change(true, "user:eve", "app:push", Some("group:staff")));
    let page = report.page().render();
    for (legend, drawing) in charts(&page) {
        assert!(legend.contains("gained") && !legend.contains("lost"), "{legend}");
        // One bar for each of two groups; grounds of texts are white.
        let bars = drawing.matches("fill=\"#0069AF\"").count();
        assert_eq!(bars, 2, "{drawing}");
        assert!(!drawing.contains("\n0.5\n"), "half a change at the axis: {drawing}");
    }
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is missing"));
    assert!(place("<dt>older") < place("class=\"tiles\"") && place("class=\"tiles\"") < place("<figure"));

    // What was lost has the same colour, whether anything was gained or not.
    let mut report = AccessReport::new("a.dpack", "b.dpack");
    report.count(&change(false, "user:ada", "app:admin", None));
    for (legend, drawing) in charts(&report.page().render()) {
        assert!(!legend.contains("gained") && legend.contains("rgb(200,75,0)"), "{legend}");
        assert_eq!(drawing.matches("fill=\"#C84B00\"").count(), 1);
    }
}

#[test]
fn names_of_others_are_text() {
    let mut report = AccessReport::new(HOSTILE, HOSTILE);
    report.count(&AccessChange { principal_type: HOSTILE, ..change(false, HOSTILE, HOSTILE, Some(HOSTILE)) });
    report.tell(false, HOSTILE, HOSTILE, HOSTILE);
    let page = report.page().render();
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;"), "{page}");
}

#[test]
fn no_change_is_said_so() {
    let page = AccessReport::new("a", "b").page().render();
    assert!(page.contains("Everybody holds what they held before"));
}
