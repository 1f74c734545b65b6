//! Packs of access graphs, and `.c1z` files: shown, printed, compared, verified and turned into one another.

use super::shell::{said, text, Shell};
use duramen_access::graph::{
    Entitlement, EntitlementRef, Expansion, Grant, GrantRef, GraphStore, PrincipalRef, ResourceId,
    ResourceType, SyncKind,
};
use duramen_pack::container::{Kind, Pack, PackWriter, SectionOptions};
use serde_json::{json, Value};
use std::{
    fs,
    process::{Output, Stdio},
    time::Duration,
};

#[track_caller]
fn ok(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", said(output));
    text(&output.stdout)
}

fn grant(entitlement: &str, user: &str) -> Grant {
    let mut grant = Grant::default();
    grant.entitlement.resource = ResourceId::new("app", "github");
    grant.entitlement.id = format!("app:github:{entitlement}");
    grant.principal.id = ResourceId::new("user", user);
    grant.id = format!("{}:user:{user}", grant.entitlement.id);
    grant
}

/// A pack with one finished sync.
fn written(shell: &Shell, name: &str, grants: &[Grant]) {
    let mut store = GraphStore::open(shell.beside(name)).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    let user = ResourceType { id: "user".to_owned(), ..ResourceType::default() };
    store.put_resource_types([&user]).unwrap();
    store.put_grants(grants.iter().map(GrantRef::from)).unwrap();
    store.end_sync().unwrap();
    store.close().unwrap();
}

