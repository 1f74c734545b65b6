//! Whether a graph is sound: every byte by its digest, and what digests cannot show, that its sections agree.
//!
//! An index holds what its rows say and nothing else. That is decided by counting both sides and adding up their hashes,
//! with a seed that nobody knows before, so that neither side has to be sorted or kept; only when they differ are rows
//! looked up one by one, to name the first that is wrong.

use std::collections::BTreeMap;
use std::ops::Range;

use duramen_base::entropy;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::pack::GraphPack;
use crate::graph::error::GraphError;
use crate::graph::format::details::{self, Record};
use crate::graph::format::key;
use crate::graph::format::manifest::Kept;
use crate::graph::format::payload;
use crate::graph::format::records::RecordPage;
use crate::graph::format::rows::{block_key, Row, Rows};
use crate::graph::format::segment::{
    id_of, section_name, RowCursor, Segment, BY_PRINCIPAL, CHILDREN, ENTITLEMENT_IDS, ENTITLEMENT_TERMS,
    ENTITLEMENT_TERM_IDS, GRANTS, GRANT_IDS, PRINCIPAL_TERMS, SECTIONS,
};
use crate::graph::format::stats::SyncStats;
use crate::graph::format::table::Table;
use crate::graph::model::{Asset, Entitlement, Grant, Resource, ResourceType};
use duramen_pack::container::{Pack, Progress, Section, Verified};

impl GraphPack {
    /// Reads and checks every byte, as [`Pack::verify`] does, and then every sync: all rows can be read and are in order;
    /// each is in every index that it belongs to, and each entry of an index has its row; grants are of terms that are
    /// there; the counts are those of the manifest. Takes memory for one block and some bytes for each principal.
    ///
    /// # Errors
    /// [`Damaged`](duramen_pack::PackError::Damaged) with the first byte range that is wrong, and what is wrong there; when the file cannot be
    /// read.
    pub fn verify(&self, progress: Progress<'_>) -> Result<Verified, GraphError> {
        let (pack, size) = (self.pack(), self.pack().size());
        let verified = pack.verify(&mut |done, _| progress(done, 2 * size))?;
        let syncs = &self.manifest().syncs;
        let of_manifest = |what: String| GraphError::from(pack.damaged(pack.manifest_range(), what));
        for (at, kept) in syncs.iter().enumerate() {
            let same = |other: &Kept| other.number == kept.number || other.sync.id == kept.sync.id;
            if syncs.iter().take(at).any(same) {
                return Err(of_manifest(format!("its manifest has sync {} twice", kept.sync.id)));
            }
        }
        let wanted: Vec<String> =
            syncs.iter().flat_map(|kept| SECTIONS.map(|name| section_name(kept.number, name))).collect();
        for name in &wanted {
            if !pack.sections().iter().any(|section| section.name == *name) {
                return Err(of_manifest(format!(
                    "its manifest names a sync whose section {name} is not there"
                )));
            }
        }
        for section in pack.sections() {
            if !wanted.contains(&section.name) {
                let what = format!("section {:?} belongs to no sync", section.name);
                return Err(pack.damaged(section.range.clone(), what).into());
            }
        }
        let mut done = size;
        for kept in syncs {
            let segment = self.segment(kept)?;
            let mut advance = |range: Range<u64>| {
                done += range.end - range.start;
                progress(done, 2 * size);
            };
            Check { pack, kept, segment: &segment, seed: seed(), advance: &mut advance }.sync()?;
        }
        progress(2 * size, 2 * size);
        Ok(verified)
    }
}

fn seed() -> u64 {
    u64::from_le_bytes(entropy::random_bytes())
}

/// What is wrong with a record, or why that is not known.
enum Trouble {
    Wrong(String),
    Failed(GraphError),
}

impl From<GraphError> for Trouble {
    fn from(error: GraphError) -> Self {
        match error {
            GraphError::Malformed { .. } | GraphError::Newer { .. } => Trouble::Wrong(error.to_string()),
            other => Trouble::Failed(other),
        }
    }
}

fn wrong<T>(what: impl Into<String>) -> Result<T, Trouble> {
    Err(Trouble::Wrong(what.into()))
}

/// A set of byte strings, as far as two are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fingerprint {
    count: u64,
    sum: u64,
}

impl Fingerprint {
    fn add(&mut self, seed: u64, bytes: &[u8]) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(xxh3_64_with_seed(bytes, seed));
    }
}

