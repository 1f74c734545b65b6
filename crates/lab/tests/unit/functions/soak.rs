use super::*;

fn sizes(looks: &[(usize, f64)]) -> Sizes {
    let mut sizes = Sizes::default();
    for (quarter, bytes) in looks {
        sizes.note(*quarter, *bytes);
    }
    sizes
}

#[test]
fn a_table_is_held_against_its_largest_size_right_before_the_snapshot() {
    // What it was in the first quarter does not count, nor does a small size between two large ones.
    let swelled = sizes(&[(0, 900.0), (1, 100.0), (1, 200.0), (2, 210.0), (2, 20.0), (3, 150.0)]);
    assert_eq!(swelled.under_snapshot(), 1.05);
    let later = sizes(&[(0, 200.0), (1, 200.0), (2, 200.0), (3, 400.0)]);
    assert_eq!(later.under_snapshot(), 2.0);
}

#[test]
fn a_table_that_never_changes_is_not_used() {
    assert!(!sizes(&[(0, 8.0), (1, 8.0), (2, 8.0), (3, 8.0)]).is_used());
    assert!(sizes(&[(0, 8.0), (1, 8.0), (2, 8.0), (3, 16.0)]).is_used());
    assert!(sizes(&[(0, 8.0), (0, 4.0), (1, 8.0), (2, 8.0), (3, 8.0)]).is_used());
}
