//! What is missing, impossible or broken makes a run count for nothing, and no text makes a reader fall over.

use duramen_base::entropy;
use duramen_experiment::event::Metrics;
use duramen_experiment::figures::{read, sane, Insane};
use duramen_experiment::import::autoresearch;
use duramen_experiment::invariant::Condition;
use duramen_experiment::spec::{Direction, Invariant, Reader, Secondary, Sentinel, Spec};
use std::path::Path;

const READERS: [Reader; 5] =
    [Reader::Metric, Reader::Criterion, Reader::Go, Reader::Hyperfine, Reader::Evidence];

fn spec() -> Spec {
    let text = Spec::template("rows", "./bench", "write_ms", Direction::Lower);
    let mut spec = Spec::parse(&text, Path::new("experiment.toml")).expect("the template");
    spec.secondaries.push(Secondary {
        metric: "allocs".to_owned(),
        direction: Direction::Lower,
        max_regression_percent: 5.0,
    });
    spec.sentinels.push(Sentinel {
        metric: "other_ms".to_owned(),
        direction: Direction::Lower,
        tolerance_percent: 5.0,
    });
    spec.invariants.push(Invariant { holds: "rows == scale".to_owned() });
    spec
}

fn metrics() -> Metrics {
    [("write_ms", 12.5), ("allocs", 0.0), ("other_ms", 3.0), ("rows", 1000.0)]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

fn with(name: &str, value: f64) -> Result<(), Insane> {
    let mut metrics = metrics();
    metrics.insert(name.to_owned(), value);
    sane(&spec(), "1000", &metrics)
}

#[test]
fn good_figures_are_believed() {
    assert_eq!(sane(&spec(), "1000", &metrics()), Ok(()));
    // Nothing was allocated: that is possible, also after something was.
    assert_eq!(with("allocs", 0.0), Ok(()));
    // What the spec does not name may be anything.
    assert_eq!(with("unnamed", f64::NAN), Ok(()));
    assert_eq!(with("unnamed", -1.0), Ok(()));
}

#[test]
fn an_impossible_primary_figure_is_not() {
    for value in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, 5e-324, 1e-250] {
        let insane = with("write_ms", value).expect_err("insane");
        assert!(insane.to_string().contains("primary figure `write_ms`"), "{value}: {insane}");
    }
}

#[test]
fn guards_may_not_be_taken_away() {
    for (name, role) in [("write_ms", "primary"), ("allocs", "secondary"), ("other_ms", "sentinel")] {
        let mut metrics = metrics();
        metrics.remove(name);
        match sane(&spec(), "1000", &metrics) {
            Err(Insane::Missing { role: found, metric, there }) => {
                assert_eq!((found, metric.as_str()), (role, name));
                assert!(there.contains("`rows`"), "{there}");
            }
            other => panic!("{name}: {other:?}"),
        }
        for value in [f64::NAN, f64::INFINITY, -1.0, 1e201] {
            assert!(with(name, value).is_err(), "{name} {value}");
        }
    }
    assert!(matches!(sane(&spec(), "1000", &Metrics::new()), Err(Insane::Missing { .. })));
}

#[test]
fn a_broken_invariant_counts() {
    assert!(matches!(with("rows", 999.0), Err(Insane::Broken(_))));
    assert!(matches!(with("rows", f64::NAN), Err(Insane::Broken(_))));
    assert!(matches!(sane(&spec(), "2000", &metrics()), Err(Insane::Broken(_))));
    assert!(matches!(sane(&spec(), "large", &metrics()), Err(Insane::Broken(_))));
    let mut unchecked = spec();
    unchecked.invariants.push(Invariant { holds: "rows".to_owned() });
    assert!(matches!(sane(&unchecked, "1000", &metrics()), Err(Insane::Condition(_))));
}