/// What an index by principal says of an edge: 8 bytes of edge, whether the rows say more, and the time.
fn pair(principal: u32, entitlement: u32, more: bool, rows: &Rows, row: &Row) -> [u8; 22] {
    let mut bytes = [0; 22];
    bytes[..4].copy_from_slice(&principal.to_be_bytes());
    bytes[4..8].copy_from_slice(&entitlement.to_be_bytes());
    bytes[8] = u8::from(more);
    if let Some(time) = rows.time(row) {
        bytes[9] = 1;
        bytes[10..18].copy_from_slice(&time.seconds.to_be_bytes());
        bytes[18..].copy_from_slice(&time.nanos.to_be_bytes());
    }
    bytes
}

/// What the grants say that indexes and counts have to agree with.
struct Edges {
    rows: u64,
    /// Ids that are stated, with their edges.
    ids: Fingerprint,
    by_entitlement: Vec<u64>,
    by_principal: Vec<u64>,
    /// The sum of the hashes of each principal's edges.
    of_principal: Vec<u64>,
}

/// The grant before the one that is looked at.
struct Last {
    edge: (u32, u32),
    /// How many of its edge came before it.
    nth: u32,
    id: String,
    /// What the index by principal has to say of its edge.
    said: [u8; 22],
}

/// One sync on its way.
struct Check<'a> {
    pack: &'a Pack,
    kept: &'a Kept,
    segment: &'a Segment,
    seed: u64,
    advance: &'a mut dyn FnMut(Range<u64>),
}

