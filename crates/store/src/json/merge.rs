//! Merging documents: a patch into one, and two that come from a third.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde_json::Value;

use super::error::JsonError;
use super::path::{Place, Segment};
use super::scan::{Parts, RawKey};
use super::text::{check_level, check_size, validate_shape, write_key, write_value};

/// What [`three_way`] comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ThreeWay {
    /// The merged text.
    Merged(Vec<u8>),
    /// The paths at which both sides changed the same thing differently, in the order of our text and then theirs.
    Conflicts(Vec<String>),
}

/// A text after a JSON Merge Patch (RFC 7396). What the patch does not name keeps its bytes and its order.
///
/// # Errors
/// The limits' errors, and [`JsonError::Corrupt`] when the text is damaged.
pub(crate) fn merge_patch(text: &[u8], patch: &Value) -> Result<Vec<u8>, JsonError> {
    validate_shape(patch, 0)?;
    let mut merged = Vec::with_capacity(text.len() + 64);
    patch_into(Some((text, 0)), patch, 0, &mut merged)?;
    check_size(merged.len())?;
    Ok(merged)
}

/// Appends what `patch` makes of the value that begins at an offset of a text, or of nothing.
fn patch_into(
    target: Option<(&[u8], usize)>,
    patch: &Value,
    depth: usize,
    out: &mut Vec<u8>,
) -> Result<(), JsonError> {
    let Value::Object(changes) = patch else { return write_value(patch, out) };
    check_level(depth)?;
    let mut list = List::open(b'{', out);
    let mut seen = HashSet::new();
    let parts = target.and_then(|(text, at)| Some((text, Parts::begin_at(text, at)?)));
    if let Some((text, mut parts)) = parts.filter(|(_, parts)| parts.is_object()) {
        while let Some(part) = parts.next_part()? {
            let key = key_text(part.raw_key, part.start)?;
            match changes.get_key_value(key.as_ref()) {
                Some((name, change)) => {
                    seen.insert(name.as_str());
                    if !change.is_null() {
                        list.next(out);
                        out.extend_from_slice(&text[part.start..part.value.start]);
                        patch_into(Some((text, part.value.start)), change, depth + 1, out)?;
                    }
                }
                None => {
                    list.next(out);
                    out.extend_from_slice(&text[part.start..part.value.end]);
                }
            }
        }
    }
    for (key, change) in changes {
        if change.is_null() || seen.contains(key.as_str()) {
            continue;
        }
        list.next(out);
        write_key(key, out)?;
        patch_into(None, change, depth + 1, out)?;
    }
    list.close(b'}', out);
    Ok(())
}

/// Merges two texts that come from `base`, key by key.
///
/// Objects are merged member by member; arrays and scalars are taken whole. A member that one side changed, added or
/// deleted goes by that side; one that both changed alike, by either. The merged text has our order, then what they
/// added. Without a base, what both have and is not an object must be equal.
///
/// # Errors
/// [`JsonError::Corrupt`] when a text is damaged, and the limits' errors.
pub(crate) fn three_way(base: Option<&[u8]>, ours: &[u8], theirs: &[u8]) -> Result<ThreeWay, JsonError> {
    let mut merge = Merge { conflicts: Vec::new(), place: Vec::new() };
    let mut merged = Vec::with_capacity(ours.len() + 64);
    merge.value(base, ours, theirs, &mut merged)?;
    if !merge.conflicts.is_empty() {
        return Ok(ThreeWay::Conflicts(merge.conflicts));
    }
    check_size(merged.len())?;
    Ok(ThreeWay::Merged(merged))
}

struct Merge {
    conflicts: Vec<String>,
    place: Vec<Segment>,
}

