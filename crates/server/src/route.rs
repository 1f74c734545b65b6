//! The routes: which method and path stand for which request, written once for the daemon and its client.

use crate::segment;
use hyper::Method;

/// The first segment of every path.
const VERSION: &str = "v1";
/// No route has more segments than this, the version among them.
pub(crate) const SEGMENTS_MAX: usize = 4;

/// One request of the interface; names are as callers know them, not escaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route<'a> {
    Status,
    VerifyAudit,
    MeasureCold,
    Shutdown,
    HandOver,
    Doors,
    Tokens,
    CreateToken,
    RotateToken(&'a str),
    RevokeToken(&'a str),
    Branches,
    CreateBranch,
    Branch(&'a str),
    DestroyBranch(&'a str),
    Query(&'a str),
    ResetBranch(&'a str),
    RenewBranch(&'a str),
    ProtectBranch(&'a str),
    AdministratorUrl(&'a str),
    /// With the escaped text of `table=`, if there is one.
    Evidence(&'a str, Option<&'a str>),
    Sources,
    AddSource,
    Source(&'a str),
    RemoveSource(&'a str),
    RefreshSource(&'a str),
    ChangeSettings(&'a str),
    VerifySource(&'a str),
    FingerprintSource(&'a str),
    /// With the text of `sample=`, if there is one.
    IdlePss(&'a str, Option<&'a str>),
}

/// What a path is made of after the version: `collection`, `collection/name`, `collection/name/verb`.
type Parts<'a> = (&'static str, Option<&'a str>, Option<&'static str>);

impl<'a> Route<'a> {
    /// The route of a method, the segments of a path and what follows its question mark.
    pub(crate) fn parse(method: &Method, segments: &[&'a str], query: Option<&'a str>) -> Option<Route<'a>> {
        let [VERSION, segments @ ..] = segments else { return None };
        Some(match (method, segments) {
            (&Method::POST, ["branches", name, "query"]) => Route::Query(name),
            (&Method::POST, ["branches"]) => Route::CreateBranch,
            (&Method::DELETE, ["branches", name]) => Route::DestroyBranch(name),
            (&Method::GET, ["branches", name]) => Route::Branch(name),
            (&Method::GET, ["branches"]) => Route::Branches,
            (&Method::POST, ["branches", name, "reset"]) => Route::ResetBranch(name),
            (&Method::POST, ["branches", name, "renew"]) => Route::RenewBranch(name),
            (&Method::POST, ["branches", name, "protect"]) => Route::ProtectBranch(name),
            (&Method::GET, ["branches", name, "administrator-url"]) => Route::AdministratorUrl(name),
            (&Method::GET, ["branches", name, "evidence"]) => {
                let mut pairs = query.unwrap_or_default().split('&');
                Route::Evidence(name, pairs.find_map(|pair| pair.strip_prefix("table=")))
            }
            (&Method::GET, ["status"]) => Route::Status,
            (&Method::POST, ["audit", "verify"]) => Route::VerifyAudit,
            (&Method::POST, ["measure", "cold"]) => Route::MeasureCold,
            (&Method::POST, ["shutdown"]) => Route::Shutdown,
            (&Method::POST, ["handover"]) => Route::HandOver,
            (&Method::GET, ["doors"]) => Route::Doors,
            (&Method::GET, ["tokens"]) => Route::Tokens,
            (&Method::POST, ["tokens"]) => Route::CreateToken,
            (&Method::POST, ["tokens", name, "rotate"]) => Route::RotateToken(name),
            (&Method::DELETE, ["tokens", name]) => Route::RevokeToken(name),
            (&Method::GET, ["sources"]) => Route::Sources,
            (&Method::POST, ["sources"]) => Route::AddSource,
            (&Method::GET, ["sources", name]) => Route::Source(name),
            (&Method::DELETE, ["sources", name]) => Route::RemoveSource(name),
            (&Method::POST, ["sources", name, "refresh"]) => Route::RefreshSource(name),
            (&Method::PATCH, ["sources", name, "settings"]) => Route::ChangeSettings(name),
            (&Method::POST, ["sources", name, "verify"]) => Route::VerifySource(name),
            (&Method::POST, ["sources", name, "fingerprint"]) => Route::FingerprintSource(name),
            (&Method::GET, ["sources", name, "idle-pss"]) => {
                let mut pairs = query.unwrap_or_default().split('&');
                Route::IdlePss(name, pairs.find_map(|pair| pair.strip_prefix("sample=")))
            }
            _ => return None,
        })
    }

    /// The HTTP method.
    pub(crate) fn method(self) -> Method {
        match self {
            Route::Status
            | Route::Doors
            | Route::Tokens
            | Route::Branches
            | Route::Branch(_)
            | Route::AdministratorUrl(_)
            | Route::Evidence(..)
            | Route::Sources
            | Route::Source(_)
            | Route::IdlePss(..) => Method::GET,
            Route::VerifyAudit
            | Route::MeasureCold
            | Route::Shutdown
            | Route::HandOver
            | Route::CreateToken
            | Route::RotateToken(_)
            | Route::CreateBranch
            | Route::Query(_)
            | Route::ResetBranch(_)
            | Route::RenewBranch(_)
            | Route::ProtectBranch(_)
            | Route::AddSource
            | Route::RefreshSource(_)
            | Route::VerifySource(_)
            | Route::FingerprintSource(_) => Method::POST,
            Route::DestroyBranch(_) | Route::RemoveSource(_) | Route::RevokeToken(_) => Method::DELETE,
            Route::ChangeSettings(_) => Method::PATCH,
        }
    }

    fn parts(self) -> Parts<'a> {
        match self {
            Route::Status => ("status", None, None),
            Route::VerifyAudit => ("audit/verify", None, None),
            Route::MeasureCold => ("measure/cold", None, None),
            Route::Shutdown => ("shutdown", None, None),
            Route::HandOver => ("handover", None, None),
            Route::Doors => ("doors", None, None),
            Route::Tokens | Route::CreateToken => ("tokens", None, None),
            Route::RotateToken(name) => ("tokens", Some(name), Some("rotate")),
            Route::RevokeToken(name) => ("tokens", Some(name), None),
            Route::Branches | Route::CreateBranch => ("branches", None, None),
            Route::Branch(name) | Route::DestroyBranch(name) => ("branches", Some(name), None),
            Route::Query(name) => ("branches", Some(name), Some("query")),
            Route::ResetBranch(name) => ("branches", Some(name), Some("reset")),
            Route::RenewBranch(name) => ("branches", Some(name), Some("renew")),
            Route::ProtectBranch(name) => ("branches", Some(name), Some("protect")),
            Route::AdministratorUrl(name) => ("branches", Some(name), Some("administrator-url")),
            Route::Evidence(name, _) => ("branches", Some(name), Some("evidence")),
            Route::Sources | Route::AddSource => ("sources", None, None),
            Route::Source(name) | Route::RemoveSource(name) => ("sources", Some(name), None),
            Route::RefreshSource(name) => ("sources", Some(name), Some("refresh")),
            Route::ChangeSettings(name) => ("sources", Some(name), Some("settings")),
            Route::VerifySource(name) => ("sources", Some(name), Some("verify")),
            Route::FingerprintSource(name) => ("sources", Some(name), Some("fingerprint")),
            Route::IdlePss(name, _) => ("sources", Some(name), Some("idle-pss")),
        }
    }

    /// The path, with its names escaped, and the question mark with what follows if there is any.
    pub(crate) fn path(self) -> String {
        let (collection, name, verb) = self.parts();
        let mut path = String::with_capacity(64);
        for segment in ["/", VERSION, "/", collection] {
            path.push_str(segment);
        }
        if let Some(name) = name {
            path.push('/');
            segment::escape(name, &mut path);
        }
        if let Some(verb) = verb {
            path.push('/');
            path.push_str(verb);
        }
        if let Route::IdlePss(_, Some(sample)) = self {
            path.push_str("?sample=");
            path.push_str(sample);
        }
        if let Route::Evidence(_, Some(table)) = self {
            path.push_str("?table=");
            path.push_str(table);
        }
        path
    }
}

/// As messages name a request: `POST /v1/branches`.
impl std::fmt::Display for Route<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method(), self.path())
    }
}

#[cfg(test)]
#[path = "../tests/unit/routes.rs"]
mod tests;
