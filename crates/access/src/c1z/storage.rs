//! Rows as files of version 3 hold them: records of `c1.storage.v3`.
//!
//! A field that the model has no place for is kept in [`Extra::storage`](crate::graph::Extra), byte by byte. What a
//! record cannot hold of a row is noted as a loss when the row is written.

use super::connector::{any, expansion, put_annotations, put_expansion, put_time, put_timestamp, timestamp};
use super::error::Bad;
use super::losses::Losses;
use super::wire::{self, Field, Fields};
use crate::graph::{
    Asset, Entitlement, EntitlementRef, Grant, GrantRef, PrincipalRef, Purpose, Resource, ResourceId,
    ResourceType, Sync, SyncKind, Trait,
};

const FIELDS_OF_CONNECTORS: &str = "unknown fields of connector messages";

pub(crate) fn resource_type(bytes: &[u8]) -> Result<ResourceType, Bad> {
    let mut row = ResourceType::default();
    let mut fields = Fields::new(bytes);
    while let Some(field) = fields.next()? {
        match field.number {
            2 => row.id = field.text()?.to_owned(),
            3 => row.display_name = field.text()?.to_owned(),
            4 => match field.text()? {
                // What the reference's writer puts for a trait that it does not know.
                "" => row.traits.push(Trait::Unspecified),
                name => match Trait::from_name(name) {
                    Some(known) => row.traits.push(known),
                    None => row.extra.storage.extend_from_slice(field.raw),
                },
            },
            5 => row.annotations.push(any(&field)?),
            6 => row.discovered_at = Some(timestamp(&field)?),
            7 => row.description = field.text()?.to_owned(),
            8 => row.sourced_externally = field.flag()?,
            _ => row.extra.storage.extend_from_slice(field.raw),
        }
    }
    Ok(row)
}

pub(crate) fn put_resource_type(out: &mut Vec<u8>, row: &ResourceType, losses: &mut Losses) {
    wire::put_bytes(out, 2, row.id.as_bytes());
    wire::put_bytes(out, 3, row.display_name.as_bytes());
    for each in &row.traits {
        if each.name().is_none() {
            losses.note("resource type", "traits with a number that has no name", &row.id);
        }
        wire::put_bytes_always(out, 4, each.name().unwrap_or_default().as_bytes());
    }
    put_annotations(out, 5, &row.annotations);
    if let Some(time) = row.discovered_at {
        put_timestamp(out, 6, time);
    }
    wire::put_bytes(out, 7, row.description.as_bytes());
    wire::put_flag(out, 8, row.sourced_externally);
    if !row.extra.connector.is_empty() {
        losses.note("resource type", FIELDS_OF_CONNECTORS, &row.id);
    }
    out.extend_from_slice(&row.extra.storage);
}

pub(crate) fn resource(bytes: &[u8]) -> Result<Resource, Bad> {
    let mut row = Resource::default();
    let mut fields = Fields::new(bytes);
    while let Some(field) = fields.next()? {
        match field.number {
            2 => row.id.resource_type = field.text()?.to_owned(),
            3 => row.id.resource = field.text()?.to_owned(),
            4 => row.display_name = field.text()?.to_owned(),
            5 => row.description = field.text()?.to_owned(),
            6 => resource_ref(&field, row.parent.get_or_insert_default(), &mut row.extra.storage)?,
            7 => row.annotations.push(any(&field)?),
            8 => row.discovered_at = Some(timestamp(&field)?),
            9 => row.profile.get_or_insert_default().extend_from_slice(field.bytes()?),
            10 => row.status.get_or_insert_default().extend_from_slice(field.bytes()?),
            11 => row.created_at = Some(timestamp(&field)?),
            13 => row.icon = Some(field.text()?.to_owned()),
            _ => row.extra.storage.extend_from_slice(field.raw),
        }
    }
    Ok(row)
}

