//! The built-in types whose values rules can read and make, and how these travel between a server and this program.

/// A built-in type, or several that rules see as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Text of at most so many characters.
    Text(Option<u32>),
    Int2,
    Int4,
    Int8,
    Uuid,
    Bytes,
    Numeric,
    Float4,
    Float8,
    Date,
    /// Both with a zone and without one: microseconds, either way.
    Timestamp {
        zoned: bool,
    },
    Json,
    Jsonb,
}

/// The types that can be hashed, in words.
pub(super) const HASHABLE: &str =
    "text, varchar, char, smallint, integer, bigint, uuid, bytea, and domains over them";

/// The type that pads with blanks, which no value has at its end.
pub(super) const PADDED: u32 = 1042;

impl Class {
    /// That of a built-in type, by its id and modifier.
    pub(super) fn of(type_id: u32, modifier: i32) -> Option<Class> {
        Some(match type_id {
            // Modifiers of character types count four bytes more than characters.
            25 | PADDED | 1043 => Class::Text(u32::try_from(modifier - 4).ok()),
            21 => Class::Int2,
            23 => Class::Int4,
            20 => Class::Int8,
            2950 => Class::Uuid,
            17 => Class::Bytes,
            1700 => Class::Numeric,
            700 => Class::Float4,
            701 => Class::Float8,
            1082 => Class::Date,
            1114 => Class::Timestamp { zoned: false },
            1184 => Class::Timestamp { zoned: true },
            114 => Class::Json,
            3802 => Class::Jsonb,
            _ => return None,
        })
    }

    pub(super) fn is_hashable(self) -> bool {
        use Class::{Bytes, Int2, Int4, Int8, Text, Uuid};
        matches!(self, Text(_) | Int2 | Int4 | Int8 | Uuid | Bytes)
    }

    pub(super) fn is_text(self) -> bool {
        matches!(self, Class::Text(_))
    }

    pub(super) fn is_number(self) -> bool {
        use Class::{Float4, Float8, Int2, Int4, Int8, Numeric};
        matches!(self, Int2 | Int4 | Int8 | Numeric | Float4 | Float8)
    }

    pub(super) fn is_time(self) -> bool {
        matches!(self, Class::Date | Class::Timestamp { .. })
    }

    /// The built-in type in which masked values are kept until they are in their column.
    pub(super) fn type_name(self) -> &'static str {
        match self {
            Class::Text(_) => "pg_catalog.text",
            Class::Int2 => "pg_catalog.int2",
            Class::Int4 => "pg_catalog.int4",
            Class::Int8 => "pg_catalog.int8",
            Class::Uuid => "pg_catalog.uuid",
            Class::Bytes => "pg_catalog.bytea",
            Class::Numeric => "pg_catalog.numeric",
            Class::Float4 => "pg_catalog.float4",
            Class::Float8 => "pg_catalog.float8",
            Class::Date => "pg_catalog.date",
            Class::Timestamp { zoned: false } => "pg_catalog.timestamp",
            Class::Timestamp { zoned: true } => "pg_catalog.timestamptz",
            Class::Json => "pg_catalog.json",
            Class::Jsonb => "pg_catalog.jsonb",
        }
    }

    /// A column of the class as its built-in type.
    pub(super) fn plain(self, column: &str) -> String {
        format!("{column}::{}", self.type_name())
    }

    /// What is read of a column that is hashed: text as the bytes that it has in its database, whatever they are.
    pub(super) fn raw(self, column: &str) -> String {
        match self {
            Class::Text(_) => {
                format!("pg_catalog.convert_to({column}::pg_catalog.text, pg_catalog.getdatabaseencoding())")
            }
            _ => self.plain(column),
        }
    }
}
