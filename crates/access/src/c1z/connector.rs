//! Rows as connectors send them: messages of `c1.connector.v2`, which files of version 1 hold.
//!
//! A field that the model has no place for is kept in [`Extra::connector`](crate::graph::Extra). One of a nested message
//! is kept there too, wrapped in its parent's field: protobuf merges fields that come twice, so writing the wrapped
//! field behind the row gives the same message again. Messages that never grow (annotations, times, sources) have no
//! such place: an unknown field in one of them is refused by name.

use super::error::Bad;
use super::wire::{self, Field, Fields};
use crate::graph::{
    Any, Entitlement, EntitlementRef, Expansion, Grant, GrantRef, PrincipalRef, Purpose, Resource,
    ResourceId, ResourceType, Timestamp, Trait,
};

/// The end of the name of the annotation that makes a grant expand.
const EXPANDABLE: &str = "/c1.connector.v2.GrantExpandable";

pub(crate) fn resource_type(bytes: &[u8]) -> Result<ResourceType, Bad> {
    let mut row = ResourceType::default();
    let mut fields = Fields::new(bytes);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => row.id = field.text()?.to_owned(),
            2 => row.display_name = field.text()?.to_owned(),
            3 => traits(&field, &mut row.traits)?,
            4 => row.annotations.push(any(&field)?),
            5 => row.description = field.text()?.to_owned(),
            6 => row.sourced_externally = field.flag()?,
            _ => row.extra.connector.extend_from_slice(field.raw),
        }
    }
    Ok(row)
}

pub(crate) fn put_resource_type(out: &mut Vec<u8>, row: &ResourceType) {
    wire::put_bytes(out, 1, row.id.as_bytes());
    wire::put_bytes(out, 2, row.display_name.as_bytes());
    if !row.traits.is_empty() {
        wire::put_message(out, 3, |out| {
            for each in &row.traits {
                wire::put_varint(out, i64::from(each.number()) as u64);
            }
        });
    }
    put_annotations(out, 4, &row.annotations);
    wire::put_bytes(out, 5, row.description.as_bytes());
    wire::put_flag(out, 6, row.sourced_externally);
    out.extend_from_slice(&row.extra.connector);
}

/// Repeated enums come packed, and from old writers one by one.
fn traits(field: &Field<'_>, into: &mut Vec<Trait>) -> Result<(), Bad> {
    if let wire::Value::Varint(_) = field.value {
        into.push(Trait::from_number(field.int32()?));
        return Ok(());
    }
    let packed = field.bytes()?;
    let mut at = 0;
    while at < packed.len() {
        let number = wire::varint(packed, &mut at).map_err(|bad| bad.shifted(field.content_at()))?;
        into.push(Trait::from_number(number as u32 as i32));
    }
    Ok(())
}

pub(crate) fn resource(bytes: &[u8]) -> Result<Resource, Bad> {
    let mut row = Resource::default();
    let extra = &mut row.extra.connector;
    let mut fields = Fields::new(bytes);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => resource_id(&field, &mut row.id, extra)?,
            2 => resource_id(&field, row.parent.get_or_insert_default(), extra)?,
            3 => row.display_name = field.text()?.to_owned(),
            4 => row.annotations.push(any(&field)?),
            5 => row.description = field.text()?.to_owned(),
            6 => row.baton_resource = field.flag()?,
            9 => row.profile.get_or_insert_default().extend_from_slice(field.bytes()?),
            10 => asset_ref(&field, row.icon.get_or_insert_default(), extra)?,
            11 => row.status.get_or_insert_default().extend_from_slice(field.bytes()?),
            12 => row.created_at = Some(timestamp(&field)?),
            _ => extra.extend_from_slice(field.raw),
        }
    }
    Ok(row)
}

