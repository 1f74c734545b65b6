//! The rows of one sync in a pack: its sections, open for reading. It never changes.

use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use super::key;
use super::payload;
use super::records::Records;
use super::rows::{block_key, Row, Rows};
use super::table::Table;
use super::terms::Terms;
use crate::graph::error::GraphError;
use duramen_pack::container::{Pack, Section};

pub(crate) const GRANTS: &str = "grants";
pub(crate) const BY_PRINCIPAL: &str = "by-principal";
pub(crate) const ENTITLEMENT_TERMS: &str = "grant-entitlements";
pub(crate) const PRINCIPAL_TERMS: &str = "grant-principals";
pub(crate) const ENTITLEMENT_TERM_IDS: &str = "grant-entitlement-ids";
pub(crate) const GRANT_IDS: &str = "grant-ids";
pub(crate) const ENTITLEMENT_IDS: &str = "entitlement-ids";
pub(crate) const CHILDREN: &str = "children";

/// All sections of a sync, in the order in which they lie in the file.
pub(crate) const SECTIONS: [&str; 12] = [
    "resource-types",
    "resources",
    CHILDREN,
    "entitlements",
    ENTITLEMENT_IDS,
    "assets",
    ENTITLEMENT_TERMS,
    PRINCIPAL_TERMS,
    GRANTS,
    ENTITLEMENT_TERM_IDS,
    BY_PRINCIPAL,
    GRANT_IDS,
];

/// The name of a section of the sync that has a number in its file.
pub(crate) fn section_name(sync: u32, section: &str) -> String {
    format!("{sync}/{section}")
}

/// The sections of one sync. The block index of each is read when the first query needs it, so that a query over a network
/// costs no requests for sections that have nothing to do with it.
pub(crate) struct Segment {
    tables: [Lazy<Records>; 4],
    children: Lazy<Records>,
    entitlement_ids: Lazy<Records>,
    entitlements: Lazy<Terms>,
    principals: Lazy<Terms>,
    entitlement_term_ids: Lazy<Records>,
    grant_ids: Lazy<Records>,
    grants: Lazy<Section>,
    by_principal: Lazy<Section>,
    /// Whether a row states its id, or could have that of another.
    pub(crate) ambiguous: bool,
}

/// A section that is opened when it is first asked for.
struct Lazy<T> {
    pack: Pack,
    name: String,
    opened: OnceLock<T>,
}

impl<T> Lazy<T> {
    /// # Errors
    /// When the file has no such section.
    fn new(pack: &Pack, name: String) -> Result<Self, GraphError> {
        if !pack.sections().iter().any(|section| section.name == name) {
            return Err(GraphError::NotAGraph { path: Path::new(pack.name()).to_owned() });
        }
        Ok(Lazy { pack: pack.clone(), name, opened: OnceLock::new() })
    }

    fn get(&self, open: impl FnOnce(Section) -> T) -> Result<&T, GraphError> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let missing = || GraphError::NotAGraph { path: Path::new(self.pack.name()).to_owned() };
        let section = self.pack.section(&self.name)?.ok_or_else(missing)?;
        // Two threads may have opened it; one of them is kept.
        Ok(self.opened.get_or_init(|| open(section)))
    }
}

impl Segment {
    pub(crate) fn open(pack: &Pack, sync: u32, ambiguous: bool) -> Result<Self, GraphError> {
        fn lazy<T>(pack: &Pack, sync: u32, name: &str) -> Result<Lazy<T>, GraphError> {
            Lazy::new(pack, section_name(sync, name))
        }
        Ok(Segment {
            tables: [
                lazy(pack, sync, Table::ResourceTypes.section())?,
                lazy(pack, sync, Table::Resources.section())?,
                lazy(pack, sync, Table::Entitlements.section())?,
                lazy(pack, sync, Table::Assets.section())?,
            ],
            children: lazy(pack, sync, CHILDREN)?,
            entitlement_ids: lazy(pack, sync, ENTITLEMENT_IDS)?,
            entitlements: lazy(pack, sync, ENTITLEMENT_TERMS)?,
            principals: lazy(pack, sync, PRINCIPAL_TERMS)?,
            entitlement_term_ids: lazy(pack, sync, ENTITLEMENT_TERM_IDS)?,
            grant_ids: lazy(pack, sync, GRANT_IDS)?,
            grants: lazy(pack, sync, GRANTS)?,
            by_principal: lazy(pack, sync, BY_PRINCIPAL)?,
            ambiguous,
        })
    }

    pub(crate) fn table(&self, table: Table) -> Result<&Records, GraphError> {
        self.tables[table as usize].get(Records::open)
    }

    pub(crate) fn children(&self) -> Result<&Records, GraphError> {
        self.children.get(Records::open)
    }

    pub(crate) fn entitlement_ids(&self) -> Result<&Records, GraphError> {
        self.entitlement_ids.get(Records::open)
    }

    pub(crate) fn entitlements(&self) -> Result<&Terms, GraphError> {
        self.entitlements.get(|section| Terms::open(Records::open(section)))
    }

