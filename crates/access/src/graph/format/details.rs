//! Rows of the model as bytes: what stands beside the key of a record, and beside the edge of a grant.

use super::bytes::{put_bytes, put_i64, put_text, put_u64, Reader};
use crate::graph::error::GraphError;
use crate::graph::model::{
    Any, Asset, Entitlement, Expansion, Extra, Grant, Purpose, Resource, ResourceId, ResourceType, Sync,
    Timestamp, Trait,
};

pub(crate) fn put_time(out: &mut Vec<u8>, time: Timestamp) {
    put_i64(out, time.seconds);
    put_i64(out, i64::from(time.nanos));
}

pub(crate) fn time(reader: &mut Reader<'_>) -> Result<Timestamp, GraphError> {
    let seconds = reader.i64()?;
    let nanos = i32::try_from(reader.i64()?).map_err(|_| reader.malformed())?;
    Ok(Timestamp { seconds, nanos })
}

/// Writes nothing as 0, and something as 1 and what `put` writes.
fn put_option<T>(out: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

fn option<'a, T>(
    reader: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, GraphError>,
) -> Result<Option<T>, GraphError> {
    Ok(if flag(reader)? { Some(read(reader)?) } else { None })
}

fn flag(reader: &mut Reader<'_>) -> Result<bool, GraphError> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(reader.malformed()),
    }
}

fn put_list<T>(out: &mut Vec<u8>, list: &[T], put: impl Fn(&mut Vec<u8>, &T)) {
    put_u64(out, list.len() as u64);
    list.iter().for_each(|each| put(out, each));
}

fn list<'a, T>(
    reader: &mut Reader<'a>,
    read: impl Fn(&mut Reader<'a>) -> Result<T, GraphError>,
) -> Result<Vec<T>, GraphError> {
    // Every element takes a byte at least, which bounds the count.
    let count = reader.count(1)?;
    (0..count).map(|_| read(reader)).collect()
}

fn put_any(out: &mut Vec<u8>, any: &Any) {
    put_text(out, &any.type_url);
    put_bytes(out, &any.value);
}

fn any(reader: &mut Reader<'_>) -> Result<Any, GraphError> {
    Ok(Any { type_url: reader.string()?, value: reader.bytes()?.to_vec() })
}

fn put_extra(out: &mut Vec<u8>, extra: &Extra) {
    put_bytes(out, &extra.connector);
    put_bytes(out, &extra.storage);
}

fn extra(reader: &mut Reader<'_>) -> Result<Extra, GraphError> {
    Ok(Extra { connector: reader.bytes()?.to_vec(), storage: reader.bytes()?.to_vec() })
}

fn put_resource_id(out: &mut Vec<u8>, id: &ResourceId) {
    put_text(out, &id.resource_type);
    put_text(out, &id.resource);
}

fn resource_id(reader: &mut Reader<'_>) -> Result<ResourceId, GraphError> {
    Ok(ResourceId { resource_type: reader.string()?, resource: reader.string()? })
}

fn blob(reader: &mut Reader<'_>) -> Result<Vec<u8>, GraphError> {
    Ok(reader.bytes()?.to_vec())
}

fn put_strings(out: &mut Vec<u8>, strings: &[String]) {
    put_list(out, strings, |out, text| put_text(out, text));
}

/// A kind of row that is stored as a record: bytes beside a key.
pub(crate) trait Record: Sized {
    /// What messages call it.
    const WHAT: &'static str;
    /// The strings that its key is made of.
    fn key(&self) -> Vec<&str>;
    /// The strings beside the key that others are found by: they are bounded as those of the key are.
    fn references(&self) -> Vec<&str> {
        Vec::new()
    }
    /// All of the row but its key.
    fn encode(&self, out: &mut Vec<u8>);
    /// The row of its key and the rest.
    fn decode(key: Vec<String>, reader: &mut Reader<'_>) -> Result<Self, GraphError>;

    fn from_stored(key: &[u8], value: &[u8]) -> Result<Self, GraphError> {
        let mut reader = Reader::new(value, Self::WHAT);
        let row = Self::decode(super::key::split(key)?, &mut reader)?;
        reader.end()?;
        Ok(row)
    }
}

fn parts<const N: usize>(key: Vec<String>) -> Result<[String; N], GraphError> {
    key.try_into().map_err(|_| GraphError::Malformed { what: "a key", at: 0 })
}

impl Record for ResourceType {
    const WHAT: &'static str = "resource type";

