//! What was put into a sync since its last sorted run, as queries see it. It is small: beyond a bound, what was put is
//! sorted into a run before it is read.

use std::collections::HashSet;

use crate::graph::error::GraphError;
use crate::graph::format::key;
use crate::graph::format::payload;
use crate::graph::format::table::Table;
use crate::graph::model::{EntitlementRef, Grant, PrincipalRef, ResourceId};
use crate::graph::tail::{Pending, Tail};

/// With more changes than this, a query sorts them into a run first.
pub(crate) const MAX_ROWS: usize = 8192;

/// A grant with the keys that it is sorted by.
pub(crate) struct Placed {
    pub(crate) entitlement: Vec<u8>,
    pub(crate) principal: Vec<u8>,
    /// The grant without the fields that stand in `rest`.
    pub(crate) grant: Grant,
    pub(crate) rest: Option<Vec<u8>>,
}

/// Changes on top of a sorted run.
pub(crate) struct Overlay {
    /// In the order of entitlement, principal, id.
    pub(crate) grants: Vec<Placed>,
    /// In the order of principal, entitlement, id.
    pub(crate) by_principal: Vec<usize>,
    /// All grants of these ids below are hidden: they were put again, or deleted.
    pub(crate) hidden: HashSet<String>,
    tables: [Pending; 4],
}

impl Overlay {
    pub(crate) fn new(tail: &Tail) -> Result<Self, GraphError> {
        let sorted = tail.sorted()?;
        let mut hidden: HashSet<String> = tail.deleted.keys().cloned().collect();
        let mut grants = Vec::with_capacity(sorted.order.len());
        let mut id = String::new();
        for each in &sorted.order {
            let row = &tail.rows[each.item as usize];
            tail.id(row, &mut id)?;
            hidden.insert(id.clone());
            let entitlement = tail.entitlements.get(row.entitlement).to_vec();
            let principal = tail.principals.get(row.principal).to_vec();
            let rest = match tail.payload(row) {
                Some(payload) => payload::parts(payload)?.1.map(<[u8]>::to_vec),
                None => None,
            };
            let wrong = || GraphError::Malformed { what: "a term", at: 0 };
            let [kind, resource, entitlement_id] =
                <[String; 3]>::try_from(key::split(&entitlement)?).map_err(|_| wrong())?;
            let mut parts = key::split(&principal)?.into_iter();
            let mut next_id = || Some(ResourceId { resource_type: parts.next()?, resource: parts.next()? });
            let grant = Grant {
                id: id.clone(),
                entitlement: EntitlementRef {
                    resource: ResourceId { resource_type: kind, resource },
                    id: entitlement_id,
                },
                principal: PrincipalRef { id: next_id().ok_or_else(wrong)?, parent: next_id() },
                discovered_at: tail.time(row),
                ..Grant::default()
            };
            grants.push(Placed { entitlement, principal, grant, rest });
        }
        let mut by_principal: Vec<usize> = (0..grants.len()).collect();
        by_principal.sort_by(|a, b| {
            let key = |at: usize| (&grants[at].principal, &grants[at].entitlement, &grants[at].grant.id);
            key(*a).cmp(&key(*b))
        });
        let tables = Table::ALL.map(|table| tail.table(table).clone());
        Ok(Overlay { grants, by_principal, hidden, tables })
    }

    pub(crate) fn table(&self, table: Table) -> &Pending {
        &self.tables[table as usize]
    }
}
