//! Events, one a row.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::builder::{StringBuilder, TimestampMillisecondBuilder, UInt64Builder};
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use duramen_store::{Scope, Space};

use super::error::OutError;
use super::options::EventOptions;
use crate::json_text::json_text;

/// Where the table of events is.
pub(crate) struct Events {
    schema: SchemaRef,
    options: EventOptions,
    /// The number of the next event; none at the end.
    next: Option<u64>,
}

impl Events {
    pub(crate) fn new(options: &EventOptions) -> Events {
        let at = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
        let fields = vec![
            Field::new("seq", DataType::UInt64, false),
            Field::new("type", DataType::Utf8, false),
            Field::new("at", at, false),
            json_text("payload").with_nullable(false),
        ];
        Events { schema: Arc::new(Schema::new(fields)), options: options.clone(), next: Some(options.from) }
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn next_batch<S: Scope>(
        &mut self,
        space: &Space<'_, S>,
    ) -> Result<Option<RecordBatch>, OutError> {
        let Some(from) = self.next.take() else { return Ok(None) };
        let (mut seqs, mut types) = (UInt64Builder::new(), StringBuilder::new());
        let mut times = TimestampMillisecondBuilder::new().with_timezone("UTC");
        let mut payloads = StringBuilder::new();
        let (mut rows, mut bytes) = (0, 0);
        let (wanted, limits) = (self.options.event_type.as_deref(), self.options.limits);
        space.events().scan(from.., |event| {
            if wanted.is_some_and(|wanted| wanted != event.event_type) {
                return ControlFlow::Continue(());
            }
            seqs.append_value(event.seq);
            types.append_value(&event.event_type);
            times.append_value(event.at_ms);
            payloads.append_value(event.payload.as_str());
            rows += 1;
            bytes += 16 + event.event_type.len() + event.payload.as_str().len();
            if limits.is_full(rows, bytes) {
                self.next = event.seq.checked_add(1);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        if rows == 0 {
            return Ok(None);
        }
        Ok(Some(RecordBatch::try_new(
            Arc::clone(&self.schema),
            vec![
                Arc::new(seqs.finish()),
                Arc::new(types.finish()),
                Arc::new(times.finish()),
                Arc::new(payloads.finish()),
            ],
        )?))
    }
}
