use serde_json::json;

use super::*;

fn bytes(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    encode(Some(value), &mut out);
    out
}

/// Rising, each above the one before.
fn rising() -> Vec<Value> {
    vec![
        json!(null),
        json!(false),
        json!(true),
        json!(f64::MIN),
        json!(-1e300),
        json!(i64::MIN),
        json!(-9_007_199_254_740_993_i64),
        json!(-9_007_199_254_740_992_i64),
        json!(-2),
        json!(-1.5),
        json!(-5e-324),
        json!(0),
        json!(5e-324),
        json!(0.5),
        json!(1),
        json!(1.25),
        json!(9_007_199_254_740_991_u64),
        json!(9_007_199_254_740_992_u64),
        json!(9_007_199_254_740_993_u64),
        json!(9_007_199_254_740_994_u64),
        json!(i64::MAX - 1),
        json!(i64::MAX),
        json!(9_223_372_036_854_775_808_u64),
        json!(9_223_372_036_854_775_809_u64),
        json!(u64::MAX - 1),
        json!(u64::MAX),
        json!(18_446_744_073_709_551_616.0),
        json!(f64::MAX),
        json!(""),
        json!("\0"),
        json!("\0\0"),
        json!("\0\u{1}"),
        json!("\u{1}"),
        json!("a"),
        json!("a\0"),
        json!("a\0b"),
        json!("a\u{1}"),
        json!("aa"),
        json!("b"),
        json!("\u{e9}"),
        json!("\u{10ffff}"),
    ]
}

/// I1: bytes are in the order of the values.
#[test]
fn bytes_are_in_the_order_of_the_values() {
    let all = rising();
    let mut missing = Vec::new();
    encode(None, &mut missing);
    assert!(missing < bytes(&all[0]));
    for pair in all.windows(2) {
        assert!(bytes(&pair[0]) < bytes(&pair[1]), "{} and {}", pair[0], pair[1]);
    }
    assert!(bytes(all.last().unwrap()) < bytes(&json!([])));
}

#[test]
fn equal_values_are_the_same_bytes_however_they_are_written() {
    let same = [
        (json!(1), json!(1.0)),
        (json!(0), json!(-0.0)),
        (json!(9_007_199_254_740_992_u64), json!(9_007_199_254_740_992.0)),
        (json!([1, {"a": 2.0, "b": []}]), json!([1.0, {"b": [], "a": 2}])),
    ];
    for (a, b) in same {
        assert_eq!(bytes(&a), bytes(&b), "{a} and {b}");
    }
    let different = [
        (json!([1]), json!([[1]])),
        (json!([]), json!({})),
        (json!([[], []]), json!([[[]]])),
        (json!({"a": 1}), json!({"a": 2})),
        (json!({"ab": "c"}), json!({"a": "bc"})),
        (json!(["a", "b"]), json!(["ab"])),
    ];
    for (a, b) in different {
        assert_ne!(bytes(&a), bytes(&b), "{a} and {b}");
    }
}

/// I1: none is the beginning of another, so what follows a value does not change what it is.
#[test]
fn values_end_where_they_end_and_never_inside_of_another() {
    let mut all = rising();
    all.extend([json!([]), json!({"a": [1, null]})]);
    let encoded: Vec<_> = all.iter().map(bytes).collect();
    for (at, one) in encoded.iter().enumerate() {
        for (other_at, other) in encoded.iter().enumerate() {
            assert!(at == other_at || !other.starts_with(one), "{} and {}", all[at], all[other_at]);
        }
        let followed = [&one[..], b"\0\xff key"].concat();
        let (rest, is_nothing) = skip(&followed).unwrap();
        assert_eq!((rest, is_nothing), (&b"\0\xff key"[..], all[at].is_null()));
        for length in 0..one.len() {
            assert!(skip(&one[..length]).is_none(), "{} cut to {length} bytes", all[at]);
        }
    }
    assert!(skip(&[0]).is_none() && skip(&[8, 1]).is_none());
}

/// I1, at random: numbers of all sizes are ordered as [`crate::filter`] orders them.
#[test]
fn numbers_at_random_are_ordered_as_conditions_order_them() {
    let mut random = duramen_base::entropy::rng(7);
    let mut number = || match random.u8(..4) {
        0 => json!(random.i64(..) >> random.u32(..64)),
        1 => json!(random.u64(..) >> random.u32(..64)),
        2 => json!(f64::from_bits(random.u64(..))),
        _ => json!((random.i64(..) >> random.u32(..64)) as f64),
    };
    for _ in 0..100_000 {
        let (a, b) = (number(), number());
        // What is not finite is null in JSON.
        if a.is_null() || b.is_null() {
            continue;
        }
        let is = |op: &str| {
            let text = format!("$ {op} {b}");
            text.parse::<crate::filter::Filter>()
                .unwrap_or_else(|error| panic!("{text}: {error}"))
                .matches(&a)
        };
        let order = bytes(&a).cmp(&bytes(&b));
        assert_eq!(is("<"), order.is_lt(), "{a} and {b}");
        assert_eq!(is("="), order.is_eq(), "{a} and {b}");
    }
}
