//! A few threads for many pieces of work.

use std::{
    sync::{
        atomic::{AtomicUsize, Ordering},
        Mutex, PoisonError,
    },
    thread,
};

/// Runs `work` on every item with a few threads, and returns the results in the order of completion.
pub(crate) fn parallel<T: Send, R: Send>(
    threads: usize,
    items: Vec<T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let threads = threads.min(items.len());
    let slots: Vec<Mutex<Option<T>>> = items.into_iter().map(|item| Mutex::new(Some(item))).collect();
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(slots.len()));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(slot) = slots.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(item) = slot.lock().unwrap_or_else(PoisonError::into_inner).take() {
                        let result = work(item);
                        results.lock().unwrap_or_else(PoisonError::into_inner).push(result);
                    }
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}
