//! What an instance makes of its mail.

use super::{ChildEnd, Letter};
use crate::interpret::Event;
use crate::json::Json;

fn letter(kind: &str, name: Option<&str>, data: &str) -> Letter {
    let data = Some(Json::parse(data).expect("valid JSON"));
    Letter { kind: kind.to_owned(), name: name.map(str::to_owned), data }
}

/// A parent would wait for ever: the letter is consumed when it is read.
#[test]
fn an_unreadable_end_of_a_child_fails_the_step_that_waits_for_it() {
    for data in [r#""ended""#, "[1]", r#"{"failure":7}"#] {
        let event = letter("child", Some("1"), data).event().expect("it names a cell that waits");
        let Event::Child { result: Err(failure), .. } = event else { panic!("{data}: {event:?}") };
        assert!(
            failure.message.starts_with("the end of what this step waited for cannot be read: "),
            "{}",
            failure.message
        );
    }
    let end = ChildEnd { result: Some(Json::null()), failure: None, sqlstate: None };
    let text = serde_json::to_string(&end).expect("JSON");
    let event = letter("child", Some("1"), &text).event().expect("what a worker writes");
    assert!(matches!(event, Event::Child { result: Ok(_), .. }), "{event:?}");
}

#[test]
fn a_letter_that_says_nothing_says_why() {
    assert_eq!(letter("signal", None, "1").event().err(), Some("a signal without a name"));
    assert_eq!(letter("child", None, "{}").event().err(), Some("the end of a child, of no cell"));
    let nowhere = letter("child", Some("here"), "{}").event().err();
    assert_eq!(nowhere, Some("the end of a child, of something that is not a cell"));
    assert_eq!(letter("gossip", None, "1").event().err(), Some("of no known kind"));
}
