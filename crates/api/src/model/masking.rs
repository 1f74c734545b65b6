//! The rules by which values of a source are replaced, or rows left out, before any branch of it exists.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The masking rules of a source. An empty object (`{}`) leaves only the labels of PostgreSQL Anonymizer as rules.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Masking {
    /// What becomes of columns, by `schema.table` (names as in SQL) and column. A rule for a partitioned table or a parent
    /// is one for all that inherit from it.
    pub columns: BTreeMap<String, BTreeMap<String, Mask>>,
    /// Conditions in SQL, by `schema.table`: rows that do not meet theirs are removed, and with them the rows whose
    /// foreign keys refer to them.
    pub rows: BTreeMap<String, String>,
    /// Which part of the rows is kept, by foreign keys. Applied to what the conditions leave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subset: Option<Subset>,
}

/// What becomes of the values of a column. Null stays null under all of them but `constant` and `sql`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mask {
    /// They become null.
    Null,
    /// A pseudonym that cannot be computed without the home's key. Equal values stay equal in all columns of the same type.
    Hash,
    /// They are kept, whatever label the column has.
    Keep,
    /// All of them become this one, written as in SQL without its quotes.
    Constant(String),
    /// Texts: letters become other letters, digits other digits, the rest stays. Different values stay different.
    Shape,
    /// Texts: as `shape`, and the top-level domain becomes one that is never assigned.
    Email,
    /// Texts: as `shape`, but a country code and leading zeros stay.
    Phone,
    /// Texts: as `shape`, but the issuer's six digits stay, and the check digit is right if it was right.
    Card,
    /// Texts: as `shape`, but the country stays, and the check digits are right if they were right.
    Iban,
    /// Texts: something made up, the same for the same value. Different values may become equal, except in unique columns.
    Fake(Fake),
    /// The column's values are dealt out to other rows. They stay what they are.
    Shuffle,
    /// Numbers: a little more or less, the same for the same value. The sign stays.
    Noise(Noise),
    /// Dates and times: all of one person are moved by the same number of days.
    Shift(Shift),
    /// Numbers, dates, times and texts: coarser.
    Generalise(Generalise),
    /// JSON: what becomes of the values at these paths (`$.email`, `$.phones[*].number`, `$."odd key"`). `json`, `jsonb` or
    /// texts that hold JSON. The values themselves take `null`, `hash`, `constant`, `shape`, `email`, `phone`, `card`, `iban` and
    /// `fake`, and become texts.
    #[schema(no_recursion, value_type = BTreeMap<String, Object>)]
    Json(BTreeMap<String, Mask>),
    /// An expression in SQL over the columns of the row, evaluated with read access only.
    Sql(String),
}

/// What is made up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fake {
    /// `Anna Meyer`
    Name,
    /// `Anna`
    FirstName,
    /// `Meyer`
    LastName,
    /// `Meyer and Sons`
    Company,
    /// `112 Meyer Street, 20411 Port Anna`
    Address,
    /// `112 Meyer Street`
    Street,
    /// `Port Anna`
    City,
    /// `20411`
    Zip,
    /// `Switzerland`
    Country,
}

/// How far a number is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Noise {
    /// By at most so many hundredths of it, and by one unit of its last place at least where that is less.
    Percent(u32),
    /// By at most so much.
    By(u32),
}

/// How far the dates of a person are moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Shift {
    /// By one to so many days, to either side.
    pub days: u32,
    /// The column of the same table that says whose date it is. Equal persons of all tables are moved equally.
    pub person: String,
}

/// How values get coarser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Generalise {
    /// Numbers: down to a multiple of this one.
    Bucket(u32),
    /// Dates and times: the beginning of the unit that they lie in.
    To(Unit),
    /// Texts: their first so many characters.
    Prefix(u32),
}

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// It begins on the first of January.
    Year,
    /// It begins on the first.
    Month,
    /// In times with a zone, days are those of UTC.
    Day,
    /// 60 minutes.
    Hour,
}

/// A part of the rows: some of one table, what belongs to them, and what all of these refer to. Tables that no chain of foreign
/// keys connects with that table keep all their rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Subset {
    /// The table to begin with (`schema.table`, names as in SQL).
    pub table: String,
    /// How many of its rows in a hundred, the same ones each time. Either this or `where`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub percent: Option<Percent>,
    /// A condition in SQL for its rows, evaluated with read access only.
    #[serde(rename = "where", default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// Tables of which all rows are kept, with what these refer to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<String>,
}

/// A share, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percent(u32);

impl Percent {
    /// The whole.
    pub const WHOLE: u32 = 1_000_000;

    /// How many millionths it is: between 1 and [`Percent::WHOLE`].
    #[must_use]
    pub fn millionths(self) -> u32 {
        self.0
    }
}

impl Serialize for Percent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(f64::from(self.0) / 1e4)
    }
}

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Percent, D::Error> {
        let percent = f64::deserialize(deserializer)?;
        let millionths = (percent * 1e4).round();
        if !(1.0..=f64::from(Percent::WHOLE)).contains(&millionths) {
            return Err(serde::de::Error::custom(
                "percent is more than 0 (0.0001 at least), and 100 at most",
            ));
        }
        // Within the range just looked at.
        Ok(Percent(millionths as u32))
    }
}

impl std::fmt::Display for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Mask::Null => "null",
            Mask::Hash => "hash",
            Mask::Keep => "keep",
            Mask::Constant(_) => "constant",
            Mask::Shape => "shape",
            Mask::Email => "email",
            Mask::Phone => "phone",
            Mask::Card => "card",
            Mask::Iban => "iban",
            Mask::Fake(_) => "fake",
            Mask::Shuffle => "shuffle",
            Mask::Noise(_) => "noise",
            Mask::Shift(_) => "shift",
            Mask::Generalise(_) => "generalise",
            Mask::Json(_) => "json",
            Mask::Sql(_) => "sql",
        })
    }
}
