use super::*;

/// Lets the time pass in which a lower number may still come.
fn late_commits_are_over() {
    std::thread::sleep(LATE_COMMIT + Duration::from_millis(5));
}

#[test]
fn looks_begin_behind_what_was_taken() {
    let mut cursor = Cursor::default();
    assert_eq!(cursor.after(true), 0, "the first look is at everything");
    cursor.took(10, true);
    assert_eq!(cursor.after(true), 0);
    late_commits_are_over();
    assert_eq!((cursor.after(true), cursor.after(false), cursor.peek()), (10, 10, 10));
    cursor.restart();
    assert_eq!((cursor.peek(), cursor.after(true), cursor.after(true)), (0, 0, 10));
}

/// A turn that does not enter leaves alone what comes for queues, which later looks must find.
#[test]
fn what_a_turn_has_left_alone_is_not_passed_over() {
    let mut cursor = Cursor::default();
    cursor.after(true);
    cursor.took(10, true);
    cursor.took(20, false);
    late_commits_are_over();
    assert_eq!(cursor.after(true), 10);
}

/// Nor is such a turn the look at everything that is due.
#[test]
fn a_look_beside_queues_is_none_at_everything() {
    let mut cursor = Cursor::default();
    assert_eq!(cursor.after(false), 0);
    cursor.took(10, true);
    late_commits_are_over();
    assert_eq!((cursor.after(false), cursor.peek()), (10, 0));
    assert_eq!((cursor.after(true), cursor.after(true)), (0, 10));
}