pub(crate) fn put_resource(out: &mut Vec<u8>, row: &Resource, losses: &mut Losses) {
    wire::put_bytes(out, 2, row.id.resource_type.as_bytes());
    wire::put_bytes(out, 3, row.id.resource.as_bytes());
    wire::put_bytes(out, 4, row.display_name.as_bytes());
    wire::put_bytes(out, 5, row.description.as_bytes());
    if let Some(parent) = &row.parent {
        wire::put_message(out, 6, |out| put_resource_ref(out, &parent.resource_type, &parent.resource));
    }
    put_annotations(out, 7, &row.annotations);
    if let Some(time) = row.discovered_at {
        put_timestamp(out, 8, time);
    }
    if let Some(profile) = &row.profile {
        wire::put_bytes_always(out, 9, profile);
    }
    // The two messages of a status have the same fields.
    if let Some(status) = &row.status {
        wire::put_bytes_always(out, 10, status);
    }
    if let Some(time) = row.created_at {
        put_timestamp(out, 11, time);
    }
    match row.icon.as_deref() {
        Some("") => losses.note("resource", "icon without an id", &row.id.resource),
        icon => wire::put_bytes(out, 13, icon.unwrap_or_default().as_bytes()),
    }
    if row.baton_resource {
        losses.note("resource", "baton_resource", &row.id.resource);
    }
    if !row.extra.connector.is_empty() {
        losses.note("resource", FIELDS_OF_CONNECTORS, &row.id.resource);
    }
    out.extend_from_slice(&row.extra.storage);
}

fn put_resource_ref(out: &mut Vec<u8>, resource_type: &str, resource: &str) {
    wire::put_bytes(out, 1, resource_type.as_bytes());
    wire::put_bytes(out, 2, resource.as_bytes());
}

fn resource_ref(field: &Field<'_>, id: &mut ResourceId, extra: &mut Vec<u8>) -> Result<(), Bad> {
    let base = field.content_at();
    let mut rest = Vec::new();
    let mut fields = Fields::new(field.bytes()?);
    while let Some(inner) = fields.next().map_err(|bad| bad.shifted(base))? {
        match inner.number {
            1 => id.resource_type = inner.text().map_err(|bad| bad.shifted(base))?.to_owned(),
            2 => id.resource = inner.text().map_err(|bad| bad.shifted(base))?.to_owned(),
            _ => rest.extend_from_slice(inner.raw),
        }
    }
    if !rest.is_empty() {
        wire::put_bytes_always(extra, field.number, &rest);
    }
    Ok(())
}

pub(crate) fn entitlement(bytes: &[u8]) -> Result<Entitlement, Bad> {
    let mut row = Entitlement::default();
    let mut fields = Fields::new(bytes);
    while let Some(field) = fields.next()? {
        match field.number {
            2 => row.id = field.text()?.to_owned(),
            3 => resource_ref(&field, &mut row.resource, &mut row.extra.storage)?,
            4 => row.display_name = field.text()?.to_owned(),
            5 => row.description = field.text()?.to_owned(),
            6 => match Purpose::from_name(field.text()?) {
                Some(purpose) => row.purpose = purpose,
                None => row.extra.storage.extend_from_slice(field.raw),
            },
            7 => row.annotations.push(any(&field)?),
            8 => row.discovered_at = Some(timestamp(&field)?),
            9 => row.slug = field.text()?.to_owned(),
            10 => row.grantable_to.push(field.text()?.to_owned()),
            _ => row.extra.storage.extend_from_slice(field.raw),
        }
    }
    Ok(row)
}

