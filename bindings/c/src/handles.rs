//! Graphs by number. A number is never given twice, so that one of a graph that was closed means none.

use std::collections::HashMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;

use crate::error::Error;
use crate::graph::Graph;

/// A graph, until a mistake of the library leaves it in an unknown state.
type Slot = Arc<Mutex<Option<Graph>>>;

static GRAPHS: LazyLock<Mutex<HashMap<u64, Slot>>> = LazyLock::new(Mutex::default);
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Keeps a graph and returns its number.
pub(crate) fn add(graph: Graph) -> u64 {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    GRAPHS.lock().insert(number, Arc::new(Mutex::new(Some(graph))));
    number
}

/// How many graphs are open.
pub(crate) fn count() -> usize {
    GRAPHS.lock().len()
}

/// Closes a graph. A call that is at work on it is finished first.
pub(crate) fn close(number: u64) -> Result<(), Error> {
    let slot = GRAPHS.lock().remove(&number).ok_or(Error::NoGraph(number))?;
    *slot.lock() = None;
    Ok(())
}

/// Does something with a graph, while nobody else does. After a panic the graph can only be closed.
pub(crate) fn with<T>(number: u64, does: impl FnOnce(&mut Graph) -> Result<T, Error>) -> Result<T, Error> {
    let slot = GRAPHS.lock().get(&number).cloned().ok_or(Error::NoGraph(number))?;
    let mut slot = slot.lock();
    let mut graph = slot.take().ok_or_else(|| Error::Panic("it happened in an earlier call".to_owned()))?;
    let done = guarded(|| does(&mut graph));
    if !matches!(done, Err(Error::Panic(_))) {
        *slot = Some(graph);
    }
    done
}

/// Does something, and makes an error of a panic.
pub(crate) fn guarded<T>(does: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    // Whatever the panic left half done is not used again: `with` drops the graph.
    catch_unwind(AssertUnwindSafe(does)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(Error::Panic(text.unwrap_or_else(|| "it panicked".to_owned())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Status;

    #[test]
    fn a_panic_is_an_error_and_ends_the_graph() {
        let number = add(Graph::empty());
        let other = add(Graph::empty());
        let failed = with(number, |_| -> Result<(), Error> { panic!("on purpose {}", 1) }).unwrap_err();
        assert_eq!(failed.status(), Status::Panic);
        assert!(failed.to_string().contains("on purpose 1"), "{failed}");
        assert_eq!(with(number, |_| Ok(())).unwrap_err().status(), Status::Panic);
        with(other, |_| Ok(())).unwrap();
        close(number).unwrap();
        close(other).unwrap();
        for closed in [number, other, 0, u64::MAX] {
            assert_eq!(with(closed, |_| Ok(())).unwrap_err().status(), Status::NoGraph);
            assert_eq!(close(closed).unwrap_err().status(), Status::NoGraph);
        }
    }
}
