//! Whatever is wrong in a spec is found before anything runs, and its line and column are named.

use duramen_experiment::spec::{Spec, SpecError, BYTES_MAX};
use std::fs;
use std::path::Path;

/// A spec with something of everything; each case below changes one piece of it.
const GOOD: &str = r#"name = "rows"

[measure]
command = "./bench {scale}"
quads = 6
timeout_s = 10

[primary]
metric = "write_ms"
direction = "lower"

[[secondary]]
metric = "cpu_s"
direction = "lower"
max_regression_percent = 5

[[sentinel]]
metric = "sentinel_ms"
direction = "lower"
tolerance_percent = 5.0

[[scale]]
name = "small"
value = "1000"

[[scale]]
name = "large"
value = "100000"
held_out = true

[[check]]
name = "tests"
command = "make test"

[[invariant]]
holds = "rows == scale"

[scope]
allow = ["src", "lib/**"]
off_limits = ["bench"]

[budget]
tries = 20
hours = 2

[stop]
plateau = 5
"#;

fn parse(text: &str) -> Result<Spec, SpecError> {
    Spec::parse(text, Path::new("lab/experiment.toml"))
}

/// The line, column and words of what is wrong.
fn wrong(text: &str) -> (usize, usize, String) {
    match parse(text) {
        Err(error @ SpecError::Wrong { .. }) => {
            let shown = error.to_string();
            let SpecError::Wrong { line, column, message, .. } = error else { unreachable!() };
            assert!(shown.starts_with(&format!("lab/experiment.toml:{line}:{column}: ")), "{shown}");
            (line, column, message)
        }
        other => panic!("{other:?}\n{text}"),
    }
}

/// The line and column of a byte, as an editor shows them.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..at];
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

