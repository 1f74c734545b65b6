//! Documents, one of each row.

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use duramen_store::json::Json;
use duramen_store::{Scope, Space, StoreError};
use serde_json::value::RawValue;

use super::cells::Cells;
use super::error::{LoadError, Refusal};
use super::{Commit, Loaded, Nulls};
use crate::members::Members;

/// Where the key of a document comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyFrom {
    /// From a column of text or integers, which is not part of the document.
    Column(String),
    /// From a column of text or integers, which is part of the document, too.
    Field(String),
    /// From the number of the row, counted from here, with ten digits at least so that keys lie in its order.
    Number(u64),
}

/// How rows become documents: an object of the columns, in their order. Rows of one key replace each other, the last one stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentsIn {
    /// Where the keys come from.
    pub key: KeyFrom,
    /// Put before each key.
    pub prefix: String,
    /// Whether a null is left out.
    pub nulls: Nulls,
    /// The column in which [`Misfits::Rest`](crate::Misfits::Rest) put what did not fit: its fields are put back.
    pub rest: Option<String>,
    /// How much one commit has.
    pub commit: Commit,
}

impl Default for DocumentsIn {
    fn default() -> DocumentsIn {
        DocumentsIn {
            key: KeyFrom::Column("key".to_owned()),
            prefix: String::new(),
            nulls: Nulls::LeaveOut,
            rest: None,
            commit: Commit::default(),
        }
    }
}

/// Loads a document of each row. What is committed stays if a later row is refused.
///
/// # Errors
/// When a batch cannot be read, a column or a value is not taken, or the store takes no more.
pub fn load_documents<S: Scope, E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    space: &Space<'_, S>,
    batches: impl IntoIterator<Item = Result<RecordBatch, E>>,
    options: &DocumentsIn,
) -> Result<Loaded, LoadError> {
    let mut load = Load { space, options, rows: 0, loaded: Loaded::default(), waiting: Vec::new(), bytes: 0 };
    let done = load.all(batches);
    done.map_err(|refusal| LoadError { loaded: load.loaded, refusal })?;
    Ok(load.loaded)
}

struct Load<'l, 's, S> {
    space: &'l Space<'s, S>,
    options: &'l DocumentsIn,
    rows: u64,
    loaded: Loaded,
    waiting: Vec<(String, Json)>,
    bytes: usize,
}

