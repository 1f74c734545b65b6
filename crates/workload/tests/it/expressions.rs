//! What expressions of scripts are. That pgbench computes the same is seen in the tests of the suite `replication`, where
//! there is a server for it.

use duramen_workload::compute;

#[test]
fn expressions_are_computed_as_they_are_documented() {
    for (text, value) in [
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("7 / 2", "3"),
        ("-7 / 2", "-3"),
        ("7 % -3", "1"),
        ("7 / 2.0", "3.5"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("2 - 1 - 1", "0"),
        ("1 << 3 | 1", "9"),
        ("5 # 1", "4"),
        ("~5", "-6"),
        ("not 1 = 2 and true", "true"),
        ("null is null", "true"),
        ("1 is not null", "true"),
        ("null isnull", "true"),
        ("null notnull", "false"),
        ("null and false", "NULL"),
        ("null or true", "NULL"),
        ("null and true", "NULL"),
        ("1 + null", "NULL"),
        ("2 > 1 and 1 <> 2 and 1 != 2 and 2 >= 2", "true"),
        ("case when 1 > 2 then 1 when 2 > 1 then 2 else 3 end", "2"),
        ("case when false then 1 end", "NULL"),
        ("greatest(1, 5, 3)", "5"),
        ("least(1.5, 2)", "1.5"),
        ("abs(-17)", "17"),
        ("int(5.4 + 3.8)", "9"),
        ("int(2.5)", "2"),
        ("double(5432)", "5432.0"),
        ("mod(54, 32)", "22"),
        ("power(2, 10)", "1024.0"),
        ("sqrt(2.0) * sqrt(2.0) > 1.99", "true"),
        ("pi() > 3.14 and pi() < 3.15", "true"),
        ("hash(10, 5432)", "-5817877081768721676"),
        ("hash_murmur2(10, 5432)", "-5817877081768721676"),
        ("hash_fnv1a(10, 5432)", "-7793829335365542153"),
        ("random(5, 5)", "5"),
        ("1e3", "1000.0"),
    ] {
        assert_eq!(compute(text, 1).as_deref(), Ok(value), "{text}");
    }
}

#[test]
fn what_cannot_be_computed_is_an_error_and_no_panic() {
    let deep = format!("{}1{}", "(".repeat(5_000), ")".repeat(5_000));
    let unary = format!("{}1", "-".repeat(5_000));
    let nots = format!("{}true", "not ".repeat(5_000));
    let cases = "case when true then ".repeat(5_000);
    for text in [
        "1 / 0",
        "1 % 0",
        "mod(1, 0)",
        "9223372036854775807 + 1",
        "9223372036854775808",
        "-9223372036854775808 / -1",
        "abs(-9223372036854775808)",
        "- -9223372036854775808",
        "int(1e300)",
        "int(0.0 / 0.0)",
        "random(2, 1)",
        "random(-9223372036854775808, 9223372036854775807)",
        "random_zipfian(1, 10, 1)",
        "random_gaussian(1, 10, 1)",
        "random_exponential(1, 10, 0)",
        "random_zipfian(1, 10, 0.0 / 0.0)",
        "random_gaussian(1, 10, 0.0 / 0.0)",
        "permute(1, 0)",
        "nothing(1)",
        "abs()",
        "abs(1, 2)",
        "1 +",
        "1 2",
        "(1",
        "1)",
        ":",
        "'a'",
        "case end",
        "case when 1",
        "1 is 2",
        "true + 1",
        "not 1",
        "\u{1b}[31m",
        "1e999",
        "",
        &deep,
        &unary,
        &nots,
        &cases,
    ] {
        let error = compute(text, 1).expect_err(text);
        assert!(!error.contains('\u{1b}'), "{error:?}");
    }
    // The same remainder that the least of all numbers has in SQL.
    assert_eq!(compute("-9223372036854775808 % -1", 1).as_deref(), Ok("0"));
}

fn drawn(text: &str, count: u64) -> Vec<i64> {
    (0..count).map(|seed| compute(text, seed).unwrap().parse().unwrap()).collect()
}

#[test]
fn numbers_are_drawn_from_the_distribution_that_is_named_and_by_the_seed() {
    assert_eq!(drawn("random(1, 1000000)", 20), drawn("random(1, 1000000)", 20));
    let share = |numbers: &[i64], is_in: &dyn Fn(i64) -> bool| {
        numbers.iter().filter(|number| is_in(**number)).count() as f64 / numbers.len() as f64
    };
    let near = |found: f64, expected: f64, what: &str| {
        assert!((found - expected).abs() < 0.02, "{what}: {found} and not {expected}");
    };
    let uniform = drawn("random(1, 10)", 10_000);
    (1..=10).for_each(|number| near(share(&uniform, &|n| n == number), 0.1, "uniform"));
    // The share of the first of n under Zipf's law: 1 of the sum of k^-s.
    let zipf = drawn("random_zipfian(1, 100, 1.5)", 10_000);
    let sum: f64 = (1..=100).map(|k| f64::from(k).powf(-1.5)).sum();
    near(share(&zipf, &|n| n == 1), 1.0 / sum, "zipf, the first");
    near(share(&zipf, &|n| n == 2), 2.0_f64.powf(-1.5) / sum, "zipf, the second");
    assert!(zipf.iter().all(|n| (1..=100).contains(n)));
    // 4 standard deviations to each end: 68.27 % within one of them.
    let gaussian = drawn("random_gaussian(1, 8000, 4)", 10_000);
    near(share(&gaussian, &|n| (3_001..=5_000).contains(&n)), 0.6827, "normal");
    assert!(gaussian.iter().all(|n| (1..=8_000).contains(n)));
    // 1 - e^-1 of 1 - e^-5 in the first fifth.
    let exponential = drawn("random_exponential(1, 1000, 5)", 10_000);
    let expected = (1.0 - (-1.0_f64).exp()) / (1.0 - (-5.0_f64).exp());
    near(share(&exponential, &|n| n <= 200), expected, "exponential");
    // Each exactly once.
    let mut permuted: Vec<i64> =
        (0..1_000).map(|n| compute(&format!("permute({n}, 1000, 7)"), 1).unwrap().parse().unwrap()).collect();
    assert_ne!(permuted, (0..1_000).collect::<Vec<_>>());
    permuted.sort_unstable();
    assert_eq!(permuted, (0..1_000).collect::<Vec<_>>());
}
