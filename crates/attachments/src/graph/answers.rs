//! Queries on an access graph: who has what and why, and what it contains.

use super::Graph;
use crate::{
    error::ReadError,
    limits::{PAGE_BYTES, PATHS_MAX, PATH_STEPS_MAX, STEPS_MAX, THROUGH_MAX},
};
use duramen_access::{
    expand::{Budget, EffectiveGrant, Origin, Path, Start},
    graph::ResourceId,
};
use duramen_api::attachments::pack::{
    AccessEntity, AccessFound, AccessGrant, AccessPage, AccessPath, AccessPlace, AccessStep, AccessWhy,
};
use std::ops::ControlFlow;

/// Whose access is asked for: of one of the three.
#[derive(Debug, Clone, Copy, Default)]
pub struct AccessAsked<'a> {
    /// The type of the principal or the resource.
    pub resource_type: Option<&'a str>,
    /// What this principal holds.
    pub principal: Option<&'a str>,
    /// Who holds the entitlements of this resource.
    pub resource: Option<&'a str>,
    /// Who holds this entitlement.
    pub entitlement: Option<&'a str>,
    /// Where the page begins, as the one before says it.
    pub cursor: Option<&'a str>,
    /// At most so many.
    pub limit: usize,
}

/// Of whose holding what it is asked why.
#[derive(Debug, Clone, Copy)]
pub struct WhyAsked<'a> {
    /// The type of the principal.
    pub resource_type: &'a str,
    /// The principal.
    pub principal: &'a str,
    /// The entitlement.
    pub entitlement: &'a str,
}

/// Where a page begins: the entitlement of a resource, and how many of its grants were told.
#[derive(Clone, Copy, Default)]
struct At {
    right: usize,
    grant: usize,
}

impl At {
    fn read(cursor: Option<&str>) -> Result<At, ReadError> {
        let Some(cursor) = cursor else { return Ok(At::default()) };
        let read = || {
            let (right, grant) = cursor.split_once('.')?;
            Some(At { right: right.parse().ok()?, grant: grant.parse().ok()? })
        };
        read().ok_or_else(|| ReadError::Invalid(format!("{cursor:?} is not a cursor of grants")))
    }

    fn text(self) -> String {
        format!("{}.{}", self.right, self.grant)
    }
}

/// A page that is filled, and what was told before it.
struct Filling {
    grants: Vec<AccessGrant>,
    limit: usize,
    bytes: usize,
    /// Grants of the present entitlement that were seen, and those that the pages before had.
    seen: usize,
    skipped: usize,
    is_full: bool,
}

impl Filling {
    fn take(&mut self, graph: &Graph, grant: &EffectiveGrant<'_>) -> ControlFlow<()> {
        if self.seen < self.skipped {
            self.seen += 1;
            return ControlFlow::Continue(());
        }
        if self.grants.len() >= self.limit || self.bytes >= PAGE_BYTES {
            self.is_full = true;
            return ControlFlow::Break(());
        }
        self.seen += 1;
        let shown = graph.shown(grant);
        self.bytes += 300 + shown.entitlement.len() + shown.grant.len() + shown.principal.resource.len();
        self.bytes += shown.resource.resource.len() + shown.through.iter().map(String::len).sum::<usize>();
        self.grants.push(shown);
        ControlFlow::Continue(())
    }
}

impl Graph {
    /// Who effectively has what.
    ///
    /// # Errors
    /// [`ReadError::Unknown`] when what is named is not there, [`ReadError::OverBudget`] when the answer follows from too much,
    /// [`ReadError::Invalid`] when not one of the three is named.
    pub fn access(&self, asked: &AccessAsked<'_>) -> Result<AccessPage, ReadError> {
        let at = At::read(asked.cursor)?;
        let budget = Budget::new(STEPS_MAX);
        let mut page = Filling {
            grants: Vec::new(),
            limit: asked.limit,
            bytes: 0,
            seen: 0,
            skipped: at.grant,
            is_full: false,
        };
        let kind = || {
            asked
                .resource_type
                .ok_or_else(|| ReadError::Invalid("the type is missing; give ?type=... beside it".to_owned()))
        };
        match (asked.principal, asked.resource, asked.entitlement) {
            (Some(principal), None, None) => {
                let id = ResourceId::new(kind()?, principal);
                if !self.effective.has_principal(&id) && !self.directory.has(&id.resource_type, &id.resource)
                {
                    return Err(unknown("principal", principal));
                }
                self.effective.what_within(&id, &budget, &mut |grant| page.take(self, grant))?;
                let next = page.is_full.then(|| At { right: 0, grant: page.seen }.text());
                Ok(AccessPage { grants: page.grants, next })
            }
            (None, Some(resource), None) => {
                let id = ResourceId::new(kind()?, resource);
                if !self.directory.has(&id.resource_type, &id.resource)
                    && self.directory.rights_of(&id.resource_type, resource).is_empty()
                {
                    return Err(unknown("resource", resource));
                }
                self.of_resource(&id, at, &budget, page)
            }
            (None, None, Some(entitlement)) => {
                if !self.effective.has_entitlement(entitlement) {
                    return Err(unknown("entitlement", entitlement));
                }
                self.effective.who_within(entitlement, &budget, &mut |grant| page.take(self, grant))?;
                let next = page.is_full.then(|| At { right: 0, grant: page.seen }.text());
                Ok(AccessPage { grants: page.grants, next })
            }
            _ => Err(ReadError::Invalid("name one of a principal, a resource or an entitlement".to_owned())),
        }
    }

