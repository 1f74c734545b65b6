//! What holders of tokens reach: what is theirs, and no more than their role.

use super::client::{Answer, Site, Who};
use duramen_api::model::Policy;
use duramen_api::token::{CreateToken, Role};
use serde_json::{json, Value};

fn query(who: &Who, branch: &str, sql: &str) -> Answer {
    who.post(&format!("/v1/branches/{branch}/query"), &json!({ "sql": sql }).to_string())
}

fn create(who: &Who, body: Value) -> Answer {
    who.post("/v1/branches", &body.to_string())
}

fn names(list: &Answer) -> Vec<String> {
    let list = list.json();
    list.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

/// H2, H3, H4, H5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_has_its_own_branches_and_others_have_none() {
    let mut site = Site::open().await;
    site.add_source("app").await;
    site.add_source("other").await;
    let one = site
        .make(CreateToken {
            name: "one".to_owned(),
            sources: vec!["app".to_owned()],
            policies: vec![Policy::ReadWrite],
            max_branches: Some(2),
            max_ttl_s: Some(600),
            ..CreateToken::default()
        })
        .await;
    let two = site.token("two", Role::User, &[]).await;
    let viewer = site.token("eye", Role::Viewer, &["app"]).await;
    let admin = site.token("boss", Role::Admin, &["app"]).await;
    let elsewhere = site.token("else", Role::Admin, &["other"]).await;

    // What it may: a branch of its only source, its lease as long as the token's longest, and no secret in the URL.
    let made = create(&one, json!({ "name": "b" }));
    assert_eq!(made.status, 200, "{made:?}");
    let view = made.json();
    let router = site.connection.doors().await.unwrap().postgres.unwrap().address;
    assert_eq!(view["url"], json!(format!("postgresql://one@{router}/b")));
    assert_eq!((&view["source"], &view["holder"]), (&json!("app"), &json!(one.id)));
    assert_eq!(query(&one, "b", "insert into t values (3)").status, 200);
    let counted = query(&one, "b", "select count(*) from t").json();
    assert_eq!(counted["results"][0]["rows"], json!([[3]]));
    assert_eq!(one.post("/v1/branches/b/renew", r#"{"ttl_s": 500}"#).status, 200);
    assert_eq!(one.post("/v1/branches/b/reset", "").status, 200);
    assert_eq!(query(&one, "b", "select count(*) from t").json()["results"][0]["rows"], json!([[2]]));
    let compared = one.get("/v1/branches/b/schema-diff");
    assert_eq!((compared.status, &compared.json()["changes"]), (200, &json!([])), "{compared:?}");
    assert_eq!(names(&one.get("/v1/branches")), ["b"]);
    assert_eq!(names(&one.get("/v1/sources")), ["app"]);
    assert_eq!(site.connection.branch("b").await.unwrap().holder.as_deref(), Some(one.id.as_str()));

    // More than its token says.
    for (what, refused) in [
        ("policy", create(&one, json!({ "policy": "ddl" }))),
        ("source", create(&one, json!({ "source": "other" }))),
        ("unknown source", create(&one, json!({ "source": "none" }))),
        ("lease", create(&one, json!({ "ttl_s": 601 }))),
        ("end", create(&one, json!({ "expires_at": "2100-01-01T00:00:00Z" }))),
        ("renewal", one.post("/v1/branches/b/renew", r#"{"ttl_s": 601}"#)),
        ("renewal's end", one.post("/v1/branches/b/renew", r#"{"expires_at": "2100-01-01T00:00:00Z"}"#)),
        ("protection", one.post("/v1/branches/b/protect", r#"{"protected": true}"#)),
        ("evidence", one.get("/v1/branches/b/evidence")),
        ("promotion", one.post("/v1/branches/b/promote", "")),
        ("status", one.get("/v1/status")),
        ("stop", one.post("/v1/shutdown", "")),
    ] {
        assert_eq!((refused.status, refused.code().as_str()), (403, "not_allowed"), "{what}");
    }
    assert_eq!(create(&one, json!({ "name": "c" })).status, 200);
    let third = create(&one, json!({ "name": "d" }));
    assert_eq!((third.status, third.code().as_str()), (429, "quota_exceeded"), "{third:?}");
    assert_eq!(one.delete("/v1/branches/c").status, 200);
    assert_eq!(one.get("/v1/sources/other").status, 404);
    assert_eq!(one.get("/v1/sources/other/scan").status, 404);
    assert_eq!(viewer.get("/v1/sources/app/scan").json()["found"], json!([]));

    // X2: what it may read it may take along, but not what is beside it.
    let exported = one.get("/v1/branches/b/export?format=plain");
    assert_eq!(exported.status, 200, "{exported:?}");
    assert!(exported.body.contains("CREATE TABLE public.t"), "{exported:?}");
    assert_eq!(one.get("/v1/branches/b/export?format=basebackup").code(), "not_allowed");
    assert_eq!(admin.get("/v1/branches/b/export?format=basebackup").code(), "not_allowed");
    for wrong in ["", "?format=zip", "?format=plain&jobs=0", "?format=plain&quiesce=1"] {
        assert_eq!(one.get(&format!("/v1/branches/b/export{wrong}")).code(), "bad_request", "{wrong}");
    }

    // L3: a child of its own branch is its own, under the same limits; a branch that is not its own has none.
    let child = create(&one, json!({ "name": "child", "from": "b", "ttl_s": 600 }));
    assert_eq!(child.status, 200, "{child:?}");
    let child = child.json();
    assert_eq!((&child["holder"], &child["parent"]["name"]), (&json!(one.id), &json!("b")));
    assert_eq!(child["url"], json!(format!("postgresql://one@{router}/child")), "without a secret");
    assert_eq!(create(&one, json!({ "from": "b", "ttl_s": 601 })).code(), "not_allowed");
    assert_eq!(create(&one, json!({ "name": "d", "from": "b" })).code(), "quota_exceeded");
    assert_eq!(one.post("/v1/branches/child/snapshots", r#"{"name": "before"}"#).status, 200);
    assert_eq!(one.post("/v1/branches/child/restore", r#"{"to": "before"}"#).status, 200);
    assert_eq!(one.post("/v1/branches/child/undo", "").status, 200);
    assert_eq!(names(&one.get("/v1/branch-tree")), ["b", "child"]);
    assert_eq!(viewer.get("/v1/branches/child/snapshots").json()[0]["name"], json!("before"));
    assert_eq!(one.delete("/v1/branches/child/snapshots").code(), "bad_request", "which one?");
    assert_eq!(one.delete("/v1/branches/child/snapshots?snapshot=before").status, 200);
    // M7: both sides are its own.
    assert_eq!(query(&one, "child", "insert into t values (9)").status, 200);
    let merge = |who: &Who, child: &str, into: &str| {
        who.post(
            &format!("/v1/branches/{child}/merge"),
            &json!({ "into": into, "dry_run": true }).to_string(),
        )
    };
    let merged = merge(&one, "child", "b");
    assert_eq!((merged.status, &merged.json()["status"]), (200, &json!("would-merge")), "{merged:?}");
    assert_eq!(merge(&viewer, "child", "b").code(), "not_allowed");
    assert_eq!(create(&two, json!({ "name": "twos", "source": "app" })).status, 200);
    for (child, into) in [("child", "b"), ("twos", "b"), ("child", "twos"), ("twos", "none")] {
        let refused = merge(&two, child, into);
        assert_eq!((refused.status, refused.code().as_str()), (404, "not_found"), "{child} into {into}");
    }
    assert_eq!(two.delete("/v1/branches/twos").status, 200);
    assert_eq!(one.delete("/v1/branches/child").status, 200);

    // H2: for others there is no such branch, whatever they want with it.
    for who in [&two, &elsewhere] {
        for refused in [
            who.get("/v1/branches/b"),
            query(who, "b", "select 1"),
            who.post("/v1/branches/b/reset", ""),
            who.post("/v1/branches/b/renew", ""),
            who.get("/v1/branches/b/snapshots"),
            who.post("/v1/branches/b/snapshots", ""),
            who.post("/v1/branches/b/undo", ""),
            create(who, json!({ "from": "b" })),
            who.delete("/v1/branches/b"),
            who.get("/v1/branches/b/schema-diff"),
            who.get("/v1/branches/b/export?format=plain"),
        ] {
            let there_is_none = who.get("/v1/branches/zzz").code();
            assert_eq!((refused.status, refused.code()), (404, there_is_none), "{refused:?}");
        }
        // Of an administrator of another source, too.
        let promotion = if who.id == elsewhere.id { 404 } else { 403 };
        assert_eq!(who.post("/v1/branches/b/promote", "").status, promotion);
        assert!(names(&who.get("/v1/branches")).is_empty());
    }
    assert_eq!(create(&two, json!({ "name": "b", "source": "app" })).status, 409, "the name is taken");

    // A viewer looks, an administrator does everything in its sources.
    assert_eq!(names(&viewer.get("/v1/branches")), ["b"]);
    assert!(!viewer.get("/v1/branches/b").body.contains("password"));
    for refused in [
        query(&viewer, "b", "select 1"),
        create(&viewer, json!({})),
        viewer.delete("/v1/branches/b"),
        viewer.post("/v1/branches/b/promote", ""),
        viewer.get("/v1/branches/b/export?format=plain"),
        viewer.post("/v1/sources/app/labels", r#"{"generation": "1", "label": "first"}"#),
        one.post("/v1/sources/app/labels", r#"{"generation": "1", "label": "first"}"#),
        one.get("/v1/sources/app/schema-diff?from=1&to=1"),
        one.get("/v1/sources/app/data-diff?from=1&to=1"),
        viewer.get("/v1/sources/app/data-diff?from=1&to=1"),
        viewer.get("/v1/branches/b/schema-diff"),
    ] {
        assert_eq!((refused.status, refused.code().as_str()), (403, "not_allowed"));
    }
    assert_eq!(query(&admin, "b", "select 1").status, 200);
    assert_eq!(admin.post("/v1/branches/b/protect", r#"{"protected": true}"#).status, 200);
    assert_eq!(one.delete("/v1/branches/b").code(), "protected");
    assert_eq!(admin.post("/v1/branches/b/protect", r#"{"protected": false}"#).status, 200);
    let evidence = admin.get("/v1/branches/b/evidence?table=public.t");
    assert_eq!(
        (evidence.status, evidence.json()["branch"]["url"].as_str().unwrap().contains("password")),
        (200, false)
    );
    for (method, path, body) in [
        ("POST", "/v1/tokens", r#"{"name": "mine"}"#),
        ("GET", "/v1/tokens", ""),
        ("POST", "/v1/sources", r#"{"name": "s", "origin": {"kind": "script", "path": "/etc/passwd"}}"#),
        ("POST", "/v1/sources/app/refresh", ""),
        ("PATCH", "/v1/sources/app/settings", "{}"),
        ("DELETE", "/v1/sources/app", ""),
        ("GET", "/v1/branches/b/administrator-url", ""),
        ("POST", "/v1/pairs", r#"{"source": "app", "space_bytes": 1073741824}"#),
        ("POST", "/v1/handover", ""),
        ("GET", "/v1/status", ""),
    ] {
        assert_eq!(admin.ask(method, path, "", body).status, 403, "H3: {method} {path}");
    }
    for who in [&one, &viewer, &admin] {
        assert_eq!(who.get("/v1/sources/app/generations").json()[0]["generation"], json!(1));
        assert_eq!(who.get("/v1/sources/app/timeline").json()[0]["kind"], json!("generation"));
    }
    for path in [
        "/v1/sources/app/generations",
        "/v1/sources/app/timeline",
        "/v1/sources/app/schema-diff?from=1&to=1",
        "/v1/sources/app/data-diff?from=1&to=1",
    ] {
        assert_eq!(elsewhere.get(path).code(), "unknown_source", "{path}");
    }
    let labelled = admin.post("/v1/sources/app/labels", r#"{"generation": "1", "label": "first"}"#);
    assert_eq!(labelled.json()[0]["labels"], json!(["first"]), "{labelled:?}");
    let compared = admin.get("/v1/sources/app/schema-diff?from=first&to=1");
    assert_eq!((compared.status, &compared.json()["changes"]), (200, &json!([])), "{compared:?}");
    let compared = admin.get("/v1/sources/app/data-diff?from=first&to=1");
    assert!(compared.status == 200 && compared.body.contains(r#"{"summary":"#), "G13: {compared:?}");
    assert_eq!(admin.get("/v1/sources/app/data-diff?from=first").status, 400, "to is missing");
    let promoted = admin.post("/v1/branches/b/promote", "");
    assert_eq!(promoted.status, 200, "{promoted:?}");
    assert!(promoted.body.contains(r#"{"done":{"name":"app""#), "{promoted:?}");
    assert_eq!(admin.delete("/v1/branches/b").status, 200);

    // H4: each entry of what came by a token names it.
    for (event, tokens) in [
        ("leased", vec![&one.id, &one.id, &one.id, &two.id]),
        ("statement", vec![&one.id, &one.id, &one.id, &one.id, &admin.id]),
        ("branch_merged", vec![&one.id]),
        ("renewed", vec![&one.id]),
        ("reset", vec![&one.id]),
        ("protected", vec![&admin.id, &admin.id]),
        ("table_compared", vec![&admin.id]),
        ("generation_labelled", vec![&admin.id]),
        ("generations_compared", vec![&admin.id]),
        ("generations_data_compared", vec![&admin.id]),
        ("promoted", vec![&admin.id]),
        ("exported", vec![&one.id]),
        ("snapshot_taken", vec![&one.id]),
        ("restored", vec![&one.id, &one.id]),
        ("snapshot_removed", vec![&one.id]),
        ("destroyed", vec![&one.id, &two.id, &one.id, &admin.id]),
    ] {
        let entries = site.audited(event);
        let named: Vec<&Value> = entries.iter().map(|entry| &entry["token"]).collect();
        assert_eq!(json!(named), json!(tokens), "{event}: {entries:?}");
    }
}

/// H2: a name may be somebody else's by the time at which an operation happens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_somebody_else_has_by_now_is_not_reached() {
    let mut site = Site::open().await;
    site.add_source("app").await;
    let (one, two) = (site.token("one", Role::User, &[]).await, site.token("two", Role::User, &[]).await);
    for _ in 0..5 {
        assert_eq!(create(&one, json!({ "name": "b" })).status, 200);
        assert_eq!(one.delete("/v1/branches/b").status, 200);
        assert_eq!(create(&two, json!({ "name": "b" })).status, 200);
        // The first one goes on as if it still had it, while the second one takes it.
        for refused in [one.delete("/v1/branches/b"), query(&one, "b", "drop table t")] {
            assert_eq!(refused.status, 404);
        }
        assert_eq!(query(&two, "b", "select count(*) from t").status, 200);
        assert_eq!(two.delete("/v1/branches/b").status, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_have_pages_and_replies_have_tags() {
    let mut site = Site::open().await;
    site.add_source("app").await;
    let one = site.token("one", Role::User, &[]).await;
    for name in ["a", "b", "c"] {
        assert_eq!(create(&one, json!({ "name": name })).status, 200);
    }
    let first = one.get("/v1/branches?limit=2");
    assert_eq!(names(&first), ["a", "b"]);
    let link = first.header("link").expect("there is more");
    let next = link.strip_prefix('<').and_then(|link| link.strip_suffix(">; rel=\"next\"")).expect(link);
    let second = one.get(next);
    assert_eq!((names(&second), second.header("link")), (vec!["c".to_owned()], None));
    for wrong in ["0", "1001", "x", ""] {
        assert_eq!(one.get(&format!("/v1/branches?limit={wrong}")).code(), "bad_request");
    }
    let whole = one.get("/v1/branches");
    let tag = whole.header("etag").expect("a tag").to_owned();
    let again = one.ask("GET", "/v1/branches", &format!("if-none-match: {tag}\r\n"), "");
    assert_eq!((again.status, again.body.as_str(), again.header("etag")), (304, "", Some(tag.as_str())));
    assert_eq!(one.delete("/v1/branches/c").status, 200);
    assert_eq!(one.ask("GET", "/v1/branches", &format!("if-none-match: {tag}\r\n"), "").status, 200);
}