pub(crate) fn put_entitlement(out: &mut Vec<u8>, row: &Entitlement, losses: &mut Losses) {
    wire::put_bytes(out, 2, row.id.as_bytes());
    wire::put_message(out, 3, |out| {
        put_resource_ref(out, &row.resource.resource_type, &row.resource.resource)
    });
    wire::put_bytes(out, 4, row.display_name.as_bytes());
    wire::put_bytes(out, 5, row.description.as_bytes());
    match (row.purpose, row.purpose.name()) {
        (Purpose::Unspecified, _) => {}
        (_, Some(name)) => wire::put_bytes(out, 6, name.as_bytes()),
        (_, None) => losses.note("entitlement", "purpose with a number that has no name", &row.id),
    }
    put_annotations(out, 7, &row.annotations);
    if let Some(time) = row.discovered_at {
        put_timestamp(out, 8, time);
    }
    wire::put_bytes(out, 9, row.slug.as_bytes());
    for id in &row.grantable_to {
        wire::put_bytes_always(out, 10, id.as_bytes());
    }
    if row.embedded_resource.is_some() {
        losses.note("entitlement", "resource beyond its id", &row.id);
    }
    if !row.embedded_grantable_to.is_empty() {
        losses.note("entitlement", "grantable_to beyond ids", &row.id);
    }
    if !row.extra.connector.is_empty() {
        losses.note("entitlement", FIELDS_OF_CONNECTORS, &row.id);
    }
    out.extend_from_slice(&row.extra.storage);
}

pub(crate) fn grant(bytes: &[u8]) -> Result<Grant, Bad> {
    let mut row = Grant::default();
    let mut fields = Fields::new(bytes);
    while let Some(field) = fields.next()? {
        match field.number {
            2 => row.id = field.text()?.to_owned(),
            3 => entitlement_ref(&field, &mut row.entitlement, &mut row.extra.storage)?,
            4 => principal_ref(&field, &mut row.principal, &mut row.extra.storage)?,
            5 => row.discovered_at = Some(timestamp(&field)?),
            6 => match expansion(field.bytes()?).map_err(|bad| bad.shifted(field.content_at()))? {
                Some(expansion) => row.expansion = Some(expansion),
                None => row.extra.storage.extend_from_slice(field.raw),
            },
            7 => row.needs_expansion = field.flag()?,
            8 => row.annotations.push(any(&field)?),
            9 => source(&field, &mut row.sources, &mut row.extra.storage)?,
            _ => row.extra.storage.extend_from_slice(field.raw),
        }
    }
    if row.sources.len() > 1 {
        row.sources.reverse();
        row.sources.sort_by(|a, b| a.0.cmp(&b.0));
        row.sources.dedup_by(|later, first| later.0 == first.0);
    }
    if row.id.is_empty() {
        // Records without an id of their own go by the id that their parts make.
        let (entitlement, principal) = (&row.entitlement.id, &row.principal.id);
        row.id = format!("{entitlement}:{}:{}", principal.resource_type, principal.resource);
    }
    Ok(row)
}

fn entitlement_ref(field: &Field<'_>, into: &mut EntitlementRef, extra: &mut Vec<u8>) -> Result<(), Bad> {
    let base = field.content_at();
    let mut rest = Vec::new();
    let mut fields = Fields::new(field.bytes()?);
    while let Some(inner) = fields.next().map_err(|bad| bad.shifted(base))? {
        match inner.number {
            1 => into.resource.resource_type = inner.text().map_err(|bad| bad.shifted(base))?.to_owned(),
            2 => into.resource.resource = inner.text().map_err(|bad| bad.shifted(base))?.to_owned(),
            3 => into.id = inner.text().map_err(|bad| bad.shifted(base))?.to_owned(),
            _ => rest.extend_from_slice(inner.raw),
        }
    }
    if !rest.is_empty() {
        wire::put_bytes_always(extra, field.number, &rest);
    }
    Ok(())
}

fn principal_ref(field: &Field<'_>, into: &mut PrincipalRef, extra: &mut Vec<u8>) -> Result<(), Bad> {
    let base = field.content_at();
    let mut rest = Vec::new();
    let mut fields = Fields::new(field.bytes()?);
    while let Some(inner) = fields.next().map_err(|bad| bad.shifted(base))? {
        let text = || inner.text().map(str::to_owned).map_err(|bad| bad.shifted(base));
        match inner.number {
            1 => into.id.resource_type = text()?,
            2 => into.id.resource = text()?,
            3 => into.parent.get_or_insert_default().resource_type = text()?,
            4 => into.parent.get_or_insert_default().resource = text()?,
            _ => rest.extend_from_slice(inner.raw),
        }
    }
    if !rest.is_empty() {
        wire::put_bytes_always(extra, field.number, &rest);
    }
    Ok(())
}

