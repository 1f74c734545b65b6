//! The tools, and what each of them does.

use super::{
    arguments::{self, Branch, Create, Describe, Evidence, Explain, Nothing, Query},
    interface::Interface,
    renewals::{Renewals, TTL_S},
    rows, schema, summary,
};
use duramen_api::model::{CreateBranch, QueryRequest};
use duramen_api::names;
use duramen_base::clock;
use duramen_client::ClientError;
use rmcp::{
    handler::server::tool::schema_for_input,
    model::{JsonObject, Tool, ToolAnnotations},
    schemars::JsonSchema,
};
use serde_json::{json, Value};
use std::{sync::LazyLock, time::Duration};

/// Rows in a reply unless the agent says otherwise, and at most.
const ROWS: u32 = 50;
const ROWS_MAX: u32 = 1000;
/// How long a statement may take unless the agent says otherwise, and at most.
const STATEMENT: Duration = Duration::from_secs(30);
const STATEMENT_MAX: Duration = Duration::from_secs(600);

/// Why a tool did not do what it was asked for. The model is told.
#[derive(Debug)]
pub(super) enum Failure {
    /// The daemon refused, or did not answer.
    Client(ClientError),
    /// Said already: a word for programs, a colon, what is wrong, and what to do.
    Said(String),
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        Failure::Client(error)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Client(ClientError::Refused { body, .. }) => {
                write!(f, "{}: {}", body.code, body.message)?;
                body.sqlstate.as_ref().map_or(Ok(()), |state| write!(f, " (SQLSTATE {state})"))
            }
            Failure::Client(error) => write!(f, "unreachable: {error}"),
            Failure::Said(said) => f.write_str(said),
        }
    }
}

/// What a tool does to branches, for who decides whether the agent may go on by itself.
#[derive(Debug, Clone, Copy)]
enum Effect {
    /// It changes nothing.
    Reads,
    /// It makes something; twice is the same as once if there is a name.
    Makes,
    /// What it takes away in a branch is gone.
    Takes { twice_is_once: bool },
}

/// All tools, in the order in which agents are told of them.
pub(super) static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    vec![
        tool::<Create>(
            "branch_create",
            "Lease a branch: your own writable copy of a source database, ready in milliseconds. Nothing done in it reaches the source.",
            Effect::Makes,
        ),
        tool::<Nothing>("branch_list", "List your branches, and the sources that can be branched.", Effect::Reads),
        tool::<Branch>(
            "branch_url",
            "The connection URL of a branch, for PostgreSQL clients and programs.",
            Effect::Reads,
        ),
        tool::<Query>(
            "query",
            "Run one SQL statement in a branch and commit it. Rows come as {columns, rows}; long results are cut, and say so.",
            Effect::Takes { twice_is_once: false },
        ),
        tool::<Describe>(
            "describe",
            "The tables of a branch in short: columns, types, keys. Name one for its defaults, constraints, indexes and comments.",
            Effect::Reads,
        ),
        tool::<Explain>("explain", "The plan of a statement in a branch. It is not run.", Effect::Reads),
        tool::<Branch>(
            "branch_reset",
            "Put a branch back to the source's data. All that was written in it is lost, and its URL changes.",
            Effect::Takes { twice_is_once: true },
        ),
        tool::<Branch>(
            "branch_destroy",
            "Give a branch back. All that was written in it is lost.",
            Effect::Takes { twice_is_once: true },
        ),
        tool::<Evidence>(
            "branch_evidence",
            "Proof that the source did not change, and what was done in the branch. Reads the whole source: seconds to hours.",
            Effect::Reads,
        ),
    ]
});

fn tool<T: JsonSchema + 'static>(name: &'static str, description: &'static str, effect: Effect) -> Tool {
    let mut input = schema_for_input::<T>().map(|schema| JsonObject::clone(&schema)).unwrap_or_default();
    // The name and the text of the type tell a model nothing.
    for word in ["$schema", "title", "description"] {
        input.remove(word);
    }
    let hints = ToolAnnotations::new().open_world(false);
    let hints = match effect {
        Effect::Reads => hints.read_only(true).destructive(false).idempotent(true),
        Effect::Makes => hints.read_only(false).destructive(false).idempotent(false),
        Effect::Takes { twice_is_once } => hints.read_only(false).destructive(true).idempotent(twice_is_once),
    };
    Tool::new(name, description, input).with_annotations(hints)
}

/// Does what a tool does. `None`: there is no such tool.
pub(super) async fn call(
    interface: &Interface,
    renewals: &Renewals,
    name: &str,
    arguments: Option<JsonObject>,
) -> Option<Result<String, Failure>> {
    Some(match name {
        "branch_create" => create(interface, renewals, arguments).await,
        "branch_list" => list(interface, arguments).await,
        "branch_url" => url(interface, renewals, arguments).await,
        "query" => query(interface, renewals, arguments).await,
        "describe" => describe(interface, renewals, arguments).await,
        "explain" => explain(interface, renewals, arguments).await,
        "branch_reset" => reset(interface, renewals, arguments).await,
        "branch_destroy" => destroy(interface, renewals, arguments).await,
        "branch_evidence" => evidence(interface, renewals, arguments).await,
        _ => return None,
    })
}

/// Reads the arguments of a call.
fn read<T: serde::de::DeserializeOwned>(arguments: Option<JsonObject>) -> Result<T, Failure> {
    arguments::read(arguments).map_err(Failure::Said)
}

/// A name that can be one of a branch: no other gets into a request (M2).
pub(super) fn named(name: &str) -> Result<&str, Failure> {
    names::check("branch", name).map(|()| name).map_err(|error| Failure::Said(format!("bad_name: {error}")))
}