    fn key(&self) -> Vec<&str> {
        vec![&self.id]
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_text(out, &self.display_name);
        put_text(out, &self.description);
        put_list(out, &self.traits, |out, each| put_i64(out, i64::from(each.number())));
        put_list(out, &self.annotations, put_any);
        out.push(u8::from(self.sourced_externally));
        put_option(out, self.discovered_at, put_time);
        put_extra(out, &self.extra);
    }

    fn decode(key: Vec<String>, reader: &mut Reader<'_>) -> Result<Self, GraphError> {
        let [id] = parts(key)?;
        Ok(ResourceType {
            id,
            display_name: reader.string()?,
            description: reader.string()?,
            traits: list(reader, |reader| {
                Ok(Trait::from_number(i32::try_from(reader.i64()?).map_err(|_| reader.malformed())?))
            })?,
            annotations: list(reader, any)?,
            sourced_externally: flag(reader)?,
            discovered_at: option(reader, time)?,
            extra: extra(reader)?,
        })
    }
}

impl Record for Resource {
    const WHAT: &'static str = "resource";

    fn key(&self) -> Vec<&str> {
        vec![&self.id.resource_type, &self.id.resource]
    }

    fn references(&self) -> Vec<&str> {
        self.parent.iter().flat_map(|parent| [parent.resource_type.as_str(), &parent.resource]).collect()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_option(out, self.parent.as_ref(), put_resource_id);
        put_text(out, &self.display_name);
        put_text(out, &self.description);
        put_list(out, &self.annotations, put_any);
        put_option(out, self.profile.as_deref(), put_bytes);
        put_option(out, self.status.as_deref(), put_bytes);
        put_option(out, self.created_at, put_time);
        put_option(out, self.icon.as_deref(), put_text);
        out.push(u8::from(self.baton_resource));
        put_option(out, self.discovered_at, put_time);
        put_extra(out, &self.extra);
    }

    fn decode(key: Vec<String>, reader: &mut Reader<'_>) -> Result<Self, GraphError> {
        let [resource_type, resource] = parts(key)?;
        Ok(Resource {
            id: ResourceId { resource_type, resource },
            parent: option(reader, resource_id)?,
            display_name: reader.string()?,
            description: reader.string()?,
            annotations: list(reader, any)?,
            profile: option(reader, blob)?,
            status: option(reader, blob)?,
            created_at: option(reader, time)?,
            icon: option(reader, |reader| reader.string())?,
            baton_resource: flag(reader)?,
            discovered_at: option(reader, time)?,
            extra: extra(reader)?,
        })
    }
}

impl Record for Entitlement {
    const WHAT: &'static str = "entitlement";

    fn key(&self) -> Vec<&str> {
        vec![&self.resource.resource_type, &self.resource.resource, &self.id]
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_text(out, &self.display_name);
        put_text(out, &self.description);
        put_text(out, &self.slug);
        put_i64(out, i64::from(self.purpose.number()));
        put_list(out, &self.annotations, put_any);
        put_strings(out, &self.grantable_to);
        put_list(out, &self.embedded_grantable_to, |out, each| put_bytes(out, each));
        put_option(out, self.embedded_resource.as_deref(), put_bytes);
        put_option(out, self.discovered_at, put_time);
        put_extra(out, &self.extra);
    }