    /// Who holds the entitlements of a resource: one after the other, as far as the budget goes.
    fn of_resource(
        &self,
        id: &ResourceId,
        at: At,
        budget: &Budget,
        mut page: Filling,
    ) -> Result<AccessPage, ReadError> {
        let rights = self.directory.rights_of(&id.resource_type, &id.resource);
        for (number, place) in rights.enumerate().skip(at.right) {
            page.seen = 0;
            let told = page.grants.len();
            let found = self.effective.who_within(self.directory.right(place), budget, &mut |grant| {
                let about = grant.entitlement;
                if (about.resource_type, about.resource) != (&id.resource_type, &id.resource) {
                    return ControlFlow::Continue(());
                }
                page.take(self, grant)
            });
            if let Err(over) = found {
                // Those before it are told; with what is left over for a page of its own it may be found.
                if number == at.right {
                    return Err(over.into());
                }
                page.grants.truncate(told);
                let next = Some(At { right: number, grant: 0 }.text());
                return Ok(AccessPage { grants: page.grants, next });
            }
            if page.is_full {
                let next = Some(At { right: number, grant: page.seen }.text());
                return Ok(AccessPage { grants: page.grants, next });
            }
            page.skipped = 0;
        }
        Ok(AccessPage { grants: page.grants, next: None })
    }

    /// Why a principal holds an entitlement: the shortest paths.
    ///
    /// # Errors
    /// [`ReadError::Unknown`] when it does not, [`ReadError::OverBudget`] when the answer follows from too much.
    pub fn why(&self, asked: &WhyAsked<'_>) -> Result<AccessWhy, ReadError> {
        let principal = ResourceId::new(asked.resource_type, asked.principal);
        let budget = Budget::new(STEPS_MAX);
        let why = self.effective.why_within(&principal, asked.entitlement, PATHS_MAX, &budget)?;
        if why.all == 0 {
            return Err(ReadError::Unknown(format!(
                "{:?} does not hold {:?}",
                short(asked.principal),
                short(asked.entitlement)
            )));
        }
        Ok(AccessWhy {
            paths: why.paths.into_iter().map(|path| self.path(path)).collect(),
            all: Some(why.all).filter(|all| *all < u64::MAX),
        })
    }

    /// What there is, by names and ids; who is named exactly as `TYPE:ID` is first.
    #[must_use]
    pub fn search(&self, text: &str, limit: usize) -> AccessFound {
        let holds = |id: &ResourceId| self.effective.has_principal(id);
        let (mut entities, truncated) = self.directory.search(text, limit, &holds);
        // Who has no row is found by nothing but what it is called exactly.
        let ways = text.match_indices(':').map(|(at, _)| ResourceId::new(&text[..at], &text[at + 1..]));
        for id in
            ways.filter(|id| holds(id) && !self.directory.has(&id.resource_type, &id.resource)).take(limit)
        {
            let ResourceId { resource_type, resource } = id;
            let entity = AccessEntity {
                resource_type,
                resource,
                entitlement: None,
                name: String::new(),
                holds: true,
                entitlements: 0,
            };
            entities.insert(0, entity);
        }
        AccessFound { entities, truncated }
    }

    fn shown(&self, grant: &EffectiveGrant<'_>) -> AccessGrant {
        let (about, by) = (grant.entitlement, grant.principal);
        let others = || grant.sources.iter().filter(|source| source.entitlement != about.id);
        AccessGrant {
            entitlement: about.id.to_owned(),
            entitlement_name: self.directory.right_name(about.resource_type, about.resource, about.id),
            resource: self.directory.resource(about.resource_type, about.resource),
            principal: self.directory.resource(by.resource_type, by.resource),
            grant: grant.id.to_owned(),
            direct: grant.is_direct,
            derived: grant.origin == Origin::Derived,
            through: others().take(THROUGH_MAX).map(|source| source.entitlement.to_owned()).collect(),
            through_more: others().count().saturating_sub(THROUGH_MAX) as u64,
        }
    }

    fn place(&self, entitlement: String) -> AccessPlace {
        let (name, resource) = self.directory.first_right(&entitlement).unzip();
        AccessPlace { entitlement, name: name.unwrap_or_default(), resource }
    }

    fn path(&self, path: Path) -> AccessPath {
        let left_out = path.steps.len().saturating_sub(PATH_STEPS_MAX);
        // The last step leads to what was asked for.
        let last = path.steps.len().saturating_sub(1);
        let steps = path.steps.into_iter().enumerate();
        let shown = steps.filter(|(at, _)| *at + 1 < PATH_STEPS_MAX || *at == last);
        AccessPath {
            start: self.place(path.start),
            grant: path.grant,
            direct: path.kind == Start::Direct,
            sources: path.sources.into_iter().take(THROUGH_MAX).collect(),
            steps: shown
                .map(|(_, step)| AccessStep {
                    place: self.place(step.entitlement),
                    grant: step.grant,
                    by: self.directory.resource(&step.by.resource_type, &step.by.resource),
                    shallow: step.shallow,
                })
                .collect(),
            left_out: left_out as u64,
        }
    }
}

fn short(id: &str) -> String {
    id.chars().take(200).collect()
}

fn unknown(what: &str, id: &str) -> ReadError {
    ReadError::Unknown(format!("there is no {what} {:?} in this graph", short(id)))
}