/// Renews the lease of a branch that was used, if it is time for that (M4). A renewal that is refused is no failure of the use.
async fn used(interface: &Interface, renewals: &Renewals, name: &str) {
    let now = clock::now();
    let Some((id, ttl_s)) = renewals.due(name, now) else { return };
    let renewed = async {
        let branch = interface.branch(name).await?;
        let left_s = branch.expires_at.as_second() - clock::utc_now().as_second();
        if branch.id != id {
            renewals.forget(name);
        } else if !branch.protected && left_s < ttl_s {
            interface.renew(name, ttl_s).await?;
        }
        Ok::<(), ClientError>(())
    };
    if let Err(error) = renewed.await {
        tracing::debug!(branch = name, %error, "a branch that an agent used is not renewed");
    }
}

async fn create(
    interface: &Interface,
    renewals: &Renewals,
    arguments: Option<JsonObject>,
) -> Result<String, Failure> {
    let Create { source, name, policy, ttl_s } = read(arguments)?;
    name.as_deref().map(named).transpose()?;
    let mut wanted = CreateBranch {
        source,
        name,
        policy: policy.map(Into::into),
        ttl_s: Some(ttl_s.unwrap_or(TTL_S)),
        ..CreateBranch::default()
    };
    let branch = match interface.create(&wanted).await {
        // A token whose longest lease is shorter: then that one, which is what it gets if it asks for none.
        Err(ClientError::Refused { body, .. }) if ttl_s.is_none() && body.code == "not_allowed" => {
            wanted.ttl_s = None;
            interface.create(&wanted).await?
        }
        created => created?,
    };
    let ttl_s = summary::granted(&branch, ttl_s);
    renewals.note(&branch, ttl_s, clock::now());
    Ok(summary::created(&branch, ttl_s).to_string())
}

async fn list(interface: &Interface, arguments: Option<JsonObject>) -> Result<String, Failure> {
    let Nothing {} = read(arguments)?;
    let (branches, sources) = (interface.branches().await?, interface.sources().await?);
    Ok(summary::list(&branches, &sources).to_string())
}

async fn url(
    interface: &Interface,
    renewals: &Renewals,
    arguments: Option<JsonObject>,
) -> Result<String, Failure> {
    let Branch { branch } = read(arguments)?;
    let view = interface.branch(named(&branch)?).await?;
    used(interface, renewals, &branch).await;
    Ok(summary::url(&view).map_err(Failure::Said)?.to_string())
}

async fn query(
    interface: &Interface,
    renewals: &Renewals,
    arguments: Option<JsonObject>,
) -> Result<String, Failure> {
    let Query { branch, sql, params, max_rows, timeout_ms } = read(arguments)?;
    let max_rows = max_rows.unwrap_or(ROWS);
    let limit = timeout_ms.map_or(STATEMENT, Duration::from_millis);
    if !(1..=ROWS_MAX).contains(&max_rows) || limit.is_zero() || limit > STATEMENT_MAX {
        let (rows, milliseconds) = (ROWS_MAX, STATEMENT_MAX.as_millis());
        let message = format!("bad_arguments: max_rows is 1 to {rows}, timeout_ms 1 to {milliseconds}");
        return Err(Failure::Said(message));
    }
    let request = QueryRequest {
        sql: Some(sql),
        params,
        max_rows: Some(max_rows),
        timeout_ms: u64::try_from(limit.as_millis()).ok(),
        ..QueryRequest::default()
    };
    let reply = interface.query(named(&branch)?, &request, limit).await?;
    used(interface, renewals, &branch).await;
    let result =
        reply.results.first().ok_or_else(|| Failure::Said("the daemon gave no result".to_owned()))?;
    rows::text(result).map_err(Failure::Said)
}

async fn describe(
    interface: &Interface,
    renewals: &Renewals,
    arguments: Option<JsonObject>,
) -> Result<String, Failure> {
    let Describe { branch, table } = read(arguments)?;
    let text = schema::describe(interface, named(&branch)?, table.as_deref()).await?;
    used(interface, renewals, &branch).await;
    Ok(text)
}

async fn explain(
    interface: &Interface,
    renewals: &Renewals,
    arguments: Option<JsonObject>,
) -> Result<String, Failure> {
    let Explain { branch, sql, params } = read(arguments)?;
    let text = schema::explain(interface, named(&branch)?, &sql, params).await?;
    used(interface, renewals, &branch).await;
    Ok(text)
}

async fn reset(
    interface: &Interface,
    renewals: &Renewals,
    arguments: Option<JsonObject>,
) -> Result<String, Failure> {
    let Branch { branch } = read(arguments)?;
    let view = interface.reset(named(&branch)?).await?;
    used(interface, renewals, &branch).await;
    Ok(json!({ "reset": view.name, "source": view.source, "generation": view.generation }).to_string())
}

async fn destroy(
    interface: &Interface,
    renewals: &Renewals,
    arguments: Option<JsonObject>,
) -> Result<String, Failure> {
    let Branch { branch } = read(arguments)?;
    let view = interface.destroy(named(&branch)?).await?;
    renewals.forget(&branch);
    Ok(json!({ "destroyed": view.name }).to_string())
}

async fn evidence(
    interface: &Interface,
    renewals: &Renewals,
    arguments: Option<JsonObject>,
) -> Result<String, Failure> {
    let Evidence { branch, table } = read(arguments)?;
    let found = interface.evidence(named(&branch)?, table.as_deref()).await?;
    used(interface, renewals, &branch).await;
    Ok(Value::to_string(&summary::evidence(&found)))
}
