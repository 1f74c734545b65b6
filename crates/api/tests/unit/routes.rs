//! A route whose path is not the one that the daemon knows it by would be a request that nobody answers.

use super::{Op, Route, ENDPOINTS};
use crate::openapi;
use std::collections::BTreeSet;

#[test]
fn the_list_is_in_the_order_of_its_names() {
    for endpoint in ENDPOINTS {
        assert_eq!(endpoint.op.endpoint().op, endpoint.op, "{}", endpoint.path);
        assert!(endpoint.path.matches('{').count() <= 1, "{}: a route has one name", endpoint.path);
    }
    let all: BTreeSet<(String, &str)> =
        ENDPOINTS.iter().map(|endpoint| (endpoint.method.to_string(), endpoint.path)).collect();
    assert_eq!(all.len(), ENDPOINTS.len(), "no request is in the list twice");
}

#[test]
fn what_clients_send_is_what_the_document_says() {
    let document = serde_json::to_value(openapi::document()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let documented: usize = paths.values().map(|path| path.as_object().unwrap().len()).sum();
    assert_eq!(documented, ENDPOINTS.len());
    for endpoint in ENDPOINTS {
        let sent = Route::of(endpoint.op, "NAME");
        assert_eq!(sent.path().replace("NAME", "{name}"), endpoint.path);
        let method = sent.method().to_string().to_lowercase();
        assert_eq!(document["paths"][endpoint.path][&method]["operationId"], endpoint.op.name());
    }
}

#[test]
fn names_are_escaped_and_so_are_parameters() {
    assert_eq!(Route::of(Op::Query, "a/b c").to_string(), "POST /v1/branches/a%2Fb%20c/query");
    assert_eq!(Route::of(Op::ResetBranch, "?x=1#y").path(), "/v1/branches/%3Fx%3D1%23y/reset");
    assert_eq!(
        Route::of(Op::Evidence, "b").with("public.a&b").path(),
        "/v1/branches/b/evidence?table=public.a%26b"
    );
    assert_eq!(Route::of(Op::IdlePss, "\u{e9}").with("12").path(), "/v1/sources/%C3%A9/idle-pss?sample=12");
    assert_eq!(
        Route::of(Op::DataDiff, "b").with("s.a,s.b").and("5").path(),
        "/v1/branches/b/data-diff?tables=s.a%2Cs.b&limit=5"
    );
    assert_eq!(Route::of(Op::DataDiff, "b").and("5").path(), "/v1/branches/b/data-diff?limit=5");
    assert_eq!(
        Route::of(Op::DataDiff, "b").and("5").also("true").path(),
        "/v1/branches/b/data-diff?limit=5&whole=true"
    );
    assert_eq!(Route::to(Op::VerifyAudit).to_string(), "POST /v1/audit/verify");
}

#[test]
fn the_crate_documentation_names_every_request() {
    let documentation = include_str!("../../src/lib.rs");
    for endpoint in ENDPOINTS {
        let (_, words) = endpoint.path.rsplit_once("{name}/").unwrap_or(("", endpoint.path));
        assert!(documentation.contains(words), "{} {}", endpoint.method, endpoint.path);
    }
}
