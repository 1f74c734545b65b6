//! What `init` writes is a spec, whatever it is given, and shows every setting there is.

use duramen_experiment::spec::{Budget, Direction, Reader, Scope, Spec, SpecError, Stop, DEFAULT_SCALE};
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
