//! The batches of a table, one after another.

use std::ops::Deref;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use duramen_store::{Scope, Snapshot, Space, StoreError};

use crate::out::{
    DocumentOptions, Documents, EventOptions, Events, OutError, PairOptions, Pairs, VectorOptions, Vectors,
};

/// What is made into a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Table {
    /// The JSON documents of a space.
    Documents(DocumentOptions),
    /// The key-value pairs of a space.
    Pairs(PairOptions),
    /// The event log of a space.
    Events(EventOptions),
    /// A collection of vectors.
    Vectors(VectorOptions),
}

/// Where a table is.
enum Place {
    Documents(Box<Documents>),
    Pairs(Box<Pairs>),
    Events(Events),
    Vectors(Vectors),
}

impl Place {
    fn new<S: Scope>(space: &Space<'_, S>, table: &Table) -> Result<Place, OutError> {
        Ok(match table {
            Table::Documents(options) => Place::Documents(Box::new(Documents::new(space, options)?)),
            Table::Pairs(options) => Place::Pairs(Box::new(Pairs::new(space, options)?)),
            Table::Events(options) => Place::Events(Events::new(options)),
            Table::Vectors(options) => Place::Vectors(Vectors::new(space, options)?),
        })
    }

    fn schema(&self) -> &SchemaRef {
        match self {
            Place::Documents(of) => of.schema(),
            Place::Pairs(of) => of.schema(),
            Place::Events(of) => of.schema(),
            Place::Vectors(of) => of.schema(),
        }
    }

    fn next_batch<S: Scope>(&mut self, space: &Space<'_, S>) -> Result<Option<RecordBatch>, OutError> {
        match self {
            Place::Documents(of) => of.next_batch(space),
            Place::Pairs(of) => of.next_batch(space),
            Place::Events(of) => of.next_batch(space),
            Place::Vectors(of) => of.next_batch(space),
        }
    }
}

/// The batches of a table as of one moment, one after another: one is in memory at a time, beside what the caller keeps.
///
/// It holds what it reads: a reference to a branch, a snapshot or a transaction, or an `Arc` or `Box` of one. Of a branch, it
/// reads the moment at which it was opened; of a transaction, what it has written when the batch is made. After an error it ends.
///
/// ```
/// use duramen_store::{Scope, Store};
/// use duramen_store_arrow::{Batches, Limits, PairOptions, Table};
///
/// let store = Store::memory();
/// let main = store.branch("main")?;
/// main.kv().put_many([("a", 1), ("b", 2), ("c", 3)])?;
/// let two = PairOptions { limits: Limits { rows_max: 2, ..Limits::default() }, ..PairOptions::default() };
/// let batches = Batches::open(&main, "default", &Table::Pairs(two))?;
/// main.kv().put("d", 4)?;
/// let sizes: Result<Vec<usize>, _> = batches.map(|batch| Ok::<_, arrow_schema::ArrowError>(batch?.num_rows())).collect();
/// assert_eq!(sizes?, [2, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Batches<H> {
    scope: H,
    held: Option<Snapshot>,
    space: String,
    /// None when it came to its end.
    place: Option<Place>,
    schema: SchemaRef,
}

/// What a branch holds so that all reads see one moment.
fn moment<S: Scope>(scope: &S) -> Result<Option<Snapshot>, StoreError> {
    scope.moment()
}

impl<H> Batches<H>
where
    H: Deref,
    H::Target: Scope,
{
    /// Begins to read a table of a space. The schema is known from then on.
    ///
    /// # Errors
    /// When the space or a schema is not allowed, there is no such collection, or the store cannot be read.
    pub fn open(scope: H, space: &str, table: &Table) -> Result<Batches<H>, OutError> {
        let held = moment(&*scope)?;
        let place = match &held {
            Some(snapshot) => Place::new(&snapshot.space(space)?, table),
            None => Place::new(&scope.space(space)?, table),
        }?;
        let schema = Arc::clone(place.schema());
        Ok(Batches { scope, held, space: space.to_owned(), place: Some(place), schema })
    }

    /// The next batch; none at the end.
    ///
    /// # Errors
    /// When a value does not fit its column, or the store cannot be read.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, OutError> {
        let Some(mut place) = self.place.take() else { return Ok(None) };
        let batch = match &self.held {
            Some(snapshot) => place.next_batch(&snapshot.space(&self.space)?),
            None => place.next_batch(&self.scope.space(&self.space)?),
        }?;
        if batch.is_some() {
            self.place = Some(place);
        }
        Ok(batch)
    }
}

impl<H> Batches<H> {
    /// The names and types of the columns.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl<H> Iterator for Batches<H>
where
    H: Deref,
    H::Target: Scope,
{
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().map_err(|error| ArrowError::ExternalError(Box::new(error))).transpose()
    }
}

impl<H> RecordBatchReader for Batches<H>
where
    H: Deref,
    H::Target: Scope,
{
    fn schema(&self) -> SchemaRef {
        Batches::schema(self)
    }
}

impl<H> std::fmt::Debug for Batches<H> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batches").field("schema", &self.schema).finish_non_exhaustive()
    }
}
