//! Grants of a part of a file from behind one of them on: for those who read page by page, and keep nothing between pages.

use std::ops::ControlFlow;

use super::scopes::VisitGrant;
use super::{of_row, C1z3};
use crate::c1z::error::C1zError;
use crate::c1z::stored_grant::GrantReader;
use crate::c1z::v3::key::{self, Edge};
use crate::graph::{EntitlementRef, GrantScope, ResourceId};

impl C1z3 {
    /// Whether rows come in the order of their keys: not of files with logs, which interrupted and old tools write.
    pub fn is_sorted(&self) -> bool {
        !self.tree.has_logs
    }

    /// Visits the grants of a part of the sync that stand behind the one of an entitlement and a principal, in the order of
    /// [`for_each_grant_of`](Self::for_each_grant_of); without one all of the part. The file has to be
    /// [sorted](Self::is_sorted).
    ///
    /// ```
    /// # use duramen_access::c1z::{C1z3, C1z3Writer, ReadOptions, WriteOptions};
    /// # use duramen_access::graph::{EntitlementRef, Grant, GrantRef, GrantScope, GraphSink, ResourceId, Sync};
    /// # use std::ops::ControlFlow;
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("sync.c1z");
    /// # let mut writer = C1z3Writer::create(&path, &WriteOptions::default())?;
    /// # let sync = Sync { id: "2aGyRUbxAdE4MTzLqMxgsT1HNjq".to_owned(), ..Sync::default() };
    /// # writer.begin_sync(&sync)?;
    /// # let of = EntitlementRef { resource: ResourceId::new("app", "github"), id: "app:github:admin".to_owned() };
    /// # for name in ["ada", "bob", "eve"] {
    /// #     let mut grant = Grant { id: format!("app:github:admin:user:{name}"), entitlement: of.clone(), ..Grant::default() };
    /// #     grant.principal.id = ResourceId::new("user", name);
    /// #     writer.put_grant(&GrantRef::from(&grant))?;
    /// # }
    /// # writer.end_sync()?;
    /// # writer.finish()?;
    /// let file = C1z3::open(&path, &ReadOptions::default())?;
    /// let ada = ResourceId::new("user", "ada");
    /// let mut found = Vec::new();
    /// file.for_each_grant_after(&sync.id, GrantScope::All, Some((&of, &ada)), &mut |row| {
    ///     found.push(row.principal.to_owned());
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(found, ["bob", "eve"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the file is not sorted, has no such sync, cannot be read, or is damaged where it is read; when the part is that
    /// of an entitlement without its resource, or of several, which lie apart.
    pub fn for_each_grant_after(
        &self,
        sync: &str,
        scope: GrantScope<'_>,
        after: Option<(&EntitlementRef, &ResourceId)>,
        visit: VisitGrant<'_>,
    ) -> Result<(), C1zError> {
        self.expect(sync)?;
        let doing = "reading grants from behind one of them";
        if !self.is_sorted() {
            return Err(C1zError::Order {
                doing,
                reason: "the rows of this file come in no order: read all of them",
            });
        }
        let under = |parts: &[&str]| key::prefix(&key::GRANTS, parts);
        let prefix = match scope {
            GrantScope::All => [key::GRANTS.as_slice(), &[0]].concat(),
            GrantScope::ResourceType(id) => under(&[id]),
            GrantScope::Resource(id) => under(&[&id.resource_type, &id.resource]),
            GrantScope::Entitlements([of]) => key::grants_of(of),
            GrantScope::Principal(id) => {
                let after = after.map(|(of, _)| of);
                return self.located(self.grants_of_principal(id, after, visit));
            }
            GrantScope::Entitlement(_) | GrantScope::Entitlements(_) => {
                return Err(C1zError::Order {
                    doing,
                    reason: "they lie apart: name one entitlement with its resource",
                });
            }
        };
        let from = after.map_or_else(
            || prefix.clone(),
            |(of, principal)| {
                let edge = Edge {
                    resource_type: &of.resource.resource_type,
                    resource: &of.resource.resource,
                    entitlement: &of.id,
                    principal_type: &principal.resource_type,
                    principal: &principal.resource,
                };
                let mut row = key::GRANTS.to_vec();
                edge.push_entitlement(&mut row);
                edge.push_principal(&mut row);
                key::next(&row)
            },
        );
        let mut reader = GrantReader::default();
        let walked = self.tree.each(&from, Some(&key::behind(&prefix)), &mut |key, value| {
            let row = reader.borrowed(value).map_err(|bad| of_row("grant", key, bad))?;
            Ok::<ControlFlow<()>, _>(visit(row))
        });
        self.located(walked)
    }
}
