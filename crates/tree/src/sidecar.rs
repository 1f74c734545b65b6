//! What readers derive from leaves and keep beside them.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use parking_lot::RwLock;

use crate::forest::{Forest, Meter};

/// Something that a reader derives from a leaf, or a run of leaves, and wants to find again. It counts as memory of the trees while it
/// is kept, and is forgotten as nodes are when memory is short.
pub trait Sidecar: Any + Send + Sync {
    /// Bytes of memory that it takes, itself included.
    fn memory(&self) -> usize;
}

/// The place of one such thing.
#[derive(Default)]
pub(crate) struct Slot(RwLock<Option<Kept>>);

struct Kept {
    value: Arc<dyn Any + Send + Sync>,
    charged: usize,
    /// Read since the evictor came by.
    touched: AtomicBool,
    meter: Arc<Meter>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.meter.resize(self.charged, 0);
    }
}

impl Slot {
    /// What is kept, or what `derive` makes, which is kept from now on if the place is empty and memory is not short.
    pub(crate) fn keep<T: Sidecar, E>(
        &self,
        forest: &Forest,
        derive: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        if let Some(kept) = &*self.0.read() {
            if !kept.touched.load(Ordering::Relaxed) {
                kept.touched.store(true, Ordering::Relaxed);
            }
            if let Ok(value) = kept.value.clone().downcast() {
                return Ok(value);
            }
        }
        let derived = Arc::new(derive()?);
        let charged = derived.memory();
        if forest.has_room() {
            // Somebody else may have been faster; the two are alike, or about different things.
            let mut slot = self.0.write();
            if slot.is_none() {
                let meter = forest.meter().clone();
                meter.resize(0, charged);
                *slot = Some(Kept { value: derived.clone(), charged, touched: AtomicBool::new(true), meter });
            }
        }
        Ok(derived)
    }

    /// Forgets what is kept, because what it was derived from changes.
    pub(crate) fn clear(&mut self) {
        *self.0.get_mut() = None;
    }

    /// Forgets what is kept and was not read since this was asked before. Returns the bytes that it let go of.
    pub(crate) fn forget_unread(&self) -> usize {
        let Some(mut slot) = self.0.try_write() else { return 0 };
        match &*slot {
            Some(kept) if !kept.touched.swap(false, Ordering::Relaxed) => {
                let freed = kept.charged;
                *slot = None;
                freed
            }
            _ => 0,
        }
    }
}
