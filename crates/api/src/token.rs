//! Tokens: who may enter by the doors, and what each of them may there.

use crate::model::Policy;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What tokens may have unless they say otherwise.
const BRANCHES_DEFAULT: u32 = 20;
const CONNECTIONS_DEFAULT: u32 = 100;

/// What the holder of a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Everything with every branch of its sources.
    Admin,
    /// Create branches, enter those that it created, and end them.
    #[default]
    User,
    /// See what there is, and enter nothing.
    Viewer,
}

/// `POST /v1/tokens`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CreateToken {
    /// Its name: the user name that clients give.
    pub name: String,
    /// What its holder may do.
    pub role: Role,
    /// Of which sources. None: of all.
    pub sources: Vec<String>,
    /// Under which policies. None: `read-only`, `read-write` and `ddl`.
    pub policies: Vec<Policy>,
    /// How many branches it may hold at a time. `None`: 20.
    pub max_branches: Option<u32>,
    /// How many connections it may have at a time. `None`: 100.
    pub max_connections: Option<u32>,
    /// The longest lease that it may ask for, in seconds. `None`: as long as anybody.
    pub max_ttl_s: Option<i64>,
    /// When it ends. `None`: when it is revoked.
    pub expires_at: Option<Timestamp>,
}

/// A token, as it is kept and shown. It holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Its id, which outlives the name: branches belong to it.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What its holder may do.
    pub role: Role,
    /// Of which sources; none: of all.
    pub sources: Vec<String>,
    /// Under which policies.
    pub policies: Vec<Policy>,
    /// How many branches it may hold at a time.
    pub max_branches: u32,
    /// How many connections it may have at a time.
    pub max_connections: u32,
    /// The longest lease that it may ask for, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ttl_s: Option<i64>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// The reply to a create and a rotation: the only one that shows the secret.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct NewToken {
    /// What it may.
    pub token: Token,
    /// Its secret.
    pub secret: String,
}

impl std::fmt::Debug for NewToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewToken").field("token", &self.token).finish_non_exhaustive()
    }
}

/// Why a token's holder may not do something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Forbidden {
    /// It may only look.
    #[error("the token {token} may look, but not create or enter branches; it needs the role user")]
    Role {
        /// Its name.
        token: String,
    },
    /// Another source.
    #[error("the token {token} may not use the source {source_name}; its sources: {}", sources.join(", "))]
    Source {
        /// Its name.
        token: String,
        /// The source that was asked for.
        source_name: String,
        /// Those that it may use.
        sources: Vec<String>,
    },
    /// Another policy.
    #[error("the token {token} may not have {policy} branches; its policies: {}", words(policies))]
    Policy {
        /// Its name.
        token: String,
        /// The policy that was asked for.
        policy: Policy,
        /// Those that it may have.
        policies: Vec<Policy>,
    },
    /// A lease that is too long.
    #[error("the token {token} may lease a branch for {max_s} s at most, and {asked_s} s were asked for")]
    Ttl {
        /// Its name.
        token: String,
        /// What was asked for, in seconds.
        asked_s: i64,
        /// The most that it may, in seconds.
        max_s: i64,
    },
}

fn words(policies: &[Policy]) -> String {
    policies.iter().map(Policy::to_string).collect::<Vec<_>>().join(", ")
}

impl Token {
    /// A token that is made now.
    #[must_use]
    pub fn new(id: String, wanted: CreateToken, created_at: Timestamp) -> Token {
        let policies = if wanted.policies.is_empty() { Policy::ALL.to_vec() } else { wanted.policies };
        Token {
            id,
            name: wanted.name,
            role: wanted.role,
            sources: wanted.sources,
            policies,
            max_branches: wanted.max_branches.unwrap_or(BRANCHES_DEFAULT),
            max_connections: wanted.max_connections.unwrap_or(CONNECTIONS_DEFAULT),
            max_ttl_s: wanted.max_ttl_s,
            created_at,
            expires_at: wanted.expires_at,
        }
    }

    /// Whether its time is over.
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Whether its holder may create or enter a branch of a source under a policy.
    ///
    /// # Errors
    /// What it may not.
    pub fn may_use(&self, source: &str, policy: Policy) -> Result<(), Forbidden> {
        if self.role == Role::Viewer {
            return Err(Forbidden::Role { token: self.name.clone() });
        }
        if !self.sources.is_empty() && !self.sources.iter().any(|name| name == source) {
            return Err(Forbidden::Source {
                token: self.name.clone(),
                source_name: source.to_owned(),
                sources: self.sources.clone(),
            });
        }
        if !self.policies.contains(&policy) {
            return Err(Forbidden::Policy {
                token: self.name.clone(),
                policy,
                policies: self.policies.clone(),
            });
        }
        Ok(())
    }

    /// How long a lease of its holder lasts, in seconds: what was asked for, or `usual` if that is not too long.
    ///
    /// # Errors
    /// When more was asked for than it may.
    pub fn ttl(&self, asked_s: Option<i64>, usual: i64) -> Result<i64, Forbidden> {
        match (asked_s, self.max_ttl_s) {
            (Some(asked_s), Some(max_s)) if asked_s > max_s => {
                Err(Forbidden::Ttl { token: self.name.clone(), asked_s, max_s })
            }
            (Some(asked_s), _) => Ok(asked_s),
            (None, max_s) => Ok(max_s.unwrap_or(usual).min(usual)),
        }
    }
}