impl Merge {
    /// Appends the merge of two values that both sides have. After a conflict, what is appended means nothing.
    fn value(
        &mut self,
        base: Option<&[u8]>,
        ours: &[u8],
        theirs: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), JsonError> {
        if ours == theirs || base == Some(theirs) {
            out.extend_from_slice(ours);
            return Ok(());
        }
        if base == Some(ours) {
            out.extend_from_slice(theirs);
            return Ok(());
        }
        let is_object = |text: &[u8]| text.first() == Some(&b'{');
        if is_object(ours) && is_object(theirs) && base.is_none_or(is_object) {
            return self.object(base, ours, theirs, out);
        }
        // The same members in another order are not a change.
        if same(ours, theirs) || base.is_some_and(|base| same(base, theirs)) {
            out.extend_from_slice(ours);
        } else if base.is_some_and(|base| same(base, ours)) {
            out.extend_from_slice(theirs);
        } else {
            self.conflict();
        }
        Ok(())
    }

    fn object(
        &mut self,
        base: Option<&[u8]>,
        ours: &[u8],
        theirs: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), JsonError> {
        check_level(self.place.len())?;
        let base = base.map_or_else(|| Ok(Members::default()), Members::parse)?;
        let (ours, theirs) = (Members::parse(ours)?, Members::parse(theirs)?);
        let mut list = List::open(b'{', out);
        for (key, ours) in &ours.in_order {
            self.place.push(Segment::Key(key.clone()));
            let before = base.get(key);
            match theirs.get(key) {
                Some(theirs) => {
                    list.next(out);
                    write_key(key, out)?;
                    self.value(before, ours, theirs, out)?;
                }
                None => match before {
                    None => {
                        list.next(out);
                        write_key(key, out)?;
                        out.extend_from_slice(ours);
                    }
                    Some(before) if same(before, ours) => {}
                    Some(_) => self.conflict(),
                },
            }
            self.place.pop();
        }
        for (key, theirs) in &theirs.in_order {
            if ours.get(key).is_some() {
                continue;
            }
            match base.get(key) {
                None => {
                    list.next(out);
                    write_key(key, out)?;
                    out.extend_from_slice(theirs);
                }
                Some(before) if same(before, theirs) => {}
                Some(_) => {
                    self.place.push(Segment::Key(key.clone()));
                    self.conflict();
                    self.place.pop();
                }
            }
        }
        list.close(b'}', out);
        Ok(())
    }

    fn conflict(&mut self) {
        self.conflicts.push(Place(&self.place).to_string());
    }
}

/// The members of an object by key.
#[derive(Default)]
struct Members<'a> {
    in_order: Vec<(String, &'a [u8])>,
    by_key: HashMap<String, Range<usize>>,
    text: &'a [u8],
}

impl<'a> Members<'a> {
    fn parse(text: &'a [u8]) -> Result<Members<'a>, JsonError> {
        let mut members = Members { text, ..Members::default() };
        let mut parts = Parts::begin_at(text, 0).ok_or(JsonError::Corrupt { position: 0 })?;
        while let Some(part) = parts.next_part()? {
            let key = key_text(part.raw_key, part.start)?.into_owned();
            members.in_order.push((key.clone(), &text[part.value.clone()]));
            members.by_key.insert(key, part.value);
        }
        Ok(members)
    }

    fn get(&self, key: &str) -> Option<&'a [u8]> {
        self.by_key.get(key).map(|range| &self.text[range.clone()])
    }
}

/// An array or object that is being written.
struct List {
    empty: bool,
}

impl List {
    fn open(bracket: u8, out: &mut Vec<u8>) -> List {
        out.push(bracket);
        List { empty: true }
    }

    /// Comes before each part.
    fn next(&mut self, out: &mut Vec<u8>) {
        if !std::mem::take(&mut self.empty) {
            out.push(b',');
        }
    }

    fn close(self, bracket: u8, out: &mut Vec<u8>) {
        out.push(bracket);
    }
}

fn key_text(raw: Option<RawKey<'_>>, position: usize) -> Result<Cow<'_, str>, JsonError> {
    raw.as_ref().and_then(RawKey::text).ok_or(JsonError::Corrupt { position })
}

/// Whether two texts mean the same value. The order of members means nothing.
fn same(a: &[u8], b: &[u8]) -> bool {
    let parse = |text| serde_json::from_slice::<Value>(text).ok();
    // Reordered members have the same bytes, so texts of different lengths need not be parsed.
    a == b || (a.len() == b.len() && parse(a).is_some_and(|value| Some(value) == parse(b)))
}