pub(crate) fn put_resource(out: &mut Vec<u8>, row: &Resource) {
    put_resource_id(out, 1, &row.id.resource_type, &row.id.resource);
    if let Some(parent) = &row.parent {
        put_resource_id(out, 2, &parent.resource_type, &parent.resource);
    }
    wire::put_bytes(out, 3, row.display_name.as_bytes());
    put_annotations(out, 4, &row.annotations);
    wire::put_bytes(out, 5, row.description.as_bytes());
    wire::put_flag(out, 6, row.baton_resource);
    if let Some(profile) = &row.profile {
        wire::put_bytes_always(out, 9, profile);
    }
    if let Some(icon) = &row.icon {
        wire::put_message(out, 10, |out| wire::put_bytes(out, 1, icon.as_bytes()));
    }
    if let Some(status) = &row.status {
        wire::put_bytes_always(out, 11, status);
    }
    if let Some(time) = row.created_at {
        put_timestamp(out, 12, time);
    }
    out.extend_from_slice(&row.extra.connector);
}

fn asset_ref(field: &Field<'_>, icon: &mut String, extra: &mut Vec<u8>) -> Result<(), Bad> {
    let mut rest = Vec::new();
    let mut fields = Fields::new(field.bytes()?);
    while let Some(inner) = fields.next().map_err(|bad| bad.shifted(field.content_at()))? {
        match inner.number {
            1 => *icon = inner.text().map_err(|bad| bad.shifted(field.content_at()))?.to_owned(),
            _ => rest.extend_from_slice(inner.raw),
        }
    }
    keep_rest(extra, field.number, &rest);
    Ok(())
}

/// Keeps what a nested message holds beyond the model, wrapped in the field that it stood in.
fn keep_rest(extra: &mut Vec<u8>, number: u32, rest: &[u8]) {
    if !rest.is_empty() {
        wire::put_bytes_always(extra, number, rest);
    }
}

fn resource_id(field: &Field<'_>, id: &mut ResourceId, extra: &mut Vec<u8>) -> Result<(), Bad> {
    let mut rest = Vec::new();
    let base = field.content_at();
    let mut fields = Fields::new(field.bytes()?);
    while let Some(inner) = fields.next().map_err(|bad| bad.shifted(base))? {
        match inner.number {
            1 => id.resource_type = inner.text().map_err(|bad| bad.shifted(base))?.to_owned(),
            2 => id.resource = inner.text().map_err(|bad| bad.shifted(base))?.to_owned(),
            _ => rest.extend_from_slice(inner.raw),
        }
    }
    keep_rest(extra, field.number, &rest);
    Ok(())
}

fn put_resource_id(out: &mut Vec<u8>, number: u32, resource_type: &str, resource: &str) {
    wire::put_message(out, number, |out| {
        wire::put_bytes(out, 1, resource_type.as_bytes());
        wire::put_bytes(out, 2, resource.as_bytes());
    });
}

pub(crate) fn entitlement(bytes: &[u8]) -> Result<Entitlement, Bad> {
    let mut row = Entitlement::default();
    let mut grantable = Vec::new();
    let mut plain = true;
    let mut fields = Fields::new(bytes);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => {
                let (id, parent, only_ids) = ids_of_resource(&field)?;
                row.resource = id;
                row.embedded_resource =
                    (!only_ids || parent.is_some()).then(|| field.bytes().map(<[u8]>::to_vec)).transpose()?;
            }
            2 => row.id = field.text()?.to_owned(),
            3 => row.display_name = field.text()?.to_owned(),
            4 => row.description = field.text()?.to_owned(),
            5 => {
                let base = field.content_at();
                let mut id = String::new();
                let mut inner = Fields::new(field.bytes()?);
                while let Some(each) = inner.next().map_err(|bad| bad.shifted(base))? {
                    match each.number {
                        1 => id = each.text().map_err(|bad| bad.shifted(base))?.to_owned(),
                        _ => plain = false,
                    }
                }
                row.grantable_to.push(id);
                grantable.push(field.bytes()?);
            }
            6 => row.annotations.push(any(&field)?),
            7 => row.purpose = Purpose::from_number(field.int32()?),
            8 => row.slug = field.text()?.to_owned(),
            _ => row.extra.connector.extend_from_slice(field.raw),
        }
    }
    if !plain {
        row.embedded_grantable_to = grantable.into_iter().map(<[u8]>::to_vec).collect();
    }
    Ok(row)
}

