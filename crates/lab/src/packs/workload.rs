//! The workload `unique`: every grant has an edge and an id of its own.

use std::fmt::Write as _;

/// How many entitlements there are.
pub(crate) const ENTITLEMENTS: usize = 100;

/// Grant `i` is of entitlement `i mod 100` on the resource `(app, github)`, and held by user `i div 100`. All text lies
/// there before anything is timed, as it would in the memory of a caller.
#[derive(Debug)]
pub(crate) struct Workload {
    entitlements: Vec<String>,
    users: Vec<String>,
    ids: String,
    ends: Vec<u32>,
}

/// One row as a caller has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row<'a> {
    /// The id of the grant.
    pub id: &'a str,
    /// The id of the entitlement.
    pub entitlement: &'a str,
    /// The user.
    pub user: &'a str,
}

/// The resource type of the entitlements' resource.
pub(crate) const RESOURCE_TYPE: &str = "app";
/// The entitlements' resource.
pub(crate) const RESOURCE: &str = "github";
/// The type of all principals.
pub(crate) const PRINCIPAL_TYPE: &str = "user";
/// When all rows were seen, in seconds since 1970.
pub(crate) const SEEN_SECONDS: i64 = 1_750_000_000;

impl Workload {
    /// The text of `count` grants.
    #[must_use]
    pub(crate) fn new(count: usize) -> Self {
        let entitlements: Vec<String> =
            (0..ENTITLEMENTS).map(|number| format!("app:github:entitlement-{number:04}")).collect();
        let users: Vec<String> =
            (0..count.div_ceil(ENTITLEMENTS)).map(|number| format!("user-{number:08}")).collect();
        let mut ids = String::with_capacity(count * 46);
        let mut ends = Vec::with_capacity(count);
        for at in 0..count {
            let (entitlement, user) = (&entitlements[at % ENTITLEMENTS], &users[at / ENTITLEMENTS]);
            write!(ids, "{entitlement}:{PRINCIPAL_TYPE}:{user}").ok();
            ends.push(ids.len() as u32);
        }
        Self { entitlements, users, ids, ends }
    }

    /// How many grants there are.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// How many users there are.
    #[must_use]
    pub(crate) fn users(&self) -> usize {
        self.users.len()
    }

    /// The name of a user.
    #[must_use]
    pub(crate) fn user(&self, number: usize) -> &str {
        &self.users[number]
    }

    /// One grant.
    #[must_use]
    pub(crate) fn row(&self, at: usize) -> Row<'_> {
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        Row {
            id: &self.ids[begin..self.ends[at] as usize],
            entitlement: &self.entitlements[at % ENTITLEMENTS],
            user: &self.users[at / ENTITLEMENTS],
        }
    }

    /// The grants in their order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.len()).map(|at| self.row(at))
    }

    /// Where a grant stands, by its id.
    #[must_use]
    pub(crate) fn place(&self, id: &str) -> Option<usize> {
        let entitlement: usize = id.get(23..27)?.parse().ok()?;
        let user: usize = id.get(38..)?.parse().ok()?;
        let at = user.checked_mul(ENTITLEMENTS)?.checked_add(entitlement)?;
        (at < self.len() && self.row(at).id == id).then_some(at)
    }
}