    pub(crate) fn principals(&self) -> Result<&Terms, GraphError> {
        self.principals.get(|section| Terms::open(Records::open(section)))
    }

    pub(crate) fn entitlement_term_ids(&self) -> Result<&Records, GraphError> {
        self.entitlement_term_ids.get(Records::open)
    }

    pub(crate) fn grant_ids(&self) -> Result<&Records, GraphError> {
        self.grant_ids.get(Records::open)
    }

    pub(crate) fn grants(&self) -> Result<&Section, GraphError> {
        self.grants.get(|section| section)
    }

    pub(crate) fn by_principal(&self) -> Result<&Section, GraphError> {
        self.by_principal.get(|section| section)
    }

    /// The grants that have an id: their edges. There is one at most, but ids that several edges could have are looked
    /// at one by one.
    pub(crate) fn edges_of(&self, id: &str) -> Result<Vec<(u32, u32)>, GraphError> {
        let mut edges = Vec::new();
        if let Some(edge) = self.grant_ids()?.get(id.as_bytes())? {
            edges.push(edge_of(&edge)?);
        }
        for (colon, _) in id.match_indices(':') {
            let (entitlement, rest) = (&id[..colon], &id[colon + 1..]);
            let Some(found) = self.entitlement_term_ids()?.get(&key::join(&[entitlement]))? else { continue };
            for (colon, _) in rest.match_indices(':') {
                let principals = self.principals()?.range(&[&rest[..colon], &rest[colon + 1..]])?;
                for entitlement in found.chunks_exact(4) {
                    let entitlement = u32::from_be_bytes(entitlement.try_into().unwrap_or_default());
                    edges.extend(principals.clone().map(|principal| (entitlement, principal)));
                }
            }
        }
        Ok(edges)
    }

    /// The numbers of the entitlements that have an id.
    pub(crate) fn entitlements_of(&self, id: &str) -> Result<Vec<u32>, GraphError> {
        let found = self.entitlement_term_ids()?.get(&key::join(&[id]))?.unwrap_or_default();
        Ok(found
            .chunks_exact(4)
            .map(|each| u32::from_be_bytes(each.try_into().unwrap_or_default()))
            .collect())
    }
}

fn edge_of(bytes: &[u8]) -> Result<(u32, u32), GraphError> {
    let number = |range: Range<usize>| {
        let bytes = bytes.get(range).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u32::from_be_bytes).ok_or(GraphError::Malformed { what: "an edge of an id", at: 0 })
    };
    Ok((number(0..4)?, number(4..8)?))
}

/// Walks over the rows of a section of edges in order.
pub(crate) struct RowCursor<'a> {
    section: &'a Section,
    block: usize,
    at: usize,
    raw: Vec<u8>,
    rows: Rows,
    loaded: Option<usize>,
}

impl<'a> RowCursor<'a> {
    pub(crate) fn new(section: &'a Section) -> Self {
        RowCursor { section, block: 0, at: 0, raw: Vec::new(), rows: Rows::default(), loaded: None }
    }

    /// Goes to the first row that is not below an edge.
    pub(crate) fn seek(&mut self, major: u32, minor: u32) -> Result<(), GraphError> {
        self.block = self.section.find(&block_key(major, minor, 0)).unwrap_or(0);
        self.at = 0;
        self.load()?;
        if self.loaded == Some(self.block) {
            self.at = self.rows.rows.partition_point(|row| (row.major, row.minor) < (major, minor));
        }
        Ok(())
    }

    fn load(&mut self) -> Result<(), GraphError> {
        if self.loaded != Some(self.block) && self.block < self.section.blocks() {
            self.loaded = None;
            self.section.read(self.block, &mut self.raw)?;
            self.rows.decode(&self.raw)?;
            self.loaded = Some(self.block);
        }
        Ok(())
    }

    /// The row that is next, and where its time and payload are.
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<Option<(Row, &Rows)>, GraphError> {
        loop {
            if self.block >= self.section.blocks() {
                return Ok(None);
            }
            self.load()?;
            if let Some(row) = self.rows.rows.get(self.at) {
                return Ok(Some((*row, &self.rows)));
            }
            self.block += 1;
            self.at = 0;
        }
    }

    #[inline]
    pub(crate) fn step(&mut self) {
        self.at += 1;
    }
}

/// The id of a row, as it is stated or follows from the edge.
pub(crate) fn id_of(segment: &Segment, row: &Row, rows: &Rows, out: &mut String) -> Result<(), GraphError> {
    out.clear();
    if let Some((Some(id), _)) = rows.payload(row).map(payload::parts).transpose()? {
        out.push_str(id);
        return Ok(());
    }
    let (entitlements, range) = segment.entitlements()?.page(row.major)?;
    let id = entitlements.part((row.major - range.start) as usize, 2).unwrap_or_default();
    let (principals, range) = segment.principals()?.page(row.minor)?;
    let principal = (row.minor - range.start) as usize;
    out.push_str(id);
    for part in 0..2 {
        out.push(':');
        out.push_str(principals.part(principal, part).unwrap_or_default());
    }
    Ok(())
}
