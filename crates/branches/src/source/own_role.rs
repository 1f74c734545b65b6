//! Branches that are entered as a login role of the source: which roles can be, and what such a branch is given back of
//! what was taken while its snapshot was made harmless.
//!
//! A snapshot takes the rights of PUBLIC to write, and has functions run with their caller's rights, because under the
//! other policies both would do what a policy forbids. Under a role of the source nothing is forbidden but what the source
//! forbids it, so such a branch gets both back before its holder is let in. Nothing of that reaches out: no owner of a
//! function is a superuser any more, and what belongs to extensions, or was closed to everybody, stays so.

use super::sanitise::Stilled;
use duramen_postgres::{quote_identifier, Secret};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
};
use tokio_postgres::{Client, Error};

/// Why a superuser of the source is no role for a branch.
const WAS_SUPERUSER: &str =
    "it is a superuser in the source, and there is none in a branch: use `--policy ddl`, which may do all that needs no superuser";

/// The login roles of a source, and what its branches under one of them are given back.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct OwnRoles {
    /// By name; with why no branch can be entered as it, if that is so.
    roles: BTreeMap<String, Option<String>>,
    /// Statements of an administrator, in this order, in the database that branches serve.
    give_back: Vec<String>,
}

/// Whether a branch can be entered as a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    Usable,
    Refused(String),
    Unknown,
}

impl OwnRoles {
    pub(crate) fn new(roles: BTreeMap<String, Option<String>>, give_back: Vec<String>) -> OwnRoles {
        OwnRoles { roles, give_back }
    }

    pub(crate) fn standing(&self, role: &str) -> Standing {
        match self.roles.get(role) {
            Some(None) => Standing::Usable,
            Some(Some(why)) => Standing::Refused(why.clone()),
            None => Standing::Unknown,
        }
    }

    /// The names of the roles that can be used.
    pub(crate) fn usable(&self) -> impl Iterator<Item = &str> {
        self.roles.iter().filter(|(_, refused)| refused.is_none()).map(|(name, _)| name.as_str())
    }

    /// Of these roles those that a copy of a branch still has.
    pub(super) async fn still_there(
        &self,
        client: &Client,
    ) -> Result<BTreeMap<String, Option<String>>, Error> {
        let rows = client.query("select rolname::text from pg_catalog.pg_authid", &[]).await?;
        let there: BTreeSet<&str> = rows.iter().map(|row| row.get(0)).collect();
        let kept = self.roles.iter().filter(|(name, _)| there.contains(name.as_str()));
        Ok(kept.map(|(name, why)| (name.clone(), why.clone())).collect())
    }

    /// Gives a copy of a branch back what its snapshot was deprived of, so that it is found, and taken, like anything else.
    /// What the branch has dropped since is not given. Event triggers stay as they are: they are disabled just now.
    pub(super) async fn give_back_first(&self, client: &Client) {
        for statement in self.give_back.iter().filter(|it| !it.starts_with(Stilled::STATEMENT)) {
            if let Err(error) = client.batch_execute(statement).await {
                tracing::debug!(%error, "what a branch's roles had is not there any more");
            }
        }
    }

    /// The statements by which an administrator lets a role in for the first time: all of them, or none. The search path
    /// of the database may be anybody's.
    pub(crate) fn entry(&self, role: &str, secret: &Secret, rounds: NonZeroU32) -> String {
        let mut statements = "begin read write; set local search_path = pg_catalog, pg_temp; ".to_owned();
        for statement in &self.give_back {
            statements += &format!("{statement}; ");
        }
        statements += &admit(role, secret, rounds);
        statements + "commit"
    }
}

/// The statements that give a role the secret of its branch. What a holder has the server log is limited, as under the
/// other policies.
fn admit(role: &str, secret: &Secret, rounds: NonZeroU32) -> String {
    let role = quote_identifier(role);
    format!(
        "alter role {role} login password '{}' valid until 'infinity' connection limit -1; \
         alter role {role} set log_min_messages = fatal; ",
        secret.verifier(rounds)
    )
}

/// The roles of a copy that could log in in the source. Before they lose that.
pub(crate) async fn login_roles(client: &Client) -> Result<BTreeMap<String, Option<String>>, Error> {
    let roles = "select rolname::text, rolsuper from pg_catalog.pg_authid \
                 where rolcanlogin and rolname !~ '^(pg_|duramen_)'::text order by 1";
    let rows = client.query(roles, &[]).await?;
    let refused = |is_superuser: bool| is_superuser.then(|| WAS_SUPERUSER.to_owned());
    Ok(rows.iter().map(|row| (row.get(0), refused(row.get(1)))).collect())
}

/// What a branch is given back in one database. Before it is taken there.
pub(crate) async fn give_back(client: &Client, stilled: &[Stilled]) -> Result<Vec<String>, Error> {
    let grants: Vec<String> =
        client.query(include_str!("public_rights.sql"), &[]).await?.iter().map(|row| row.get(0)).collect();
    let definers: Vec<u32> = client.query_one(DEFINERS, &[]).await?.get(0);
    let mut statements = grants;
    if !definers.is_empty() {
        let ids: Vec<String> = definers.iter().map(u32::to_string).collect();
        // Without DDL: a source can have thousands of them.
        statements.push(format!(
            "update pg_catalog.pg_proc set prosecdef = true \
             where oid operator(pg_catalog.=) any ('{{{}}}'::pg_catalog.oid[]) and not exists (select from pg_catalog.pg_authid o \
             where o.oid operator(pg_catalog.=) proowner and o.rolsuper)",
            ids.join(",")
        ));
    }
    if statements.is_empty() {
        return Ok(statements);
    }
    // The source's own would run as superuser.
    let disable = stilled.iter().map(Stilled::disable);
    let enable = stilled.iter().map(|stilled| stilled.enable().to_owned());
    Ok(disable.chain(statements).chain(enable).collect())
}

/// Functions that run with their owner's rights. Those of extensions are closed to everybody.
const DEFINERS: &str =
    "select coalesce(array_agg(p.oid order by p.oid), '{}'::oid[]) from pg_catalog.pg_proc p \
    where p.prosecdef and p.oid >= 16384::oid and not exists (select from pg_catalog.pg_depend d \
      where d.classid = 1255::oid and d.objid = p.oid and d.deptype = 'e')";
