//! Who asked, as one node tells another: the machine's owner or a member, or the id of a token and its name, by which it is found
//! where the branch is. What it may is looked up there (FL-8).

use crate::{
    caller::{Caller, Visitor},
    reply::Refusal,
    tokens::Tokens,
};
use hyper::{header::HeaderValue, HeaderMap};

/// The header in which it stands. It is read on connections of nodes alone.
const CALLER: &str = "x-duramen-caller";
/// The header with the router of the asked node, which the holder of a token is told of.
const ROUTER: &str = "x-duramen-router";

/// Writes down who asks. Nothing for who has shown nothing, or is a stranger: for those nothing is passed on.
pub(super) fn write(caller: &Caller, headers: &mut HeaderMap) -> bool {
    let text = match caller {
        Caller::Owner => "owner".to_owned(),
        Caller::Member => "member".to_owned(),
        Caller::Holder(visitor) => {
            if let Some(router) =
                visitor.router.as_deref().and_then(|router| HeaderValue::try_from(router).ok())
            {
                headers.insert(ROUTER, router);
            }
            format!("token {} {}", visitor.token.id, visitor.token.name)
        }
        Caller::Nobody | Caller::Stranger => return false,
    };
    match HeaderValue::try_from(text) {
        Ok(value) => {
            headers.insert(CALLER, value);
            true
        }
        Err(_) => false,
    }
}

/// Whose Idempotency-Keys somebody has: the id of his token, or nothing for who is on the machine.
pub(super) fn id(caller: &Caller) -> String {
    match caller {
        Caller::Holder(visitor) => visitor.token.id.clone(),
        Caller::Owner | Caller::Member | Caller::Stranger | Caller::Nobody => String::new(),
    }
}

/// Who asked. The token is this node's own knowledge: one that is over, revoked or unknown here is nobody's.
pub(super) fn read(
    headers: &mut HeaderMap,
    tokens: Option<&Tokens>,
    unmasked_ok: bool,
) -> Result<Caller, Refusal> {
    let text = headers.remove(CALLER);
    let router = headers.remove(ROUTER);
    let text = text.as_ref().and_then(|text| text.to_str().ok()).unwrap_or_default();
    match text.split_once(' ').unwrap_or((text, "")) {
        ("owner", "") => Ok(Caller::Owner),
        ("member", "") => Ok(Caller::Member),
        ("token", rest) => {
            let (id, name) = rest.split_once(' ').unwrap_or((rest, ""));
            let token =
                tokens.and_then(|tokens| tokens.with_id(id, name)).ok_or_else(Refusal::unauthenticated)?;
            let router = router.and_then(|router| router.to_str().map(str::to_owned).ok());
            // R5: it leaves this machine.
            Ok(Caller::Holder(Visitor { token, sees_unmasked: unmasked_ok, router, session: None }))
        }
        _ => Err(Refusal::unauthenticated()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duramen_api::token::CreateToken;
    use std::sync::Arc;

    /// FL-8.
    #[test]
    fn who_asked_is_what_this_node_knows_of_him() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::open(dir.path()).unwrap();
        let made = tokens.create(CreateToken { name: "ci".to_owned(), ..CreateToken::default() }).unwrap();
        let read_as = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CALLER, HeaderValue::try_from(text).unwrap());
            read(&mut headers, Some(&tokens), false)
        };
        assert!(matches!(read_as("owner"), Ok(Caller::Owner)));
        let id = format!("token {} ci", made.token.id);
        assert!(
            matches!(read_as(&id), Ok(Caller::Holder(visitor)) if visitor.token.name == "ci" && !visitor.sees_unmasked)
        );
        let (nameless, other) =
            (format!("token {}", made.token.id), format!("token {} other", made.token.id));
        for text in [
            "",
            "root",
            "owner x",
            "token",
            "token ",
            "token ci",
            "token t-unknown ci",
            "Owner",
            &nameless,
            &other,
        ] {
            assert_eq!(read_as(text).err().map(|refusal| refusal.status.as_u16()), Some(401), "{text:?}");
        }
        tokens.revoke("ci").unwrap();
        assert!(read_as(&id).is_err(), "the asked node may not have heard of it yet");
        let mut headers = HeaderMap::new();
        assert!(!write(&Caller::Nobody, &mut headers) && !write(&Caller::Stranger, &mut headers));
        let visitor =
            Visitor { token: Arc::new(made.token), sees_unmasked: true, router: None, session: None };
        assert!(write(&Caller::Holder(visitor), &mut headers));
        assert_eq!(headers[CALLER], id.as_str());
    }
}
