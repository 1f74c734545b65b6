//! A state is meant only by what names one.

use super::{main_one, snapshot};
use crate::error::{ReadError, Remedy};
use duramen_store::{Scope, Store};

#[test]
fn a_tag_a_version_and_a_time_are_told_apart() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let version = main.kv().put("a", 1).unwrap();
    store.tag("main", "v1").unwrap();
    main.kv().put("a", 2).unwrap();
    for text in ["main@v1".to_owned(), format!("main@{version}"), "main@2999-01-01T00:00:00Z".to_owned()] {
        assert_eq!(snapshot(&store, &text).unwrap().kv().get("a").unwrap(), Some(1.into()), "{text}");
    }
    assert_eq!(snapshot(&store, "main").unwrap().kv().get("a").unwrap(), Some(2.into()));
    assert_eq!(main_one(&store).unwrap(), "main");
}

#[test]
fn what_is_no_state_is_refused() {
    let store = Store::memory();
    for text in
        ["main@", "main@99999999999999999999999", "main@2026-99-99", &format!("main@{}", "a".repeat(600))]
    {
        assert!(matches!(snapshot(&store, text), Err(ReadError::Invalid(_))), "{text}");
    }
    for (text, code) in [("main@none", "not_retained"), ("none", "unknown_branch"), ("", "unknown_branch")] {
        let error = snapshot(&store, text).err().unwrap();
        assert_eq!((error.code(), error.remedy()), (code, Remedy::AskForAnother), "{text}: {error}");
    }
}
