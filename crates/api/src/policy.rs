//! What a branch's holder may do in it.

use serde::{de::Error as _, Deserialize, Deserializer, Serialize, Serializer};
use std::{borrow::Cow, fmt, str::FromStr};
use utoipa::{
    openapi::{schema::SchemaType, ObjectBuilder, RefOr, Schema, Type},
    PartialSchema, ToSchema,
};

/// The longest name of a role, in bytes.
const ROLE_NAME_MAX: usize = 63;
/// What stands before the name of a role where a policy is written.
const ROLE_PREFIX: &str = "role:";

/// What a branch's holder may do. Decided when the branch's server starts, never changed after. It is written
/// `read-only`, `read-write`, `ddl`, or `role:NAME`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Policy {
    /// Reads only; not even temporary tables.
    ReadOnly,
    /// Reads and writes rows; no DDL but temporary tables.
    #[default]
    ReadWrite,
    /// Everything that needs no superuser: schemas, tables, indexes, functions.
    Ddl,
    /// What a login role of the source may do there, with its row-level security and settings.
    Role(RoleName),
}

impl Policy {
    /// The policies that every source has.
    pub const ALL: [Policy; 3] = [Policy::ReadOnly, Policy::ReadWrite, Policy::Ddl];

    /// The word for it; `role` for all of those that are a role's.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Policy::ReadOnly => "read-only",
            Policy::ReadWrite => "read-write",
            Policy::Ddl => "ddl",
            Policy::Role(_) => "role",
        }
    }

    /// The database role that holders of such a branch are.
    #[must_use]
    pub fn role(&self) -> &str {
        match self {
            Policy::ReadOnly => "duramen_read",
            Policy::ReadWrite => "duramen_write",
            Policy::Ddl => "duramen_ddl",
            Policy::Role(name) => name.as_str(),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Role(name) => write!(f, "{ROLE_PREFIX}{name}"),
            policy => f.write_str(policy.name()),
        }
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Policy, String> {
        if let Some(name) = text.strip_prefix(ROLE_PREFIX) {
            return name.parse().map(Policy::Role);
        }
        Policy::ALL.into_iter().find(|policy| policy.name() == text).ok_or_else(|| {
            format!("{text:?} is not a policy; choose read-only, read-write, ddl or role:NAME")
        })
    }
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Policy, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl PartialSchema for Policy {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::new(Type::String))
            .description(Some(
                "What a branch's holder may do in it: `read-only`, `read-write`, `ddl`, or `role:NAME`.",
            ))
            .pattern(Some("^(read-only|read-write|ddl|role:.{1,63})$"))
            .build()
            .into()
    }
}

impl ToSchema for Policy {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Policy")
    }
}

/// The name of a role, in place: a policy is copied wherever a branch goes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RoleName {
    /// Text up to the first zero byte.
    bytes: [u8; ROLE_NAME_MAX],
}

impl RoleName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let end = self.bytes.iter().position(|byte| *byte == 0).unwrap_or(ROLE_NAME_MAX);
        // It was text when it came in.
        std::str::from_utf8(&self.bytes[..end]).unwrap_or_default()
    }
}

impl FromStr for RoleName {
    type Err = String;

    fn from_str(name: &str) -> Result<RoleName, String> {
        let wrong = |what: &str| format!("{name:?} cannot be the name of a role: {what}");
        if name.is_empty() {
            return Err(wrong("it is empty"));
        }
        if name.contains('\0') {
            return Err(wrong("it holds a zero byte"));
        }
        let mut bytes = [0; ROLE_NAME_MAX];
        bytes
            .get_mut(..name.len())
            .ok_or_else(|| wrong(&format!("it is longer than {ROLE_NAME_MAX} bytes")))?
            .copy_from_slice(name.as_bytes());
        Ok(RoleName { bytes })
    }
}

impl fmt::Display for RoleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for RoleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_policy_is_written_as_it_is_read() {
        let longest = format!("role:{}", "x".repeat(ROLE_NAME_MAX));
        for text in
            ["read-only", "read-write", "ddl", "role:app", "role:A \"b\"=c", "role:read-only", &longest]
        {
            let policy: Policy = text.parse().unwrap();
            assert_eq!(policy.to_string(), text);
            let sizes = BTreeMap::from([(policy, 1)]);
            let json = serde_json::to_string(&sizes).unwrap();
            assert_eq!(serde_json::from_str::<BTreeMap<Policy, u32>>(&json).unwrap(), sizes);
        }
        for text in ["", "role", "role:", "role:a\0b", "Ddl", &format!("{longest}x")] {
            assert!(text.parse::<Policy>().is_err(), "{text}");
        }
    }
}
