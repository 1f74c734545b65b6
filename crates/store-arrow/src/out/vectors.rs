//! Vectors of a collection, one a row.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, Float32Builder, StringBuilder};
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use duramen_store::{Scope, Space, StoreError};

use super::error::OutError;
use super::options::VectorOptions;
use crate::json_text::json_text;

/// Where the table of vectors is.
pub(crate) struct Vectors {
    schema: SchemaRef,
    options: VectorOptions,
    item: FieldRef,
    dimension: i32,
    after: Option<String>,
    is_over: bool,
}

impl Vectors {
    pub(crate) fn new<S: Scope>(space: &Space<'_, S>, options: &VectorOptions) -> Result<Vectors, OutError> {
        // It is at most 8192.
        let dimension = space.vectors().info(&options.collection)?.dimension as i32;
        let item = Arc::new(Field::new_list_field(DataType::Float32, false));
        let fields = vec![
            Field::new("key", DataType::Utf8, false),
            Field::new("vector", DataType::FixedSizeList(Arc::clone(&item), dimension), false),
            json_text("metadata"),
        ];
        let schema = Arc::new(Schema::new(fields));
        Ok(Vectors { schema, options: options.clone(), item, dimension, after: None, is_over: false })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn next_batch<S: Scope>(
        &mut self,
        space: &Space<'_, S>,
    ) -> Result<Option<RecordBatch>, OutError> {
        if self.is_over {
            return Ok(None);
        }
        let mut keys = StringBuilder::new();
        let mut vectors = FixedSizeListBuilder::new(Float32Builder::new(), self.dimension)
            .with_field(Arc::clone(&self.item));
        let mut metadata = StringBuilder::new();
        let (mut rows, mut bytes, mut last, mut damaged) = (0, 0, None, None);
        let after = self.after.take();
        let (dimension, limits) = (self.dimension as usize, self.options.limits);
        let collection = space.vectors().collection(&self.options.collection);
        collection.scan(&self.options.prefix, after.as_deref(), |key, row| {
            let text = row.metadata_bytes().map(std::str::from_utf8).transpose();
            let (Ok(text), true) = (text, row.dimension() == dimension) else {
                damaged = Some(format!("the row of vector {key:?} cannot be read"));
                return ControlFlow::Break(());
            };
            keys.append_value(key);
            row.elements().for_each(|element| vectors.values().append_value(element));
            vectors.append(true);
            metadata.append_option(text);
            rows += 1;
            bytes += key.len() + 4 * dimension + text.map_or(0, str::len);
            if limits.is_full(rows, bytes) {
                last = Some(key.to_owned());
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        if let Some(damaged) = damaged {
            return Err(StoreError::Damaged(damaged).into());
        }
        self.is_over = last.is_none();
        self.after = last;
        if rows == 0 {
            return Ok(None);
        }
        let arrays: Vec<arrow_array::ArrayRef> =
            vec![Arc::new(keys.finish()), Arc::new(vectors.finish()), Arc::new(metadata.finish())];
        Ok(Some(RecordBatch::try_new(Arc::clone(&self.schema), arrays)?))
    }
}
