//! The sorted lists of entitlements and principals that grants refer to by number.
//!
//! A term is a key of several components: an entitlement has three (resource type, resource, id), a principal two
//! (resource type, resource), or four where its parent is known.

use std::ops::Range;
use std::sync::Arc;

use super::key;
use super::records::{PageCache, RecordPage, Records};
use crate::graph::error::GraphError;

/// The most components of a term.
const PARTS: usize = 4;

/// Decoded terms: their components as text.
pub(crate) struct TermPage {
    text: String,
    terms: Vec<Term>,
}

#[derive(Clone, Copy)]
struct Term {
    begin: u32,
    ends: [u32; PARTS],
    parts: u8,
}

impl TermPage {
    fn decode(page: &RecordPage) -> Result<Self, GraphError> {
        let mut text = String::new();
        let mut terms = Vec::with_capacity(page.len());
        for at in 0..page.len() {
            let mut term = Term { begin: text.len() as u32, ends: [0; PARTS], parts: 0 };
            for part in page.key(at).split(|byte| *byte == 0) {
                let Some(end) = term.ends.get_mut(usize::from(term.parts)) else {
                    return Err(GraphError::Malformed { what: "a term", at });
                };
                match std::str::from_utf8(part) {
                    Ok(plain) if !part.contains(&1) => text.push_str(plain),
                    _ => text.push_str(&key::component(part)?),
                }
                *end = text.len() as u32;
                term.parts += 1;
            }
            if term.parts < 2 {
                return Err(GraphError::Malformed { what: "a term", at });
            }
            terms.push(term);
        }
        Ok(TermPage { text, terms })
    }

    /// Component `part` of term `at`, if it has so many.
    pub(crate) fn part(&self, at: usize, part: usize) -> Option<&str> {
        let term = self.terms.get(at)?;
        if part >= usize::from(term.parts) {
            return None;
        }
        let begin = if part == 0 { term.begin } else { term.ends[part - 1] };
        self.text.get(begin as usize..term.ends[part] as usize)
    }
}

/// A list of terms, open for reading.
pub(crate) struct Terms {
    records: Records,
    pages: PageCache<TermPage>,
}

impl Terms {
    pub(crate) fn open(records: Records) -> Self {
        Terms { records, pages: PageCache::new() }
    }

    pub(crate) fn records(&self) -> &Records {
        &self.records
    }

    /// The page that holds a term, and the ordinal numbers in it.
    pub(crate) fn page(&self, ordinal: u32) -> Result<(Arc<TermPage>, Range<u32>), GraphError> {
        let block = self.records.block_of(u64::from(ordinal));
        let range = self.records.start(block)..self.records.start(block + 1);
        if !range.contains(&u64::from(ordinal)) {
            return Err(GraphError::Malformed { what: "the number of a term", at: ordinal as usize });
        }
        let page = self.pages.get(block, || {
            let page = TermPage::decode(&self.records.load(block)?)?;
            let size = page.text.capacity() + page.terms.capacity() * std::mem::size_of::<Term>();
            Ok((page, size))
        })?;
        Ok((page, range.start as u32..range.end as u32))
    }

    /// The numbers of the terms whose first components are these.
    pub(crate) fn range(&self, components: &[&str]) -> Result<Range<u32>, GraphError> {
        let range = self.records.prefix(&key::join(components))?;
        Ok(range.start as u32..range.end as u32)
    }
}

/// Looks terms up one after another; neighbours cost no search.
pub(crate) struct TermCursor<'a> {
    terms: &'a Terms,
    page: Option<(Arc<TermPage>, Range<u32>)>,
}

impl<'a> TermCursor<'a> {
    pub(crate) fn new(terms: &'a Terms) -> Self {
        TermCursor { terms, page: None }
    }

    /// The page of a term, and the place of the term in it.
    #[inline]
    pub(crate) fn seek(&mut self, ordinal: u32) -> Result<(&TermPage, usize), GraphError> {
        if !self.page.as_ref().is_some_and(|(_, range)| range.contains(&ordinal)) {
            self.page = Some(self.terms.page(ordinal)?);
        }
        match &self.page {
            Some((page, range)) => Ok((page, (ordinal - range.start) as usize)),
            None => Err(GraphError::Malformed { what: "the number of a term", at: ordinal as usize }),
        }
    }
}
