//! A request to control an instance says one thing, and no database has more sessions of the console's than it may.

use super::{Controlling, FunctionsError, Sessions, PLACE_LIMIT, SESSIONS_MAX, TEXT_MAX};
use duramen_api::attachments::functions::{ControlFunction, FunctionAction};
use duramen_base::clock;

const URL: &str = "postgresql://ops@localhost/shop";

fn wanted(action: FunctionAction) -> ControlFunction {
    ControlFunction {
        id: "1a2b3c4d".to_owned(),
        action,
        reason: None,
        signal: None,
        data: None,
        from: None,
        label: None,
    }
}

#[test]
fn a_request_that_says_two_things_is_refused() {
    use FunctionAction::{Cancel, Delete, Fork, Pause, Resume, Signal};
    let text = || Some("x".to_owned());
    for right in [
        ControlFunction { reason: text(), ..wanted(Cancel) },
        ControlFunction { signal: text(), data: text(), ..wanted(Signal) },
        ControlFunction { from: text(), label: text(), ..wanted(Fork) },
        wanted(Pause),
        wanted(Resume),
        wanted(Delete),
    ] {
        Controlling::read(right).unwrap();
    }
    for wrong in [
        wanted(Signal),
        ControlFunction { signal: Some(String::new()), ..wanted(Signal) },
        ControlFunction { signal: text(), ..wanted(Cancel) },
        ControlFunction { reason: text(), ..wanted(Delete) },
        ControlFunction { from: text(), ..wanted(Resume) },
        ControlFunction { label: text(), ..wanted(Pause) },
        ControlFunction { reason: Some("a\0b".to_owned()), ..wanted(Cancel) },
        ControlFunction { reason: Some("a".repeat(TEXT_MAX + 1)), ..wanted(Cancel) },
    ] {
        let refused = Controlling::read(wrong.clone());
        assert!(matches!(refused, Err(FunctionsError::Request(_))), "{wrong:?}");
    }
}

#[test]
fn what_goes_with_a_signal_is_not_written_down() {
    let signal = ControlFunction {
        signal: Some("paid".to_owned()),
        data: Some("4111 1111".to_owned()),
        ..wanted(FunctionAction::Signal)
    };
    let read = Controlling::read(signal).unwrap();
    assert_eq!((read.word(), read.detail().as_deref()), ("signal", Some("paid")));
    let long = ControlFunction { reason: Some("\u{e9}".repeat(300)), ..wanted(FunctionAction::Cancel) };
    assert_eq!(Controlling::read(long).unwrap().detail().unwrap().len(), 200);
}

#[tokio::test]
async fn one_more_waits_and_then_gives_up() {
    let sessions = Sessions::default();
    let mut places = Vec::new();
    for _ in 0..SESSIONS_MAX {
        places.push(sessions.place("shop", URL).await.unwrap());
    }
    drop(sessions.place("other", URL).await.expect("another attachment has places of its own"));
    let began = clock::now();
    let refused = sessions.place("shop", URL).await;
    assert!(matches!(refused, Err(FunctionsError::Busy { .. })), "{refused:?}");
    assert!(began.elapsed() >= PLACE_LIMIT);
    places.pop();
    drop(sessions.place("shop", URL).await.expect("one was given back"));
}