#[test]
fn what_was_printed_as_no_number_is_missing() {
    for value in ["NaN", "nan", "inf", "-inf", "infinity", "1e999", "fast", "0x10", "12,5", "5ms", "1_000"] {
        let text = format!("METRIC other=1\nMETRIC write_ms={value}\n");
        let metrics = read(Reader::Metric, "./bench", &text).expect("figures");
        assert_eq!(metrics.keys().collect::<Vec<_>>(), ["other"], "{value}");
        assert!(matches!(sane(&spec(), "1", &metrics), Err(Insane::Missing { .. })), "{value}");
    }
    let go = "BenchmarkA-2 \t1\tNaN ns/op\t+Inf MB/s\t7 rows\n\
              BenchmarkB \t1\t1e308 ns/op\nBenchmarkB \t1\t1e308 ns/op\n\
              BenchmarkA-2 \t1\tNaN ns/op\t+Inf MB/s\t7 rows\n";
    let metrics = read(Reader::Go, "go test -count 2", go).expect("figures");
    assert_eq!(metrics.keys().collect::<Vec<_>>(), ["BenchmarkA-2/rows", "BenchmarkA/rows"]);
    for huge in [
        "{\"results\":[{\"command\":\"x\",\"mean\":1e999}]}",
        "{\"results\":[{\"command\":\"x\",\"mean\":NaN}]}",
    ] {
        assert!(read(Reader::Hyperfine, "./bench", huge).is_err(), "{huge}");
    }
}

#[test]
fn a_command_too_short_for_hyperfine_is_not_the_fastest() {
    // hyperfine takes the time of the shell off, and a real run of `sleep 0.002` came to nothing.
    let metrics =
        read(Reader::Hyperfine, "./bench", include_str!("../fixtures/hyperfine-zero.json")).expect("figures");
    assert_eq!(metrics["mean"], 0.0);
    let mut spec = spec();
    spec.primary.metric = "mean".to_owned();
    assert!(matches!(sane(&spec, "", &metrics), Err(Insane::Impossible { .. })));
}

#[test]
fn what_is_read_is_always_a_finite_number_with_a_name() {
    let seeds = [
        include_str!("../fixtures/criterion-with-progress.txt"),
        include_str!("../fixtures/criterion-compared.txt"),
        include_str!("../fixtures/go-benchmem-count.txt"),
        include_str!("../fixtures/go-failed.txt"),
        include_str!("../fixtures/hyperfine-two.json"),
        include_str!("../fixtures/autoresearch.jsonl"),
        "METRIC a=1\nMETRIC b=2.5e3\nMETRIC c=nan\n",
        "`fib 20` <= scale",
    ];
    let template = Spec::template("rows", "./bench {scale}", "write_ms", Direction::Lower);
    let pieces: [&[u8]; 14] = [
        b"1e999",
        b"NaN",
        b"-",
        b"\"",
        b"{",
        b"}",
        b"\n",
        b"time:",
        b"[",
        b"]",
        b"\xff\xc3",
        b"\0",
        b"METRIC x=",
        b"`",
    ];
    let seed = 20_261_122;
    let mut rng = entropy::rng(seed);
    let mut read_some = 0;
    for round in 0..6_000 {
        let of = rng.usize(0..=seeds.len());
        let mut bytes = seeds.get(of).copied().unwrap_or(&template).as_bytes().to_vec();
        for _ in 0..rng.usize(1..6) {
            let at = rng.usize(0..bytes.len().max(1)).min(bytes.len());
            match rng.u8(0..4) {
                0 => bytes.truncate(at),
                1 => {
                    bytes.splice(at..at, pieces[rng.usize(0..pieces.len())].iter().copied());
                }
                2 => {
                    let end = (at + rng.usize(0..40)).min(bytes.len());
                    bytes.drain(at..end);
                }
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = rng.u8(..);
                    }
                }
            }
        }
        // What a command prints is read so, too.
        let text = String::from_utf8_lossy(&bytes);
        for reader in READERS {
            if let Ok(metrics) = read(reader, "./bench", &text) {
                read_some += 1;
                assert!(!metrics.is_empty(), "round {round} of seed {seed}");
                for (name, value) in &metrics {
                    let good = value.is_finite() && !name.trim().is_empty() && !name.contains('\n');
                    assert!(good, "round {round} of seed {seed}: {name:?} = {value}");
                }
            }
        }
        let _ = autoresearch(&text, "log");
        let _ = Spec::parse(&text, Path::new("experiment.toml")).map(|spec| sane(&spec, "1", &metrics()));
        let _ = Condition::parse(&text).map(|condition| condition.holds(&text, &metrics()));
    }
    assert!(read_some > 1_000, "only {read_some} were read, so that little was tried");
}