pub(crate) fn put_entitlement(out: &mut Vec<u8>, row: &Entitlement) {
    match &row.embedded_resource {
        Some(resource) => wire::put_bytes_always(out, 1, resource),
        None => wire::put_message(out, 1, |out| {
            put_resource_id(out, 1, &row.resource.resource_type, &row.resource.resource);
        }),
    }
    wire::put_bytes(out, 2, row.id.as_bytes());
    wire::put_bytes(out, 3, row.display_name.as_bytes());
    wire::put_bytes(out, 4, row.description.as_bytes());
    if row.embedded_grantable_to.is_empty() {
        for id in &row.grantable_to {
            wire::put_message(out, 5, |out| wire::put_bytes(out, 1, id.as_bytes()));
        }
    } else {
        for message in &row.embedded_grantable_to {
            wire::put_bytes_always(out, 5, message);
        }
    }
    put_annotations(out, 6, &row.annotations);
    wire::put_int32(out, 7, row.purpose.number());
    wire::put_bytes(out, 8, row.slug.as_bytes());
    out.extend_from_slice(&row.extra.connector);
}

/// A grant, and whether its message names the entitlement and the principal: short writers leave them to the columns.
/// With `expands`, the first annotation that says how the grant expands becomes its expansion.
pub(crate) fn grant(bytes: &[u8], expands: bool) -> Result<(Grant, bool, bool), Bad> {
    let mut row = Grant::default();
    let (mut has_entitlement, mut has_principal) = (false, false);
    let mut fields = Fields::new(bytes);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => {
                has_entitlement = true;
                let (entitlement, only_ids) = ids_of_entitlement(&field)?;
                row.entitlement = entitlement;
                row.embedded_entitlement =
                    (!only_ids).then(|| field.bytes().map(<[u8]>::to_vec)).transpose()?;
            }
            2 => {
                has_principal = true;
                let (id, parent, only_ids) = ids_of_resource(&field)?;
                row.principal = PrincipalRef { id, parent };
                row.embedded_principal =
                    (!only_ids).then(|| field.bytes().map(<[u8]>::to_vec)).transpose()?;
            }
            3 => row.id = field.text()?.to_owned(),
            4 => {
                let annotation = any(&field)?;
                let found = match expands && row.expansion.is_none() {
                    true => expansion_of(&annotation),
                    false => Ok(None),
                };
                match found.map_err(|bad| bad.shifted(field.content_at()))? {
                    Some(expansion) => {
                        row.expansion = Some(expansion);
                        row.needs_expansion = true;
                    }
                    None => row.annotations.push(annotation),
                }
            }
            5 => sources(&field, &mut row.sources)?,
            _ => row.extra.connector.extend_from_slice(field.raw),
        }
    }
    // A map may name a key twice; the last one counts.
    row.sources.reverse();
    row.sources.sort_by(|a, b| a.0.cmp(&b.0));
    row.sources.dedup_by(|later, first| later.0 == first.0);
    Ok((row, has_entitlement, has_principal))
}

pub(crate) fn put_grant(out: &mut Vec<u8>, row: &GrantRef<'_>) {
    let rest = row.rest;
    match rest.and_then(|rest| rest.embedded_entitlement.as_deref()) {
        Some(message) => wire::put_bytes_always(out, 1, message),
        None => wire::put_message(out, 1, |out| {
            wire::put_message(out, 1, |out| put_resource_id(out, 1, row.resource_type, row.resource));
            wire::put_bytes(out, 2, row.entitlement.as_bytes());
        }),
    }
    match rest.and_then(|rest| rest.embedded_principal.as_deref()) {
        Some(message) => wire::put_bytes_always(out, 2, message),
        None => wire::put_message(out, 2, |out| {
            put_resource_id(out, 1, row.principal_type, row.principal);
            if let Some(parent) = rest.and_then(|rest| rest.principal.parent.as_ref()) {
                put_resource_id(out, 2, &parent.resource_type, &parent.resource);
            }
        }),
    }
    wire::put_bytes(out, 3, row.id.as_bytes());
    let Some(rest) = rest else { return };
    put_annotations(out, 4, &rest.annotations);
    put_sources(out, &rest.sources);
    out.extend_from_slice(&rest.extra.connector);
}