/// One entry of the map of sources.
fn source(field: &Field<'_>, into: &mut Vec<(String, bool)>, extra: &mut Vec<u8>) -> Result<(), Bad> {
    let base = field.content_at();
    let (mut id, mut is_direct, mut says_more) = (String::new(), false, false);
    let mut parts = Fields::new(field.bytes()?);
    while let Some(part) = parts.next().map_err(|bad| bad.shifted(base))? {
        match part.number {
            1 => id = part.text().map_err(|bad| bad.shifted(base))?.to_owned(),
            2 => {
                let mut inner = Fields::new(part.bytes()?);
                while let Some(each) = inner.next().map_err(|bad| bad.shifted(base))? {
                    match each.number {
                        4 => is_direct = each.flag()?,
                        _ => says_more = true,
                    }
                }
            }
            _ => says_more = true,
        }
    }
    if says_more {
        // The entry as a whole: of two entries with one key, the last counts.
        extra.extend_from_slice(field.raw);
    }
    into.push((id, is_direct));
    Ok(())
}

/// Writes the record of a grant.
pub(crate) fn put_grant(out: &mut Vec<u8>, row: &GrantRef<'_>, losses: &mut Losses) {
    wire::put_bytes(out, 2, row.id.as_bytes());
    put_grant_entitlement(out, row);
    put_grant_principal(out, row, row.rest.and_then(|rest| rest.principal.parent.as_ref()));
    if let Some(time) = row.discovered_at {
        put_timestamp(out, 5, time);
    }
    if let Some(rest) = row.rest {
        put_rest_of_grant(out, rest, losses);
    }
}

/// Writes the field of a grant's record that its entitlement makes.
pub(crate) fn put_grant_entitlement(out: &mut Vec<u8>, row: &GrantRef<'_>) {
    wire::put_message(out, 3, |out| {
        put_resource_ref(out, row.resource_type, row.resource);
        wire::put_bytes(out, 3, row.entitlement.as_bytes());
    });
}

/// Writes the field of a grant's record that its principal makes.
pub(crate) fn put_grant_principal(out: &mut Vec<u8>, row: &GrantRef<'_>, parent: Option<&ResourceId>) {
    wire::put_message(out, 4, |out| {
        put_resource_ref(out, row.principal_type, row.principal);
        if let Some(parent) = parent {
            wire::put_bytes(out, 3, parent.resource_type.as_bytes());
            wire::put_bytes(out, 4, parent.resource.as_bytes());
        }
    });
}

fn put_rest_of_grant(out: &mut Vec<u8>, rest: &Grant, losses: &mut Losses) {
    if let Some(expansion) = &rest.expansion {
        wire::put_message(out, 6, |out| put_expansion(out, expansion));
    }
    wire::put_flag(out, 7, rest.needs_expansion);
    put_annotations(out, 8, &rest.annotations);
    for (id, is_direct) in &rest.sources {
        wire::put_message(out, 9, |out| {
            wire::put_bytes(out, 1, id.as_bytes());
            wire::put_message(out, 2, |out| wire::put_flag(out, 4, *is_direct));
        });
    }
    if rest.embedded_entitlement.is_some() {
        losses.note("grant", "entitlement beyond its ids", &rest.id);
    }
    if rest.embedded_principal.is_some() {
        losses.note("grant", "principal beyond its ids", &rest.id);
    }
    if !rest.extra.connector.is_empty() {
        losses.note("grant", FIELDS_OF_CONNECTORS, &rest.id);
    }
    out.extend_from_slice(&rest.extra.storage);
}

