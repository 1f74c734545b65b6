//! Two schemas compared.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /v1/branches/{name}/schema-diff`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SchemaDiff {
    /// What the branch is compared with, in words.
    pub from: String,
    /// The branch.
    pub to: String,
    /// What differs, by object.
    pub changes: Vec<SchemaChange>,
    /// What to know before the DDL runs.
    pub warnings: Vec<SchemaWarning>,
    /// The statements that make the first side the second, in the order in which they run.
    pub ddl: Vec<SchemaStatement>,
    /// The same as one script for `psql`, with its transactions and the warnings as comments.
    pub script: String,
    /// Changes and warnings as text.
    pub text: String,
}

/// One object that differs. What belongs to one that was added or removed as a whole is not named apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SchemaChange {
    /// `added`, `removed` or `changed`.
    pub how: String,
    /// What it is: `table`, `column`, `function` ...
    pub kind: String,
    /// Its name, quoted and qualified: `public.orders.total`, `orders_pkey on public.orders`, `public.f(integer)`.
    pub name: String,
    /// What differs, if it was changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<SchemaDifference>,
}

/// One property that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SchemaDifference {
    /// What it is called.
    pub what: String,
    /// Its value in the first side; absent: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Its value in the second side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// Something that a statement does to those who use the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SchemaWarning {
    /// `data loss`, `may fail`, `rewrite`, `lock`, or `by hand` where no statement is written.
    pub risk: String,
    /// What the object is.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// In words.
    pub message: String,
}

/// One statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SchemaStatement {
    /// Its text, without a semicolon at the end.
    pub sql: String,
    /// Whether it runs in the transaction with the others, rather than ahead of it.
    pub in_transaction: bool,
}
