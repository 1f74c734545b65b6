//! Access graphs: what they promise, held against a model and against crashes.

mod crash;
mod faults;
mod io_faults;
mod life_cycle;
mod limits;
mod model;
mod queries;
mod spill;
mod verify;

use duramen_access::graph::{Grant, GrantScope, PageRequest, ResourceId, SyncView};

/// A plain grant, whose id follows from its edge.
pub(crate) fn grant(kind: &str, resource: &str, entitlement: &str, user: &str) -> Grant {
    let mut grant = Grant::default();
    grant.entitlement.resource = ResourceId::new(kind, resource);
    grant.entitlement.id = format!("{kind}:{resource}:{entitlement}");
    grant.principal.id = ResourceId::new("user", user);
    grant.id = format!("{}:user:{user}", grant.entitlement.id);
    grant
}

/// All grants of a scope, in pages of a size.
pub(crate) fn paged(view: &SyncView, scope: GrantScope<'_>, size: usize) -> Vec<Grant> {
    let mut grants = Vec::new();
    let mut token: Option<String> = None;
    loop {
        let page = view.grants(scope, PageRequest { size, token: token.as_deref() }).unwrap();
        assert!(page.len() <= if size == 0 { 10_000 } else { size });
        assert!(page.next_token().is_none() || !page.is_empty(), "a page with a next one has rows");
        grants.extend(page.to_grants().unwrap());
        match page.next_token() {
            Some(next) => token = Some(next.to_owned()),
            None => return grants,
        }
    }
}
