//! Results of SQL steps, made from the rows as the server's `row_to_json` wrote them.
//!
//! The server's text is nearly right, so most results pass through untouched. Corrected are: `numeric`, a string here so
//! that no reader rounds it; floats that are not numbers, null here and strings there; `void`; and columns of one
//! name, where the last one wins at the place of the first.

use std::collections::HashMap;
use std::fmt::Write;

use tokio_postgres::types::{Kind, Type};

use crate::json::{self, Json};

/// Rows that do not fit their description.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResultError {
    /// The rows are not a JSON array of objects.
    #[error("the rows of a result are not a JSON array of objects: report this with the statement")]
    NotRows,
    /// A row has more or fewer members than the description has columns.
    #[error(
        "a row of the result has {found} columns and its description has {expected}: \
         if the tables of the statement were just altered, start the instance again"
    )]
    Columns {
        /// Members of the row.
        found: usize,
        /// Columns of the description.
        expected: usize,
    },
    /// The binary form of the first row ends in the middle.
    #[error(
        "the description of a result is cut off after {columns} columns: report this with the statement"
    )]
    CutOff {
        /// Columns that could be read.
        columns: usize,
    },
}

/// One column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, as the description of the statement gives it. Not unique.
    pub name: String,
    /// The oid of its declared type.
    pub type_oid: u32,
    /// What has to be done to its values.
    pub kind: ColumnKind,
}

impl Column {
    /// The column `name` of a type.
    ///
    /// ```
    /// use duramen_functions::result::{Column, ColumnKind};
    /// let column = Column::new("total", &tokio_postgres::types::Type::NUMERIC);
    /// assert_eq!((column.type_oid, column.kind), (1700, ColumnKind::Numeric));
    /// ```
    pub fn new(name: impl Into<String>, column_type: &Type) -> Self {
        Self { name: name.into(), type_oid: column_type.oid(), kind: ColumnKind::from_type(column_type) }
    }
}

/// What has to be done to the values of a type, in the JSON that the server makes of them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ColumnKind {
    /// Nothing: the server's JSON is what we give out.
    Plain,
    /// A JSON number there, a string with the same digits here.
    Numeric,
    /// `NaN` and the infinities are strings there, null here.
    Float,
    /// Empty text there, null here.
    Void,
    /// An array of any number of dimensions, whose elements are of a kind that is not plain.
    Array(Box<ColumnKind>),
    /// A composite type with a field that is not plain: its fields, in order.
    Composite(Vec<Column>),
}

impl ColumnKind {
    /// The kind of a type. Domains count as their base type.
    pub fn from_type(column_type: &Type) -> Self {
        match column_type.kind() {
            Kind::Domain(base) => Self::from_type(base),
            Kind::Array(element) => match Self::from_type(element) {
                Self::Plain => Self::Plain,
                element => Self::Array(Box::new(element)),
            },
            Kind::Composite(fields) => {
                let fields: Vec<Column> =
                    fields.iter().map(|field| Column::new(field.name(), field.type_())).collect();
                match fields.iter().all(|field| field.kind == Self::Plain) {
                    true => Self::Plain,
                    false => Self::Composite(fields),
                }
            }
            _ if *column_type == Type::NUMERIC => Self::Numeric,
            _ if *column_type == Type::FLOAT4 || *column_type == Type::FLOAT8 => Self::Float,
            _ if *column_type == Type::VOID => Self::Void,
            _ => Self::Plain,
        }
    }
}