#[test]
fn a_graph_is_shown_printed_compared_and_verified() {
    let shell = Shell::new();
    written(&shell, "monday.dpack", &[grant("admin", "ada"), grant("admin", "bob"), grant("reader", "ada")]);
    written(
        &shell,
        "tuesday.dpack",
        &[grant("admin", "ada"), grant("reader", "ada"), grant("reader", "eve")],
    );

    let shown = ok(&shell.pack(&["info", "monday.dpack"]));
    assert!(
        shown.contains("(full, ended ")
            && shown.contains("1 resource types, 0 resources, 0 entitlements, 3 grants"),
        "{shown}"
    );
    let shown: Value = serde_json::from_str(&ok(&shell.pack(&["info", "monday.dpack", "--json"]))).unwrap();
    assert_eq!(shown["graph"]["syncs"][0]["grants"], 3);
    assert_eq!(shown["graph"]["syncs"][0]["id"], shown["graph"]["read_by_default"]);

    let printed = ok(&shell.pack(&["cat", "monday.dpack"]));
    let rows: Vec<&str> = printed.lines().map(|row| row.split(',').next().unwrap()).collect();
    let ids = ["app:github:admin:user:ada", "app:github:admin:user:bob", "app:github:reader:user:ada"];
    assert_eq!(rows, [&["id"][..], &ids].concat());
    let printed = ok(&shell.pack(&["cat", "monday.dpack", "--table", "resource-types"]));
    assert_eq!(printed.lines().nth(1).and_then(|row| row.split(',').next()), Some("user"));
    assert_eq!(shell.pack(&["cat", "monday.dpack", "--json"]).status.code(), Some(2));
    let refused = shell.pack(&["cat", "monday.dpack", "--sync", "none"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("duramen pack info monday.dpack"), "{}", said(&refused));
    // What is for branches is not passed over in silence.
    for arguments in [&["--prefix", "app"][..], &["--kind", "kv"], &["--space", "default"]] {
        let refused = shell.pack(&[&["cat", "monday.dpack"][..], arguments].concat());
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    }
    let refused = shell.pack(&["diff", "monday.dpack", "tuesday.dpack", "--prefix", "app"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));

    let printed = ok(&shell.pack(&["diff", "monday.dpack", "tuesday.dpack"]));
    assert_eq!(
        printed,
        "- grant app:github:admin:user:bob\n+ grant app:github:reader:user:eve\n1 added, 1 removed, 0 modified\n"
    );
    let found: Value = serde_json::from_str(&ok(&shell.pack(&[
        "diff",
        "monday.dpack",
        "tuesday.dpack",
        "--limit",
        "1",
        "--json",
    ])))
    .unwrap();
    assert_eq!(
        (&found["added"], &found["changes"]),
        (&json!(1), &json!([{ "change": "removed", "kind": "grant", "id": "app:github:admin:user:bob" }]))
    );

    assert!(ok(&shell.pack(&["verify", "monday.dpack"])).starts_with("sound: "));
    let mut bytes = fs::read(shell.beside("monday.dpack")).unwrap();
    bytes[70] ^= 1;
    fs::write(shell.beside("monday.dpack"), bytes).unwrap();
    assert_eq!(shell.pack(&["verify", "monday.dpack"]).status.code(), Some(1));
}

#[test]
fn arguments_that_mean_nothing_for_a_pack_are_refused() {
    let shell = Shell::new();
    written(&shell, "access.dpack", &[grant("admin", "ada"), grant("reader", "bob")]);
    let lines = |limit: &str| ok(&shell.pack(&["cat", "access.dpack", "--limit", limit])).lines().count();
    assert_eq!(["0", "1", "2", "9"].map(lines), [1, 2, 3, 3]);
    for arguments in [
        &["cat", "access.dpack", "--kind", "kv"][..],
        &["cat", "access.dpack", "--prefix", "a"],
        &["cat", "access.dpack", "--base", "access.dpack"],
        &["diff", "access.dpack", "access.dpack", "--space", "a"],
    ] {
        let refused = shell.pack(arguments);
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert!(text(&refused.stderr).contains("means nothing for access.dpack"), "{}", said(&refused));
    }
    shell.ok(&["kv", "put", "a", "1"]);
    shell.ok(&["export", "main.dpack"]);
    let refused = shell.pack(&["cat", "main.dpack", "--table", "grants"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
}

/// A pack whose digests are right, and whose index by principal is that of another graph.
#[test]
fn a_graph_whose_sections_do_not_agree_is_not_sound() {
    let shell = Shell::new();
    written(&shell, "one.dpack", &[grant("admin", "ada"), grant("reader", "bob")]);
    written(&shell, "other.dpack", &[grant("admin", "bob"), grant("reader", "ada")]);
    let open = |name: &str| Pack::open(shell.beside(name)).expect("a pack");
    let (one, other) = (open("one.dpack"), open("other.dpack"));
    let mut writer = PackWriter::create(shell.beside("mixed.dpack"), Kind::Graph).expect("a writer");
    for info in one.sections() {
        let from = if info.name.ends_with("by-principal") { &other } else { &one };
        let section = from.section(&info.name).expect("readable").expect("there");
        writer.begin_section(&info.name, SectionOptions::default()).expect("room");
        let mut raw = Vec::new();
        for block in 0..section.blocks() {
            section.read(block, &mut raw).expect("readable");
            writer.block(section.first_key(block), section.records(block), &raw).expect("room");
        }
    }
    writer.finish(&one.manifest().expect("readable")).expect("room");
    let refused = shell.pack(&["verify", "mixed.dpack"]);
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    let error = text(&refused.stderr);
    assert!(error.contains("is damaged between byte") && error.contains("the grants of user:"), "{error}");
    let refused = shell.pack(&["verify", "mixed.dpack", "--json"]);
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    let found: Value = serde_json::from_slice(&refused.stdout).expect("JSON");
    assert!(found["from"].as_u64() < found["to"].as_u64(), "{found}");
}

#[test]
fn a_conversion_never_takes_the_place_of_its_source_and_leaves_no_part_behind() {
    let shell = Shell::new();
    written(&shell, "sync.dpack", &[grant("admin", "ada")]);
    ok(&shell.pack(&["convert", "sync.dpack", "sync.c1z"]));
    let before = fs::read(shell.beside("sync.c1z")).expect("a file");
    fs::hard_link(shell.beside("sync.c1z"), shell.beside("same.c1z")).expect("a link");
    for target in ["sync.c1z", "same.c1z"] {
        let refused = shell.pack(&["convert", "sync.c1z", target]);
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    }
    assert!(fs::read(shell.beside("sync.c1z")).expect("a file") == before);
    // A sync that somebody did not end is not theirs to lose.
    fs::write(shell.beside("new.dpack.journal"), "something").expect("a file");
    let refused = shell.pack(&["convert", "sync.c1z", "new.dpack"]);
    assert!(text(&refused.stderr).contains("new.dpack.journal exists"), "{}", said(&refused));
    // A source that is damaged where opening does not look: what was copied before goes again.
    let bytes = fs::read(shell.beside("sync.dpack")).expect("a file");
    let pack = Pack::open(shell.beside("sync.dpack")).expect("a pack");
    let grants = pack.section("0/grants").expect("readable").expect("there").range(0);
    let mut damaged = bytes.clone();
    damaged[grants.start as usize] ^= 1;
    fs::write(shell.beside("damaged.dpack"), damaged).expect("a file");
    let refused = shell.pack(&["convert", "damaged.dpack", "out.dpack"]);
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    assert!(!shell.beside("out.dpack").exists() && !shell.beside("out.dpack.journal").exists());
}

/// Whenever a conversion is killed, its target is not there or complete, and the same command does it.
#[test]
fn a_killed_conversion_is_repeated_and_leaves_nothing() {
    let shell = Shell::new();
    let mut store = GraphStore::open(shell.beside("a.dpack")).unwrap();
    for sync in 0..3 {
        store.start_sync(SyncKind::Full, None).unwrap();
        let grants: Vec<Grant> = (0..20_000).map(|user| grant("admin", &format!("{sync}-{user}"))).collect();
        store.put_grants(grants.iter().map(GrantRef::from)).unwrap();
        store.end_sync().unwrap();
    }
    store.close().unwrap();
    let target = shell.beside("new.dpack");
    let convert = ["convert", "a.dpack", "new.dpack"];
    ok(&shell.pack(&convert));
    let complete = fs::read(&target).unwrap();
    let mut kills = 0;
    // Later and later, until a conversion ends before it is killed.
    for step in 0.. {
        let _ = fs::remove_file(&target);
        let mut child = shell.command_of("pack", &convert).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(1 << 4) * step);
        child.kill().unwrap();
        let killed = !child.wait().unwrap().success();
        if target.exists() {
            assert!(fs::read(&target).unwrap().len() == complete.len(), "a part of a graph, at step {step}");
        }
        if !killed {
            break;
        }
        kills += 1;
    }
    assert!(kills > 3, "{kills} kills");
    let _ = fs::remove_file(&target);
    ok(&shell.pack(&convert));
    let mut names: Vec<_> =
        fs::read_dir(shell.beside(".")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.retain(|name| name != "home" && name != "data");
    names.sort();
    assert_eq!(names, ["a.dpack", "new.dpack"]);
}

#[test]
fn a_graph_goes_through_every_format_and_back() {
    let shell = Shell::new();
    written(&shell, "sync.dpack", &[grant("admin", "ada"), grant("reader", "bob")]);
    let before = ok(&shell.pack(&["cat", "sync.dpack"]));
    for format in ["c1z1", "c1z3"] {
        let file = format!("sync-{format}.c1z");
        let back = format!("back-{format}.dpack");
        ok(&shell.pack(&["convert", "sync.dpack", &file, "--to", format]));
        ok(&shell.pack(&["convert", &file, &back]));
        let rows = |printed: &str| -> Vec<String> {
            // Version 1 has a time for every row: that of the sync, where there was none.
            printed.lines().map(|row| row.rsplit_once(',').unwrap_or((row, "")).0.to_owned()).collect()
        };
        assert_eq!(rows(&ok(&shell.pack(&["cat", &back]))), rows(&before), "{format}");
        let refused = shell.pack(&["info", &file]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(text(&refused.stderr).contains("duramen pack convert"), "{}", said(&refused));
    }
    let refused = shell.pack(&["convert", "sync-c1z1.c1z", "out.dpack", "--sync", "none"]);
    let id = ok(&shell.pack(&["info", "sync.dpack", "--json"]));
    let id = serde_json::from_str::<Value>(&id).unwrap()["graph"]["read_by_default"].clone();
    let named = format!("has no sync \"none\"; it holds {}", id.as_str().unwrap());
    assert!(text(&refused.stderr).contains(&named), "{}", said(&refused));
    // Nothing is written where the source cannot be read.
    fs::write(shell.beside("cut.c1z"), b"C1ZF\0").unwrap();
    let refused = shell.pack(&["convert", "cut.c1z", "out.dpack"]);
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    assert!(!shell.beside("out.dpack").exists());
}

#[test]
fn what_a_format_cannot_hold_is_told_line_by_line() {
    let shell = Shell::new();
    let mut store = GraphStore::open(shell.beside("sync.dpack")).unwrap();
    for _ in 0..2 {
        store.start_sync(SyncKind::Full, None).unwrap();
        let mut grant = grant("admin", "ada");
        grant.embedded_principal = Some(vec![10, 0]);
        store.put_grants([&grant]).unwrap();
        store.end_sync().unwrap();
    }
    let syncs = store.syncs();
    store.close().unwrap();
    let printed = ok(&shell.pack(&["convert", "sync.dpack", "sync.c1z"]));
    let told: Vec<&str> = printed.lines().filter(|line| line.starts_with("not held: ")).collect();
    let principal =
        "not held: principal beyond its ids, of one grant row, such as \"app:github:admin:user:ada\"";
    let left = syncs
        .iter()
        .map(|sync| format!("not held: syncs that were not copied, of one sync row, such as {:?}", sync.id));
    assert!(
        told.len() == 2 && told[0] == principal && left.into_iter().any(|line| told[1] == line),
        "{printed}"
    );
    assert!(printed.ends_with('\n'));
    // A file without a sync is a version 1 file, but no pack.
    let writer =
        duramen_access::c1z::C1z1Writer::create(&shell.beside("none.c1z"), &Default::default()).unwrap();
    writer.finish().unwrap();
    let refused = shell.pack(&["convert", "none.c1z", "none.dpack"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("holds no sync"), "{}", said(&refused));
    assert!(!shell.beside("none.dpack").exists());
}

#[test]
fn a_reader_that_leaves_ends_the_printing_of_a_graph() {
    let shell = Shell::new();
    // More than a pipe holds.
    let grants: Vec<Grant> = (0..5_000).map(|number| grant("admin", &format!("user {number}"))).collect();
    written(&shell, "many.dpack", &grants);
    let mut command = shell.command_of("pack", &["cat", "many.dpack"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

/// A pack with people in a group that is in a group that administers an application.
fn nested(shell: &Shell, name: &str, people: &[&str]) {
    let entitlement = |kind: &str, resource: &str, what: &str| Entitlement {
        id: format!("{kind}:{resource}:{what}"),
        resource: ResourceId::new(kind, resource),
        ..Entitlement::default()
    };
    let (team, staff, admin) = (
        entitlement("group", "team", "member"),
        entitlement("group", "staff", "member"),
        entitlement("app", "github", "admin"),
    );
    let held = |of: &Entitlement, kind: &str, holder: &str, from: Option<&Entitlement>| Grant {
        id: format!("{}:{kind}:{holder}", of.id),
        entitlement: EntitlementRef { resource: of.resource.clone(), id: of.id.clone() },
        principal: PrincipalRef { id: ResourceId::new(kind, holder), parent: None },
        expansion: from
            .map(|from| Expansion { entitlement_ids: vec![from.id.clone()], ..Expansion::default() }),
        ..Grant::default()
    };
    let mut grants = vec![
        held(&staff, "group", "team", Some(&team)),
        held(&admin, "group", "staff", Some(&staff)),
        held(&admin, "user", "eve", None),
    ];
    grants.extend(people.iter().map(|person| held(&team, "user", person, None)));
    let mut store = GraphStore::open(shell.beside(name)).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    store.put_entitlements([&team, &staff, &admin]).unwrap();
    store.put_grants(grants.iter().map(GrantRef::from)).unwrap();
    store.end_sync().unwrap();
    store.close().unwrap();
}

#[test]
fn who_has_what_and_why_is_told_of_files_of_all_formats() {
    let shell = Shell::new();
    nested(&shell, "a.dpack", &["ada", "bob"]);
    ok(&shell.pack(&["convert", "a.dpack", "a1.c1z", "--to", "c1z1"]));
    ok(&shell.pack(&["convert", "a.dpack", "a3.c1z", "--to", "c1z3"]));
    for file in ["a.dpack", "a1.c1z", "a3.c1z"] {
        let who = ok(&shell.pack(&["who", file, "app:github:admin", "--type", "user"]));
        let lines: Vec<String> =
            who.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "PRINCIPAL HOW",
                "user:ada through group:staff:member",
                "user:bob through group:staff:member",
                "user:eve directly",
                "3 hold: 1 directly, 2 only through others",
            ]
        );
        let what = ok(&shell.pack(&["what", file, "user:ada", "--json"]));
        let what: Value = serde_json::from_str(&what).unwrap();
        assert_eq!((&what["all"], &what["direct"]), (&json!(3), &json!(1)));
        assert_eq!(what["grants"][0]["through"], json!(["group:staff:member"]));
        let why = ok(&shell.pack(&["why", file, "user:ada", "app:github:admin"]));
        assert_eq!(
            why,
            "user:ada holds app:github:admin in one way\n\
             1. user:ada holds group:team:member (grant \"group:team:member:user:ada\")\n   \
             and so group:staff:member, which group:team holds (grant \"group:staff:member:group:team\")\n   \
             and so app:github:admin, which group:staff holds (grant \"app:github:admin:group:staff\")\n"
        );
        let not = shell.pack(&["why", file, "user:eve", "group:team:member"]);
        assert_eq!(not.status.code(), Some(1));
        assert!(text(&not.stderr).contains("user:eve does not hold group:team:member"), "{}", said(&not));
        for (verb, name) in [("who", "app:gitlab:admin"), ("what", "user:mallory"), ("what", "nobody")] {
            let unknown = shell.pack(&[verb, file, name]);
            assert_eq!(unknown.status.code(), Some(1), "{}", said(&unknown));
            assert!(text(&unknown.stderr).contains("prints those that there are"), "{}", said(&unknown));
        }
    }
}

#[test]
fn who_gained_and_who_lost_what_is_told_in_words_whatever_the_formats() {
    let shell = Shell::new();
    nested(&shell, "monday.dpack", &["ada", "bob"]);
    nested(&shell, "tuesday.dpack", &["ada", "zoe"]);
    ok(&shell.pack(&["convert", "tuesday.dpack", "tuesday.c1z"]));
    for newer in ["tuesday.dpack", "tuesday.c1z"] {
        let told = ok(&shell.pack(&["diff", "monday.dpack", newer, "--who"]));
        let mut lines: Vec<&str> = told.lines().collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            [
                "+ user:zoe gained app:github:admin, through group:team:member, then group:staff:member",
                "+ user:zoe gained group:staff:member, through group:team:member",
                "+ user:zoe gained group:team:member, directly (grant \"group:team:member:user:zoe\")",
                "- user:bob lost app:github:admin, through group:team:member, then group:staff:member",
                "- user:bob lost group:staff:member, through group:team:member",
                "- user:bob lost group:team:member, directly (grant \"group:team:member:user:bob\")",
                "3 gained, 3 lost",
            ]
        );
        let told = ok(&shell.pack(&["diff", "monday.dpack", newer, "--who", "--limit", "1", "--json"]));
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!((&told["gained"], &told["lost"]), (&json!(3), &json!(3)));
        assert_eq!(told["changes"].as_array().unwrap().len(), 2);
        // A page counts all changes, and tells as many one by one as are printed.
        let page = shell.beside("change.html");
        let shown = ok(&shell.pack(&[
            "diff",
            "monday.dpack",
            newer,
            "--who",
            "--limit",
            "1",
            "--html",
            "change.html",
        ]));
        assert!(shown.ends_with("3 gained, 3 lost\n") && shown.lines().count() == 3, "{shown}");
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.contains("Lost: 1 of 3") && page.contains("Gained: 1 of 3"), "{page}");
        assert!(page.contains("user:zoe") && page.contains("through group:staff:member"), "{page}");
    }
    let alone = shell.pack(&["diff", "monday.dpack", "tuesday.dpack", "--html", "change.html"]);
    assert_eq!(alone.status.code(), Some(2), "{}", said(&alone));
    let same = ok(&shell.pack(&["diff", "tuesday.c1z", "tuesday.dpack", "--who"]));
    assert_eq!(same, "0 gained, 0 lost\n");
    let refused = shell.pack(&["diff", "monday.dpack", "tuesday.dpack", "--who", "--prefix", "a"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn files_of_a_graph_are_compacted_into_one_that_nothing_is_missing_from() {
    let shell = Shell::new();
    nested(&shell, "full.dpack", &["ada", "bob"]);
    nested(&shell, "part.dpack", &["zoe"]);
    ok(&shell.pack(&["convert", "part.dpack", "part.c1z"]));
    let told = ok(&shell.pack(&["compact", "full.dpack", "part.dpack", "all.dpack", "--json"]));
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["format"], &told["kind"]), (&json!("dpack"), &json!("full")));
    assert_eq!((&told["entitlements"], &told["grants"]), (&json!(3), &json!(6)));
    assert_eq!(told["of"].as_array().unwrap().len(), 2);
    // Nothing is deleted, and who only the partial sync has is there.
    let change = ok(&shell.pack(&["diff", "full.dpack", "all.dpack", "--who"]));
    assert!(change.ends_with("3 gained, 0 lost\n") && change.contains("+ user:zoe"), "{change}");
    ok(&shell.pack(&["verify", "all.dpack"]));
    // Of packs and files of version 3 becomes a file of version 3.
    let told = ok(&shell.pack(&["compact", "full.dpack", "part.c1z", "all.c1z", "--json"]));
    assert_eq!(serde_json::from_str::<Value>(&told).unwrap()["format"], json!("c1z3"));
    assert_eq!(ok(&shell.pack(&["diff", "all.dpack", "all.c1z", "--who"])), "0 gained, 0 lost\n");
    let same = shell.pack(&["compact", "full.dpack", "part.c1z", "part.c1z"]);
    assert_eq!(same.status.code(), Some(2), "{}", said(&same));
    let few = shell.pack(&["compact", "full.dpack", "new.dpack"]);
    assert_eq!(few.status.code(), Some(2), "{}", said(&few));
    let there = shell.pack(&["compact", "full.dpack", "part.c1z", "all.dpack"]);
    assert_eq!(there.status.code(), Some(1), "{}", said(&there));
}

#[test]
fn what_does_not_fit_together_in_a_graph_is_noticed_also_in_a_c1z_file() {
    let shell = Shell::new();
    nested(&shell, "a.dpack", &["ada"]);
    ok(&shell.pack(&["convert", "a.dpack", "a.c1z"]));
    for file in ["a.dpack", "a.c1z"] {
        let told = ok(&shell.pack(&["verify", file]));
        // There are entitlements and grants, and no resources.
        assert!(
            told.starts_with("sound: ")
                && told.contains(": 3 entitlement rows of a resource that is not there"),
            "{told}"
        );
        let told: Value = serde_json::from_str(&ok(&shell.pack(&["verify", file, "--json"]))).unwrap();
        assert_eq!((&told["sound"], &told["findings"][1]["rows"]), (&json!(true), &json!(4)));
    }
    let mut bytes = fs::read(shell.beside("a.c1z")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(shell.beside("a.c1z"), bytes).unwrap();
    assert_eq!(shell.pack(&["verify", "a.c1z"]).status.code(), Some(1));
}

#[test]
fn rows_of_a_c1z_file_are_printed_by_filters() {
    let shell = Shell::new();
    nested(&shell, "a.dpack", &["ada", "bob"]);
    ok(&shell.pack(&["convert", "a.dpack", "a.c1z"]));
    for file in ["a.dpack", "a.c1z"] {
        let printed = ok(&shell.pack(&["grants", file, "--principal", "user:ada"]));
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!(lines.len(), 2, "{printed}");
        assert!(
            lines[0].starts_with("id,entitlement,") && lines[1].starts_with("group:team:member:user:ada,"),
            "{printed}"
        );
        let printed = ok(&shell.pack(&["grants", file, "--principal", "user:ada", "--effective", "--json"]));
        assert_eq!(printed.lines().count(), 3, "{printed}");
        let printed = ok(&shell.pack(&["principals", file, "--type", "group"]));
        assert_eq!(printed, "resource_type,resource,grants\ngroup,staff,1\ngroup,team,1\n");
        let printed = ok(&shell.pack(&["entitlements", file, "--resource", "app:github", "--limit", "9"]));
        assert_eq!(printed.lines().count(), 2, "{printed}");
        assert_eq!(ok(&shell.pack(&["resources", file])).lines().count(), 1);
    }
}
