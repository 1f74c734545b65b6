//! What looks personal in a source, and which rules would mask it.

use super::masking::{Mask, Masking};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /v1/sources/{name}/scan`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Scan {
    /// The source.
    pub source: String,
    /// The generation whose copy was looked at.
    pub generation: u32,
    /// Columns that look personal and are not masked.
    pub found: Vec<Finding>,
    /// The rules of the source, with one for each column that was found.
    pub rules: Masking,
}

/// A column, or a value within JSON, that looks personal and is not masked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// Its table, as rules name it.
    pub table: String,
    /// Its column.
    pub column: String,
    /// Where in the column's JSON it lies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What it looks like.
    pub looks_like: Personal,
    /// By what.
    pub why: String,
    /// A rule for it.
    #[schema(value_type = Object)]
    pub rule: Mask,
}

/// What personal data looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Personal {
    /// An e-mail address.
    Email,
    /// A telephone number.
    Phone,
    /// The number of a payment card.
    Card,
    /// An international bank account number.
    Iban,
    /// A person's whole name.
    Name,
    /// A first name.
    FirstName,
    /// A last name.
    LastName,
    /// An address.
    Address,
    /// A street.
    Street,
    /// A town.
    City,
    /// A postal code.
    Zip,
    /// An address in a network.
    Ip,
    /// A number by which a state knows a person.
    NationalId,
    /// A day of birth.
    Birthday,
    /// A password, or what serves as one.
    Secret,
}

impl Personal {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Personal::Email => "e-mail addresses",
            Personal::Phone => "telephone numbers",
            Personal::Card => "card numbers",
            Personal::Iban => "IBANs",
            Personal::Name => "names",
            Personal::FirstName => "first names",
            Personal::LastName => "last names",
            Personal::Address => "addresses",
            Personal::Street => "streets",
            Personal::City => "towns",
            Personal::Zip => "postal codes",
            Personal::Ip => "network addresses",
            Personal::NationalId => "national ids",
            Personal::Birthday => "birthdays",
            Personal::Secret => "secrets",
        }
    }
}
