use super::{Queue, Span, BATCH, MAX, MAX_OF_ROLE};

fn spans(many: usize) -> Vec<Span> {
    vec![Span::default(); many]
}

/// T-4
#[test]
fn the_queue_has_a_bound_and_no_role_fills_it_alone() {
    let queue = Queue::default();
    assert_eq!(queue.put(1, spans(MAX)), MAX - MAX_OF_ROLE);
    assert_eq!(queue.put(1, spans(1)), 1);
    assert_eq!(queue.put(2, spans(10)), 0);
    assert_eq!(queue.put(3, spans(MAX)), MAX_OF_ROLE + 10);
    assert_eq!(queue.len(), MAX);
    assert_eq!(queue.take().len(), BATCH);
    assert_eq!(queue.put(1, spans(BATCH + 1)), 1);
    while !queue.take().is_empty() {}
    assert!(queue.waiting.lock().of_role.is_empty());
    assert_eq!(queue.put(1, spans(MAX_OF_ROLE)), 0);
}
