//! Data of the embedded store as Apache Arrow, and with the feature `parquet` as Parquet files: out of a branch, a snapshot or a
//! transaction, and into one. DuckDB, Polars, pandas and whatever else reads Arrow work on it.
//!
//! Out, [`Batches`] are the rows of a [`Table`] as of one moment, a bounded number at a time:
//!
//! | table | columns |
//! | --- | --- |
//! | [documents](DocumentOptions) | the key, and one for each field at the top of a document |
//! | [pairs](PairOptions) | `key` and `value` |
//! | [events](EventOptions) | `seq`, `type`, `at` and `payload` |
//! | [vectors](VectorOptions) | `key`, `vector` and `metadata` |
//!
//! In, [`load_documents`], [`load_pairs`] and [`load_vectors`] take batches of any origin, and commit a stated number of rows at a
//! time. What a type of Arrow becomes is in [`into`].
//!
//! ```
//! use duramen_store::{Scope, Store};
//! use duramen_store_arrow::{load_documents, Batches, DocumentOptions, DocumentsIn, Table};
//! use serde_json::json;
//!
//! let store = Store::memory();
//! let main = store.branch("main")?;
//! main.json().set("oak", "", &json!({ "height": 30, "soil": { "ph": 6.5 } }))?;
//! main.json().set("yew", "", &json!({ "height": 12 }))?;
//!
//! let batches = Batches::open(&main, "default", &Table::Documents(DocumentOptions::default()))?;
//! let names: Vec<String> = batches.schema().fields().iter().map(|field| field.name().clone()).collect();
//! assert_eq!(names, ["key", "height", "soil"]);
//!
//! let copy = store.branch("main")?.fork("copy")?;
//! let loaded = load_documents(&copy.space("again")?, batches, &DocumentsIn::default())?;
//! assert_eq!(loaded.rows, 2);
//! assert_eq!(copy.space("again")?.json().get("oak", "soil.ph")?.expect("it was loaded").as_str(), "6.5");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batches;
mod column;
mod datum;
pub mod into;
mod json_text;
mod members;
mod out;
#[cfg(feature = "parquet")]
pub mod parquet;
mod shape;

pub use self::batches::{Batches, Table};
pub use self::into::{
    load_documents, load_pairs, load_vectors, Commit, DocumentsIn, KeyFrom, LoadError, Loaded, Nulls,
    PairsIn, Refusal, VectorsIn,
};
pub use self::json_text::{is_json_text, json_text};
pub use self::out::{
    DocumentOptions, EventOptions, Limits, Misfits, OutError, PairKeys, PairOptions, VectorOptions,
    BATCH_BYTES_MAX, COLUMNS_MAX,
};