/// The result `{"rows":[..],"row_count":n}` of a statement that returns rows.
///
/// `rows_json_array` is a JSON array with what `row_to_json` made of each row, `columns` the description of the
/// statement. The order of columns and the digits of numbers stay.
///
/// ```
/// use duramen_functions::result::{typed_rows, Column};
/// use tokio_postgres::types::Type;
/// let columns = [Column::new("id", &Type::INT8), Column::new("price", &Type::NUMERIC)];
/// let result = typed_rows(r#"[{"id":1,"price":1.50}]"#, &columns, 1)?;
/// assert_eq!(result.text(), r#"{"rows":[{"id":1,"price":"1.50"}],"row_count":1}"#);
/// # Ok::<(), duramen_functions::result::ResultError>(())
/// ```
///
/// # Errors
/// [`ResultError`] when the rows do not fit the columns. Rows in which nothing is to fix are not looked at.
pub fn typed_rows(rows_json_array: &str, columns: &[Column], row_count: u64) -> Result<Json, ResultError> {
    let mut text = String::with_capacity(rows_json_array.len() + 40 + 2 * columns.len());
    text.push_str(r#"{"rows":"#);
    let layout = Layout::new(columns);
    if layout.plain {
        text.push_str(rows_json_array);
    } else {
        layout.rows(rows_json_array, &mut text)?;
    }
    let _ = write!(text, r#","row_count":{row_count}}}"#);
    Ok(Json::from_valid(text))
}

/// How the members of one row, or of one value of a composite type, are written.
struct Layout<'a> {
    columns: &'a [Column],
    /// Nothing has to be fixed.
    plain: bool,
    /// For each column the place at which it is written, where two have one name.
    places: Option<Vec<usize>>,
}

impl<'a> Layout<'a> {
    fn new(columns: &'a [Column]) -> Self {
        let places = places(columns);
        let plain = places.is_none() && columns.iter().all(|column| column.kind == ColumnKind::Plain);
        Self { columns, plain, places }
    }

    fn rows(&self, rows: &str, out: &mut String) -> Result<(), ResultError> {
        let rows = json::elements(rows).ok_or(ResultError::NotRows)?;
        // Names are escaped once, not once a row.
        let names: Vec<String> = self.columns.iter().map(|column| json::quoted(&column.name)).collect();
        out.push('[');
        for (index, row) in rows.into_iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            self.object(row, &names, out)?;
        }
        out.push(']');
        Ok(())
    }

    fn object(&self, object: &str, names: &[String], out: &mut String) -> Result<(), ResultError> {
        let values = json::values(object).ok_or(ResultError::NotRows)?;
        if values.len() != self.columns.len() {
            return Err(ResultError::Columns { found: values.len(), expected: self.columns.len() });
        }
        let mut order: Vec<usize> = (0..values.len()).collect();
        if let Some(places) = &self.places {
            // Later columns overwrite earlier ones.
            for (index, place) in places.iter().enumerate() {
                order[*place] = index;
            }
            order.retain({
                let mut index = 0;
                move |_| {
                    index += 1;
                    places[index - 1] == index - 1
                }
            });
        }
        out.push('{');
        for (index, from) in order.into_iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            out.push_str(&names[from]);
            out.push(':');
            fix(values[from], &self.columns[from].kind, out)?;
        }
        out.push('}');
        Ok(())
    }
}

/// For each column the first column of its name; `None` when every name is there once.
fn places(columns: &[Column]) -> Option<Vec<usize>> {
    const FEW: usize = 16;
    let name = |index: usize| columns[index].name.as_str();
    if columns.len() <= FEW && (1..columns.len()).all(|i| (0..i).all(|before| name(before) != name(i))) {
        return None;
    }
    let mut first = HashMap::with_capacity(columns.len());
    let places: Vec<usize> =
        (0..columns.len()).map(|index| *first.entry(name(index)).or_insert(index)).collect();
    (first.len() < columns.len()).then_some(places)
}

/// Writes one value of the kind.
fn fix(value: &str, kind: &ColumnKind, out: &mut String) -> Result<(), ResultError> {
    match (kind, value.as_bytes().first()) {
        (ColumnKind::Numeric, Some(b'-' | b'0'..=b'9')) => {
            out.push('"');
            out.push_str(value);
            out.push('"');
        }
        (ColumnKind::Float | ColumnKind::Void, Some(b'"')) => out.push_str("null"),
        (ColumnKind::Array(element), Some(b'[')) => {
            out.push('[');
            for (index, value) in json::elements(value).ok_or(ResultError::NotRows)?.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                // Further dimensions are arrays again, of the same kind; no other kind's values are arrays.
                let kind = if value.starts_with('[') { kind } else { element };
                fix(value, kind, out)?;
            }
            out.push(']');
        }
        (ColumnKind::Composite(fields), Some(b'{')) => {
            let names: Vec<String> = fields.iter().map(|field| json::quoted(&field.name)).collect();
            Layout::new(fields).object(value, &names, out)?;
        }
        _ => out.push_str(value),
    }
    Ok(())
}

/// The result of a statement without result columns: no rows, and how many it affected.
///
/// ```
/// assert_eq!(duramen_functions::result::affected(3).text(), r#"{"rows":[],"row_count":3}"#);
/// ```
pub fn affected(row_count: u64) -> Json {
    Json::from_valid(format!(r#"{{"rows":[],"row_count":{row_count}}}"#))
}

#[cfg(test)]
mod tests;
