//! The workload `unique`: every grant has an edge and an id of its own.

use std::fmt::Write as _;

/// How many entitlements there are.
pub const ENTITLEMENTS: usize = 100;

/// Grant `i` is of entitlement `i mod 100` on the resource `(app, github)`, and held by user `i div 100`. All text lies
/// there before anything is timed, as it would in the memory of a caller.
#[derive(Debug)]
pub struct Workload {
    entitlements: Vec<String>,
    users: Vec<String>,
    ids: String,
    ends: Vec<u32>,
}

/// One row as a caller has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// The id of the grant.
    pub id: &'a str,
    /// The id of the entitlement.
    pub entitlement: &'a str,
    /// The user.
    pub user: &'a str,
}

/// The resource type of the entitlements' resource.
pub const RESOURCE_TYPE: &str = "app";
/// The entitlements' resource.
pub const RESOURCE: &str = "github";
/// The type of all principals.
pub const PRINCIPAL_TYPE: &str = "user";
/// When all rows were seen, in seconds since 1970.
pub const SEEN_SECONDS: i64 = 1_750_000_000;

impl Workload {
    /// The text of `count` grants.
    ///
    /// ```
    /// let workload = duramen_lab::packs::workload::Workload::new(12_400);
    /// let row = workload.row(12_342);
    /// assert_eq!(row.id, "app:github:entitlement-0042:user:user-00000123");
    /// assert_eq!((row.entitlement, row.user), ("app:github:entitlement-0042", "user-00000123"));
    /// ```
    #[must_use]
    pub fn new(count: usize) -> Self {
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
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many users there are.
    #[must_use]
    pub fn users(&self) -> usize {
        self.users.len()
    }

    /// The name of a user.
    #[must_use]
    pub fn user(&self, number: usize) -> &str {
        &self.users[number]
    }

    /// One grant.
    #[must_use]
    pub fn row(&self, at: usize) -> Row<'_> {
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        Row {
            id: &self.ids[begin..self.ends[at] as usize],
            entitlement: &self.entitlements[at % ENTITLEMENTS],
            user: &self.users[at / ENTITLEMENTS],
        }
    }

    /// The grants in their order.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.len()).map(|at| self.row(at))
    }

    /// Where a grant stands, by its id.
    #[must_use]
    pub fn place(&self, id: &str) -> Option<usize> {
        let entitlement: usize = id.get(23..27)?.parse().ok()?;
        let user: usize = id.get(38..)?.parse().ok()?;
        let at = user.checked_mul(ENTITLEMENTS)?.checked_add(entitlement)?;
        (at < self.len() && self.row(at).id == id).then_some(at)
    }
}
