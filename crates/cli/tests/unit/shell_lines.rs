use super::{
    line::{outline, split, unquoted},
    parser,
    verbs::{meaning, Meaning, VERBS},
};

fn words(text: &str) -> Vec<String> {
    split(text).unwrap().0
}

#[test]
fn a_line_is_quoted_as_in_a_posix_shell() {
    assert_eq!(words(r#"kv put 'a b' "c 'd'" e\ f ''"#), ["kv", "put", "a b", "c 'd'", "e f", ""]);
    assert_eq!(words("kv get a # what it is"), ["kv", "get", "a"]);
    assert_eq!(words("  # nothing").len(), 0);
    for unclosed in ["kv put 'a", "kv put \"a", "kv put a\\", "'"] {
        assert!(split(unclosed).is_err(), "{unclosed}");
    }
}

#[test]
fn a_file_behind_an_unquoted_sign_feeds_the_command() {
    let of = |text: &str| split(text).unwrap().1;
    assert_eq!(of("kv load < 'my pairs.tsv'").as_deref(), Some("my pairs.tsv"));
    assert_eq!(of("kv load <pairs.tsv").as_deref(), Some("pairs.tsv"));
    assert_eq!(of("kv put k v<pairs.tsv").as_deref(), Some("pairs.tsv"));
    for none in ["json find 'a < 5'", "json find \"a < 5\"", "kv put a \\<", "kv get a # < b"] {
        assert_eq!(of(none), None, "{none}");
    }
    for wrong in ["kv load <", "kv load < a b", "kv load < a < b", "kv load < 'a"] {
        assert!(split(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_word_that_is_written_is_found_behind_quotes() {
    let last = |text: &str| {
        let line = outline(text);
        unquoted(&text[line.word..], line.open)
    };
    assert_eq!(last("kv get us"), "us");
    assert_eq!(last("kv get "), "");
    assert_eq!(last("kv get 'a b"), "a b");
    assert_eq!(last("kv get \"a 'b"), "a 'b");
    assert_eq!(last("kv get a\\ b"), "a b");
    assert_eq!(last("kv get a\\"), "a");
    assert_eq!(last("kv get 'a b' c"), "c");
    assert_eq!(last("kv load <pai"), "pai");
}

#[test]
fn each_verb_has_a_meaning_and_wrong_arguments_are_refused() {
    let of = |text: &str| meaning(&words(text));
    for verb in VERBS {
        let is_meant = ["", " a", " on"].iter().any(|rest| of(&format!("{}{rest}", verb.name)).is_ok());
        assert!(is_meant, "{}", verb.name);
        assert!(verb.name == "help" || of(&format!("{} a b c", verb.name)).is_err(), "{}", verb.name);
    }
    let command = |words: &[&str]| Meaning::Command(words.iter().map(|word| (*word).to_owned()).collect());
    assert_eq!(of("diff a b").unwrap(), command(&["branch", "diff", "--", "a", "b"]));
    assert_eq!(of("help kv put").unwrap(), command(&["help", "kv", "put"]));
    assert_eq!(of("quit").unwrap(), Meaning::Leave);
    for wrong in ["", "nonsense", "json maybe", "q now"] {
        assert!(of(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_parser_of_lines_is_whole() {
    parser().debug_assert();
}
