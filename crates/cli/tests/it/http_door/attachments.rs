//! What is attached: by the machine alone, seen by tokens for all sources, and with its password by nobody.

use super::client::Site;
use crate::support::{duramen, text};
use duramen_api::token::Role;
use serde_json::{json, Value};
use std::{fs, path::Path};

const URL: &str = "postgresql://ops:secret@db.example/shop";

fn said(home: &Path, arguments: &[&str]) -> Value {
    let output = duramen(home, &[&["attachment", "--json"], arguments].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn refused(home: &Path, arguments: &[&str]) -> String {
    let output = duramen(home, &[&["attachment"], arguments].concat());
    assert!(!output.status.success());
    text(&output.stderr)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_machine_attaches_and_nobody_sees_a_password() {
    let mut site = Site::open().await;
    let home = site.home.path().to_owned();
    let measured = home.join("measured");
    fs::create_dir(&measured).unwrap();

    let added = said(&home, &["add", "shop", "--functions", URL]);
    let shown = "postgresql://ops@db.example/shop";
    assert_eq!((&added["kind"], &added["at"]), (&json!("functions"), &json!(shown)));
    said(&home, &["add", "figures", "--lab", measured.to_str().unwrap()]);
    let entries = site.audited("attachment_added");
    let names: Vec<&str> = entries.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["shop", "figures"]);
    assert_eq!(entries[0]["at"], shown);

    // Who may not make a token may not have the daemon read a file, whatever its role.
    let admin = site.token("ada", Role::Admin, &[]).await;
    let body = json!({ "name": "etc", "kind": "lab", "at": "/etc" }).to_string();
    assert_eq!(admin.post("/v1/attachments", &body).code(), "not_allowed");
    assert_eq!(admin.delete("/v1/attachments/shop").code(), "not_allowed");
    let list = admin.get("/v1/attachments");
    assert!(!list.body.contains("secret"));
    let list = list.json();
    let names: Vec<&str> =
        list.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["figures", "shop"]);
    // It is no source's, so who may see one source sees none of it.
    site.add_source("app").await;
    let one = site.token("one", Role::Admin, &["app"]).await;
    assert_eq!(one.get("/v1/attachments").code(), "not_allowed");
    let viewer = site.token("eye", Role::Viewer, &[]).await;
    assert_eq!(viewer.get("/v1/attachments").json(), list);

    assert!(refused(&home, &["add", "shop", "--store", "/"]).contains("is attached already"));
    assert!(refused(&home, &["add", "x", "--pack", "/nowhere.c1z"])
        .contains("/nowhere.c1z cannot be attached as a pack"));
    assert!(refused(&home, &["add", "../x", "--lab", "/"]).contains("cannot name a thing to attach"));
    assert!(refused(&home, &["remove", "none"]).contains("duramen attachment list"));

    // The next daemon has it, and what is removed is gone for it, too.
    site.again().await;
    assert_eq!(said(&home, &["list"]), list);
    said(&home, &["remove", "shop"]);
    assert_eq!(site.audited("attachment_removed").len(), 1);
    site.again().await;
    assert_eq!(said(&home, &["list"]).as_array().unwrap().len(), 1);
    for file in ["audit", "daemon.log"] {
        let found = std::process::Command::new("grep")
            .arg("-r")
            .arg("ops:secret")
            .arg(home.join(file))
            .output()
            .unwrap();
        assert!(found.stdout.is_empty(), "{}", text(&found.stdout));
    }
    assert!(measured.is_dir());
}
