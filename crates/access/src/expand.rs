//! Who effectively has what: grants, and what follows from those that expand.
//!
//! A grant may say that whoever holds certain entitlements of its principal holds its own entitlement too: the members of
//! a group hold what the group holds. [`Effective`] reads one sync of any source and answers, by the rules of the
//! ecosystem's own tools, who holds an entitlement, what a principal holds, and by which paths. It needs 24 bytes for a
//! plain grant, and each id once; what follows from the grants is never held as a whole.
//!
//! The rules and invariants are in `docs/design/access-graph.md`.
//!
//! ```
//! use duramen_access::expand::Effective;
//! use duramen_access::graph::*;
//!
//! # let dir = tempfile::tempdir()?;
//! let path = dir.path().join("access.dpack");
//! let mut store = GraphStore::open(&path)?;
//! store.start_sync(SyncKind::Full, None)?;
//! let entitlement = |kind: &str, name: &str, what: &str| Entitlement {
//!     id: format!("{kind}:{name}:{what}"),
//!     resource: ResourceId::new(kind, name),
//!     ..Entitlement::default()
//! };
//! let (member, admin) = (entitlement("group", "staff", "member"), entitlement("app", "github", "admin"));
//! store.put_entitlements([&member, &admin])?;
//! let grant = |entitlement: &Entitlement, kind: &str, name: &str| {
//!     let mut grant = Grant { id: format!("{}:{kind}:{name}", entitlement.id), ..Grant::default() };
//!     grant.entitlement = EntitlementRef { resource: entitlement.resource.clone(), id: entitlement.id.clone() };
//!     grant.principal.id = ResourceId::new(kind, name);
//!     grant
//! };
//! let mut of_staff = grant(&admin, "group", "staff");
//! of_staff.expansion = Some(Expansion { entitlement_ids: vec![member.id.clone()], ..Expansion::default() });
//! store.put_grants([&grant(&member, "user", "ada"), &of_staff])?;
//! store.end_sync()?;
//!
//! let graph = GraphPack::open(&path)?;
//! let sync = graph.default_sync().ok_or("no sync")?;
//! let effective = Effective::load(&graph, &sync.id)?;
//! let mut holders = Vec::new();
//! effective.who("app:github:admin", &mut |grant| {
//!     holders.push(grant.principal.resource.to_owned());
//!     std::ops::ControlFlow::Continue(())
//! });
//! assert_eq!(holders, ["staff", "ada"]);
//! let why = effective.why(&ResourceId::new("user", "ada"), "app:github:admin", 10);
//! assert_eq!(why.paths[0].start, "group:staff:member");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod budget;
mod compare;
mod edges;
mod evaluate;
mod explain;
mod load;
mod names;

use std::ops::{ControlFlow, Range};

pub use self::budget::{Budget, OverBudget};
pub use self::compare::{compare, Access, AccessCounts};
pub use self::explain::{Path, Start, Step, Why};
pub use self::load::ExpandError;
pub use self::names::EntitlementName;

use self::edges::Edges;
use self::names::Names;
use crate::graph::{Loss, ResourceId};

/// What the grants of one sync come to.
pub struct Effective {
    /// Entitlements as `type 00 resource 00 id`, in their order.
    entitlements: Names,
    /// Principals as `type 00 id`, in their order.
    principals: Names,
    /// The number of the type of each principal.
    principal_types: Vec<u32>,
    /// Ids of entitlements, by which grants name their sources.
    ids: Names,
    /// The number of the id of each entitlement.
    id_of: Vec<u32>,
    /// Grants, by entitlement and principal.
    rows: Vec<Row>,
    /// Where the grants of an entitlement end.
    ends: Vec<u32>,
    /// What grants say beside their edges.
    rests: Vec<Rest>,
    edges: Edges,
    /// The entitlements of grants that have yet to be expanded.
    pending: Vec<u32>,
    left_out: Vec<Loss>,
}

/// A grant.
#[derive(Clone, Copy, Debug)]
struct Row {
    principal: u32,
    /// 0: nothing beside the edge; else one more than the place of its rest.
    rest: u32,
}