#[test]
fn a_good_spec_is_taken_whole() {
    let spec = parse(GOOD).expect("a spec");
    assert_eq!((spec.measure.quads, spec.measure.timeout_s, spec.budget.hours), (6, 10.0, Some(2.0)));
    assert_eq!((spec.deciding().count(), spec.held_out().count()), (1, 1));
    // What stands in the log is read again.
    assert_eq!(parse(&GOOD.replace('\n', "\r\n")).expect("a spec"), spec);
    assert_eq!(parse(&format!("\u{feff}{GOOD}")).expect("a spec"), spec);
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    // What is replaced, by what, at what the error points, and a part of its words.
    let cases = [
        ("quads = 6", "quads = 0", "0\n", "at least 2"),
        ("quads = 6", "quads = 1", "1\n", "at least 2"),
        ("quads = 6", "quads = 1001", "1001", "at most 1000"),
        ("quads = 6", "quads = -1", "-1", "-1"),
        ("quads = 6", "quads = 6.0", "6.0", "floating point"),
        ("quads = 6", "quads = \"6\"", "\"6\"", "string"),
        ("quads = 6", "quads = 99999999999", "99999999999", "99999999999"),
        ("quads = 6", "quads = 6\nwarmups = 101", "101", "at most 100"),
        ("quads = 6", "quads = 6\nquads = 7", "quads = 7", "duplicate key"),
        ("quads = 6", "quadz = 6", "quadz", "unknown field `quadz`"),
        ("quads = 6", "reader = \"benchstat\"", "\"benchstat\"", "unknown variant `benchstat`"),
        ("quads = 6", "file = \"../out.json\"", "\"../out.json\"", "within the worktree"),
        ("quads = 6", "file = \"/out.json\"", "\"/out.json\"", "within the worktree"),
        ("quads = 6", "file = \"\"", "\"\"", "within the worktree"),
        ("quads = 6", "database = \"app\"", "\"app\"", "source:app"),
        ("quads = 6", "database = \"source:\"", "\"source:\"", "source:app"),
        ("quads = 6", "policy = \"ddl\"", "\"ddl\"", "no `database`"),
        ("quads = 6", "database = \"source:a\"\npolicy = \"root\"", "\"root\"", "root"),
        ("quads = 6", "build = \" \"", "\" \"", "a command"),
        ("timeout_s = 10", "timeout_s = 0", "0\n\n[primary]", "more than 0"),
        ("timeout_s = 10", "timeout_s = -5.5", "-5.5", "more than 0"),
        ("timeout_s = 10", "timeout_s = nan", "nan", "more than 0"),
        ("timeout_s = 10", "timeout_s = inf", "inf", "at most 604800"),
        ("timeout_s = 10", "build_timeout_s = 1e300", "1e300", "at most 604800"),
        ("\"./bench {scale}\"", "\"\"", "\"\"", "a command"),
        ("\"./bench {scale}\"", "\"a\\u0000b\"", "\"a\\u0000b\"", "no NUL"),
        ("\"./bench {scale}\"", "7", "7\n", "integer `7`"),
        ("name = \"rows\"", "name = \"../rows\"", "\"../rows\"", "letters"),
        ("name = \"rows\"", "name = \"-rows\"", "\"-rows\"", "letters"),
        ("name = \"rows\"", "name = \"\"", "\"\"", "letters"),
        ("name = \"rows\"", "name = \"\u{e9}rows\"", "\"\u{e9}rows\"", "letters"),
        ("\"write_ms\"", "\" write_ms\"", "\" write_ms\"", "figure"),
        ("\"write_ms\"", "\"a\\nb\"", "\"a\\nb\"", "figure"),
        ("\"write_ms\"", "\"write_ms\"\nmin_effect_percent = -1", "-1", "percentage"),
        ("\"write_ms\"", "\"write_ms\"\nmin_effect_percent = nan", "nan", "percentage"),
        ("\"write_ms\"", "\"write_ms\"\nmin_effect_percent = 100", "100\n", "100 % or more"),
        ("\"write_ms\"", "\"write_ms\"\nmax_regression_percent = inf", "inf", "percentage"),
        ("\"cpu_s\"", "\"write_ms\"", "\"write_ms\"\ndirection = \"lower\"\nmax", "has a part already"),
        ("\"sentinel_ms\"", "\"cpu_s\"", "\"cpu_s\"\ndirection = \"lower\"\ntol", "has a part already"),
        ("max_regression_percent = 5", "max_regression_percent = -5", "-5", "percentage"),
        ("tolerance_percent = 5.0", "tolerance_percent = 1e9", "1e9", "percentage"),
        ("tolerance_percent = 5.0", "", "[[sentinel]]", "missing field `tolerance_percent`"),
        ("name = \"large\"", "name = \"small\"", "\"small\"\nvalue = \"100000\"", "a scale `small` already"),
        ("quads = 6", "quads = 6\nnoise_quads = 3", "3\n", "at least 4"),
        ("quads = 6", "quads = 6\nnoise_quads = 7", "7\n", "more than `quads`"),
        ("\"write_ms\"", "\"write_ms\"\naim_percent = 100", "100\n", "the gain that is looked for"),
        ("\"write_ms\"", "\"write_ms\"\nheld_out_share = 1.5", "1.5\n", "a share between 0 and 1"),
        ("value = \"100000\"", "draw = \"9\"", "\"9\"\nheld_out", "two whole numbers"),
        ("value = \"100000\"", "draw = \"9..9\"", "\"9..9\"\nheld_out", "two whole numbers"),
        ("value = \"100000\"", "draw = [\"9\"]", "[\"9\"]\nheld_out", "two values or more"),
        (
            "value = \"100000\"",
            "draw = [\"9\", \"1000\"]",
            "[\"9\", \"1000\"]\nheld_out",
            "it would not be new",
        ),
        ("value = \"100000\"", "draw = [\"9\", \"x\"]", "\"rows == scale\"", "number for `scale`"),
        ("value = \"100000\"", "value = \"1000\"", "\"1000\"\nheld_out", "same value"),
        ("value = \"100000\"", "value = 100000", "100000\nheld_out", "integer `100000`"),
        ("value = \"100000\"", "value = \"1\\n2\"", "\"1\\n2\"", "one line"),
        ("value = \"100000\"", "value = \"large\"", "\"rows == scale\"", "number for `scale`"),
        (
            "value = \"1000\"",
            "value = \"1000\"\nheld_out = true",
            "true\n\n[[scale]]",
            "every scale is held out",
        ),
        ("\"make test\"", "\"make test\"\ntimeout_s = 0", "0\n\n[[inv", "more than 0"),
        (
            "\"make test\"",
            "\"make test\"\n[[check]]\nname = \"tests\"\ncommand = \"x\"",
            "\"tests\"\ncommand = \"x\"",
            "already",
        ),
        ("\"rows == scale\"", "\"rows = scale\"", "\"rows = scale\"", "not a condition"),
        ("\"rows == scale\"", "\"rows < inf\"", "\"rows < inf\"", "finite"),
        ("\"lib/**\"", "\"lib/[\"", "\"lib/[\"", "unclosed character class"),
        ("\"lib/**\"", "\"\"", "\"\"", "empty"),
        ("\"bench\"", "\"ok\", \"{a\"", "\"{a\"", "glob"),
        ("\"bench\"", "\"../bench\"", "\"../bench\"", "relative to the root"),
        ("\"bench\"", "\"bench\", 3", "3]", "integer `3`"),
        ("tries = 20", "tries = 0", "0\nhours", "at least 1"),
        ("tries = 20", "tries = -3", "-3", "-3"),
        ("tries = 20", "tries = 10001", "10001", "at most 10000"),
        ("hours = 2", "hours = -2", "-2", "more than 0"),
        ("hours = 2", "hours = 0.0", "0.0", "more than 0"),
        ("hours = 2", "proposer_timeout_s = 0", "0\n\n[stop]", "more than 0"),
        ("hours = 2", "days = 2", "days", "unknown field `days`"),
        ("plateau = 5", "plateau = 0", "0\n", "at least 1"),
        ("plateau = 5", "same_failure = 0", "0\n", "at least 1"),
        ("plateau = 5", "rebaseline_keeps = 0", "0\n", "at least 1"),
        ("plateau = 5", "plateau = true", "true", "boolean"),
        ("[stop]", "[stops]", "stops", "unknown field `stops`"),
        ("[stop]", "[stop", "\nplateau", "]"),
    ];
    for (old, new, pointed, words) in cases {
        assert_eq!(GOOD.matches(old).count(), 1, "{old}");
        let text = GOOD.replace(old, new);
        let (line, column, message) = wrong(&text);
        // Of several such places, the one that belongs to the change.
        let from = GOOD.find(old).unwrap_or_default();
        let at =
            text[from..].find(pointed).map(|at| from + at).or_else(|| text.find(pointed)).expect(pointed);
        assert_eq!((line, column), place(&text, at), "{old} -> {new}: {message}");
        assert!(message.contains(words), "{old} -> {new}: {message}");
    }
}

