//! Cells stay on their line, and JSON stays as the server wrote it.

use super::{raw, seconds, short, span};
use std::time::Duration;

#[test]
fn long_and_broken_texts_become_one_short_line() {
    assert_eq!(short("SELECT\n   1", 20), "SELECT 1");
    assert_eq!(short("abcdefghij", 10), "abcdefghij");
    assert_eq!(short("abcdefghijk", 10), "abcdefg...");
    assert_eq!(short("\u{e4}\u{f6}\u{fc}\u{df}\u{e9}", 4), "\u{e4}...");
}

#[test]
fn json_keeps_its_digits_and_its_order() {
    let text = r#"{"b":1.10,"a":12345678901234567890.5}"#;
    assert_eq!(raw(text.to_owned()).unwrap().get(), text);
    assert_eq!(raw("not \"json\"".to_owned()).unwrap().get(), r#""not \"json\"""#);
}

#[test]
fn spans_have_the_digits_that_matter() {
    assert_eq!(span(Duration::from_micros(1500)), "1 ms");
    assert_eq!(span(Duration::from_millis(1240)), "1.2 s");
    assert_eq!(span(Duration::from_millis(3_661_900)), "1h 1m 1s");
    assert_eq!(seconds(-0.5), "0 ms");
    assert_eq!(seconds(0.25), "250 ms");
}