/// What a grant says beside its edge.
#[derive(Debug, Default)]
struct Rest {
    /// Its id, if that does not follow from its edge.
    id: Option<Box<str>>,
    /// The numbers of the ids of the entitlements that it follows from, and whether it is direct there; in the order of
    /// the ids.
    sources: Vec<(u32, bool)>,
}

/// An entitlement that somebody's holding an entitlement follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source<'a> {
    /// The id of the entitlement.
    pub entitlement: &'a str,
    /// Whether it is held there by a grant, and does not follow from another.
    pub is_direct: bool,
}

/// Where a grant comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It is in the sync, and says already all that follows from others.
    Recorded,
    /// It is in the sync, and has more sources than it says.
    Updated,
    /// It follows from other grants, and is not in the sync.
    Derived,
}

/// That somebody holds an entitlement.
#[derive(Clone, Copy, Debug)]
pub struct EffectiveGrant<'a> {
    /// The id of the grant: its own, or the one that its edge makes.
    pub id: &'a str,
    /// What is held.
    pub entitlement: EntitlementName<'a>,
    /// Who holds it.
    pub principal: Principal<'a>,
    /// Whether it is held by a grant of its own, and not only by way of others.
    pub is_direct: bool,
    /// What it follows from, in the order of ids. As in the ecosystem's files, one that follows from nothing has none, and
    /// one that is direct beside others has its own entitlement among them.
    pub sources: &'a [Source<'a>],
    /// Where it comes from.
    pub origin: Origin,
}

/// Who holds something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Principal<'a> {
    /// The type of the resource.
    pub resource_type: &'a str,
    /// The resource.
    pub resource: &'a str,
}

