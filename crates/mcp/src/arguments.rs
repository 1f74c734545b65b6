//! What tools are given. The schemas that agents read are made from these types, and their texts are for models: short.

use duramen_api::model::Policy;
use rmcp::schemars::JsonSchema;
use serde::{de::DeserializeOwned, Deserialize};
use serde_json::{Map, Value};

/// What a branch's holder may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(crate = "rmcp::schemars")]
pub(super) enum PolicyArgument {
    ReadOnly,
    ReadWrite,
    Ddl,
}

impl From<PolicyArgument> for Policy {
    fn from(policy: PolicyArgument) -> Policy {
        match policy {
            PolicyArgument::ReadOnly => Policy::ReadOnly,
            PolicyArgument::ReadWrite => Policy::ReadWrite,
            PolicyArgument::Ddl => Policy::Ddl,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct Create {
    /// The database to copy; may be left out if there is one. branch_list has all.
    pub(super) source: Option<String>,
    /// Name; one is made up if absent. An existing name of yours gives that branch again.
    pub(super) name: Option<String>,
    /// read-write unless said otherwise; ddl to change tables.
    pub(super) policy: Option<PolicyArgument>,
    /// Seconds the branch lasts after its last use: 900 unless said otherwise.
    #[schemars(range(min = 1))]
    pub(super) ttl_s: Option<i64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct Nothing {}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct Branch {
    /// The branch's name.
    pub(super) branch: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct Query {
    /// The branch's name.
    pub(super) branch: String,
    /// Exactly one SQL statement.
    pub(super) sql: String,
    /// Values for $1, $2, ...
    #[serde(default)]
    pub(super) params: Vec<Value>,
    /// 50 unless said otherwise, at most 1000.
    #[schemars(range(min = 1, max = 1000))]
    pub(super) max_rows: Option<u32>,
    /// Milliseconds the statement may take: 30000 unless said otherwise, at most 600000.
    #[schemars(range(min = 1, max = 600_000))]
    pub(super) timeout_ms: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct Explain {
    /// The branch's name.
    pub(super) branch: String,
    /// The statement; it is planned, not run.
    pub(super) sql: String,
    /// Values for $1, $2, ...
    #[serde(default)]
    pub(super) params: Vec<Value>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct Describe {
    /// The branch's name.
    pub(super) branch: String,
    /// `table` or `schema.table`, for all about it; all tables in short if absent.
    pub(super) table: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct Evidence {
    /// The branch's name.
    pub(super) branch: String,
    /// `schema.table`: compare its rows in the source and in the branch too.
    pub(super) table: Option<String>,
}

/// Reads the arguments of a call.
///
/// # Errors
/// What is wrong with them, for the model.
pub(super) fn read<T: DeserializeOwned>(arguments: Option<Map<String, Value>>) -> Result<T, String> {
    serde_json::from_value(Value::Object(arguments.unwrap_or_default()))
        .map_err(|error| format!("bad_arguments: {error}"))
}