impl Check<'_> {
    fn sync(&mut self) -> Result<(), GraphError> {
        let mut found = SyncStats { replaced: self.kept.stats.replaced, ..SyncStats::default() };
        found.resource_types = self.table::<ResourceType>(Table::ResourceTypes, |_, _| Ok(()))?;
        self.resources(&mut found)?;
        self.entitlements(&mut found)?;
        found.assets = self.table::<Asset>(Table::Assets, |_, _| Ok(()))?;
        self.grants(&mut found)?;
        self.counts(&found)
    }

    fn section(&self, name: &str) -> Result<Section, GraphError> {
        let name = section_name(self.kept.number, name);
        let missing = || self.pack.damaged(self.pack.manifest_range(), format!("{name} is missing"));
        Ok(self.pack.section(&name)?.ok_or_else(missing)?)
    }

    /// The error of a record in a block.
    fn at(&self, section: &Section, block: usize, record: usize, trouble: Trouble) -> GraphError {
        match trouble {
            Trouble::Failed(error) => error,
            Trouble::Wrong(what) => {
                let name = &section.info().name;
                let what = format!("record {record} of block {block} of section {name:?}: {what}");
                self.pack.damaged(section.range(block), what).into()
            }
        }
    }

    /// Calls `visit` with every record of a section, and says how many there are.
    fn records(
        &mut self,
        name: &str,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), Trouble>,
    ) -> Result<u64, GraphError> {
        let section = self.section(name)?;
        let (mut raw, mut last, mut total) = (Vec::new(), Vec::new(), 0);
        for block in 0..section.blocks() {
            section.read(block, &mut raw)?;
            let page = RecordPage::decode(&raw, section.records(block));
            let page = page.map_err(|error| self.at(&section, block, 0, error.into()))?;
            for record in 0..page.len() {
                let key = page.key(record);
                let checked = match record {
                    0 if key != section.first_key(block) => wrong("it is not the key that the index has"),
                    0 if block > 0 && key <= last.as_slice() => {
                        wrong("its key is not above the one before it")
                    }
                    _ => visit(key, page.value(record)),
                };
                checked.map_err(|trouble| self.at(&section, block, record, trouble))?;
            }
            total += page.len() as u64;
            match page.len().checked_sub(1) {
                Some(end) => last = page.key(end).to_vec(),
                None => return Err(self.at(&section, block, 0, Trouble::Wrong("there is none".to_owned()))),
            }
            (self.advance)(section.range(block));
        }
        Ok(total)
    }

    /// Calls `visit` with every row of a table and its key.
    fn table<R: Record>(
        &mut self,
        table: Table,
        mut visit: impl FnMut(&[u8], R) -> Result<(), Trouble>,
    ) -> Result<u64, GraphError> {
        self.records(table.section(), |key, value| visit(key, R::from_stored(key, value)?))
    }

    /// An index whose entries have nothing beside their key.
    fn index(&mut self, name: &str) -> Result<Fingerprint, GraphError> {
        let (mut index, seed) = (Fingerprint::default(), self.seed);
        self.records(name, |key, value| match value {
            [] => {
                index.add(seed, key);
                Ok(())
            }
            _ => wrong("it has a value where there is none"),
        })?;
        Ok(index)
    }

    fn resources(&mut self, found: &mut SyncStats) -> Result<(), GraphError> {
        let (seed, segment) = (self.seed, self.segment);
        let mut children = Fingerprint::default();
        let by_type = &mut found.resources_by_type;
        found.resources = self.table::<Resource>(Table::Resources, |key, row| {
            count(by_type, key, 1)?;
            if let Some(child) = child_key(&row, key) {
                children.add(seed, &child);
            }
            Ok(())
        })?;
        if self.index(CHILDREN)? == children {
            return Ok(());
        }
        self.records(CHILDREN, |key, _| {
            let child = key.splitn(3, |byte| *byte == 0).nth(2).unwrap_or_default();
            let row = segment
                .table(Table::Resources)?
                .get(child)?
                .map(|value| Resource::from_stored(child, &value));
            match row.transpose()?.and_then(|row| child_key(&row, child)) {
                Some(right) if right == key => Ok(()),
                _ => wrong(format!("there is no such child: {}", readable(key))),
            }
        })?;
        self.table::<Resource>(Table::Resources, |key, row| match child_key(&row, key) {
            Some(child) if segment.children()?.get(&child)?.is_none() => {
                wrong(format!("it is not in the index of children: {}", readable(key)))
            }
            _ => Ok(()),
        })?;
        self.disagreement(CHILDREN)
    }

    fn entitlements(&mut self, found: &mut SyncStats) -> Result<(), GraphError> {
        let (seed, segment) = (self.seed, self.segment);
        let mut ids = Fingerprint::default();
        let by_type = &mut found.entitlements_by_type;
        found.entitlements = self.table::<Entitlement>(Table::Entitlements, |key, _| {
            count(by_type, key, 1)?;
            ids.add(seed, &by_id(key));
            Ok(())
        })?;
        if self.index(ENTITLEMENT_IDS)? == ids {
            return Ok(());
        }
        self.records(ENTITLEMENT_IDS, |key, _| {
            let row = key.splitn(2, |byte| *byte == 0).nth(1).unwrap_or_default();
            match segment.table(Table::Entitlements)?.get(row)? {
                Some(_) if by_id(row) == key => Ok(()),
                _ => wrong(format!("there is no such entitlement: {}", readable(key))),
            }
        })?;
        self.table::<Entitlement>(Table::Entitlements, |key, _| {
            match segment.entitlement_ids()?.get(&by_id(key))? {
                Some(_) => Ok(()),
                None => wrong(format!("it is not in the index of ids: {}", readable(key))),
            }
        })?;
        self.disagreement(ENTITLEMENT_IDS)
    }

    fn grants(&mut self, found: &mut SyncStats) -> Result<(), GraphError> {
        let seed = self.seed;
        let (mut terms, mut number) = (Fingerprint::default(), 0_u32);
        self.records(ENTITLEMENT_TERMS, |key, _| {
            let Ok([_, _, _]) = <[String; 3]>::try_from(key::split(key)?) else {
                return wrong("an entitlement has three parts");
            };
            terms.add(seed, &[third(key), &[0], &number.to_be_bytes()].concat());
            number = number.wrapping_add(1);
            Ok(())
        })?;
        self.records(PRINCIPAL_TERMS, |key, _| match key::split(key)?.len() {
            2 | 4 => Ok(()),
            _ => wrong("a principal has two parts, or four with its parent"),
        })?;
        let edges = self.edges()?;
        self.entitlement_numbers(terms)?;
        self.pairs(&edges)?;
        self.grant_ids(&edges)?;

        found.grants = edges.rows;
        let used = |counts: &[u64]| counts.iter().filter(|count| **count > 0).count() as u64;
        // Terms of grants that were deleted may be counted.
        let stated = &self.kept.stats;
        let between = |used: u64, stated: u64, all: usize| stated.clamp(used, used.max(all as u64));
        found.granted_entitlements =
            between(used(&edges.by_entitlement), stated.granted_entitlements, edges.by_entitlement.len());
        found.principals = between(used(&edges.by_principal), stated.principals, edges.by_principal.len());
        for (name, counts, by_type) in [
            (ENTITLEMENT_TERMS, &edges.by_entitlement, &mut found.grants_by_type),
            (PRINCIPAL_TERMS, &edges.by_principal, &mut found.grants_by_principal_type),
        ] {
            let mut counts = counts.iter();
            self.records(name, |key, _| count(by_type, key, counts.next().copied().unwrap_or_default()))?;
        }
        Ok(())
    }

    /// All grants in their order.
    fn edges(&mut self) -> Result<Edges, GraphError> {
        let terms =
            [self.segment.entitlements()?, self.segment.principals()?].map(|terms| terms.records().len());
        let mut edges = Edges {
            rows: 0,
            ids: Fingerprint::default(),
            by_entitlement: vec![0; terms[0] as usize],
            by_principal: vec![0; terms[1] as usize],
            of_principal: vec![0; terms[1] as usize],
        };
        let section = self.section(GRANTS)?;
        let (mut raw, mut rows) = (Vec::new(), Rows::default());
        let mut last: Option<Last> = None;
        for block in 0..section.blocks() {
            section.read(block, &mut raw)?;
            let decoded = rows.decode(&raw).map_err(Trouble::from).and_then(|()| {
                match rows.rows.len() == section.records(block) as usize && !rows.rows.is_empty() {
                    true => Ok(()),
                    false => wrong("the index counts other rows"),
                }
            });
            decoded.map_err(|trouble| self.at(&section, block, 0, trouble))?;
            for (at, row) in rows.rows.iter().enumerate() {
                let step = self.edge(&rows, row, &mut edges, &mut last).and_then(|nth| {
                    match at > 0 || section.first_key(block) == block_key(row.major, row.minor, nth) {
                        true => Ok(()),
                        false => wrong("it is not the key that the index has"),
                    }
                });
                step.map_err(|trouble| self.at(&section, block, at, trouble))?;
            }
            edges.rows += rows.rows.len() as u64;
            (self.advance)(section.range(block));
        }
        if let Some(last) = last {
            self.note(&mut edges, &last.said);
        }
        Ok(edges)
    }

    /// One grant; says how many of its edge came before it.
    fn edge(
        &self,
        rows: &Rows,
        row: &Row,
        edges: &mut Edges,
        last: &mut Option<Last>,
    ) -> Result<u32, Trouble> {
        let edge = (row.major, row.minor);
        let (Some(of_entitlement), Some(of_principal)) =
            (edges.by_entitlement.get_mut(edge.0 as usize), edges.by_principal.get_mut(edge.1 as usize))
        else {
            return wrong(format!("there is no entitlement {} or principal {}", edge.0, edge.1));
        };
        *of_entitlement += 1;
        *of_principal += 1;
        let mut id = String::new();
        id_of(self.segment, row, rows, &mut id)?;
        let payload = rows.payload(row);
        if let Some(payload) = payload {
            let (stated, rest) = payload::parts(payload)?;
            if let Some(rest) = rest {
                details::grant_rest(rest, &mut Grant::default())?;
            }
            if let Some(stated) = stated {
                if !self.kept.ambiguous {
                    return wrong("it states its id, and its sync says that none does");
                }
                edges.ids.add(self.seed, &stated_id(stated, edge));
            }
        }
        let said = pair(edge.1, edge.0, payload.is_some(), rows, row);
        match last {
            Some(last) if last.edge > edge => return wrong("its edge is below the one before it"),
            Some(last) if last.edge == edge => {
                if last.id >= id {
                    return wrong("its id is not above the one before it of the same edge");
                }
                last.said[8] = 1;
                (last.nth, last.id) = (last.nth + 1, id);
                return Ok(last.nth);
            }
            Some(last) => self.note(edges, &last.said),
            None => {}
        }
        *last = Some(Last { edge, nth: 0, id, said });
        Ok(0)
    }

    /// Adds what the index has to say of an edge to what it has to say of its principal.
    fn note(&self, edges: &mut Edges, said: &[u8; 22]) {
        let principal = u32::from_be_bytes([said[0], said[1], said[2], said[3]]);
        if let Some(sum) = edges.of_principal.get_mut(principal as usize) {
            *sum = sum.wrapping_add(xxh3_64_with_seed(said, self.seed));
        }
    }

    fn entitlement_numbers(&mut self, terms: Fingerprint) -> Result<(), GraphError> {
        let (seed, segment) = (self.seed, self.segment);
        let mut numbers = Fingerprint::default();
        self.records(ENTITLEMENT_TERM_IDS, |id, value| {
            if value.is_empty() || value.len() % 4 != 0 {
                return wrong("its numbers are cut off");
            }
            for number in value.chunks_exact(4) {
                numbers.add(seed, &[id, &[0], number].concat());
            }
            Ok(())
        })?;
        if numbers == terms {
            return Ok(());
        }
        self.records(ENTITLEMENT_TERM_IDS, |id, value| {
            for number in value.as_chunks::<4>().0 {
                let number = u32::from_be_bytes(*number);
                let (page, range) = segment.entitlements()?.page(number)?;
                let part = page.part((number - range.start) as usize, 2).unwrap_or_default();
                if key::join(&[part]) != id {
                    return wrong(format!("entitlement {number} has another id: {}", readable(id)));
                }
            }
            Ok(())
        })?;
        let mut number = 0_u32;
        self.records(ENTITLEMENT_TERMS, |key, _| {
            let listed = segment.entitlement_term_ids()?.get(third(key))?.unwrap_or_default();
            if !listed.as_chunks::<4>().0.contains(&number.to_be_bytes()) {
                return wrong(format!("it is not in the index of ids: {}", readable(key)));
            }
            number = number.wrapping_add(1);
            Ok(())
        })?;
        self.disagreement(ENTITLEMENT_TERM_IDS)
    }

    /// The index by principal.
    fn pairs(&mut self, edges: &Edges) -> Result<(), GraphError> {
        let section = self.section(BY_PRINCIPAL)?;
        let (mut raw, mut rows) = (Vec::new(), Rows::default());
        let mut last = None;
        let mut sums = vec![0_u64; edges.of_principal.len()];
        for block in 0..section.blocks() {
            section.read(block, &mut raw)?;
            let decoded = rows.decode(&raw).map_err(Trouble::from);
            decoded.map_err(|trouble| self.at(&section, block, 0, trouble))?;
            for (at, row) in rows.rows.iter().enumerate() {
                let edge = (row.major, row.minor);
                let payload = rows.payload(row);
                let checked = match sums.get_mut(row.major as usize) {
                    None => wrong(format!("there is no principal {}", row.major)),
                    _ if last >= Some(edge) => wrong("its edge is not above the one before it"),
                    _ if payload.is_some_and(|payload| !payload.is_empty()) => {
                        wrong("it has a payload where there is none")
                    }
                    _ if at == 0 && section.first_key(block) != block_key(row.major, row.minor, 0) => {
                        wrong("it is not the key that the index has")
                    }
                    Some(sum) => {
                        let said = pair(row.major, row.minor, payload.is_some(), &rows, row);
                        *sum = sum.wrapping_add(xxh3_64_with_seed(&said, self.seed));
                        Ok(())
                    }
                };
                checked.map_err(|trouble| self.at(&section, block, at, trouble))?;
                last = Some(edge);
            }
            if rows.rows.len() != section.records(block) as usize || rows.rows.is_empty() {
                let trouble = Trouble::Wrong("the index counts other rows".to_owned());
                return Err(self.at(&section, block, 0, trouble));
            }
            (self.advance)(section.range(block));
        }
        let Some(principal) = sums.iter().zip(&edges.of_principal).position(|(found, right)| found != right)
        else {
            return Ok(());
        };
        let (page, range) = self.segment.principals()?.page(principal as u32)?;
        let part = |part| page.part(principal - range.start as usize, part).unwrap_or_default();
        let what = format!(
            "the index by principal of section {:?} does not have the grants of {}:{}",
            section.info().name,
            part(0),
            part(1)
        );
        let block = section.find(&block_key(principal as u32, 0, 0)).unwrap_or(0);
        Err(self.pack.damaged(section.range(block), what).into())
    }

    fn grant_ids(&mut self, edges: &Edges) -> Result<(), GraphError> {
        let (seed, segment) = (self.seed, self.segment);
        let mut ids = Fingerprint::default();
        self.records(GRANT_IDS, |id, edge| match edge.len() {
            8 => {
                ids.add(seed, &[id, edge].concat());
                Ok(())
            }
            _ => wrong("an edge has eight bytes"),
        })?;
        if ids == edges.ids {
            return Ok(());
        }
        self.records(GRANT_IDS, |id, edge| {
            let number = |at: usize| edge.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
            let (Some(major), Some(minor)) = (number(0), number(4)) else {
                return wrong("an edge has eight bytes");
            };
            let mut cursor = RowCursor::new(segment.grants()?);
            cursor.seek(major, minor)?;
            while let Some((row, rows)) =
                cursor.peek()?.filter(|(row, _)| (row.major, row.minor) == (major, minor))
            {
                let stated = rows.payload(&row).map(payload::parts).transpose()?.and_then(|(id, _)| id);
                if stated.is_some_and(|stated| stated.as_bytes() == id) {
                    return Ok(());
                }
                cursor.step();
            }
            wrong(format!("no grant of its edge has that id: {}", readable(id)))
        })?;
        // Every entry has its row, so there is a row without an entry: no other id is in the way of finding it.
        let section = self.section(GRANTS)?;
        let (mut raw, mut rows) = (Vec::new(), Rows::default());
        for block in 0..section.blocks() {
            section.read(block, &mut raw)?;
            rows.decode(&raw)?;
            for (at, row) in rows.rows.iter().enumerate() {
                let Some((Some(id), _)) = rows.payload(row).map(payload::parts).transpose()? else {
                    continue;
                };
                if segment.grant_ids()?.get(id.as_bytes())?.is_none() {
                    let trouble = Trouble::Wrong(format!("its id is not in the index of ids: {id:?}"));
                    return Err(self.at(&section, block, at, trouble));
                }
            }
        }
        self.disagreement(GRANT_IDS)
    }

    /// The counts of the manifest.
    fn counts(&self, found: &SyncStats) -> Result<(), GraphError> {
        let stated = &self.kept.stats;
        if found == stated {
            return Ok(());
        }
        let counts = |stats: &SyncStats| {
            [
                ("resource types", stats.resource_types),
                ("resources", stats.resources),
                ("entitlements", stats.entitlements),
                ("grants", stats.grants),
                ("assets", stats.assets),
                ("granted entitlements", stats.granted_entitlements),
                ("principals", stats.principals),
            ]
        };
        let differs = counts(found).into_iter().zip(counts(stated)).find(|(found, stated)| found != stated);
        let what = match differs {
            Some(((name, found), (_, stated))) => {
                format!("has {found} {name}, and its manifest says {stated}")
            }
            None => "has other counts by type than its manifest says".to_owned(),
        };
        let what = format!("sync {} {what}", self.kept.sync.id);
        Err(self.pack.damaged(self.pack.manifest_range(), what).into())
    }

    /// An index that is not what its rows say, although each of its entries has a row and each row an entry.
    fn disagreement(&self, name: &str) -> Result<(), GraphError> {
        let section = self.section(name)?;
        let what = format!("section {:?} does not agree with its rows", section.info().name);
        let end = section.range(section.blocks().saturating_sub(1)).end;
        Err(self.pack.damaged(section.range(0).start..end, what).into())
    }
}

/// Counts a row by the first part of its key.
fn count(by_type: &mut BTreeMap<String, u64>, key: &[u8], rows: u64) -> Result<(), Trouble> {
    if rows > 0 {
        let kind = key::component(key.split(|byte| *byte == 0).next().unwrap_or_default())?;
        *by_type.entry(kind).or_insert(0) += rows;
    }
    Ok(())
}

fn third(key: &[u8]) -> &[u8] {
    key.splitn(3, |byte| *byte == 0).nth(2).unwrap_or_default()
}

fn child_key(row: &Resource, key: &[u8]) -> Option<Vec<u8>> {
    let parent = row.parent.as_ref()?;
    Some([key::join(&[&parent.resource_type, &parent.resource]).as_slice(), &[0], key].concat())
}

fn by_id(key: &[u8]) -> Vec<u8> {
    [third(key), &[0], key].concat()
}

fn stated_id(id: &str, (entitlement, principal): (u32, u32)) -> Vec<u8> {
    [id.as_bytes(), &entitlement.to_be_bytes(), &principal.to_be_bytes()].concat()
}

/// A key for people.
fn readable(key: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(key).replace('\0', "/"))
}
