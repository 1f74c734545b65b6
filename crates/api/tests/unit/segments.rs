//! A name that is escaped and decoded must be the same name, or a request would reach another branch.

use super::{decode, escape};

#[test]
fn every_name_survives_the_path() {
    for name in ["plain", "with blank", "a/b", "..", "%41", "\u{e9}\u{4e16}", "?x=1#y", ""] {
        let mut segment = String::new();
        escape(name, &mut segment);
        assert!(!segment.contains(['/', '?', '#', ' ']), "{segment}");
        assert_eq!(decode(&segment).as_deref(), Some(name));
    }
}

#[test]
fn broken_escapes_are_refused() {
    for segment in ["%", "%4", "%zz", "a%", "%ff", "%+1"] {
        assert_eq!(decode(segment), None, "{segment}");
    }
}
