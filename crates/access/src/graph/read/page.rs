//! A page of grants: all their text in one piece of memory.

use crate::graph::error::GraphError;
use crate::graph::format::details;
use crate::graph::format::terms::TermPage;
use crate::graph::model::{EntitlementRef, Grant, PrincipalRef, ResourceId, Timestamp};

/// Where a text lies in a page.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    begin: u32,
    end: u32,
}

#[derive(Clone, Copy, Debug)]
struct PageRow {
    id: Span,
    entitlement: Span,
    resource_type: Span,
    resource: Span,
    principal_type: Span,
    principal: Span,
    /// Type and name of the parent, if `has_parent`.
    parent: [Span; 2],
    has_parent: bool,
    time: Option<Timestamp>,
    rest: Span,
}

/// Grants of a query, at most 10,000 or about 64 MiB of them, and the token of the next page.
///
/// Reading a page allocates a handful of times, whatever the number of rows; [`GrantView`] borrows from it.
#[derive(Clone, Debug, Default)]
pub struct GrantPage {
    text: String,
    rest: Vec<u8>,
    rows: Vec<PageRow>,
    next: Option<String>,
    /// The entitlement that was added last, by its number, and where its resource lies.
    last: Option<(u32, Span, Span)>,
}

impl GrantPage {
    /// How many grants there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The token with which the next page is asked for; none after the last.
    pub fn next_token(&self) -> Option<&str> {
        self.next.as_deref()
    }

    /// The grants in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = GrantView<'_>> {
        self.rows.iter().map(|row| GrantView { page: self, row })
    }

    /// One of the grants.
    pub fn get(&self, at: usize) -> Option<GrantView<'_>> {
        self.rows.get(at).map(|row| GrantView { page: self, row })
    }

    /// The grants as owned values.
    ///
    /// # Errors
    /// When stored fields make no sense.
    pub fn to_grants(&self) -> Result<Vec<Grant>, GraphError> {
        self.iter().map(|view| view.to_grant()).collect()
    }

    pub(crate) fn with_capacity(rows: usize) -> Self {
        GrantPage {
            rows: Vec::with_capacity(rows),
            text: String::with_capacity(rows * 64),
            ..GrantPage::default()
        }
    }

    pub(crate) fn set_next(&mut self, token: String) {
        self.next = Some(token);
    }

    pub(crate) fn last(&self) -> Option<GrantView<'_>> {
        self.rows.last().map(|row| GrantView { page: self, row })
    }

    /// Bytes of all its text and fields.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + self.rest.len()
    }

    pub(crate) fn pop(&mut self) {
        self.rows.pop();
    }

    fn add(&mut self, text: &str) -> Span {
        let begin = self.text.len() as u32;
        self.text.push_str(text);
        Span { begin, end: self.text.len() as u32 }
    }

    /// Adds a row. Entitlements with the same number are the same.
    #[inline]
    pub(crate) fn push(
        &mut self,
        number: u32,
        entitlement: (&TermPage, usize),
        principal: (&TermPage, usize),
        time: Option<Timestamp>,
        (id, rest): (Option<&str>, Option<&[u8]>),
    ) {
        let of_entitlement = |number| entitlement.0.part(entitlement.1, number).unwrap_or_default();
        let of_principal = |number| principal.0.part(principal.1, number);
        let (resource_type, resource) = match self.last {
            Some((last, kind, name)) if last == number => (kind, name),
            _ => (self.add(of_entitlement(0)), self.add(of_entitlement(1))),
        };
        self.last = Some((number, resource_type, resource));
        let kind = of_principal(0).unwrap_or_default();
        let name = of_principal(1).unwrap_or_default();
        let (id, entitlement, principal_type, principal) = match id {
            Some(id) => (self.add(id), self.add(of_entitlement(2)), self.add(kind), self.add(name)),
            None => {
                // The id is made of the other three, so they lie in it.
                let begin = self.text.len() as u32;
                let entitlement = self.add(of_entitlement(2));
                self.text.push(':');
                let principal_type = self.add(kind);
                self.text.push(':');
                let principal = self.add(name);
                (Span { begin, end: principal.end }, entitlement, principal_type, principal)
            }
        };
        let mut parent = [Span::default(); 2];
        let mut has_parent = false;
        if let (Some(kind), Some(name)) = (of_principal(2), of_principal(3)) {
            parent = [self.add(kind), self.add(name)];
            has_parent = true;
        }
        let rest = self.add_rest(rest);
        self.rows.push(PageRow {
            id,
            entitlement,
            resource_type,
            resource,
            principal_type,
            principal,
            parent,
            has_parent,
            time,
            rest,
        });
    }

    fn add_rest(&mut self, rest: Option<&[u8]>) -> Span {
        let begin = self.rest.len() as u32;
        self.rest.extend_from_slice(rest.unwrap_or_default());
        Span { begin, end: self.rest.len() as u32 }
    }

    /// Adds a grant that lies in memory.
    pub(crate) fn push_grant(&mut self, grant: &Grant, rest: Option<&[u8]>) {
        let parent = grant.principal.parent.as_ref();
        let parent_spans = parent.map(|parent| [self.add(&parent.resource_type), self.add(&parent.resource)]);
        let row = PageRow {
            id: self.add(&grant.id),
            entitlement: self.add(&grant.entitlement.id),
            resource_type: self.add(&grant.entitlement.resource.resource_type),
            resource: self.add(&grant.entitlement.resource.resource),
            principal_type: self.add(&grant.principal.id.resource_type),
            principal: self.add(&grant.principal.id.resource),
            parent: parent_spans.unwrap_or_default(),
            has_parent: parent_spans.is_some(),
            time: grant.discovered_at,
            rest: self.add_rest(rest),
        };
        self.rows.push(row);
    }
}

