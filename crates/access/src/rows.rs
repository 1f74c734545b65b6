//! The rows of a sync as lines for other programs: CSV, or a JSON object a line; all of them, or those that a filter means.
//!
//! With the feature `arrow`, rows come as batches of Apache Arrow, for Python and others.
//! With the feature `parquet`, tables are also written as Parquet files, and read from them.
//!
//! Of a pack, a filter is answered by its indexes; of a `.c1z` file all rows of the kind are read.
//!
//! ```
//! use duramen_access::c1z::ReadOptions;
//! use duramen_access::file::GraphFile;
//! use duramen_access::graph::{Grant, GraphStore, ResourceId, SyncKind};
//! use duramen_access::rows::{write_rows, Filter, Form, Table};
//!
//! # let dir = tempfile::tempdir()?;
//! let path = dir.path().join("access.dpack");
//! let mut store = GraphStore::open(&path)?;
//! store.start_sync(SyncKind::Full, None)?;
//! let mut grant = Grant { id: "a".to_owned(), ..Grant::default() };
//! grant.entitlement.id = "app:github:admin".to_owned();
//! grant.entitlement.resource = ResourceId::new("app", "github");
//! grant.principal.id = ResourceId::new("user", "ada");
//! store.put_grants([&grant])?;
//! store.end_sync()?;
//!
//! let file = GraphFile::open(&path, &ReadOptions::default())?;
//! let of_ada = Filter { principal: Some(ResourceId::new("user", "ada")), ..Filter::default() };
//! let mut text = Vec::new();
//! write_rows(&file, &file.sync(None)?, (Table::Principals, &of_ada), Form::Json, u64::MAX, &mut text)?;
//! assert_eq!(String::from_utf8(text)?, "{\"resource_type\":\"user\",\"resource\":\"ada\",\"grants\":1}\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "arrow")]
mod batches;
mod cells;
#[cfg(feature = "parquet")]
mod import;
#[cfg(feature = "parquet")]
mod parquet;
mod table;
mod write;

#[cfg(feature = "arrow")]
pub use self::batches::{BatchOptions, Batches, BATCH_BYTES_MAX};
pub use self::cells::{Cell, Kind};
#[cfg(feature = "parquet")]
pub use self::import::{import_parquet, ImportError, Imported, TableError};
#[cfg(feature = "parquet")]
pub use self::parquet::{export_parquet, write_parquet, ExportError, Exported};
pub use self::table::{for_each_row, Filter, RowsError, Table};
pub use self::write::{write_rows, Form};