impl<S: Scope> Load<'_, '_, S> {
    fn all<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        &mut self,
        batches: impl IntoIterator<Item = Result<RecordBatch, E>>,
    ) -> Result<(), Refusal> {
        for batch in batches {
            self.batch(&batch.map_err(|error| Refusal::Batches(error.into()))?)?;
        }
        self.commit()
    }

    fn batch(&mut self, batch: &RecordBatch) -> Result<(), Refusal> {
        let schema = batch.schema_ref();
        let mut columns = Vec::new();
        let (mut key, mut rest) = (None, None);
        for (field, array) in schema.fields().iter().zip(batch.columns()) {
            let cells = || Cells::new(array, field, self.options.nulls);
            match &self.options.key {
                KeyFrom::Column(name) if name == field.name() && key.is_none() => {
                    key = Some(cells()?);
                    continue;
                }
                KeyFrom::Field(name) if name == field.name() && key.is_none() => key = Some(cells()?),
                _ => {}
            }
            match &self.options.rest {
                Some(name) if name == field.name() => rest = Some(cells()?),
                _ => columns.push((serde_json::Value::from(field.name().as_str()).to_string(), cells()?)),
            }
        }
        if let (None, KeyFrom::Column(name) | KeyFrom::Field(name)) = (&key, &self.options.key) {
            let known = schema.fields().iter().map(|field| field.name().clone()).collect();
            return Err(Refusal::NoColumn { column: name.clone(), known });
        }
        for row in 0..batch.num_rows() {
            self.rows += 1;
            let key = self.key(key.as_ref(), row)?;
            let document = self.document(&columns, rest.as_ref(), row)?;
            self.bytes += key.len() + document.as_str().len();
            self.waiting.push((key, document));
            if self.options.commit.is_full(self.waiting.len(), self.bytes) {
                self.commit()?;
            }
        }
        Ok(())
    }

    fn key(&self, cells: Option<&Cells<'_>>, row: usize) -> Result<String, Refusal> {
        let prefix = &self.options.prefix;
        let Some(cells) = cells else {
            let KeyFrom::Number(first) = self.options.key else { return Ok(prefix.clone()) };
            return Ok(format!("{prefix}{:010}", first.saturating_add(self.rows - 1)));
        };
        key_text(cells, row)
            .map(|key| format!("{prefix}{key}"))
            .map_err(|problem| self.wrong(cells.name(), problem))
    }

    fn wrong(&self, column: &str, problem: String) -> Refusal {
        Refusal::Cell { column: column.to_owned(), row: self.rows, problem }
    }

    fn document(
        &self,
        columns: &[(String, Cells<'_>)],
        rest: Option<&Cells<'_>>,
        row: usize,
    ) -> Result<Json, Refusal> {
        let mut out = Vec::with_capacity(128);
        out.push(b'{');
        let rest = match rest.filter(|rest| !rest.is_null(row)) {
            Some(rest) => Some(text_of(rest, row).map_err(|problem| self.wrong(rest.name(), problem))?),
            None => None,
        };
        // Of a document that was no object, nothing stands in another column.
        if let Some(whole) = rest.filter(|rest| !rest.starts_with('{')) {
            if let Some((_, odd)) = columns.iter().find(|(_, cells)| !cells.is_null(row)) {
                return Err(self.wrong(
                    odd.name(),
                    "stands beside a document that is no object; make it null".to_owned(),
                ));
            }
            return Ok(whole.parse().map_err(StoreError::from)?);
        }
        let apart = match rest.filter(|_| self.options.nulls == Nulls::Keep) {
            Some(text) => {
                serde_json::from_str(text).map_err(|error| self.wrong("the rest", error.to_string()))?
            }
            None => Members(Vec::new()),
        };
        for (name, cells) in columns {
            // What did not fit left a null in its own column.
            let is_apart = || apart.0.iter().any(|(name, _)| name == cells.name());
            if cells.is_null(row) && (self.options.nulls == Nulls::LeaveOut || is_apart()) {
                continue;
            }
            if out.len() > 1 {
                out.push(b',');
            }
            out.extend_from_slice(name.as_bytes());
            out.push(b':');
            cells.json(row, &mut out).map_err(|problem| self.wrong(cells.name(), problem))?;
        }
        let members = rest.and_then(|rest| rest.strip_prefix('{')?.strip_suffix('}')).map(str::trim);
        if let Some(members) = members.filter(|members| !members.is_empty()) {
            if out.len() > 1 {
                out.push(b',');
            }
            out.extend_from_slice(members.as_bytes());
        }
        out.push(b'}');
        let text = String::from_utf8(out).map_err(|error| self.wrong("key", error.to_string()))?;
        Ok(text.parse().map_err(StoreError::from)?)
    }

    fn commit(&mut self) -> Result<(), Refusal> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let rows = self.waiting.len() as u64;
        self.space.json().set_many(self.waiting.iter().map(|(key, document)| (key, "", document)))?;
        self.waiting.clear();
        self.bytes = 0;
        self.loaded.rows += rows;
        self.loaded.commits += 1;
        Ok(())
    }
}

/// JSON in a column of text, whole in itself.
fn text_of<'a>(cells: &Cells<'a>, row: usize) -> Result<&'a str, String> {
    let text = cells.text(row).ok_or("is not text; give the column with what did not fit")?;
    let raw: &RawValue = serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
    Ok(raw.get())
}

/// The key in a cell: text, or an integer.
pub(super) fn key_text(cells: &Cells<'_>, row: usize) -> Result<String, String> {
    if cells.is_null(row) {
        return Err("is null, and each row needs a key".to_owned());
    }
    if let Some(text) = cells.text(row) {
        return Ok(text.to_owned());
    }
    if !cells.is_integer() {
        return Err("is neither text nor an integer, so it cannot be the key; cast it".to_owned());
    }
    let mut out = Vec::new();
    cells.json(row, &mut out)?;
    String::from_utf8(out).map_err(|error| error.to_string())
}

impl Cells<'_> {
    /// Whether its cells are integers.
    pub(super) fn is_integer(&self) -> bool {
        DataType::is_integer(self.data_type())
    }
}
