//! Stores, packs and access graphs that are attached: who may look into them, and what a request can do to the daemon by that.

use super::client::{Site, Who};
use duramen_access::graph::{Entitlement, EntitlementRef, Grant, GraphStore, ResourceId, SyncKind};
use duramen_api::{
    attachments::{AddAttachment, AttachmentKind},
    segment,
    token::Role,
};
use duramen_store::{Options, Scope, Store};
use serde_json::json;
use std::{fs, net::UdpSocket, path::Path, process::Command};

const HERE: &str = "127.0.0.1:0";

const ABOUT: [&str; 10] = [
    "store-branches",
    "store-contents",
    "entries?kind=kv",
    "entry?kind=kv&key=a",
    "store-history",
    "difference?from=main&to=main",
    "pack",
    "access-search?search=a",
    "access?type=user&principal=ada",
    "access-why?type=user&principal=ada&entitlement=app:shop:admin",
];

fn graph(path: &Path) {
    let mut store = GraphStore::open(path).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    let shop = ResourceId::new("app", "shop");
    let admin =
        Entitlement { id: "app:shop:admin".to_owned(), resource: shop.clone(), ..Entitlement::default() };
    let mut grant = Grant { id: "app:shop:admin:user:ada".to_owned(), ..Grant::default() };
    grant.entitlement = EntitlementRef { resource: shop, id: admin.id.clone() };
    grant.principal.id = ResourceId::new("user", "ada");
    store.put_entitlements([&admin]).unwrap();
    store.put_grants([&grant]).unwrap();
    store.end_sync().unwrap();
}

async fn attach(site: &mut Site, name: &str, kind: AttachmentKind, path: &Path) {
    let at = path.to_str().unwrap().to_owned();
    site.connection.add_attachment(&AddAttachment { name: name.to_owned(), kind, at }).await.unwrap();
}

/// A site with a store that somebody writes, and an access graph.
async fn furnished(address: &str, more: &[&str]) -> (Site, Store) {
    let mut site = Site::listening(address, more).await;
    let path = site.home.beside("notes");
    let store = Store::open(&path, Options::default()).unwrap();
    store.branch("main").unwrap().kv().put("a", "<b>").unwrap();
    attach(&mut site, "notes", AttachmentKind::Store, &path).await;
    let path = site.home.beside("who.dpack");
    graph(&path);
    attach(&mut site, "who", AttachmentKind::Pack, &path).await;
    (site, store)
}

fn get(who: &Who, name: &str, about: &str) -> super::client::Answer {
    who.get(&format!("/v1/attachments/{name}/{about}"))
}

fn name_of(about: &str) -> &'static str {
    if about.starts_with("pack") || about.starts_with("access") {
        "who"
    } else {
        "notes"
    }
}

/// H3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_attached_is_for_users_of_all_sources() {
    let (mut site, _store) = furnished(HERE, &[]).await;
    site.add_source("app").await;
    let viewer = site.token("eye", Role::Viewer, &[]).await;
    let user = site.token("use", Role::User, &[]).await;
    let admin = site.token("boss", Role::Admin, &[]).await;
    let one = site.token("one", Role::Admin, &["app"]).await;
    let nobody = Who {
        door: site.door,
        id: String::new(),
        bearer: "Bearer none:none".to_owned(),
        secret: String::new(),
    };
    for about in ABOUT {
        for who in [&user, &admin] {
            let answer = get(who, name_of(about), about);
            assert_eq!(answer.status, 200, "{about}: {answer:?}");
        }
        for who in [&viewer, &one] {
            let answer = get(who, name_of(about), about);
            assert_eq!((answer.status, answer.code().as_str()), (403, "not_allowed"), "{about}");
        }
        assert_eq!(get(&nobody, name_of(about), about).status, 401, "{about}");
        // What is not attached, and what is another thing.
        assert_eq!(get(&user, "none", about).code(), "unknown_attachment", "{about}");
        let other = if name_of(about) == "who" { "notes" } else { "who" };
        assert!(
            ["other_kind", "other_content"].contains(&get(&user, other, about).code().as_str()),
            "{about}"
        );
    }
}

/// R5: an address of this machine that is not loopback is as far away as any other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_masked_stays_on_its_machine_unless_the_daemon_is_told_otherwise() {
    // Nothing is sent: it only says by which address the machine would go elsewhere.
    let outward = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    let Ok(outward) = outward.map(|address| address.ip()) else {
        eprintln!("this machine has no address but loopback, so nobody can come from elsewhere");
        return;
    };
    for more in [&[][..], &["--unmasked-ok"]] {
        let (mut site, _store) = furnished("0.0.0.0:0", more).await;
        let admin = site.token("boss", Role::Admin, &[]).await;
        for about in ABOUT {
            let name = name_of(about);
            let url = format!("https://{outward}:{}/v1/attachments/{name}/{about}", site.door.port());
            let mut curl = Command::new("curl");
            curl.args(["-sSk", "--max-time", "20", "-H", &format!("authorization: {}", admin.bearer), &url]);
            let told = String::from_utf8(curl.output().unwrap().stdout).unwrap();
            assert_eq!(told.contains("not_masked"), more.is_empty(), "{about}: {told}");
            assert_eq!(told.contains("\"code\""), more.is_empty(), "{about}: {told}");
        }
    }
}

