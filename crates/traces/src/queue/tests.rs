use super::{Queue, BATCH, MAX, MAX_OF_OWNER};
use crate::Span;

fn spans(many: usize) -> Vec<Span> {
    vec![Span::default(); many]
}

/// T-4
#[test]
fn the_queue_has_a_bound_and_no_owner_fills_it_alone() {
    let queue = Queue::new();
    assert_eq!(queue.put(&1, spans(MAX)), MAX - MAX_OF_OWNER);
    assert_eq!(queue.put(&1, spans(1)), 1);
    assert_eq!(queue.put(&2, spans(10)), 0);
    assert_eq!(queue.put(&3, spans(MAX)), MAX_OF_OWNER + 10);
    assert_eq!(queue.len(), MAX);
    assert_eq!(queue.take().len(), BATCH);
    assert_eq!(queue.put(&1, spans(BATCH + 1)), 1);
    while !queue.take().is_empty() {}
    assert!(queue.waiting.lock().of_owner.is_empty());
    assert_eq!(queue.put(&1, spans(MAX_OF_OWNER)), 0);
}
