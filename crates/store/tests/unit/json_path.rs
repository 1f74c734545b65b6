use duramen_base::entropy;

use super::*;

const SIGNS: &[u8] = b"a.[]\"'\\/~ \n$0-";

fn parse(text: &str) -> Result<Path, PathError> {
    text.parse()
}

#[test]
fn notations_of_the_same_path_are_equal() {
    let path = Path::root().key("a").key("b").index(0);
    for text in ["$.a.b[0]", "a.b[0]", "$[\"a\"]['b'][0]", "['a'].b[0]", "a[\"\\u0062\"][0]"] {
        assert_eq!(parse(text).as_ref(), Ok(&path), "{text}");
    }
    for text in ["$", ""] {
        assert_eq!(parse(text), Ok(Path::root()));
    }
    assert_eq!(parse("[3]"), Ok(Path::root().index(3)));
    assert_eq!(
        parse("$.$ref.x-1.\u{e9}t\u{e9}"),
        Ok(Path::root().key("$ref").key("x-1").key("\u{e9}t\u{e9}"))
    );
    assert_eq!(parse("a.0"), Ok(Path::root().key("a").key("0")));
    assert_eq!(parse("['it\\'s \"so\"']"), Ok(Path::root().key("it's \"so\"")));
    assert_eq!(parse("[\"\\ud83c\\udf33\\n]\"]"), Ok(Path::root().key("\u{1f333}\n]")));
}

#[test]
fn pointers_of_the_standard() {
    // The examples of RFC 6901, section 5.
    for (text, keys) in [
        ("/foo", vec!["foo"]),
        ("/foo/0", vec!["foo", "0"]),
        ("/", vec![""]),
        ("/a~1b", vec!["a/b"]),
        ("/c%d", vec!["c%d"]),
        ("/e^f", vec!["e^f"]),
        ("/g|h", vec!["g|h"]),
        ("/i\\j", vec!["i\\j"]),
        ("/k\"l", vec!["k\"l"]),
        ("/ ", vec![" "]),
        ("/m~0n", vec!["m~n"]),
        ("/~01", vec!["~1"]),
    ] {
        let path = keys.into_iter().fold(Path::root(), Path::key);
        assert_eq!(parse(text), Ok(path), "{text}");
    }
}

#[test]
fn errors_tell_the_place() {
    assert_eq!(parse("a[-1]"), Err(PathError::NegativeIndex { position: 2 }));
    assert_eq!(parse("a[01]"), Err(PathError::BadIndex { position: 2 }));
    assert_eq!(parse("a[4294967296]"), Err(PathError::BadIndex { position: 2 }));
    assert_eq!(parse("a[99999999999999999999999]"), Err(PathError::BadIndex { position: 2 }));
    assert_eq!(parse("a['\\x']"), Err(PathError::BadEscape { position: 3 }));
    assert_eq!(parse("a['\\ud83c']"), Err(PathError::BadEscape { position: 3 }));
    assert_eq!(parse("a['\\u00\u{e9}']"), Err(PathError::BadEscape { position: 3 }));
    assert_eq!(parse("/ab/c~2"), Err(PathError::BadEscape { position: 5 }));
    assert_eq!(parse("/~0~"), Err(PathError::BadEscape { position: 3 }));
    for (text, at) in [("a.", 2), ("$.", 2), ("a[", 2), ("a['x", 4), ("a[1", 3)] {
        assert!(
            matches!(parse(text), Err(PathError::Incomplete { position, .. }) if position == at),
            "{text}"
        );
    }
    for (text, at, sign) in
        [("$a", 1, 'a'), ("a..b", 2, '.'), ("a.*", 2, '*'), ("odd key", 3, ' '), ("a[x]", 2, 'x')]
    {
        let error = parse(text);
        assert!(
            matches!(error, Err(PathError::Unexpected { position, found, .. }) if (position, found) == (at, sign)),
            "{text}: {error:?}"
        );
    }
}

#[test]
fn there_is_a_limit_of_segments() {
    assert!(parse(&vec!["a"; 256].join(".")).is_ok());
    assert_eq!(parse(&vec!["a"; 257].join(".")), Err(PathError::TooLong { position: 511, max: 256 }));
    assert!(parse(&"/a".repeat(256)).is_ok());
    assert_eq!(parse(&"/a".repeat(257)), Err(PathError::TooLong { position: 513, max: 256 }));
}

#[test]
fn what_is_displayed_parses_to_the_same() {
    let seed = entropy::seed();
    let mut rng = entropy::rng(seed);
    for _ in 0..5000 {
        let mut path = Path::root();
        for _ in 0..rng.usize(..5) {
            path = match rng.u8(..4) {
                0 => path.index(rng.u32(..) as usize),
                1 => path.key(format!("key_{}", rng.u8(..))),
                2 => path.key(
                    (0..rng.usize(..6)).map(|_| *rng.choice(SIGNS).unwrap() as char).collect::<String>(),
                ),
                _ => path.key((0..rng.usize(..6)).map(|_| rng.char(..)).collect::<String>()),
            };
        }
        assert_eq!(parse(&path.to_string()), Ok(path.clone()), "seed {seed}: {path}");
    }
}