/// A writer goes on, and each reply has what it has acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_is_followed_while_it_is_written() {
    let (mut site, store) = furnished(HERE, &[]).await;
    let user = site.token("use", Role::User, &[]).await;
    let main = store.branch("main").unwrap();
    for round in 0..10 {
        let key = format!("k{round}");
        main.kv().put(&key, round).unwrap();
        let found = get(&user, "notes", &format!("entry?kind=kv&key={key}"));
        assert_eq!(found.json()["value"]["text"], round.to_string(), "{found:?}");
    }
    let page = get(&user, "notes", "entries?kind=kv&limit=4").json();
    let next = page["next"].as_str().unwrap();
    assert_eq!((page["entries"].as_array().unwrap().len(), next), (4, "k2"));
    let page = get(&user, "notes", &format!("entries?kind=kv&limit=100&cursor={next}")).json();
    assert_eq!((page["entries"].as_array().unwrap().len(), &page["next"]), (7, &json!(null)));
    // A key that is no text, through the address and back.
    main.kv().put([0, 255, b'\\', b' ', b'+', b'&'], 1).unwrap();
    let mut escaped = String::new();
    segment::escape("\\x00\\xff\\\\ +&", &mut escaped);
    let found = get(&user, "notes", &format!("entry?kind=kv&key={escaped}"));
    assert_eq!(found.json()["key"], "\\x00\\xff\\\\ +&", "{found:?}");
    // The client of programs says the same.
    let page = site.connection.store_entries("notes", &[("kind", "kv"), ("prefix", "k")]).await.unwrap();
    assert_eq!(page.entries.len(), 10);
    store.close().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_is_a_refusal_and_the_daemon_goes_on() {
    let (mut site, store) = furnished(HERE, &[]).await;
    let user = site.token("use", Role::User, &[]).await;
    for (about, status, code) in [
        ("entries?kind=rows", 400, "bad_request"),
        ("entries", 400, "bad_request"),
        ("entries?kind=kv&limit=0", 400, "bad_request"),
        ("entries?kind=kv&limit=1001", 400, "bad_request"),
        ("entries?kind=kv&branch=none", 404, "unknown_branch"),
        ("entries?kind=kv&branch=main@none", 404, "not_retained"),
        ("entries?kind=vectors&collection=none", 404, "unknown_collection"),
        ("entry?kind=kv&key=none", 404, "not_there"),
        ("entry?kind=kv&key=%ff", 400, "bad_request"),
        ("difference?from=main", 400, "bad_request"),
        ("difference?from=main&to=main&cursor=x", 400, "bad_request"),
    ] {
        let answer = get(&user, "notes", about);
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{about}: {answer:?}");
    }
    for (about, status, code) in [
        ("access", 400, "bad_request"),
        ("access?principal=ada", 400, "bad_request"),
        ("access?type=user&principal=none", 404, "not_there"),
        ("access?type=user&principal=ada&cursor=x", 400, "bad_request"),
        ("access-why?type=user&principal=none&entitlement=app:shop:admin", 404, "not_there"),
        ("access-search", 400, "bad_request"),
    ] {
        let answer = get(&user, "who", about);
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{about}: {answer:?}");
    }
    store.close().unwrap();

    // Damaged while it is open, gone, and another thing in its place.
    let path = site.home.beside("notes");
    for entry in fs::read_dir(path.join("nodes")).unwrap().flatten() {
        fs::write(entry.path(), "no nodes").unwrap();
    }
    fs::rename(&path, site.home.beside("moved")).unwrap();
    assert_eq!(get(&user, "notes", "store-branches").code(), "attachment_gone");
    fs::rename(site.home.beside("moved"), &path).unwrap();
    assert!(
        get(&user, "notes", "store-branches").status == 200
            || get(&user, "notes", "store-branches").code() == "damaged"
    );
    fs::remove_dir_all(&path).unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("letters.txt"), "dear").unwrap();
    assert_eq!(get(&user, "notes", "store-branches").code(), "not_a_store");
    fs::write(site.home.beside("who.dpack"), "C1Z").unwrap();
    assert_eq!(get(&user, "who", "pack").code(), "damaged");
    site.connection.remove_attachment("notes").await.unwrap();
    assert_eq!(get(&user, "notes", "store-branches").code(), "unknown_attachment");
    assert_eq!(user.get("/healthz").status, 200);
}