#[test]
fn what_is_missing_is_named_at_its_table() {
    let (line, column, message) = wrong("");
    assert_eq!((line, column), (1, 1));
    assert!(message.contains("missing field `name`"), "{message}");
    let (line, _, message) = wrong(&GOOD.replace("metric = \"write_ms\"\n", ""));
    assert_eq!(line, place(GOOD, GOOD.find("[primary]").expect("a table")).0);
    assert!(message.contains("missing field `metric`"), "{message}");
    let without_scales =
        "name = \"a\"\n[measure]\ncommand = \"x {scale}\"\n[primary]\nmetric = \"m\"\ndirection = \"lower\"";
    let (line, column, message) = wrong(without_scales);
    assert_eq!((line, column), (3, 11));
    assert!(message.contains("there is no scale"), "{message}");
}

#[test]
fn places_count_characters_and_not_bytes() {
    let text =
        format!("# \u{b5}s \u{1f980}\n{}", GOOD.replace("plateau = 5", "\"\u{e9}\" = { \"\u{b5}\" = 1 }"));
    let (line, column, message) = wrong(&text);
    assert_eq!((line, column), (GOOD.lines().count() + 1, 1));
    assert!(message.contains("unknown field `\u{e9}`"), "{message}");
    let (line, column, _) = wrong("name = \"\u{e9}\u{e9}\" x\n");
    assert_eq!((line, column), (1, 13));
}

#[test]
fn lists_have_an_end() {
    let scales: String = (0..101).map(|n| format!("[[scale]]\nname = \"s{n}\"\nvalue = \"{n}\"\n")).collect();
    let (_, _, message) = wrong(&format!("{GOOD}\n{scales}"));
    assert!(message.contains("103 entries"), "{message}");
    let (_, _, message) = wrong(&GOOD.replace("rows == scale", &"a".repeat(2_000)));
    assert!(message.contains("at most 1000 bytes"), "{message}");
    let (_, _, message) = wrong(&GOOD.replace("write_ms", &"a".repeat(201)));
    assert!(message.contains("200 characters") && message.len() < 500, "{message}");
    let (_, _, message) = wrong(&GOOD.replace("make test", &"a".repeat(70_000)));
    assert!(message.contains("65536 bytes"), "{message}");
    let deep = "[".repeat(100_000);
    wrong(&format!("a = {deep}"));
}

#[test]
fn files_are_read_or_say_why_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("experiment.toml");
    assert!(matches!(Spec::read(&path), Err(SpecError::Io { .. })));
    assert!(matches!(Spec::read(folder.path()), Err(SpecError::Io { .. })));

    fs::write(&path, GOOD).expect("written");
    let (spec, text) = Spec::read(&path).expect("a spec");
    assert_eq!((spec, text.as_str()), (parse(GOOD).expect("a spec"), GOOD));

    fs::write(&path, [b"name = \"a\"\n# \xc3\xa9".as_slice(), b"\xff\n"].concat()).expect("written");
    match Spec::read(&path) {
        Err(SpecError::Wrong { line, column, message, .. }) => {
            assert_eq!((line, column), (2, 4));
            assert!(message.contains("UTF-8"), "{message}");
        }
        other => panic!("{other:?}"),
    }

    fs::write(&path, vec![b'#'; BYTES_MAX + 1]).expect("written");
    let error = Spec::read(&path).expect_err("too large").to_string();
    assert!(error.contains("larger than 1048576 bytes"), "{error}");
}
