use std::time::Duration;

use super::Limited;

const LIMITED: Limited = Limited { memory: 1 << 20, time: Duration::from_millis(1), seed: 7 };

#[test]
fn keys_ascend_and_no_two_values_are_alike() {
    let rows = LIMITED.rows();
    assert!((80_000..100_000).contains(&rows), "{rows}");
    for rank in 1..rows {
        assert!(LIMITED.key(rank - 1) < LIMITED.key(rank), "{rank}");
    }
    assert!(LIMITED.key(rows - 1).starts_with(b"f"), "they are spread over all that there could be");
    let value = LIMITED.value(5, 0);
    assert_eq!(value, LIMITED.value(5, 0));
    assert_ne!(value, LIMITED.value(5, 1));
    assert_ne!(value, LIMITED.value(6, 0));
}
