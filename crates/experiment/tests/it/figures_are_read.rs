//! Figures are read from what benchmark tools print. The outputs in `fixtures` are of real runs of criterion
//! 0.5, Go 1.26 and hyperfine 1.15.

use duramen_experiment::event::Metrics;
use duramen_experiment::figures::{read, ReadError, FIGURES_MAX};
use duramen_experiment::spec::Reader;
use duramen_measure::evidence::{Evidence, Measurement};
use duramen_measure::host::Host;

/// The command that the outputs are of.
const COMMAND: &str = "./bench";

fn figures(reader: Reader, text: &str) -> Metrics {
    read(reader, COMMAND, text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn names(metrics: &Metrics) -> Vec<&str> {
    metrics.keys().map(String::as_str).collect()
}

/// Equal but for the rounding of a unit's factor.
fn assert_near(value: f64, wanted: f64) {
    assert!((value / wanted - 1.0).abs() < 1e-12, "{value} is not {wanted}");
}

#[test]
fn metric_lines_name_a_figure_and_its_value() {
    let text = "building\nMETRIC\trows=1000\r\nMETRIC write_ms=11e0  \nMETRIC a.b-c/d_E9=-3\n\
                METRIC t_\u{b5}s=4\nMETRIC u_\u{3bc}s=5";
    let metrics = figures(Reader::Metric, text);
    assert_eq!(names(&metrics), ["a.b-c/d_E9", "rows", "t_\u{b5}s", "u_\u{3bc}s", "write_ms"]);
    assert_eq!((metrics["write_ms"], metrics["rows"], metrics["a.b-c/d_E9"]), (11.0, 1000.0, -3.0));
}

#[test]
fn what_only_looks_like_a_metric_line_is_passed_over() {
    let text = "METRIC good=1\n METRIC indented=1\nMETRICS many=1\nMETRIC=1\nMETRIC two words=1\n\
                METRIC x = 1\nMETRIC y=1 2\nMETRIC =1\nMETRIC z=\nmetric lower=1\nMETRIC __proto__=1\n\
                METRIC constructor=1\nMETRIC a=b=1\nMETRIC \u{e9}=1";
    assert_eq!(names(&figures(Reader::Metric, text)), ["good"]);
}

#[test]
fn criterion_gives_estimates_in_seconds() {
    let metrics = figures(Reader::Criterion, include_str!("../fixtures/criterion-first-run.txt"));
    let wanted = [
        "a name of more than twenty-three characters",
        "rows/1000",
        "rows/1000/thrpt",
        "rows/100000",
        "rows/100000/thrpt",
        "rows/10000000",
        "rows/10000000/thrpt",
        "rows/bytes",
        "rows/bytes/thrpt",
        "sum 20",
    ];
    assert_eq!(names(&metrics), wanted);
    assert_near(metrics["sum 20"], 15.211e-9);
    assert_near(metrics["a name of more than twenty-three characters"], 955.36e-9);
    assert_near(metrics["rows/100000"], 47.250e-6);
    assert_near(metrics["rows/10000000"], 5.8859e-3);
    assert_near(metrics["rows/1000/thrpt"], 2.1555e9);
    assert_near(metrics["rows/bytes/thrpt"], 11.070 * 1024.0 * 1024.0 * 1024.0);
}

#[test]
fn what_criterion_compares_with_is_no_figure() {
    let compared = figures(Reader::Criterion, include_str!("../fixtures/criterion-compared.txt"));
    assert_eq!(compared.len(), 10);
    assert_near(compared["rows/1000"], 991.50e-9);
    assert_near(compared["rows/1000/thrpt"], 1.0086e9);
    assert_near(compared["a name of more than twenty-three characters"], 1.4525e-6);
    // The same with the lines of progress between them.
    let progress = figures(Reader::Criterion, include_str!("../fixtures/criterion-with-progress.txt"));
    assert_eq!(names(&progress), names(&compared));
    assert_near(progress["a name of more than twenty-three characters"], 1.5320e-6);
}

#[test]
fn criterion_units_are_known_or_left_out() {
    let text = "a  time: [1 ps 2 ps 3 ps]\nb  time: [1 s 2 s 3 s]\nc  time: [1 cycles 2 cycles 3 cycles]\n\
                d  time: [1 us 2 us 3 us]\n   thrpt: [1 KiB/s 2 KiB/s 3 KiB/s]\ne  time: [1 ms 2 ms]\n\
                f: time: time:   [1 ms 4 ms 5 ms]\n   thrpt: [1 Kelem/s 2 Kelem/s 3 Kelem/s]\n\
                g  time: [1 ms NaN ms 3 ms]";
    let metrics = figures(Reader::Criterion, text);
    assert_eq!(names(&metrics), ["a", "b", "d", "d/thrpt", "f: time:", "f: time:/thrpt"]);
    assert_near(metrics["a"], 2e-12);
    assert_near(metrics["d/thrpt"], 2048.0);
}

#[test]
fn go_gives_every_unit_with_and_without_procs() {
    let text = include_str!("../fixtures/go-benchmem-count.txt");
    // Two runs of each (`-count 2`) are averaged.
    let metrics = read(Reader::Go, "go test -bench . -benchmem -count 2", text).expect("figures");
    assert_eq!(metrics["BenchmarkAppend/rows=100-2/ns/op"], (8553.0 + 10704.0) / 2.0);
    assert_eq!(metrics["BenchmarkAppend/rows=100/ns/op"], (8553.0 + 10704.0) / 2.0);
    assert_eq!(metrics["BenchmarkAppend/rows=10000/rows"], 10000.0);
    assert_eq!(metrics["BenchmarkAppend/rows=10000/MB/s"], (47.90 + 261.02) / 2.0);
    assert_eq!(metrics["BenchmarkAppend/rows=10000/B/op"], 357_569.0);
    assert_eq!(metrics["BenchmarkNothing/allocs/op"], 0.0);
    assert_eq!(metrics.len(), 2 * (5 + 5 + 3));
}

#[test]
fn a_short_name_never_stands_for_two_benchmarks() {
    // `-cpu 1,2`: the short name is that of the run with one CPU.
    let cpus = figures(Reader::Go, include_str!("../fixtures/go-cpu.txt"));
    assert_eq!(cpus["BenchmarkNothing/ns/op"], 9.588);
    assert_eq!(cpus["BenchmarkNothing-2/ns/op"], 7.457);
    // With one CPU there is no suffix, and what looks like one is a part of the name.
    let sizes = "BenchmarkSize-100 \t10\t5 ns/op\nBenchmarkSize-200 \t10\t7 ns/op\n";
    assert_eq!(names(&figures(Reader::Go, sizes)), ["BenchmarkSize-100/ns/op", "BenchmarkSize-200/ns/op"]);
    let both = "BenchmarkSize-2 \t10\t5 ns/op\nBenchmarkSize-2-4 \t10\t7 ns/op\n";
    let metrics = figures(Reader::Go, both);
    assert_eq!((metrics["BenchmarkSize-2/ns/op"], metrics["BenchmarkSize-2-4/ns/op"]), (5.0, 7.0));
}

#[test]
fn go_says_that_it_failed() {
    let failed = |text: &str| match read(Reader::Go, COMMAND, text) {
        Err(ReadError::Failed { what }) => what,
        other => panic!("{other:?}\n{text}"),
    };
    assert_eq!(failed(include_str!("../fixtures/go-failed.txt")), "--- FAIL: BenchmarkBroken");
    let good = "BenchmarkA-2 \t10\t5 ns/op\n";
    assert_eq!(failed(&format!("{good}panic: index out of range\n")), "panic: index out of range");
    assert_eq!(failed(&format!("{good}FAIL\texample.org/rows\t0.1s\n")), "FAIL\texample.org/rows\t0.1s");
    // Words of a log are not a failure.
    assert_eq!(figures(Reader::Go, &format!("FAILOVER in 3 s\nno panic: all is well\n{good}")).len(), 2);
    assert!(matches!(
        read(Reader::Go, COMMAND, include_str!("../fixtures/go-none.txt")),
        Err(ReadError::Nothing { reader: Reader::Go, .. })
    ));
}

#[test]
fn one_benchmark_in_two_packages_is_refused() {
    let text = "pkg: a\nBenchmarkX-2 \t10\t5 ns/op\npkg: b\nBenchmarkX-2 \t10\t9 ns/op\n";
    assert!(
        matches!(read(Reader::Go, COMMAND, text), Err(ReadError::Duplicate { name, .. }) if name == "BenchmarkX-2")
    );
}

#[test]
fn hyperfine_gives_seconds_by_command() {
    let one = figures(Reader::Hyperfine, include_str!("../fixtures/hyperfine-one.json"));
    assert_eq!(one["sleep 0.01/mean"], 0.0223332798);
    assert_eq!((one["mean"], one["median"], one["min"]), (0.0223332798, 0.016625804, 0.013452804));
    let two = figures(Reader::Hyperfine, include_str!("../fixtures/hyperfine-two.json"));
    assert_eq!((two["fast/median"], two["slow/max"]), (0.01927778124, 0.09101666574));
    assert!(!two.contains_key("mean"), "of which of the two?");
    let params = figures(Reader::Hyperfine, include_str!("../fixtures/hyperfine-params.json"));
    assert_eq!(params["sleep 0.002/user"], 0.0006862600000000001);
}

#[test]
fn hyperfine_may_print_around_its_document() {
    let document = include_str!("../fixtures/hyperfine-one.json");
    let text = format!("{{\"level\":\"info\"}}\n{{ not JSON\n  {document}\nBenchmark 1: sleep\n{{}}");
    assert_eq!(figures(Reader::Hyperfine, &text), figures(Reader::Hyperfine, document));
}

#[test]
fn hyperfine_ignores_no_failure() {
    let failed = read(Reader::Hyperfine, COMMAND, include_str!("../fixtures/hyperfine-failing.json"));
    assert!(matches!(&failed, Err(ReadError::Failed { what }) if what.contains("status 3")), "{failed:?}");
    let one = include_str!("../fixtures/hyperfine-one.json");
    let killed = one.replacen("        0,", "        null,", 1);
    let failed = read(Reader::Hyperfine, COMMAND, &killed);
    assert!(matches!(&failed, Err(ReadError::Failed { what }) if what.contains("signal")), "{failed:?}");
    // A single run has no deviation.
    let single = "{\"results\":[{\"command\":\"x\",\"mean\":1.5,\"stddev\":null,\"median\":1.5}]}";
    assert_eq!(names(&figures(Reader::Hyperfine, single)), ["mean", "median", "x/mean", "x/median"]);
    let twice = single.replace("}]", "},{\"command\":\"x\",\"mean\":2}]");
    assert!(matches!(read(Reader::Hyperfine, COMMAND, &twice), Err(ReadError::Duplicate { .. })));
}

fn evidence() -> Evidence {
    let folder = tempfile::tempdir().expect("a folder");
    let mut evidence = Evidence::new("forks", Host::fingerprint(folder.path()).expect("a host"));
    evidence.measurements.push(Measurement::from_values("fork", "ms", &[4.0, 1.0, 2.0, 3.0]));
    evidence.measurements.push(Measurement::scalar("rows", "rows", 1000.0));
    evidence.measurements.push(Measurement::from_values("never", "ms", &[]));
    evidence
}

#[test]
fn evidence_gives_means_and_percentiles() {
    let metrics = figures(Reader::Evidence, &evidence().to_json().expect("JSON"));
    let wanted = ["fork", "fork/max", "fork/min", "fork/p50", "fork/p90", "fork/p95", "fork/p99", "rows"];
    assert_eq!(names(&metrics), wanted);
    assert_eq!((metrics["fork"], metrics["fork/p50"], metrics["rows"]), (2.5, 2.0, 1000.0));
}

#[test]
fn evidence_that_failed_gives_nothing() {
    let mut failed = evidence();
    failed.check("every row is there", false, "999 of 1000");
    failed.finish();
    let refused = read(Reader::Evidence, COMMAND, &failed.to_json().expect("JSON"));
    assert!(
        matches!(&refused, Err(ReadError::Failed { what }) if what.contains("999 of 1000")),
        "{refused:?}"
    );
    let mut invalid = evidence();
    invalid.invalidate("nothing was forked");
    assert!(matches!(
        read(Reader::Evidence, COMMAND, &invalid.to_json().expect("JSON")),
        Err(ReadError::Failed { .. })
    ));
    let mut twice = evidence();
    twice.measurements.push(Measurement::scalar("fork", "ms", 1.0));
    assert!(matches!(
        read(Reader::Evidence, COMMAND, &twice.to_json().expect("JSON")),
        Err(ReadError::Duplicate { .. })
    ));
    let later = evidence().to_json().expect("JSON").replace("duramen.evidence/1", "duramen.evidence/2");
    let refused = read(Reader::Evidence, COMMAND, &later);
    assert!(
        matches!(&refused, Err(ReadError::Malformed { what, .. }) if what.contains("evidence/2")),
        "{refused:?}"
    );
}

#[test]
fn what_is_no_output_of_a_tool_is_refused() {
    for reader in [Reader::Metric, Reader::Criterion, Reader::Go] {
        for text in ["", "\n\n", "hello", "METRIC", "Benchmark", "time:", "\u{fffd}\u{fffd}"] {
            assert!(
                matches!(read(reader, COMMAND, text), Err(ReadError::Nothing { .. })),
                "{reader:?} {text}"
            );
        }
    }
    for reader in [Reader::Hyperfine, Reader::Evidence] {
        for text in ["", "{", "{}", "[]", "null", "{\"results\":3,\"schema\":3}", "x {\"results\":[]}"] {
            assert!(
                matches!(read(reader, COMMAND, text), Err(ReadError::Malformed { .. })),
                "{reader:?} {text}"
            );
        }
    }
    assert!(matches!(read(Reader::Hyperfine, COMMAND, "{\"results\":[]}"), Err(ReadError::Nothing { .. })));
    let cut = include_str!("../fixtures/hyperfine-two.json");
    assert!(matches!(
        read(Reader::Hyperfine, COMMAND, &cut[..cut.len() / 2]),
        Err(ReadError::Malformed { .. })
    ));
    let deep = format!("{{\"results\":{}", "[".repeat(100_000));
    assert!(matches!(read(Reader::Hyperfine, COMMAND, &deep), Err(ReadError::Malformed { .. })));
}

#[test]
fn there_are_so_many_figures_and_no_more() {
    let lines = |count: usize| -> String { (0..count).map(|n| format!("METRIC x{n}={n}\n")).collect() };
    assert_eq!(figures(Reader::Metric, &lines(FIGURES_MAX)).len(), FIGURES_MAX);
    assert_eq!(read(Reader::Metric, COMMAND, &lines(FIGURES_MAX + 1)), Err(ReadError::TooMany));
    assert_eq!(names(&figures(Reader::Metric, &format!("METRIC {}=1\nMETRIC x=1", "y".repeat(201)))), ["x"]);
}

#[test]
fn x5_a_figure_has_one_value_in_a_run() {
    let told = |reader: Reader, command: &str, text: &str| match read(reader, command, text) {
        Err(error) => error.to_string(),
        Ok(metrics) => panic!("{reader:?} takes one of two values: {metrics:?}\n{text}"),
    };
    let criterion = "a  time: [1 ms 2 ms 3 ms]\na  time: [1 ms 1.5 ms 3 ms]\n";
    let hyperfine = "{\"results\":[{\"command\":\"x\",\"mean\":1.5}]}";
    let within = "{\"results\":[{\"command\":\"x\",\"mean\":1.5,\"mean\":0.5}]}";
    let evidence = evidence().to_json().expect("JSON");
    let quicker = evidence.replace("2.5", "0.5");
    assert_ne!(evidence, quicker);
    for (reader, text, name, first, second) in [
        (Reader::Metric, "METRIC t=12.5\nMETRIC rows=1\nMETRIC t=1e-3\n", "t", "12.5", "1e-3"),
        (Reader::Metric, "METRIC t=12.5\nMETRIC t=12.5\n", "t", "12.5", "12.5"),
        (Reader::Metric, "METRIC t=none\nMETRIC t=12.5\n", "t", "none", "12.5"),
        (Reader::Metric, "METRIC t=12.5\nMETRIC t=NaN\n", "t", "12.5", "NaN"),
        (Reader::Criterion, criterion, "a", "0.002", "0.0015"),
        (
            Reader::Hyperfine,
            &format!("{hyperfine}\n{}", hyperfine.replace("1.5", "0.5")),
            "x/mean",
            "1.5",
            "0.5",
        ),
        (Reader::Hyperfine, within, "mean", "1.5", "0.5"),
        (Reader::Evidence, &format!("{evidence}\n{quicker}"), "fork", "2.5", "0.5"),
    ] {
        let told = told(reader, COMMAND, text);
        assert!(told.contains(&format!("`{name}`")), "{told}");
        assert!(told.contains(&format!("{first} and {second}")), "{told}");
    }
    // Behind what only looks like documents, too many to look behind.
    let hidden = format!("{hyperfine}\n{}{}", "{ no JSON\n".repeat(101), hyperfine.replace("1.5", "0.5"));
    assert!(told(Reader::Hyperfine, COMMAND, &hidden).contains("more than 100 lines"));
}

#[test]
fn x5_go_prints_as_many_lines_as_it_was_asked_for() {
    let line = |value: &str| format!("BenchmarkA-2 \t10\t{value} ns/op\n");
    let two = line("8") + &line("2");
    for command in
        ["go test -bench .", "go test -bench . -count=1", "sh bench.sh", "go test -count 3 -bench ."]
    {
        let told = read(Reader::Go, command, &two)
            .expect_err("a second line does not make a better figure")
            .to_string();
        assert!(told.contains("`BenchmarkA-2/ns/op` (8, 2)") && told.contains("-count"), "{told}");
    }
    for command in ["go test -bench . -count 2", "go test -count=1 -test.count=2", "(go test --count=2)"] {
        assert_eq!(read(Reader::Go, command, &two).expect("figures")["BenchmarkA/ns/op"], 5.0, "{command}");
    }
    let twice = "BenchmarkA-2 \t10\t8 ns/op\t2 ns/op\n";
    assert!(matches!(read(Reader::Go, "go test", twice), Err(ReadError::Count { found: 2, wanted: 1, .. })));
}

#[test]
fn pytest_benchmark_is_read() {
    let one = r#"{"machine_info": {}, "benchmarks": [{"name": "test_rows[10]", "fullname": "tests/test_rows.py::test_rows[10]",
        "stats": {"min": 0.5, "max": 1.5, "mean": 1.0, "stddev": 0.25, "median": 0.75, "rounds": 5}}], "version": "5.1.0"}"#;
    let read_it = |text: &str| read(Reader::PytestBenchmark, "pytest", text);
    let metrics = read_it(one).expect("figures");
    assert_eq!((metrics["test_rows[10]/mean"], metrics["mean"], metrics["median"]), (1.0, 1.0, 0.75));
    assert_eq!(metrics.len(), 10);
    let two = one.replace("}}],", "}}, {\"name\": \"test_other\", \"stats\": {\"mean\": 2.0}}],");
    let metrics = read_it(&two).expect("figures");
    assert_eq!((metrics.get("mean"), metrics["test_other/mean"]), (None, 2.0));
    for (wrong, part) in [
        (one.replace("\"stats\": {", "\"stat\": {"), "test_rows"),
        (one.replace("\"mean\": 1.0", "\"mean\": 1.0, \"mean\": 0.1"), "two values"),
        (two.replace("test_other", "test_rows[10]"), "two values"),
        ("{}".to_owned(), "no JSON object with `benchmarks`"),
    ] {
        let error = read_it(&wrong).expect_err("no figures").to_string();
        assert!(error.contains(part), "{error}");
    }
}
