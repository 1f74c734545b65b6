//! A branch, a snapshot or a transaction, in one of its spaces.

use std::sync::Arc;

use duramen_store as ds;
use duramen_store::StoreError;
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::blobs::Blobs;
use crate::data::{Cells, Documents, Events, Kv};
use crate::error::raised;
use crate::indexes::Indexes;
use crate::own::Own;
use crate::vectors::Vectors;

/// What is read and written through.
pub(crate) enum Scope {
    Branch(ds::Branch),
    Snapshot(ds::Snapshot),
    /// None when it came to its end.
    Transaction(Mutex<Option<Box<ds::Transaction>>>),
}

pub(crate) fn over() -> StoreError {
    let reason = "it was committed or rolled back".to_owned();
    StoreError::InvalidInput { what: "a transaction that is over", reason }
}

/// What a write tells: the version of its commit, where that is known at once.
pub(crate) trait Written {
    fn version(self) -> Option<u64>;
}

impl Written for u64 {
    fn version(self) -> Option<u64> {
        Some(self)
    }
}

impl Written for () {
    fn version(self) -> Option<u64> {
        None
    }
}

/// Does something in a space of whatever is meant, without the interpreter's lock.
macro_rules! within {
    ($py:expr, $place:expr, |$space:ident| $work:expr) => {{
        let place = &$place;
        $py.detach(|| -> Result<_, duramen_store::StoreError> {
            match place.scope.get()? {
                $crate::scope::Scope::Branch(scope) => {
                    let $space = duramen_store::Scope::space(scope, &place.space)?;
                    $work
                }
                $crate::scope::Scope::Snapshot(scope) => {
                    let $space = duramen_store::Scope::space(scope, &place.space)?;
                    $work
                }
                $crate::scope::Scope::Transaction(scope) => {
                    let guard = scope.lock();
                    let scope = guard.as_deref().ok_or_else($crate::scope::over)?;
                    let $space = duramen_store::Scope::space(scope, &place.space)?;
                    $work
                }
            }
        })
        .map_err($crate::error::raised)
    }};
}
pub(crate) use within;

/// A scope, and the name of a space in it.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) scope: Arc<Own<Scope>>,
    pub(crate) space: String,
}

impl Place {
    pub(crate) fn of(scope: Scope) -> Self {
        Self { scope: Arc::new(Own::new(scope)), space: ds::DEFAULT_SPACE.to_owned() }
    }

    pub(crate) fn space(&self, py: Python<'_>, name: &str) -> PyResult<Space> {
        let place = Self { scope: self.scope.clone(), space: name.to_owned() };
        within!(py, place, |_space| Ok(()))?;
        Ok(Space { place })
    }

    pub(crate) fn spaces(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let found = py.detach(|| match self.scope.get()? {
            Scope::Branch(scope) => ds::Scope::spaces(scope),
            Scope::Snapshot(scope) => ds::Scope::spaces(scope),
            Scope::Transaction(scope) => ds::Scope::spaces(scope.lock().as_deref().ok_or_else(over)?),
        });
        Ok(found.map_err(raised)?.into_iter().map(|space| space.name).collect())
    }
}

/// A space: a part of a branch with keys of its own.
#[pyclass(frozen, module = "duramen_native._native")]
pub(crate) struct Space {
    place: Place,
}

#[pymethods]
impl Space {
    #[getter]
    fn name(&self) -> &str {
        &self.place.space
    }

    #[getter]
    fn kv(&self) -> Kv {
        Kv { place: self.place.clone() }
    }

    #[getter]
    fn blobs(&self) -> Blobs {
        Blobs { place: self.place.clone() }
    }

    #[getter]
    fn state(&self) -> Cells {
        Cells { place: self.place.clone() }
    }

    #[getter]
    fn events(&self) -> Events {
        Events { place: self.place.clone() }
    }

    #[getter]
    fn json(&self) -> Documents {
        Documents { place: self.place.clone() }
    }

    #[getter]
    fn vectors(&self) -> Vectors {
        Vectors { place: self.place.clone() }
    }

    #[getter]
    fn indexes(&self) -> Indexes {
        Indexes { place: self.place.clone() }
    }

    fn __repr__(&self) -> String {
        format!("Space({:?})", self.place.space)
    }
}

/// What a branch, a snapshot and a transaction have alike.
macro_rules! scope_methods {
    ($class:ty) => {
        #[pymethods]
        impl $class {
            /// A space by its name; it need not be made.
            fn space(&self, py: Python<'_>, name: &str) -> PyResult<$crate::scope::Space> {
                self.place.space(py, name)
            }

            /// The names of the spaces that have anything in them.
            fn spaces(&self, py: Python<'_>) -> PyResult<Vec<String>> {
                self.place.spaces(py)
            }

            #[getter]
            fn kv(&self) -> $crate::data::Kv {
                $crate::data::Kv { place: self.place.clone() }
            }

            #[getter]
            fn blobs(&self) -> $crate::blobs::Blobs {
                $crate::blobs::Blobs { place: self.place.clone() }
            }

            #[getter]
            fn state(&self) -> $crate::data::Cells {
                $crate::data::Cells { place: self.place.clone() }
            }

            #[getter]
            fn events(&self) -> $crate::data::Events {
                $crate::data::Events { place: self.place.clone() }
            }

            #[getter]
            fn json(&self) -> $crate::data::Documents {
                $crate::data::Documents { place: self.place.clone() }
            }

            #[getter]
            fn vectors(&self) -> $crate::vectors::Vectors {
                $crate::vectors::Vectors { place: self.place.clone() }
            }

            #[getter]
            fn indexes(&self) -> $crate::indexes::Indexes {
                $crate::indexes::Indexes { place: self.place.clone() }
            }

            /// The conflicts that merges kept, in all spaces.
            #[getter]
            fn conflicts(&self) -> $crate::conflicts::Conflicts {
                $crate::conflicts::Conflicts { place: self.place.clone() }
            }
        }
    };
}
pub(crate) use scope_methods;
