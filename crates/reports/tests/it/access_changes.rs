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
