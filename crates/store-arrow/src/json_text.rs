//! Columns whose texts are JSON: Arrow has an extension type for them, and Parquet a logical type.

use std::collections::HashMap;

use arrow_schema::extension::{EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY};
use arrow_schema::{DataType, Field};

/// The name of the extension type.
const JSON: &str = "arrow.json";

/// A column of JSON text, which may be null: Arrow's extension type `arrow.json`.
///
/// ```
/// use duramen_store_arrow::{is_json_text, json_text};
/// assert!(is_json_text(&json_text("payload")));
/// ```
pub fn json_text(name: impl Into<String>) -> Field {
    let metadata = [(EXTENSION_TYPE_NAME_KEY, JSON), (EXTENSION_TYPE_METADATA_KEY, "")];
    let metadata: HashMap<String, String> =
        metadata.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Field::new(name, DataType::Utf8, true).with_metadata(metadata)
}

/// Whether the texts of a column are JSON.
pub fn is_json_text(field: &Field) -> bool {
    let is_text = matches!(field.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    is_text && field.metadata().get(EXTENSION_TYPE_NAME_KEY).is_some_and(|name| name == JSON)
}