/// Writes the principal of a grant, of which only the parent is said.
pub(crate) fn put_parent_of_principal(out: &mut Vec<u8>, parent: &ResourceId) {
    wire::put_message(out, 2, |out| put_resource_id(out, 2, &parent.resource_type, &parent.resource));
}

/// Writes the sources of a grant; nothing when there are none.
pub(crate) fn put_sources(out: &mut Vec<u8>, sources: &[(String, bool)]) {
    if sources.is_empty() {
        return;
    }
    wire::put_message(out, 5, |out| {
        for (id, is_direct) in sources {
            wire::put_message(out, 1, |out| {
                wire::put_bytes(out, 1, id.as_bytes());
                wire::put_message(out, 2, |out| wire::put_flag(out, 1, *is_direct));
            });
        }
    });
}

/// The expansion that an annotation says; none when it says something else.
pub(crate) fn expansion_of(annotation: &Any) -> Result<Option<Expansion>, Bad> {
    match annotation.type_url.ends_with(EXPANDABLE) {
        true => expansion(&annotation.value),
        false => Ok(None),
    }
}

/// Whether an expansion names an entitlement, without which the ecosystem takes it as absent.
pub(crate) fn names_entitlement(expansion: &Expansion) -> bool {
    expansion.entitlement_ids.iter().any(|id| !id.trim().is_empty())
}

/// An expansion from its encoded annotation; none when it names no entitlement, which the ecosystem takes as absent.
pub(crate) fn expansion(bytes: &[u8]) -> Result<Option<Expansion>, Bad> {
    let mut expansion = Expansion::default();
    let mut fields = Fields::new(bytes);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => expansion.entitlement_ids.push(field.text()?.to_owned()),
            2 => expansion.shallow = field.flag()?,
            3 => expansion.resource_type_ids.push(field.text()?.to_owned()),
            _ => return Err(field.unknown_in("GrantExpandable")),
        }
    }
    Ok(names_entitlement(&expansion).then_some(expansion))
}

pub(crate) fn put_expansion(out: &mut Vec<u8>, expansion: &Expansion) {
    for id in &expansion.entitlement_ids {
        wire::put_bytes_always(out, 1, id.as_bytes());
    }
    wire::put_flag(out, 2, expansion.shallow);
    for id in &expansion.resource_type_ids {
        wire::put_bytes_always(out, 3, id.as_bytes());
    }
}

/// `GrantSources`: a map from entitlement ids to whether the grant is direct there.
fn sources(field: &Field<'_>, into: &mut Vec<(String, bool)>) -> Result<(), Bad> {
    let base = field.content_at();
    let mut entries = Fields::new(field.bytes()?);
    while let Some(entry) = entries.next().map_err(|bad| bad.shifted(base))? {
        if entry.number != 1 {
            return Err(entry.unknown_in("GrantSources").shifted(base));
        }
        let base = base + entry.content_at();
        let (mut id, mut is_direct) = (String::new(), false);
        let mut parts = Fields::new(entry.bytes()?);
        while let Some(part) = parts.next().map_err(|bad| bad.shifted(base))? {
            match part.number {
                1 => id = part.text().map_err(|bad| bad.shifted(base))?.to_owned(),
                2 => {
                    let mut source = Fields::new(part.bytes()?);
                    while let Some(flag) = source.next().map_err(|bad| bad.shifted(base))? {
                        match flag.number {
                            1 => is_direct = flag.flag()?,
                            _ => return Err(flag.unknown_in("GrantSource").shifted(base)),
                        }
                    }
                }
                _ => return Err(part.unknown_in("an entry of a map").shifted(base)),
            }
        }
        into.push((id, is_direct));
    }
    Ok(())
}