pub(crate) fn asset(bytes: &[u8]) -> Result<Asset, Bad> {
    let mut row = Asset::default();
    let mut fields = Fields::new(bytes);
    while let Some(field) = fields.next()? {
        match field.number {
            // The sync: there is one in the file.
            1 => {}
            2 => row.id = field.text()?.to_owned(),
            3 => row.content_type = field.text()?.to_owned(),
            4 => row.data = field.bytes()?.to_vec(),
            5 => row.discovered_at = Some(timestamp(&field)?),
            _ => return Err(field.unknown_in("AssetRecord")),
        }
    }
    Ok(row)
}

pub(crate) fn put_asset(out: &mut Vec<u8>, sync: &str, row: &Asset) {
    wire::put_bytes(out, 1, sync.as_bytes());
    wire::put_bytes(out, 2, row.id.as_bytes());
    wire::put_bytes(out, 3, row.content_type.as_bytes());
    wire::put_bytes(out, 4, &row.data);
    if let Some(time) = row.discovered_at {
        put_timestamp(out, 5, time);
    }
}

/// The number of a sync's kind: its place in the list, and one more. None for a name that has no number.
pub(crate) fn number_of_kind(sync: &Sync) -> Option<i32> {
    match sync.kind {
        SyncKind::Unknown => {
            sync.unknown_kind.parse().ok().filter(|number| kind_of_number(*number).is_none())
        }
        known => (1..).zip(SyncKind::ALL).find(|(_, each)| *each == known).map(|(number, _)| number),
    }
}

fn kind_of_number(number: i32) -> Option<SyncKind> {
    match usize::try_from(number) {
        // Not said: what writers mean who know no kinds.
        Ok(0) => Some(SyncKind::Full),
        Ok(place) => SyncKind::ALL.get(place - 1).copied(),
        Err(_) => None,
    }
}

pub(crate) fn sync(bytes: &[u8]) -> Result<Sync, Bad> {
    let mut row = Sync::default();
    let optional = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let mut fields = Fields::new(bytes);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => row.id = field.text()?.to_owned(),
            2 => {
                let number = field.int32()?;
                match kind_of_number(number) {
                    Some(kind) => row.kind = kind,
                    None => row.set_kind(&number.to_string()),
                }
            }
            3 => row.parent = optional(field.text()?),
            4 => row.started_at = timestamp(&field)?,
            5 => row.ended_at = Some(timestamp(&field)?),
            6 => row.token = field.text()?.to_owned(),
            7 => row.supports_diff = field.flag()?,
            8 => row.linked = optional(field.text()?),
            9 => row.compacted = field.flag()?,
            _ => row.extra.storage.extend_from_slice(field.raw),
        }
    }
    Ok(row)
}

pub(crate) fn put_sync(out: &mut Vec<u8>, row: &Sync, losses: &mut Losses) {
    wire::put_bytes(out, 1, row.id.as_bytes());
    wire::put_int32(out, 2, number_of_kind(row).unwrap_or_default());
    wire::put_bytes(out, 3, row.parent.as_deref().unwrap_or_default().as_bytes());
    put_timestamp(out, 4, row.started_at);
    if let Some(time) = row.ended_at {
        put_timestamp(out, 5, time);
    }
    wire::put_bytes(out, 6, row.token.as_bytes());
    wire::put_flag(out, 7, row.supports_diff);
    wire::put_bytes(out, 8, row.linked.as_deref().unwrap_or_default().as_bytes());
    wire::put_flag(out, 9, row.compacted);
    if !row.extra.connector.is_empty() {
        losses.note("sync", FIELDS_OF_CONNECTORS, &row.id);
    }
    out.extend_from_slice(&row.extra.storage);
}

/// The line of a sync in the manifest of a file.
pub(crate) fn put_sync_summary(out: &mut Vec<u8>, row: &Sync) {
    wire::put_bytes(out, 1, row.id.as_bytes());
    wire::put_int32(out, 2, number_of_kind(row).unwrap_or_default());
    wire::put_message(out, 3, |out| put_time(out, row.started_at));
    if let Some(time) = row.ended_at {
        wire::put_message(out, 4, |out| put_time(out, time));
    }
    wire::put_bytes(out, 5, row.parent.as_deref().unwrap_or_default().as_bytes());
}