/// What is called for each grant.
pub type VisitGrant<'a> = &'a mut dyn FnMut(&EffectiveGrant<'_>) -> ControlFlow<()>;

impl Effective {
    /// What could not be expanded, and why: grants that name an entitlement which is not there, or one of another
    /// resource than their principal. The ecosystem's tools drop the former and refuse the whole sync for the latter.
    pub fn left_out(&self) -> &[Loss] {
        &self.left_out
    }

    /// The ids of entitlements that follow from each other, circle by circle.
    pub fn circles(&self) -> Vec<Vec<&str>> {
        let members = self.edges.nodes().iter().map(|node| &node.entitlements).filter(|all| all.len() > 1);
        members.map(|all| all.iter().map(|number| self.entitlement_name(*number).id).collect()).collect()
    }

    /// Whether there is an entitlement of an id, in a grant or by itself.
    pub fn has_entitlement(&self, id: &str) -> bool {
        self.of_id(id).next().is_some()
    }

    /// Whether a principal holds anything.
    pub fn has_principal(&self, principal: &ResourceId) -> bool {
        self.principal(principal).is_some()
    }

    /// How many grants are in the sync.
    pub fn grants(&self) -> usize {
        self.rows.len()
    }

    /// Calls `visit` with every grant, recorded or derived. Those of an entitlement follow each other, in the order of
    /// principals; an entitlement comes after those from which it follows.
    pub fn for_each(&self, visit: VisitGrant<'_>) {
        self.evaluate(None, None, &Budget::unlimited(), visit);
    }

    /// Calls `visit` with every grant, recorded or derived, of the entitlements that may have changed since the sync was
    /// expanded, and what follows from them: those of grants that are marked as yet to be expanded, and what leads on from
    /// these and from the entitlements whose ids are `changed`, which have got grants since. All other grants of a sync that
    /// was expanded once are recorded as [`for_each`](Self::for_each) would give them. Nothing is found of grants that were
    /// taken away: what followed from those stays recorded, for this as for `for_each`.
    pub fn for_each_pending(&self, changed: &[&str], visit: VisitGrant<'_>) {
        let changed: Vec<u32> = changed.iter().flat_map(|id| self.of_id(id)).collect();
        self.evaluate_pending(&changed, visit);
    }

    /// Calls `visit` with every grant of the entitlements of an id: who has it.
    pub fn who(&self, entitlement: &str, visit: VisitGrant<'_>) {
        let wanted: Vec<u32> = self.of_id(entitlement).collect();
        self.evaluate(Some(&wanted), None, &Budget::unlimited(), visit);
    }

    /// As [`who`](Self::who), if it costs no more than it may.
    ///
    /// # Errors
    /// [`OverBudget`] when the budget is spent; `visit` was called with a part by then.
    pub fn who_within(
        &self,
        entitlement: &str,
        budget: &Budget,
        visit: VisitGrant<'_>,
    ) -> Result<(), OverBudget> {
        if budget.spend(self.id_of.len()).is_continue() {
            let wanted: Vec<u32> = self.of_id(entitlement).collect();
            self.evaluate(Some(&wanted), None, budget, visit);
        }
        budget.check()
    }

    /// Calls `visit` with every grant of a principal: what it has.
    pub fn what(&self, principal: &ResourceId, visit: VisitGrant<'_>) {
        if let Some(number) = self.principal(principal) {
            self.evaluate(None, Some(number), &Budget::unlimited(), visit);
        }
    }

    /// As [`what`](Self::what), if it costs no more than it may.
    ///
    /// # Errors
    /// [`OverBudget`] when the budget is spent; `visit` was called with a part by then.
    pub fn what_within(
        &self,
        principal: &ResourceId,
        budget: &Budget,
        visit: VisitGrant<'_>,
    ) -> Result<(), OverBudget> {
        if let Some(number) = self.principal(principal) {
            self.evaluate(None, Some(number), budget, visit);
        }
        budget.check()
    }

    /// The entitlements of an id: one, unless resources share it.
    fn of_id(&self, id: &str) -> impl Iterator<Item = u32> + '_ {
        let number = self.ids.find(&[id]);
        let all = number.map(|_| 0..self.id_of.len()).unwrap_or_default();
        all.filter(move |entitlement| Some(self.id_of[*entitlement]) == number)
            .map(|entitlement| entitlement as u32)
    }

    fn principal(&self, id: &ResourceId) -> Option<u32> {
        self.principals.find(&[&id.resource_type, &id.resource])
    }

    /// The places of the grants of an entitlement.
    fn places_of(&self, entitlement: u32) -> Range<usize> {
        let start = (entitlement as usize).checked_sub(1).map_or(0, |before| self.ends[before]);
        start as usize..self.ends[entitlement as usize] as usize
    }

    fn rest(&self, row: &Row) -> Option<&Rest> {
        self.rests.get((row.rest as usize).checked_sub(1)?)
    }

    /// Whether a grant of an entitlement is one of its own, and does not only follow from others.
    fn is_direct(&self, entitlement: u32, row: &Row) -> bool {
        let own = self.id_of[entitlement as usize];
        let sources = self.rest(row).map_or(&[][..], |rest| &rest.sources);
        sources.is_empty() || sources.iter().any(|(id, _)| *id == own)
    }

    /// Writes the id of a grant.
    fn put_id(&self, entitlement: u32, row: &Row, out: &mut String) {
        out.clear();
        match self.rest(row).and_then(|rest| rest.id.as_deref()) {
            Some(id) => out.push_str(id),
            None => self.put_derived_id(entitlement, row.principal, out),
        }
    }

    /// Writes the id that an edge makes.
    fn put_derived_id(&self, entitlement: u32, principal: u32, out: &mut String) {
        let holder = self.principal_name(principal);
        for part in [self.entitlement_name(entitlement).id, ":", holder.resource_type, ":", holder.resource] {
            out.push_str(part);
        }
    }

    fn entitlement_name(&self, number: u32) -> EntitlementName<'_> {
        let [resource_type, resource, id] = self.entitlements.parts(number);
        EntitlementName { resource_type, resource, id }
    }

    fn principal_name(&self, number: u32) -> Principal<'_> {
        let [resource_type, resource] = self.principals.parts(number);
        Principal { resource_type, resource }
    }
}

impl std::fmt::Debug for Effective {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Effective").field("grants", &self.rows.len()).finish_non_exhaustive()
    }
}
