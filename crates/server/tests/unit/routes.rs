//! A route whose path is not the one that the daemon knows it by would be a request that nobody answers.

use super::{Route, SEGMENTS_MAX};
use crate::segment;
use std::borrow::Cow;

const ALL: [Route<'_>; 25] = [
    Route::Status,
    Route::VerifyAudit,
    Route::MeasureCold,
    Route::Shutdown,
    Route::Branches,
    Route::CreateBranch,
    Route::Branch("a/b c"),
    Route::DestroyBranch("b"),
    Route::Query("query"),
    Route::ResetBranch("?x=1#y"),
    Route::RenewBranch("b"),
    Route::ProtectBranch("b"),
    Route::AdministratorUrl("b"),
    Route::Evidence("b", None),
    Route::Evidence("b", Some("public.t")),
    Route::Sources,
    Route::AddSource,
    Route::Source("\u{e9}"),
    Route::RemoveSource("s"),
    Route::RefreshSource("s"),
    Route::ChangeSettings("s"),
    Route::VerifySource("s"),
    Route::FingerprintSource("s"),
    Route::IdlePss("s", None),
    Route::IdlePss("s", Some("12")),
];

#[test]
fn the_daemon_finds_every_request_of_the_client() {
    for route in ALL {
        let target = route.path();
        let (path, query) = target.split_once('?').map_or((target.as_str(), None), |(p, q)| (p, Some(q)));
        let segments: Vec<Cow<'_, str>> =
            path[1..].split('/').map(|segment| segment::decode(segment).unwrap()).collect();
        assert!(segments.len() <= SEGMENTS_MAX, "{route}");
        let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
        assert_eq!(Route::parse(&route.method(), &segments, query), Some(route), "{route}");
    }
}

#[test]
fn methods_and_paths_are_those_of_the_documentation() {
    let documentation = include_str!("../../src/lib.rs");
    for (route, documented) in [
        (Route::Query("{name}"), "POST /v1/branches/{name}/query"),
        (Route::Evidence("{name}", None), "GET /v1/branches/{name}/evidence"),
        (Route::VerifyAudit, "POST /v1/audit/verify"),
        (Route::Shutdown, "POST /v1/shutdown"),
    ] {
        assert_eq!(route.to_string().replace("%7Bname%7D", "{name}"), documented);
        assert!(documentation.contains(documented), "{documented}");
    }
}