/// The id and parent of an embedded resource, and whether it says nothing else.
fn ids_of_resource(field: &Field<'_>) -> Result<(ResourceId, Option<ResourceId>, bool), Bad> {
    let base = field.content_at();
    let (mut id, mut parent, mut only_ids) = (ResourceId::default(), None, true);
    let mut rest = Vec::new();
    let mut fields = Fields::new(field.bytes()?);
    while let Some(inner) = fields.next().map_err(|bad| bad.shifted(base))? {
        match inner.number {
            1 => resource_id(&inner, &mut id, &mut rest).map_err(|bad| bad.shifted(base))?,
            2 => resource_id(&inner, parent.get_or_insert_default(), &mut rest)
                .map_err(|bad| bad.shifted(base))?,
            _ => only_ids = false,
        }
    }
    Ok((id, parent, only_ids && rest.is_empty()))
}

/// The ids of an embedded entitlement, and whether it says nothing else.
fn ids_of_entitlement(field: &Field<'_>) -> Result<(EntitlementRef, bool), Bad> {
    let base = field.content_at();
    let (mut entitlement, mut only_ids) = (EntitlementRef::default(), true);
    let mut fields = Fields::new(field.bytes()?);
    while let Some(inner) = fields.next().map_err(|bad| bad.shifted(base))? {
        match inner.number {
            1 => {
                let (id, parent, only) = ids_of_resource(&inner).map_err(|bad| bad.shifted(base))?;
                entitlement.resource = id;
                only_ids &= only && parent.is_none();
            }
            2 => entitlement.id = inner.text().map_err(|bad| bad.shifted(base))?.to_owned(),
            _ => only_ids = false,
        }
    }
    Ok((entitlement, only_ids))
}

pub(crate) fn any(field: &Field<'_>) -> Result<Any, Bad> {
    let base = field.content_at();
    let mut any = Any::default();
    let mut fields = Fields::new(field.bytes()?);
    while let Some(inner) = fields.next().map_err(|bad| bad.shifted(base))? {
        match inner.number {
            1 => any.type_url = inner.text().map_err(|bad| bad.shifted(base))?.to_owned(),
            2 => any.value = inner.bytes().map_err(|bad| bad.shifted(base))?.to_vec(),
            _ => return Err(inner.unknown_in("Any").shifted(base)),
        }
    }
    Ok(any)
}

pub(crate) fn put_annotations(out: &mut Vec<u8>, number: u32, annotations: &[Any]) {
    for any in annotations {
        wire::put_message(out, number, |out| {
            wire::put_bytes(out, 1, any.type_url.as_bytes());
            wire::put_bytes(out, 2, &any.value);
        });
    }
}

pub(crate) fn timestamp(field: &Field<'_>) -> Result<Timestamp, Bad> {
    time(field.bytes()?).map_err(|bad| bad.shifted(field.content_at()))
}

/// The time that a message of its own holds.
pub(crate) fn time(message: &[u8]) -> Result<Timestamp, Bad> {
    let mut time = Timestamp::default();
    let mut fields = Fields::new(message);
    while let Some(inner) = fields.next()? {
        match inner.number {
            1 => time.seconds = inner.varint()? as i64,
            2 => time.nanos = inner.int32()?,
            _ => return Err(inner.unknown_in("Timestamp")),
        }
    }
    Ok(time)
}

pub(crate) fn put_timestamp(out: &mut Vec<u8>, number: u32, time: Timestamp) {
    wire::put_message(out, number, |out| put_time(out, time));
}

pub(crate) fn put_time(out: &mut Vec<u8>, time: Timestamp) {
    wire::put_number(out, 1, time.seconds as u64);
    wire::put_int32(out, 2, time.nanos);
}