/// One grant of a page.
#[derive(Clone, Copy)]
pub struct GrantView<'a> {
    page: &'a GrantPage,
    row: &'a PageRow,
}

impl<'a> GrantView<'a> {
    fn text(&self, span: Span) -> &'a str {
        self.page.text.get(span.begin as usize..span.end as usize).unwrap_or_default()
    }

    /// Its id.
    pub fn id(&self) -> &'a str {
        self.text(self.row.id)
    }

    /// The id of the entitlement.
    pub fn entitlement(&self) -> &'a str {
        self.text(self.row.entitlement)
    }

    /// The type of the entitlement's resource.
    pub fn resource_type(&self) -> &'a str {
        self.text(self.row.resource_type)
    }

    /// The entitlement's resource.
    pub fn resource(&self) -> &'a str {
        self.text(self.row.resource)
    }

    /// The type of the principal.
    pub fn principal_type(&self) -> &'a str {
        self.text(self.row.principal_type)
    }

    /// The principal.
    pub fn principal(&self) -> &'a str {
        self.text(self.row.principal)
    }

    /// Type and name of what the principal lies in, if the grant says so.
    pub fn principal_parent(&self) -> Option<(&'a str, &'a str)> {
        let [kind, name] = self.row.parent;
        self.row.has_parent.then(|| (self.text(kind), self.text(name)))
    }

    /// When it was seen.
    pub fn discovered_at(&self) -> Option<Timestamp> {
        self.row.time
    }

    /// The rarer fields as they are stored: equal bytes mean equal fields.
    pub(crate) fn rest(&self) -> Option<&'a [u8]> {
        let rest = self.page.rest.get(self.row.rest.begin as usize..self.row.rest.end as usize);
        rest.filter(|rest| !rest.is_empty())
    }

    /// The grant as an owned value, with its annotations and all rarer fields.
    ///
    /// # Errors
    /// When stored fields make no sense.
    pub fn to_grant(&self) -> Result<Grant, GraphError> {
        let mut grant = Grant {
            id: self.id().to_owned(),
            entitlement: EntitlementRef {
                resource: ResourceId::new(self.resource_type(), self.resource()),
                id: self.entitlement().to_owned(),
            },
            principal: PrincipalRef {
                id: ResourceId::new(self.principal_type(), self.principal()),
                parent: self.principal_parent().map(|(kind, name)| ResourceId::new(kind, name)),
            },
            discovered_at: self.discovered_at(),
            ..Grant::default()
        };
        if let Some(rest) = self.rest() {
            details::grant_rest(rest, &mut grant)?;
        }
        Ok(grant)
    }
}

impl std::fmt::Debug for GrantView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GrantView").field("id", &self.id()).finish_non_exhaustive()
    }
}
