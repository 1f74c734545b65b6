//! Conditions on the figures of a run hold, or say how they do not.

use duramen_experiment::event::Metrics;
use duramen_experiment::invariant::{Broken, Condition, ConditionError};

fn metrics() -> Metrics {
    [
        ("rows", 1000.0),
        ("n", 1000.0),
        ("BenchmarkX/ns/op", 12.5),
        ("fib 20", 0.5),
        ("a=b", 1.0),
        ("scale", 7.0),
        ("nan", 3.0),
        ("hole", f64::NAN),
        ("endless", f64::INFINITY),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

#[test]
fn conditions_hold_or_do_not() {
    let cases = [
        ("rows == n", true),
        ("rows==n", true),
        ("  rows  >=n ", true),
        ("rows != n", false),
        ("rows > 999", true),
        ("rows > 1e3", false),
        ("rows <= 1000.0", true),
        ("rows < -1", false),
        ("rows == scale", true),
        ("scale == rows", true),
        ("BenchmarkX/ns/op < 13", true),
        ("`fib 20` < 0.1", false),
        ("`fib 20`>=0.5", true),
        ("`a=b` == 1", true),
        ("`scale` == 7", true),
        ("`nan` == 3", true),
        ("1 == 1", true),
    ];
    for (text, wanted) in cases {
        let condition = Condition::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(condition.holds(" 1000", &metrics()).is_ok(), wanted, "{text}");
        assert_eq!(condition.to_string(), text.trim());
    }
}

#[test]
fn what_is_broken_says_how() {
    let broken = |text: &str, scale: &str| {
        Condition::parse(text).expect("a condition").holds(scale, &metrics()).expect_err("broken")
    };
    let untrue = broken("rows == 999", "");
    assert_eq!(untrue, Broken::Untrue { condition: "rows == 999".to_owned(), left: 1000.0, right: 999.0 });
    assert!(untrue.to_string().contains("1000 and 999"), "{untrue}");
    assert!(matches!(broken("lines == n", ""), Broken::Missing { figure, .. } if figure == "lines"));
    assert!(matches!(broken("rows == scale", "large"), Broken::NoNumber { .. }));
    assert!(matches!(broken("rows == scale", ""), Broken::NoNumber { .. }));
    assert!(matches!(broken("rows == scale", "inf"), Broken::NoNumber { .. }));
}

#[test]
fn what_is_no_number_satisfies_nothing() {
    // Not a number is unequal to everything, and less than infinity is not bounded.
    for text in ["hole != 1", "hole == hole", "rows < endless", "endless == endless"] {
        let condition = Condition::parse(text).expect("a condition");
        assert!(matches!(condition.holds("1", &metrics()), Err(Broken::NoNumber { .. })), "{text}");
    }
}

#[test]
fn what_is_no_condition_is_refused() {
    use ConditionError as E;
    let operand = |what: &str| E::Operand(what.to_owned());
    let cases = [
        ("", operand("")),
        ("rows", E::NoComparison("rows".to_owned())),
        ("`rows`", E::NoComparison("`rows`".to_owned())),
        ("rows n", E::NoComparison("rows n".to_owned())),
        ("rows = n", E::NoComparison("rows = n".to_owned())),
        ("rows && n", E::NoComparison("rows && n".to_owned())),
        ("== n", operand("== n")),
        ("!rows", operand("!rows")),
        ("rows ==", operand("")),
        ("rows === n", operand("= n")),
        ("1_000 == n", operand("1_000")),
        ("5ms < n", operand("5ms")),
        ("`` == 1", operand("``")),
        ("rows == n;", operand("n;")),
        ("rows == n+1", operand("n+1")),
        ("rows < inf", E::NotFinite("inf".to_owned())),
        ("nan != rows", E::NotFinite("nan".to_owned())),
        ("rows < 1e999", E::NotFinite("1e999".to_owned())),
        ("-infinity < rows", E::NotFinite("-infinity".to_owned())),
        ("`rows == n", E::OpenQuote("`rows == n".to_owned())),
        ("rows == n and x == y", E::Rest("and x == y".to_owned())),
        ("1 < rows < 3", E::Rest("< 3".to_owned())),
    ];
    for (text, wanted) in cases {
        assert_eq!(Condition::parse(text).expect_err(text), wanted, "{text}");
    }
    assert_eq!(Condition::parse(&"a".repeat(2_000)), Err(E::TooLong));
}
