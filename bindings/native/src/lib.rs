//! The store for Python: what `duramen.store` is made of.
//!
//! One idea a file. Whatever may wait, for a lock, the disk or another process, is done without the interpreter's lock.

mod arrow;
mod blobs;
mod branch;
mod conflicts;
mod data;
mod error;
mod follow;
mod indexes;
mod moment;
mod own;
mod scope;
mod store;
mod transaction;
mod value;
mod vectors;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    error::add(py, module)?;
    own::watch_forks(module)?;
    module.add_class::<store::Store>()?;
    module.add_class::<branch::Branch>()?;
    module.add_class::<branch::Snapshot>()?;
    module.add_class::<transaction::Transaction>()?;
    module.add_class::<scope::Space>()?;
    module.add_class::<arrow::ArrowTable>()?;
    module.add_class::<data::Kv>()?;
    module.add_class::<data::PairIterator>()?;
    module.add_class::<data::Cells>()?;
    module.add_class::<blobs::Blobs>()?;
    module.add_class::<data::Events>()?;
    module.add_class::<data::Documents>()?;
    module.add_class::<vectors::Vectors>()?;
    module.add_class::<indexes::Indexes>()?;
    module.add_class::<vectors::Collection>()?;
    module.add_class::<conflicts::Conflicts>()?;
    module.add_class::<follow::Follower>()?;
    module.add_class::<follow::Watch>()?;
    Ok(())
}
