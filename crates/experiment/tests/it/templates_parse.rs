//! What `init` writes is a spec, whatever it is given, and shows every setting there is.

use duramen_experiment::scope::Rules;
use duramen_experiment::spec::{
    benchmarks, Budget, Direction, Found, Reader, Scope, Spec, SpecError, Stop, DEFAULT_SCALE,
};
use std::path::Path;

fn parse(text: &str) -> Spec {
    Spec::parse(text, Path::new("experiment.toml")).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn a_template_is_a_spec_of_defaults() {
    let spec = parse(&Spec::template("rows-1", "./bench.sh", "write_ms", Direction::Lower));
    assert_eq!((spec.name.as_str(), spec.measure.command.as_str()), ("rows-1", "./bench.sh"));
    assert_eq!((spec.primary.metric.as_str(), spec.primary.direction), ("write_ms", Direction::Lower));
    assert_eq!(
        (spec.measure.reader, spec.budget.clone(), spec.stop.clone()),
        (Reader::Metric, Budget::default(), Stop::default())
    );
    assert_eq!(spec.scope.allow, Scope::default().allow);
    let scripts = &spec.scope.off_limits[Scope::default().off_limits.len()..];
    assert_eq!(scripts, ["bench.sh"]);
    // Written down or not, the defaults are the same.
    let short = "name = 'rows-1'\n[measure]\ncommand = './bench.sh'\n\
                 [primary]\nmetric = 'write_ms'\ndirection = 'lower'";
    assert_eq!(parse(short), spec);
    let scales: Vec<String> = spec.deciding().map(|scale| scale.name).collect();
    assert_eq!(scales, [DEFAULT_SCALE]);
    assert_eq!(spec.held_out().count(), 0);
}

#[test]
fn a_command_with_scales_gets_scales() {
    let spec = parse(&Spec::template("rows", "./bench --rows {scale}", "rows/s", Direction::Higher));
    assert_eq!(spec.primary.direction, Direction::Higher);
    assert_eq!((spec.deciding().count(), spec.held_out().count()), (2, 1));
    assert!(
        spec.held_out().all(|scale| scale.draw.is_some() && scale.value.is_empty()),
        "nobody can read its value"
    );
}

#[test]
fn every_example_in_it_is_right() {
    let text = Spec::template("rows", "./bench {scale}", "write_ms", Direction::Lower);
    let is_setting = |rest: &str| rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '[');
    let shown: String = text
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(rest) if is_setting(rest) => format!("{rest}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let spec = parse(&shown);
    assert_eq!((spec.secondaries.len(), spec.sentinels.len(), spec.checks.len()), (1, 1, 1));
    assert_eq!((spec.invariants.len(), spec.scales.len()), (1, 3));
    assert!(spec.measure.build.is_some() && spec.measure.file.is_some());

    // Every setting is shown: all keys of a full spec are in the text.
    let full = toml::Value::try_from(&spec).expect("a spec is TOML");
    let mut tables = vec![full];
    while let Some(value) = tables.pop() {
        match value {
            toml::Value::Table(table) => {
                for (key, value) in table {
                    assert!(text.contains(&key), "the template lacks {key}");
                    tables.push(value);
                }
            }
            toml::Value::Array(list) => tables.extend(list),
            _ => {}
        }
    }
}

#[test]
fn quotes_and_backslashes_survive() {
    for command in [
        "printf 'METRIC x=%s\\n' \"$SCALE\"",
        "a\n b \\\n c",
        "'''",
        "\"\"\" ''' # no comment \\u0041",
        "echo \u{b5}s \u{1f980}\ttab",
        "name = \"other\"\n[measure]",
    ] {
        let spec = parse(&Spec::template("rows", command, "a metric / of 'mine'", Direction::Lower));
        assert_eq!(spec.measure.command, command);
        assert_eq!(spec.primary.metric, "a metric / of 'mine'");
    }
}

#[test]
fn what_no_spec_may_have_is_found_when_it_is_parsed() {
    for (name, command, metric) in [("a b", "x", "m"), ("a", "", "m"), ("a", "x", " "), ("../a", "x", "m")] {
        let text = Spec::template(name, command, metric, Direction::Lower);
        let refused = Spec::parse(&text, Path::new("experiment.toml"));
        assert!(matches!(refused, Err(SpecError::Wrong { .. })), "{refused:?}");
    }
}

/// A repository of some files.
fn found(files: &[(&str, &str)]) -> (tempfile::TempDir, Vec<Found>) {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    let found = benchmarks(dir.path());
    (dir, found)
}

/// The spec of the first benchmark, and which of some files it protects.
fn spec_of(files: &[(&str, &str)]) -> (Spec, Vec<String>) {
    let (_dir, found) = found(files);
    let spec = parse(&Spec::template_of("rows", &found[0], "mean", Direction::Lower));
    let names: Vec<String> = files.iter().map(|(name, _)| (*name).to_owned()).collect();
    let violations = Rules::new(&spec, "lab").expect("globs").violations(&names);
    (spec, violations.into_iter().map(|violation| violation.file).collect())
}

#[test]
fn x5_a_benchmark_of_make_is_found_and_protected() {
    let makefile = "BENCH := x\nall: rows\nrows: rows.c\n\tcc -O2 -o rows rows.c\nbench: rows\n\t@python3 perf/run.py rows\n\
                    \t./perf/more\ncheck:\n\tsh verify/all.sh\n";
    let (spec, protected) = spec_of(&[
        ("Makefile", makefile),
        ("perf/run.py", ""),
        ("perf/more", ""),
        ("verify/all.sh", ""),
        ("rows.c", ""),
    ]);
    assert_eq!(spec.measure.command, "make -s bench");
    assert_eq!(
        (spec.measure.build.as_deref(), spec.checks[0].command.as_str()),
        (Some("make"), "make check")
    );
    assert_eq!(protected, ["Makefile", "perf/run.py", "perf/more", "verify/all.sh"]);
    assert!(found(&[("Makefile", "bench := 1\nbenches:\n\ttrue\n")]).1.is_empty());
}

#[test]
fn x5_benchmarks_of_cargo_are_found_and_protected() {
    let manifest = "[package]\nname = 'a'\nbuild = 'make/all.rs'\n[dev-dependencies]\ncriterion = '0.5'\n\
                    [[bench]]\nname = 'rows'\npath = 'perf/rows.rs'\nharness = false\n[[test]]\nname = 't'\npath = 'proof/t.rs'\n";
    let (spec, protected) = spec_of(&[
        ("Cargo.toml", manifest),
        ("Cargo.lock", ""),
        ("perf/rows.rs", ""),
        ("proof/t.rs", ""),
        ("make/all.rs", ""),
        ("benches/other.rs", ""),
        ("src/lib.rs", ""),
    ]);
    assert_eq!(
        (spec.measure.reader, spec.measure.build.as_deref()),
        (Reader::Criterion, Some("cargo bench --no-run"))
    );
    assert_eq!(
        protected,
        ["Cargo.toml", "Cargo.lock", "perf/rows.rs", "proof/t.rs", "make/all.rs", "benches/other.rs"]
    );
    let (spec, _) = spec_of(&[
        ("Cargo.toml", "[workspace]\n"),
        ("crates/a/Cargo.toml", "criterion"),
        ("crates/a/benches/b.rs", ""),
    ]);
    assert_eq!(spec.measure.reader, Reader::Criterion);
    assert!(found(&[("Cargo.toml", "[package]\nname = 'a'\n"), ("src/lib.rs", "")]).1.is_empty());
}

#[test]
fn x5_benchmarks_of_go_python_and_node_are_found_and_protected() {
    let bench = "package a\nfunc BenchmarkRows(b *testing.B) {}\n";
    let files = [
        ("go.mod", "module a\n"),
        ("deep/rows_test.go", bench),
        ("deep/testdata/x", ""),
        ("deep/rows.go", ""),
    ];
    let (spec, protected) = spec_of(&files);
    assert_eq!(spec.measure.reader, Reader::Go);
    assert!(spec.measure.command.contains("-bench .") && spec.measure.command.contains("GOCACHE=\"$PWD"));
    assert_eq!(protected, ["go.mod", "deep/rows_test.go", "deep/testdata/x"]);
    assert!(found(&[("go.mod", "module a\n"), ("rows.go", "")]).1.is_empty());

    let files = [
        ("pyproject.toml", "[project]\ndependencies = ['pytest-benchmark']\n"),
        ("tests/test_rows.py", ""),
        ("conftest.py", ""),
        ("rows.py", ""),
        ("figures.json", ""),
    ];
    let (spec, protected) = spec_of(&files);
    assert_eq!(
        (spec.measure.reader, spec.measure.file.as_deref()),
        (Reader::PytestBenchmark, Some("figures.json"))
    );
    assert_eq!(protected, ["pyproject.toml", "tests/test_rows.py", "conftest.py", "figures.json"]);

    let package = r#"{"scripts": {"bench": "node perf/rows.mjs", "test": "node --test proof/", "build": "sh tools/make.sh"}}"#;
    let files = [
        ("package.json", package),
        ("package-lock.json", ""),
        ("perf/rows.mjs", ""),
        ("tools/make.sh", ""),
        ("lib/rows.js", ""),
    ];
    let (spec, protected) = spec_of(&files);
    assert_eq!(spec.measure.command, "npm run --silent bench");
    assert_eq!(spec.measure.build.as_deref(), Some("npm ci --silent && npm run --silent build"));
    assert_eq!(protected, ["package.json", "package-lock.json", "perf/rows.mjs", "tools/make.sh"]);
    assert!(found(&[("package.json", "{}")]).1.is_empty());
}
