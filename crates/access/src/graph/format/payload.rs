//! What stands beside an edge: an id that does not follow from it, and the rarer fields.

use super::bytes::{put_text, Reader};
use super::details;
use crate::graph::error::GraphError;
use crate::graph::model::{Grant, GrantRef};

/// The id is stated.
const ID: u8 = 1;
/// Fields follow.
const REST: u8 = 2;

/// Whether the id is that of the edge: `ENTITLEMENT:PRINCIPAL-TYPE:PRINCIPAL`.
pub(crate) fn is_derived(grant: &GrantRef<'_>) -> bool {
    let rest = grant.id.strip_prefix(grant.entitlement).and_then(|rest| rest.strip_prefix(':'));
    let rest =
        rest.and_then(|rest| rest.strip_prefix(grant.principal_type)).and_then(|rest| rest.strip_prefix(':'));
    rest == Some(grant.principal)
}

/// Adds what a grant has beside its edge, if that is anything.
pub(crate) fn encode(out: &mut Vec<u8>, grant: &GrantRef<'_>, derived: bool) -> bool {
    // Not all that is set says something beside the parent, which is in the term.
    let rest = grant.rest.filter(|rest| {
        let mut plain = GrantRef::from(*rest);
        plain.rest = plain.rest.filter(|rest| {
            !rest.annotations.is_empty()
                || !rest.sources.is_empty()
                || rest.expansion.is_some()
                || rest.needs_expansion
                || rest.embedded_entitlement.is_some()
                || rest.embedded_principal.is_some()
                || !rest.extra.is_empty()
        });
        plain.rest.is_some()
    });
    if derived && rest.is_none() {
        return false;
    }
    out.push(if derived { 0 } else { ID } | if rest.is_some() { REST } else { 0 });
    if !derived {
        put_text(out, grant.id);
    }
    if let Some(rest) = rest {
        details::put_grant_rest(out, rest);
    }
    true
}

/// The parts of a payload: the id if it is stated, and the encoded fields if there are any.
pub(crate) fn parts(payload: &[u8]) -> Result<(Option<&str>, Option<&[u8]>), GraphError> {
    let mut reader = Reader::new(payload, "what stands beside a grant");
    let flags = reader.u8()?;
    if flags & !(ID | REST) != 0 {
        return Err(reader.malformed());
    }
    let id = if flags & ID == 0 { None } else { Some(reader.text()?) };
    let rest = reader.take(reader.left())?;
    if (flags & REST == 0) != rest.is_empty() {
        return Err(reader.malformed());
    }
    Ok((id, (!rest.is_empty()).then_some(rest)))
}

/// Sets the fields of a grant that stand in a payload.
pub(crate) fn apply(rest: Option<&[u8]>, grant: &mut Grant) -> Result<(), GraphError> {
    rest.map_or(Ok(()), |rest| details::grant_rest(rest, grant))
}
