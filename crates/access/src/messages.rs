//! Rows as messages of connectors (`c1.connector.v2`): how programs that speak the ecosystem's SDK hand them over.
//!
//! What is read here is what a file of version 3 can hold: of the resources and entitlements that a message embeds, their
//! ids. So a row is the same before a file is written and after.
//!
//! ```
//! use duramen_access::graph::{Resource, ResourceId};
//! use duramen_access::messages;
//!
//! let ada = Resource { id: ResourceId::new("user", "ada"), display_name: "Ada".to_owned(), ..Resource::default() };
//! let mut message = Vec::new();
//! messages::put_resource(&mut message, &ada);
//! assert_eq!(messages::resource(&message)?, ada);
//!
//! let error = messages::resource(&message[..3]).unwrap_err();
//! assert_eq!(error.at, 1);
//! # Ok::<(), messages::MessageError>(())
//! ```

use crate::c1z::connector;
use crate::c1z::error::{Bad, BadKind};
use crate::graph::{Any, Entitlement, Extra, Grant, Resource, ResourceType};

/// The type of the annotation that makes a grant expand.
const EXPANDABLE_URL: &str = "type.googleapis.com/c1.connector.v2.GrantExpandable";

/// Bytes are not the message that they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message makes no sense at byte {at}: {reason}")]
pub struct MessageError {
    /// Where, in bytes from the start of the message.
    pub at: u64,
    /// What is wrong there.
    pub reason: String,
}

impl From<Bad> for MessageError {
    fn from(bad: Bad) -> MessageError {
        let reason = match bad.kind {
            BadKind::Damaged(reason) => reason.into_owned(),
            BadKind::TooLarge { what, value, limit } => {
                format!("{what} is {value}, and at most {limit} is read")
            }
            BadKind::Unsupported { what, .. } => format!("{what} is not read"),
        };
        MessageError { at: bad.at, reason }
    }
}

/// The resource type in a message.
///
/// # Errors
/// When the bytes are no such message, as with the other kinds of rows.
pub fn resource_type(message: &[u8]) -> Result<ResourceType, MessageError> {
    let row = connector::resource_type(message)?;
    Ok(ResourceType { extra: Extra::default(), ..row })
}

/// Appends the message of a resource type.
pub fn put_resource_type(out: &mut Vec<u8>, row: &ResourceType) {
    connector::put_resource_type(out, row);
}

/// The resource in a message.
///
/// # Errors
/// As [`resource_type`].
pub fn resource(message: &[u8]) -> Result<Resource, MessageError> {
    let row = connector::resource(message)?;
    let named = |id: &str| !id.is_empty();
    Ok(Resource {
        parent: row.parent.filter(|parent| named(&parent.resource)),
        icon: row.icon.filter(|icon| named(icon)),
        baton_resource: false,
        extra: Extra::default(),
        ..row
    })
}

/// Appends the message of a resource.
pub fn put_resource(out: &mut Vec<u8>, row: &Resource) {
    connector::put_resource(out, row);
}

/// The entitlement in a message.
///
/// # Errors
/// As [`resource_type`].
pub fn entitlement(message: &[u8]) -> Result<Entitlement, MessageError> {
    let mut row = connector::entitlement(message)?;
    row.embedded_resource = None;
    row.embedded_grantable_to.clear();
    row.grantable_to.retain(|id| !id.is_empty());
    row.extra = Extra::default();
    Ok(row)
}

/// Appends the message of an entitlement.
pub fn put_entitlement(out: &mut Vec<u8>, row: &Entitlement) {
    connector::put_entitlement(out, row);
}

/// The grant in a message, or what a message says of it. An annotation that makes it expand is its expansion, which is
/// still to be done.
///
/// # Errors
/// As [`resource_type`].
pub fn grant(message: &[u8]) -> Result<Grant, MessageError> {
    let (row, ..) = connector::grant(message, true)?;
    Ok(Grant { embedded_entitlement: None, embedded_principal: None, extra: Extra::default(), ..row })
}

/// Appends the message of a grant without its id, its entitlement and who its principal is: what that lies in, annotations,
/// the one that makes it expand last, and sources.
///
/// ```
/// use duramen_access::graph::{Expansion, Grant};
/// use duramen_access::messages;
///
/// let expansion = Expansion { entitlement_ids: vec!["group:staff:member".to_owned()], ..Expansion::default() };
/// let grant = Grant { expansion: Some(expansion), needs_expansion: true, ..Grant::default() };
/// let mut message = Vec::new();
/// messages::put_grant_details(&mut message, &grant);
/// assert_eq!(messages::grant(&message)?, grant);
/// # Ok::<(), messages::MessageError>(())
/// ```
pub fn put_grant_details(out: &mut Vec<u8>, row: &Grant) {
    if let Some(parent) = &row.principal.parent {
        connector::put_parent_of_principal(out, parent);
    }
    connector::put_annotations(out, 4, &row.annotations);
    if let Some(expansion) = &row.expansion {
        let mut value = Vec::new();
        connector::put_expansion(&mut value, expansion);
        connector::put_annotations(out, 4, &[Any { type_url: EXPANDABLE_URL.to_owned(), value }]);
    }
    connector::put_sources(out, &row.sources);
}
