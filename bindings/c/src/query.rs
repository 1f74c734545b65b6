//! Which rows are asked for, and the page that answers.

use crate::error::Error;
use crate::flat::{self, Reader};
use crate::spare;

/// The most rows of a page, and how many there are when none are asked for: as in the ecosystem's SDK.
pub(crate) const PAGE_ROWS: usize = 10_000;

/// With so many bytes a page ends, though more rows were asked for: 64 MiB.
const PAGE_BYTES: usize = 64 << 20;

/// The kinds of rows. The numbers are those of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    ResourceTypes = 1,
    Resources = 2,
    Entitlements = 3,
    Grants = 4,
    Assets = 5,
    /// To be put only: grants that follow from others.
    ExpandedGrants = 6,
    /// To be deleted only: grants by their entitlement and principal.
    Edges = 7,
}

impl Kind {
    pub(crate) fn of(number: u32) -> Result<Kind, Error> {
        [
            Kind::ResourceTypes,
            Kind::Resources,
            Kind::Entitlements,
            Kind::Grants,
            Kind::Assets,
            Kind::ExpandedGrants,
            Kind::Edges,
        ]
        .into_iter()
        .find(|kind| *kind as u32 == number)
        .ok_or_else(|| {
            Error::Invalid(format!(
                "there is no kind {number} of rows; see the header for those that there are"
            ))
        })
    }
}

/// Which rows are meant. Numbers and texts are those of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope<'a> {
    All,
    Ids(&'a [&'a str]),
    ResourceType(&'a str),
    Resource(&'a str, &'a str),
    /// With the resource type that children have to have, if one is named.
    Parent(&'a str, &'a str, Option<&'a str>),
    /// An entitlement by resource and id, or by its id alone, with the types that principals may have, if any are named.
    Entitlement(&'a str, &'a str, &'a str, &'a [&'a str]),
    Principal(&'a str, &'a str),
    PrincipalType(&'a str),
    /// With types as in `Entitlement`.
    Edge([&'a str; 5], &'a [&'a str]),
    NeedsExpansion,
}

impl<'a> Scope<'a> {
    fn of(number: u32, texts: &'a [&'a str]) -> Result<Scope<'a>, Error> {
        Ok(match (number, texts) {
            (0, []) => Scope::All,
            (1, ids) => Scope::Ids(ids),
            (2, [resource_type]) => Scope::ResourceType(resource_type),
            (3, [resource_type, resource]) => Scope::Resource(resource_type, resource),
            (4, [resource_type, resource]) => Scope::Parent(resource_type, resource, None),
            (4, [resource_type, resource, of]) => Scope::Parent(resource_type, resource, Some(of)),
            (5, [resource_type, resource, id, types @ ..]) => {
                Scope::Entitlement(resource_type, resource, id, types)
            }
            (6, [resource_type, resource]) => Scope::Principal(resource_type, resource),
            (7, [resource_type]) => Scope::PrincipalType(resource_type),
            (8, [a, b, c, d, e, types @ ..]) => Scope::Edge([a, b, c, d, e], types),
            (9, []) => Scope::NeedsExpansion,
            (number, texts) => {
                let count = texts.len();
                return Err(Error::Invalid(format!(
                    "there is no scope {number} with {count} texts; see the header"
                )));
            }
        })
    }
}

/// What is asked, as it crosses the boundary.
pub(crate) struct Question<'a> {
    size: usize,
    scope: u32,
    token: &'a [u8],
    texts: Vec<&'a str>,
}

impl<'a> Question<'a> {
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes);
        let (size, scope) = (reader.number()? as usize, reader.number()?);
        let size = if (1..=PAGE_ROWS).contains(&size) { size } else { PAGE_ROWS };
        Ok(Question { size, scope, token: reader.blob()?, texts: reader.texts()? })
    }

    pub(crate) fn scope(&self) -> Result<Scope<'_>, Error> {
        Scope::of(self.scope, &self.texts)
    }

    /// The page that answers, with nothing in it yet.
    pub(crate) fn page(&self, kind: Kind) -> Page {
        Page {
            // Room for the numbers that come first.
            rows: spare::take(8),
            heads: Vec::new(),
            count: 0,
            size: self.size,
            mark: [kind as u8, self.scope as u8],
            token: Vec::new(),
        }
    }

    /// The names of the row behind which the page begins: `N` texts, or none for the first page.
    pub(crate) fn after<const N: usize>(&self, kind: Kind) -> Result<Option<[&'a str; N]>, Error> {
        let foreign = || {
            Error::Invalid("the page token does not belong to this query; start again without one".to_owned())
        };
        match self.token {
            [] => Ok(None),
            [a, b, names @ ..] if [*a, *b] == [kind as u8, self.scope as u8] => {
                let names = Reader::new(names).texts().map_err(|_| foreign())?;
                Ok(Some(names.try_into().map_err(|_| foreign())?))
            }
            _ => Err(foreign()),
        }
    }
}

/// Rows on their way beyond the boundary.
pub(crate) struct Page {
    pub(crate) rows: Vec<u8>,
    /// Numbers of grants: they stand behind all rows, so that texts can be copied in one piece.
    pub(crate) heads: Vec<u8>,
    count: usize,
    size: usize,
    mark: [u8; 2],
    token: Vec<u8>,
}

impl Page {
    pub(crate) fn is_full(&self) -> bool {
        self.count == self.size || self.rows.len() >= PAGE_BYTES
    }

    /// Counts a row that was put behind the others.
    #[inline]
    pub(crate) fn added(&mut self) {
        self.count += 1;
    }

    /// Says that there are more rows behind the one with these names, which is the last of this page.
    pub(crate) fn more_behind(&mut self, names: &[&str]) {
        self.token.clear();
        self.token.extend_from_slice(&self.mark);
        names.iter().for_each(|name| flat::put_blob(&mut self.token, name.as_bytes()));
    }

    /// The page as it crosses the boundary: how many rows there are, how many bytes they have, the rows, the numbers of
    /// grants, and the token of the next page.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let len = self.rows.len() - 8;
        self.rows[..4].copy_from_slice(&(self.count as u32).to_le_bytes());
        self.rows[4..8].copy_from_slice(&(len as u32).to_le_bytes());
        self.rows.extend_from_slice(&self.heads);
        self.rows.extend_from_slice(&self.token);
        self.rows
    }
}
