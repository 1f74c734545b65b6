use super::{check, closest};

#[test]
fn names_that_could_leave_their_folder_are_refused() {
    for good in ["a", "flights", "pr-123", "0.x_y", &"n".repeat(63)] {
        check("branch", good).expect(good);
    }
    for bad in ["", "-a", ".", "..", "../x", "a/b", "A", "a b", "a\0", "\u{e9}", &"n".repeat(64)] {
        assert_eq!(check("branch", bad).unwrap_err().code, "bad_name", "{bad:?}");
    }
}

#[test]
fn a_mistyped_name_is_recognised() {
    let known = ["flights".to_owned(), "orders".to_owned()];
    let of = |typed: &str| closest(typed, known.iter()).map(String::as_str);
    assert_eq!(of("flihgts"), Some("flights"));
    assert_eq!(of("order"), Some("orders"));
    assert_eq!(of("customers"), None);
}