    fn decode(key: Vec<String>, reader: &mut Reader<'_>) -> Result<Self, GraphError> {
        let [resource_type, resource, id] = parts(key)?;
        Ok(Entitlement {
            id,
            resource: ResourceId { resource_type, resource },
            display_name: reader.string()?,
            description: reader.string()?,
            slug: reader.string()?,
            purpose: Purpose::from_number(i32::try_from(reader.i64()?).map_err(|_| reader.malformed())?),
            annotations: list(reader, any)?,
            grantable_to: list(reader, |reader| reader.string())?,
            embedded_grantable_to: list(reader, blob)?,
            embedded_resource: option(reader, blob)?,
            discovered_at: option(reader, time)?,
            extra: extra(reader)?,
        })
    }
}

impl Record for Asset {
    const WHAT: &'static str = "asset";

    fn key(&self) -> Vec<&str> {
        vec![&self.id]
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_text(out, &self.content_type);
        put_bytes(out, &self.data);
        put_option(out, self.discovered_at, put_time);
    }

    fn decode(key: Vec<String>, reader: &mut Reader<'_>) -> Result<Self, GraphError> {
        let [id] = parts(key)?;
        Ok(Asset {
            id,
            content_type: reader.string()?,
            data: blob(reader)?,
            discovered_at: option(reader, time)?,
        })
    }
}

/// Writes what a grant has beside its edge, id and time.
pub(crate) fn put_grant_rest(out: &mut Vec<u8>, grant: &Grant) {
    put_list(out, &grant.annotations, put_any);
    put_list(out, &grant.sources, |out, (id, direct)| {
        put_text(out, id);
        out.push(u8::from(*direct));
    });
    put_option(out, grant.expansion.as_ref(), |out, expansion| {
        put_strings(out, &expansion.entitlement_ids);
        out.push(u8::from(expansion.shallow));
        put_strings(out, &expansion.resource_type_ids);
    });
    out.push(u8::from(grant.needs_expansion));
    put_option(out, grant.embedded_entitlement.as_deref(), put_bytes);
    put_option(out, grant.embedded_principal.as_deref(), put_bytes);
    put_extra(out, &grant.extra);
}

/// Reads what [`put_grant_rest`] wrote, into a grant whose other fields are set.
pub(crate) fn grant_rest(bytes: &[u8], grant: &mut Grant) -> Result<(), GraphError> {
    let mut reader = Reader::new(bytes, "grant");
    let reader = &mut reader;
    grant.annotations = list(reader, any)?;
    grant.sources = list(reader, |reader| Ok((reader.string()?, flag(reader)?)))?;
    grant.expansion = option(reader, |reader| {
        Ok(Expansion {
            entitlement_ids: list(reader, |reader| reader.string())?,
            shallow: flag(reader)?,
            resource_type_ids: list(reader, |reader| reader.string())?,
        })
    })?;
    grant.needs_expansion = flag(reader)?;
    grant.embedded_entitlement = option(reader, blob)?;
    grant.embedded_principal = option(reader, blob)?;
    grant.extra = extra(reader)?;
    reader.end()
}

/// Writes a sync with all its marks.
pub(crate) fn put_sync(out: &mut Vec<u8>, sync: &Sync) {
    put_text(out, &sync.id);
    put_text(out, sync.kind_name());
    put_option(out, sync.parent.as_deref(), put_text);
    put_option(out, sync.linked.as_deref(), put_text);
    put_time(out, sync.started_at);
    put_option(out, sync.ended_at, put_time);
    put_text(out, &sync.token);
    out.push(u8::from(sync.supports_diff));
    out.push(u8::from(sync.compacted));
    put_extra(out, &sync.extra);
}

/// Reads what [`put_sync`] wrote.
pub(crate) fn sync(reader: &mut Reader<'_>) -> Result<Sync, GraphError> {
    let mut sync = Sync { id: reader.string()?, ..Sync::default() };
    sync.set_kind(reader.text()?);
    Ok(Sync {
        parent: option(reader, |reader| reader.string())?,
        linked: option(reader, |reader| reader.string())?,
        started_at: time(reader)?,
        ended_at: option(reader, time)?,
        token: reader.string()?,
        supports_diff: flag(reader)?,
        compacted: flag(reader)?,
        extra: extra(reader)?,
        ..sync
    })
}
