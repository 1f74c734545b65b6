use super::*;

/// A cursor, and a clock that is moved by hand.
struct Moved {
    cursor: Cursor,
    now: Instant,
}

impl Moved {
    fn new() -> Self {
        Self { cursor: Cursor::default(), now: clock::now() }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time + Duration::from_micros(1);
    }

    fn after(&mut self, enters: bool) -> i64 {
        self.cursor.after(self.now, enters)
    }

    fn peek(&self) -> i64 {
        self.cursor.peek(self.now)
    }

    fn took(&mut self, newest: i64, enters: bool) {
        self.cursor.took(self.now, newest, enters);
    }
}

#[test]
fn looks_begin_behind_what_was_taken() {
    let mut moved = Moved::new();
    assert_eq!(moved.after(true), 0, "the first look is at everything");
    moved.took(10, true);
    assert_eq!(moved.after(true), 0);
    // No lower number comes that late.
    moved.pass(VERY_LATE_COMMIT);
    assert_eq!((moved.after(true), moved.after(false), moved.peek()), (10, 10, 10));
    moved.cursor.restart();
    assert_eq!((moved.peek(), moved.after(true), moved.after(true)), (0, 0, 10));
    moved.pass(FULL_LOOK);
    assert_eq!(
        (moved.peek(), moved.after(true), moved.after(true)),
        (0, 0, 10),
        "and everything now and then"
    );
}

/// A turn that does not enter leaves alone what comes for queues, which later looks must find.
#[test]
fn what_a_turn_has_left_alone_is_not_passed_over() {
    let mut moved = Moved::new();
    moved.after(true);
    moved.took(10, true);
    moved.took(20, false);
    moved.pass(VERY_LATE_COMMIT);
    assert_eq!(moved.after(true), 10);
}

/// Nor is such a turn the look at everything that is due.
#[test]
fn a_look_beside_queues_is_none_at_everything() {
    let mut moved = Moved::new();
    assert_eq!(moved.after(false), 0);
    moved.took(10, true);
    moved.pass(VERY_LATE_COMMIT);
    assert_eq!((moved.after(false), moved.peek()), (10, 0));
    assert_eq!((moved.after(true), moved.after(true)), (0, 10));
}

/// With a snapshot held open, what was taken within the last tenth of a second is hundreds of dead rows, over which every look
/// would go.
#[test]
fn what_comes_very_late_is_looked_for_now_and_then() {
    let mut moved = Moved::new();
    moved.after(true);
    moved.took(10, true);
    moved.pass(LATE_COMMIT);
    moved.took(20, true);
    moved.took(15, true);
    assert_eq!((moved.peek(), moved.after(true)), (10, 10), "lower numbers may still come");
    moved.pass(LATE_COMMIT);
    assert_eq!((moved.peek(), moved.after(true)), (20, 20));
    moved.pass(LATE_LOOK);
    assert_eq!((moved.peek(), moved.after(false)), (0, 0), "very late ones, too");
    // Only for what comes beside queues was that one.
    assert_eq!((moved.peek(), moved.after(true), moved.after(true)), (0, 0, 20));
}
