use super::{values, Difference, TooMany, Unmatched};

fn differences(old: &[&str], new: &[&str], key: &[usize]) -> Vec<(Option<String>, Option<String>)> {
    let mut unmatched = Unmatched::new(1 << 20);
    for line in old {
        unmatched.old(line.as_bytes()).unwrap();
    }
    for line in new {
        unmatched.new_line(line.as_bytes()).unwrap();
    }
    let text = |line: Option<Box<[u8]>>| {
        let text = |value: Option<Vec<u8>>| value.map_or("NULL".into(), |it| String::from_utf8(it).unwrap());
        Some(values(&line?).into_iter().map(text).collect::<Vec<String>>().join("|"))
    };
    let each = |Difference { old, new, times }: Difference| {
        let row = (text(old), text(new));
        vec![row; usize::try_from(times).unwrap()]
    };
    unmatched.pair(key).into_iter().flat_map(each).collect()
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn rows_are_paired_by_their_key_in_its_order() {
    let found = differences(&["2\ta", "10\tb", "3\tc"], &["3\tc", "10\tB", "4\td"], &[0]);
    let expected = vec![(some("2|a"), None), (None, some("4|d")), (some("10|b"), some("10|B"))];
    assert_eq!(found, expected);
}

#[test]
fn rows_without_a_key_are_counted() {
    let found = differences(&["a", "a", "a", "b"], &["a", "b", "b", "c"], &[]);
    let expected = vec![(some("a"), None), (some("a"), None), (None, some("b")), (None, some("c"))];
    assert_eq!(found, expected);
}

#[test]
fn a_key_that_is_null_identifies_nothing() {
    let found = differences(&["\\N\ta"], &["\\N\tb"], &[0]);
    assert_eq!(found, vec![(some("NULL|a"), None), (None, some("NULL|b"))]);
}

#[test]
fn null_is_not_the_text_that_stands_for_it() {
    assert_eq!(
        values(b"\\N\t\\\\N\t\ta\\tb\\n\\\\"),
        vec![None, Some(b"\\N".to_vec()), Some(Vec::new()), Some(b"a\tb\n\\".to_vec())]
    );
    assert_eq!(differences(&["1\t\\N"], &["1\t"], &[0]), vec![(some("1|NULL"), some("1|"))]);
}

#[test]
fn what_is_held_has_a_limit_and_what_cancels_out_does_not_count() {
    let mut unmatched = Unmatched::new(200);
    for number in 0..10_000 {
        unmatched.old(format!("row {number}").as_bytes()).unwrap();
        unmatched.new_line(format!("row {number}").as_bytes()).unwrap();
    }
    unmatched.old(&[b'x'; 100]).unwrap();
    assert_eq!(unmatched.old(&[b'y'; 100]), Err(TooMany { bytes_max: 200 }));
}
