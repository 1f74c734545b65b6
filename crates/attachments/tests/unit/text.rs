//! What was written as text is the same when it is read back, and nothing of it acts.

use super::{escaped, named, unescaped, Cut};

#[test]
fn keys_come_back_as_they_were() {
    let mut keys: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"user:1".to_vec(),
        b"\\x41".to_vec(),
        b"\\\\".to_vec(),
        b"a\nb\x1b[31m\x7f".to_vec(),
        "\u{e9}\u{202e}abc\u{feff}\u{1f600}".into(),
        b"\xe2\x80".to_vec(),
        (0..=255).collect(),
    ];
    keys.extend((0..=255).map(|byte| vec![byte, b'\\', byte]));
    for key in keys {
        let text = escaped(&key);
        assert_eq!(unescaped(&text), key, "{text}");
        assert!(text.chars().all(|c| !c.is_control() && c != '\u{202e}' && c != '\u{feff}'), "{text:?}");
    }
}

#[test]
fn what_people_type_is_taken_as_it_stands() {
    for (typed, meant) in
        [("a\\b", "a\\b"), ("\\", "\\"), ("\\x", "\\x"), ("\\xg1", "\\xg1"), ("\\x4", "\\x4"), ("\\x41", "A")]
    {
        assert_eq!(unescaped(typed), meant.as_bytes(), "{typed}");
    }
}

#[test]
fn no_text_is_longer_than_it_may_be_nor_cut_in_a_character() {
    let mut cut = Cut::new(5);
    assert!(cut.push_escaped("aa\u{e9}\u{e9}\u{e9}".as_bytes()).is_break());
    assert_eq!((cut.text.as_str(), cut.is_cut), ("aa\u{e9}", true));
    // Nothing comes after what had no room.
    assert!(cut.push("x").is_break());
    assert_eq!(cut.text, "aa\u{e9}");
    assert_eq!(named("a\u{202e}\nb\u{e9}", 9), "a\u{fffd}\u{fffd}b");
}

#[test]
fn json_stays_json() {
    let text = "\u{202e}\"\\\n\t\u{1f600}\u{0}\u{2028}";
    let mut cut = Cut::new(1000);
    let _ = cut.push_json_string(text);
    assert_eq!(serde_json::from_str::<String>(&cut.text).unwrap(), text);
    let mut again = Cut::new(1000);
    let _ = again.push_json(&serde_json::to_string(&serde_json::json!({ "a": [text] })).unwrap());
    assert_eq!(serde_json::from_str::<serde_json::Value>(&again.text).unwrap()["a"][0], text);
    assert!(!again.text.contains('\u{202e}') && !cut.text.contains('\u{2028}'));
}
