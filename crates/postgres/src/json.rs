//! PostgreSQL text values as typed JSON, written straight into a buffer.
//!
//! Integers and finite floats become numbers, booleans `true`/`false`, `json` and `jsonb` are embedded as they
//! are, SQL NULL is `null`; everything else (numeric too, so that no digit is lost) is a string in PostgreSQL's
//! own text form.

use postgres_types::Type;

/// How values of a column are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Integer,
    Float,
    Boolean,
    Json,
    Text,
}

impl Kind {
    pub(crate) fn of_type(oid: u32) -> Kind {
        match Type::from_oid(oid) {
            Some(Type::INT2 | Type::INT4 | Type::INT8 | Type::OID) => Kind::Integer,
            Some(Type::FLOAT4 | Type::FLOAT8) => Kind::Float,
            Some(Type::BOOL) => Kind::Boolean,
            Some(Type::JSON | Type::JSONB) => Kind::Json,
            _ => Kind::Text,
        }
    }
}

/// The name of a type for people: `int4`, `text`, or `oid 16385` for a type of the database's own.
pub(crate) fn type_name(oid: u32) -> String {
    Type::from_oid(oid).map_or_else(|| format!("oid {oid}"), |known| known.name().to_owned())
}

/// Appends one value.
pub(crate) fn write_value(out: &mut Vec<u8>, kind: Kind, value: Option<&[u8]>) {
    let Some(bytes) = value else {
        out.extend_from_slice(b"null");
        return;
    };
    match kind {
        Kind::Integer => out.extend_from_slice(bytes),
        // NaN and Infinity are not JSON numbers.
        Kind::Float if bytes.iter().all(|b| matches!(b, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E')) => {
            out.extend_from_slice(bytes);
        }
        Kind::Boolean => out.extend_from_slice(if bytes == b"t" { b"true" } else { b"false" }),
        Kind::Json if serde_json::from_slice::<&serde_json::value::RawValue>(bytes).is_ok() => {
            out.extend_from_slice(bytes);
        }
        Kind::Float | Kind::Json | Kind::Text => write_string(out, &String::from_utf8_lossy(bytes)),
    }
}

/// Appends a JSON string.
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    // Writing a string into a vector cannot fail.
    let _ = serde_json::to_writer(out, text);
}

#[cfg(test)]
#[path = "../tests/unit/json_values.rs"]
mod tests;
