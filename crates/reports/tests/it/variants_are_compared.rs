//! Two variants compared: what differs is found, what does not is not, and what cannot be told is said. C1 and so on are
//! the invariants of docs/design/comparison.md.

use std::time::Duration;

use duramen_base::entropy;
use duramen_measure::evidence::{Evidence, Measurement};
use duramen_measure::histogram::LatencyHistogram;
use duramen_measure::host::Host;
use duramen_reports::compare::{
    compare, print_table, Better, CompareError, Comparison, Judged, Row, Scale, Verdict,
};
use serde_json::json;

fn host() -> Host {
    Host {
        cpu: "a processor".to_owned(),
        cores: 2,
        memory_bytes: 1 << 34,
        kernel: "Linux 6".to_owned(),
        file_system: "ext4".to_owned(),
        load_average: [0.5; 3],
        fsync_floor_us: 800.0,
    }
}

fn empty() -> Evidence {
    Evidence::new("store", host())
}

fn normal(rng: &mut fastrand::Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

/// A run of twelve latencies, each about 5 ms times `slower`, on a machine that is 10 % faster or slower from run to run.
fn run(slower: f64, rng: &mut fastrand::Rng) -> Evidence {
    let mut evidence = empty();
    let of_run = (0.1 * normal(rng)).exp();
    for figure in 0..12 {
        let latencies: LatencyHistogram = (0..200)
            .map(|_| {
                let ms = 5.0 * slower * of_run * (0.3 * normal(rng)).exp();
                Duration::from_secs_f64(ms / 1e3)
            })
            .collect();
        evidence.measurements.push(Measurement::from_histogram(format!("op{figure}"), &latencies));
    }
    evidence
}

fn runs(count: usize, slower: f64, rng: &mut fastrand::Rng) -> Vec<Evidence> {
    (0..count).map(|_| run(slower, rng)).collect()
}

/// A run that keeps three repeats of its independent values.
fn repeated(name: &str, unit: &str, repeats: [[f64; 2]; 3]) -> Evidence {
    let mut evidence = empty();
    evidence.measurements.push(Measurement::from_values(name, unit, &repeats.concat()));
    evidence.configure("samples", json!({ name: repeats }));
    evidence
}

fn scalar(name: &str, unit: &str, value: f64) -> Evidence {
    let mut evidence = empty();
    evidence.measurements.push(Measurement::scalar(name, unit, value));
    evidence
}

fn compared(a: &[Evidence], b: &[Evidence]) -> Comparison {
    compare(a, b, &[]).expect("the documents are of one suite")
}

fn only(a: &Evidence, b: &Evidence) -> Row {
    compared(std::slice::from_ref(a), std::slice::from_ref(b)).rows.remove(0)
}

#[test]
fn two_identical_variants_have_no_difference_in_nineteen_of_twenty_runs() {
    let mut rng = entropy::rng(21);
    let with_difference = (0..60).filter(|_| {
        let (a, b) = (runs(4, 1.0, &mut rng), runs(4, 1.0, &mut rng));
        let comparison = compare(&a, &b, &[]).unwrap();
        comparison.rows.iter().any(|row| row.verdict != Verdict::NoDifference)
    });
    let with_difference = with_difference.count();
    assert!(with_difference <= 3, "{with_difference} of 60 comparisons of equals name a difference");
}

#[test]
fn a_variant_that_is_half_as_fast_is_slower() {
    let mut rng = entropy::rng(22);
    let comparison = compared(&runs(5, 1.0, &mut rng), &runs(5, 2.0, &mut rng));
    assert_eq!(comparison.comparisons, 12);
    for row in &comparison.rows {
        assert_eq!(row.verdict, Verdict::Worse, "{row:?}");
        assert!(row.words.starts_with("slower by ") && row.low.unwrap() > 0.0, "{row:?}");
        assert!(row.is_regression(0.0) && !row.is_regression(300.0));
    }
    let back = compared(&runs(5, 2.0, &mut rng), &runs(5, 1.0, &mut rng));
    assert!(back
        .rows
        .iter()
        .all(|row| row.verdict == Verdict::Better && row.words.starts_with("faster by ")));
}

/// C1.
#[test]
fn the_values_of_one_histogram_are_not_taken_for_independent_ones() {
    let mut rng = entropy::rng(23);
    let comparison = compared(&runs(1, 1.0, &mut rng), &runs(1, 1.2, &mut rng));
    assert!(comparison.rows.iter().all(|row| row.verdict == Verdict::Undecidable));
    assert!(comparison.rows.iter().all(|row| row.words == "one value each: not decidable"));
    assert!(!comparison.is_comparable() && comparison.comparisons == 0);
    assert!(comparison.warnings.iter().any(|warning| warning.contains("only one run")));
}

#[test]
fn repeats_within_a_run_count_one_value_each() {
    let a = repeated("latency_ms/S1/on", "ms", [[1.0, 1.1], [1.1, 1.0], [1.0, 1.0]]);
    let b = repeated("latency_ms/S1/on", "ms", [[4.0, 4.1], [4.1, 4.2], [4.0, 4.0]]);
    let row = only(&a, &b);
    assert_eq!((row.a_count, row.b_count, row.verdict), (3, 3, Verdict::Worse), "{row:?}");
    assert_eq!(only(&a, &a).verdict, Verdict::NoDifference);
}

#[test]
fn of_one_run_each_what_may_be_the_machines_is_not_told_to_differ() {
    let times = |ms: f64| repeated("latency_ms/S1/on", "ms", [[ms, ms], [ms + 0.001, ms], [ms, ms]]);
    let row = only(&times(5.0), &times(6.0));
    assert_eq!(row.verdict, Verdict::NoDifference, "{row:?}");
    assert!(row.words.contains("would have seen") && !row.is_regression(0.0));
    assert!(row.low.unwrap() < 0.0, "what is told is what was judged: {row:?}");
    assert_eq!(only(&times(5.0), &times(8.0)).verdict, Verdict::Worse);
    let (a, b) = ([5.0, 5.001, 5.0].map(times), [6.0, 6.001, 6.0].map(times));
    assert_eq!(compared(&a, &b).rows[0].verdict, Verdict::Worse, "several runs tell");
}

#[test]
fn differences_that_may_be_negative_are_told_in_their_unit() {
    let a = repeated("added_ms/S1", "ms", [[-0.5, -0.4], [-0.4, -0.5], [-0.5, -0.5]]);
    let b = repeated("added_ms/S1", "ms", [[6.0, 6.1], [6.1, 6.2], [6.0, 6.0]]);
    let row = only(&a, &b);
    assert_eq!((row.percent, row.verdict), (None, Verdict::Worse));
    assert!(row.words.starts_with("more by 6.5") && row.words.ends_with(" ms"), "{}", row.words);
    assert!(row.is_regression(500.0), "no percentage excuses it");
}

/// What the machine does to a latency of 50 ms it does to what is left of it, however little that is.
#[test]
fn a_small_difference_of_large_times_is_held_against_the_times() {
    let with_latency = |added: f64, latency: f64| {
        let mut evidence =
            repeated("added_ms/S1", "ms", [[added, added], [added + 0.001, added], [added, added]]);
        let latencies = [[latency, latency], [latency, latency + 0.1], [latency, latency]];
        evidence.measurements.push(Measurement::from_values(
            "latency_ms/S1/remote_apply",
            "ms",
            &latencies.concat(),
        ));
        let samples = evidence.config["samples"].as_object_mut().unwrap();
        samples.insert("latency_ms/S1/remote_apply".to_owned(), json!(latencies));
        evidence
    };
    let added = |a: &Evidence, b: &Evidence| {
        compared(std::slice::from_ref(a), std::slice::from_ref(b)).rows.remove(0)
    };
    let row = added(&with_latency(0.1, 50.0), &with_latency(4.0, 50.0));
    assert_eq!((row.name.as_str(), row.verdict), ("added_ms/S1", Verdict::NoDifference), "{row:?}");
    assert_eq!(added(&with_latency(0.1, 5.0), &with_latency(4.0, 8.0)).verdict, Verdict::Worse);
    // Without the latency an absolute bound has to do.
    let alone =
        |added: f64| repeated("added_ms/S1", "ms", [[added, added], [added + 0.001, added], [added, added]]);
    assert_eq!(only(&alone(0.1), &alone(0.9)).verdict, Verdict::NoDifference);
    assert_eq!(only(&alone(0.1), &alone(2.9)).verdict, Verdict::Worse);
}

#[test]
fn two_pairs_of_equal_values_are_no_proof() {
    let runs = |count: usize, value: f64| vec![scalar("put_ms", "ms", value); count];
    let row = |a: &[Evidence], b: &[Evidence]| compared(a, b).rows.remove(0);
    let two = row(&runs(2, 5.0), &runs(2, 5.1));
    assert_eq!((two.verdict, two.p_value), (Verdict::Undecidable, None), "{two:?}");
    assert!(two.words.contains("fewer than 3 values"), "{}", two.words);
    assert_eq!(row(&runs(2, 5.0), &runs(3, 5.1)).verdict, Verdict::Undecidable);
    assert_eq!(row(&runs(3, 5.0), &runs(3, 5.1)).verdict, Verdict::Worse);
    assert_eq!(row(&runs(2, 5.0), &runs(2, 5.0)).verdict, Verdict::NoDifference);
    // A count is what it is.
    let counted = |value: f64| vec![scalar("put_syncs", "syncs", value); 2];
    assert_eq!(row(&counted(1.0), &counted(2.0)).verdict, Verdict::Worse);
}

/// How many commits share what is written beside them depends on how many there was time for.
#[test]
fn the_wal_of_a_commit_is_no_count() {
    let row = only(
        &scalar("wal_bytes_per_commit/S5", "bytes", 900.0),
        &scalar("wal_bytes_per_commit/S5", "bytes", 1_900.0),
    );
    assert_eq!(row.verdict, Verdict::Undecidable, "{row:?}");
    let row = only(&scalar("log_bytes_per_put", "bytes", 90.0), &scalar("log_bytes_per_put", "bytes", 190.0));
    assert_eq!(row.verdict, Verdict::Worse);
    let mut far = scalar("wal_bytes_per_commit/S5", "bytes", 900.0);
    far.host.cores = 64;
    let row = only(&scalar("wal_bytes_per_commit/S5", "bytes", 900.0), &far);
    assert_eq!(row.words, "not comparable: other machine");
}

#[test]
fn counts_that_do_not_depend_on_the_machine_need_no_repeats() {
    let row = only(&scalar("kv.put.syncs", "syncs", 1.0), &scalar("kv.put.syncs", "syncs", 2.0));
    assert_eq!((row.verdict, row.words.as_str()), (Verdict::Worse, "more by 100.0 %"));
    let row = only(&scalar("kv.put.syncs", "syncs", 1.0), &scalar("kv.put.syncs", "syncs", 1.02));
    assert_eq!(row.verdict, Verdict::NoDifference);
    let row =
        only(&scalar("lost", "instances and effects", 0.0), &scalar("lost", "instances and effects", 1.0));
    assert!(row.is_regression(50.0), "{row:?}");
    let row = only(&scalar("kv.put.p50", "ms", 1.0), &scalar("kv.put.p50", "ms", 2.0));
    assert_eq!(row.verdict, Verdict::Undecidable);
}

#[test]
fn more_of_a_rate_is_better_and_more_time_is_worse() {
    let rates =
        |low: f64| repeated("throughput_per_s/S1/on", "1/s", [[low, low], [low + 1.0, low], [low, low]]);
    let row = only(&rates(100.0), &rates(200.0));
    assert_eq!((row.better, row.verdict), (Better::Higher, Verdict::Better), "{row:?}");
    assert!(row.words.starts_with("more by "));
    assert!(only(&rates(200.0), &rates(100.0)).is_regression(10.0));
    let floor = |low: f64| repeated("fsync_floor", "us", [[low, low], [low + 1.0, low], [low, low]]);
    assert_eq!(only(&floor(100.0), &floor(200.0)).verdict, Verdict::Different, "that is the disk's");
}

#[test]
fn other_suites_empty_sides_and_invalid_runs_are_refused() {
    let other = Evidence::new("functions", host());
    let refused = compare(&[empty()], std::slice::from_ref(&other), &[]).unwrap_err();
    assert!(matches!(refused, CompareError::Suites(..)) && refused.to_string().contains("functions"));
    assert!(matches!(compare(&[], &[other], &[]), Err(CompareError::Empty("A"))));
    let mut invalid = empty();
    invalid.invalidate("no checkpoint happened");
    let refused = compare(&[empty()], &[invalid], &[]).unwrap_err();
    assert!(refused.to_string().contains("no checkpoint happened"), "{refused}");
}

#[test]
fn of_a_run_with_an_invalid_scenario_the_others_are_compared() {
    let mut a = repeated("added_ms/S1", "ms", [[1.0, 1.1], [1.1, 1.0], [1.0, 1.0]]);
    a.measurements.push(Measurement::scalar("blocker_s/S2", "s", 1.0));
    let mut b = a.clone();
    b.check("mechanism/S2", false, "not seen");
    b.invalidate("S2");
    let comparison = compared(&[a], &[b]);
    let verdicts: Vec<Verdict> = comparison.rows.iter().map(|row| row.verdict).collect();
    assert_eq!(verdicts, [Verdict::NoDifference, Verdict::NotComparable]);
}

#[test]
fn on_another_machine_only_counts_are_compared() {
    let mut a = repeated("added_ms/S1", "ms", [[1.0, 1.1], [1.1, 1.0], [1.0, 1.0]]);
    a.measurements.push(Measurement::scalar("kv.put.syncs", "syncs", 1.0));
    let mut b = a.clone();
    b.host.cores = 64;
    let comparison = compared(&[a], &[b]);
    assert_eq!(comparison.rows[0].words, "not comparable: other machine");
    assert_eq!(comparison.rows[1].verdict, Verdict::NoDifference);
    assert!(comparison.warnings.iter().any(|warning| warning.contains("64 cores")));
}

#[test]
fn what_differs_beside_the_figures_is_warned_of() {
    let mut a = empty();
    a.configure("rows", 1_000);
    a.configure("seed", 1);
    let mut b = empty();
    b.configure("rows", 2_000);
    b.configure("seed", 2);
    b.version = "9.9.9".to_owned();
    b.host.load_average[0] = 7.0;
    b.host.fsync_floor_us = 9_000.0;
    let warnings = compared(&[a], &[b]).warnings.join("\n");
    for part in ["setting rows differs: 1000 in A, 2000 in B", "9.9.9", "load average 7.0", "9000 us"] {
        assert!(warnings.contains(part), "no {part}: {warnings}");
    }
    assert!(!warnings.contains("seed"), "{warnings}");
}

/// A run of `figures` latencies in blocks, on a machine that deviates by `sd` from run to run; `slower` are those of the first.
fn blocked(figures: usize, slower: f64, sd: f64, rng: &mut fastrand::Rng) -> Evidence {
    let mut evidence = empty();
    for figure in 0..figures {
        let of_run = (sd * normal(rng)).exp();
        let factor = if figure == 0 { slower } else { 1.0 };
        let blocks: Vec<f64> = (0..6).map(|_| 6.2 * factor * of_run * (0.05 * normal(rng)).exp()).collect();
        let name = format!("commit_ms/{figure}");
        evidence.measurements.push(Measurement::from_values(name.clone(), "ms", &blocks));
        evidence.keep_blocks(&name, vec![blocks[..2].to_vec(), blocks[2..4].to_vec(), blocks[4..].to_vec()]);
    }
    evidence
}

/// C4: what was "no detectable difference", 6.2 and 18.1 ms of three runs each; also as the only one of twenty figures.
#[test]
fn three_times_as_slow_is_named_with_three_runs_each() {
    let mut rng = entropy::rng(41);
    let mut named = 0;
    for _ in 0..40 {
        let mut side = |slower| (0..3).map(|_| blocked(20, slower, 0.15, &mut rng)).collect::<Vec<_>>();
        let (a, b) = (side(1.0), side(18.1 / 6.2));
        named += usize::from(compared(&a, &b).rows[0].verdict == Verdict::Worse);
    }
    assert!(named >= 34, "{named} of 40");
    let (a, b) = (blocked(1, 1.0, 0.1, &mut rng), blocked(1, 78.6 / 6.2, 0.1, &mut rng));
    let row = only(&a, &b);
    assert_eq!((row.verdict, row.scale, row.a_blocks, row.a_count), (Verdict::Worse, Scale::Ratio, 3, 3));
}

/// C3.
#[test]
fn equals_have_no_difference_in_nineteen_of_twenty_comparisons_whatever_the_machine_does() {
    let mut rng = entropy::rng(42);
    for sd in [0.05, 0.15] {
        for runs in [1, 3] {
            let mut side = || (0..runs).map(|_| blocked(10, 1.0, sd, &mut rng)).collect::<Vec<_>>();
            let wrong = (0..80)
                .filter(|_| {
                    let comparison = compared(&side(), &side());
                    comparison.rows.iter().any(|row| row.verdict != Verdict::NoDifference)
                })
                .count();
            assert!(wrong <= 8, "{runs} runs each, deviation {sd}: {wrong} of 80");
        }
    }
}

/// C5: an interval excludes no difference where one is told, and only there; C6: it has the level of the judgement.
#[test]
fn the_interval_that_is_told_is_the_one_that_is_judged() {
    let mut rng = entropy::rng(43);
    for slower in [1.0, 1.3, 3.0] {
        let mut side = |slower| (0..3).map(|_| blocked(8, slower, 0.08, &mut rng)).collect::<Vec<_>>();
        let (a, b) = (side(1.0), side(slower));
        let named = ["commit_ms/0".to_owned(), "commit_ms/3".to_owned()];
        let comparison = compare(&a, &b, &named).unwrap();
        assert_eq!((comparison.named, comparison.comparisons), (2, 8));
        let chosen = comparison.rows.iter().filter(|row| row.judged == Judged::AmongAll);
        let chosen = chosen.filter(|row| row.verdict != Verdict::NoDifference).count().max(1) as f64;
        for row in &comparison.rows {
            let excludes = row.low.unwrap() > 0.0 || row.high.unwrap() < 0.0;
            let ratio_excludes = row.ratio_low.unwrap() > 1.0 || row.ratio_high.unwrap() < 1.0;
            let is_told = row.verdict != Verdict::NoDifference;
            assert_eq!((excludes, ratio_excludes), (is_told, is_told), "{row:?}");
            let is_named = named.contains(&row.name);
            let confidence = if is_named { 0.95 } else { 1.0 - 0.05 * chosen / 6.0 };
            assert!((row.confidence.unwrap() - confidence).abs() < 1e-9, "{row:?}");
            assert_eq!(row.words.contains("named in advance"), is_named, "{row:?}");
            assert_eq!(row.words.contains("would have seen"), !is_told, "{row:?}");
        }
        let text = print_table(&comparison, false);
        assert!(text.contains("Named in advance and judged each for itself: 2"), "{text}");
        assert!(text.contains("In 80 of 100 such comparisons half of the"), "{text}");
    }
}

#[test]
fn a_figure_that_is_named_and_not_there_is_no_silence() {
    let mut rng = entropy::rng(44);
    let (a, b) = (blocked(2, 1.0, 0.1, &mut rng), blocked(2, 1.0, 0.1, &mut rng));
    let refused = compare(&[a], &[b], &["latency_ms/0".to_owned()]).unwrap_err();
    assert!(matches!(refused, CompareError::Unknown(_)) && refused.to_string().contains("latency_ms/0"));
}

/// C7: what is said to have been detectable would have been told about as often as is said.
#[test]
fn what_is_said_to_be_detectable_is_detected_as_often_as_is_said() {
    let mut rng = entropy::rng(45);
    let named = ["commit_ms/0".to_owned()];
    let compare = |slower: f64, rng: &mut fastrand::Rng| {
        let mut side = |slower| (0..5).map(|_| blocked(1, slower, 0.1, rng)).collect::<Vec<_>>();
        let (a, b) = (side(1.0), side(slower));
        compare(&a, &b, &named).unwrap().rows.remove(0)
    };
    let mut said: Vec<f64> = (0..101).filter_map(|_| compare(1.0, &mut rng).detectable_percent).collect();
    said.sort_by(f64::total_cmp);
    let middle = 1.0 + said[said.len() / 2] / 100.0;
    let told = (0..300).filter(|_| compare(middle, &mut rng).verdict == Verdict::Worse).count();
    assert!((210..=270).contains(&told), "{told} of 300 at a factor of {middle}");
}

/// C2: documents of before keep no blocks, or keep them as they always did.
#[test]
fn documents_of_every_version_are_compared() {
    let fixture = crate::support::fixture("replication").evidence;
    let comparison = compared(std::slice::from_ref(&fixture), std::slice::from_ref(&fixture));
    assert!(comparison.comparisons > 5 && comparison.is_comparable());
    assert!(comparison.rows.iter().all(|row| {
        matches!(row.verdict, Verdict::NoDifference | Verdict::Undecidable | Verdict::NotComparable)
    }));
    let packs = ["packs", "packs_later"].map(|name| crate::support::fixture(name).evidence);
    let comparison = compared(&packs[..1], &packs[1..]);
    assert!(comparison.warnings.iter().any(|warning| warning.contains("only one run")));
}

#[test]
fn what_is_measured_on_one_side_only_is_said() {
    let row = only(&scalar("old", "ms", 1.0), &empty());
    assert_eq!(row.words, "not comparable: measured in A and not in B");
    let row = only(&scalar("x", "ms", 1.0), &scalar("x", "us", 1.0));
    assert_eq!(row.words, "not comparable: other units");
}

#[test]
fn the_text_says_how_many_comparisons_were_made_and_fits_the_terminal() {
    let mut rng = entropy::rng(24);
    let same = compared(&runs(4, 1.0, &mut rng), &runs(4, 1.0, &mut rng));
    let text = print_table(&same, true);
    assert!(
        text.contains("12 comparisons were made") && text.contains("\nno detectable difference"),
        "{text}"
    );
    let other = print_table(&compared(&runs(5, 1.0, &mut rng), &runs(5, 3.0, &mut rng)), false);
    assert!(other.contains("WORSE: slower by"), "{other}");
    for line in text.lines().chain(other.lines()) {
        assert!(line.chars().count() <= 120, "{line}");
    }
}

/// C8.
#[test]
fn the_comparison_of_the_same_documents_is_the_same() {
    let mut rng = entropy::rng(25);
    let (a, b) = (runs(6, 1.0, &mut rng), runs(6, 1.1, &mut rng));
    assert_eq!(compared(&a, &b), compared(&a, &b));
}
