//! Generations that are kept, named, branched and compared: invariants G7 to G10.

use crate::filler::{Filler, LITTLE};
use crate::support::{lease, pool, query, rows, settle, until, Home};
use duramen_api::model::{
    BranchView, ChangeSettings, CreateBranch, LabelGeneration, Masking, MomentKind, Policy, TakeSnapshot,
};
use duramen_branches::{Engine, EngineError};
use serde_json::json;
use std::{fs, sync::Arc, time::Duration};

fn script(home: &Home, generation: u32) {
    let sql = format!("create table t (x int); insert into t values ({generation}); create table only_{generation} (y int);");
    fs::write(home.beside("app.sql"), sql).expect("the script");
}

/// A source with so many generations, each of which says which it is.
async fn source(home: &Home, engine: &Arc<Engine>, generations: u32, keep: &str) {
    script(home, 1);
    let mut settings = pool(&[(Policy::ReadWrite, 1)]);
    settings.keep = keep.parse().expect("a rule");
    let sql = fs::read_to_string(home.beside("app.sql")).expect("the script");
    home.add_script(engine, &sql, settings).await;
    for number in 2..=generations {
        script(home, number);
        let view = engine.refresh_source("app", |_, _| {}).await.expect("a refresh");
        assert_eq!(view.generation, number);
    }
}

async fn of(engine: &Arc<Engine>, name: &str, generation: &str) -> Result<BranchView, EngineError> {
    let request = CreateBranch {
        name: Some(name.to_owned()),
        generation: Some(generation.to_owned()),
        ..CreateBranch::default()
    };
    engine.create(request).await
}

async fn label(engine: &Arc<Engine>, generation: &str, label: &str, remove: bool) -> Result<(), EngineError> {
    let request = LabelGeneration { generation: generation.to_owned(), label: label.to_owned(), remove };
    engine.label_generation("app", request).await.map(drop)
}

fn there(engine: &Engine) -> Vec<u32> {
    engine.generations("app").expect("generations").iter().map(|view| view.generation).collect()
}

fn volumes(home: &Home) -> usize {
    fs::read_dir(home.path().join("volumes/snapshots")).expect("snapshots").count()
}

/// G7, G8.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_rule_or_a_label_keeps_stays_and_the_rest_goes() {
    let home = Home::new();
    let engine = home.open().await;
    source(&home, &engine, 4, "3 last").await;
    settle(&engine).await;
    until("the first goes", async || there(&engine) == [2, 3, 4]).await;
    let views = engine.generations("app").expect("generations");
    assert!(views.iter().all(|view| view.kept_by == ["last"]), "{views:?}");
    assert_eq!(views.iter().map(|view| view.current).collect::<Vec<_>>(), [false, false, true]);

    label(&engine, "2", "before", false).await.expect("a label");
    label(&engine, "before", "also", false).await.expect("by its label");
    label(&engine, "2", "before", false).await.expect("again");
    for (generation, text, remove, code) in [
        ("3", "before", false, "label_exists"),
        ("2", "12", false, "bad_label"),
        ("2", "Before", false, "bad_name"),
        ("1", "first", false, "unknown_generation"),
        ("5", "next", false, "unknown_generation"),
        ("befroe", "next", false, "unknown_generation"),
        ("3", "before", true, "unknown_label"),
    ] {
        let error = label(&engine, generation, text, remove).await.expect_err(text);
        assert_eq!(error.code, code, "{generation} {text}: {error}");
    }
    // Less is kept, and what has a label is.
    let change =
        ChangeSettings { keep: Some("1 daily".parse().expect("a rule")), ..ChangeSettings::default() };
    engine.change_settings("app", change).await.expect("another rule");
    until("the third goes", async || there(&engine) == [2, 4]).await;
    assert_eq!(volumes(&home), 2);
    assert_eq!(engine.generations("app").expect("generations")[0].labels, ["also", "before"]);
    // Another daemon knows them.
    engine.close().await.expect("close");
    let engine = home.open().await;
    settle(&engine).await;
    assert_eq!(there(&engine), [2, 4]);
    label(&engine, "2", "before", true).await.expect("removed");
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(there(&engine), [2, 4], "it has another label");
    label(&engine, "also", "also", true).await.expect("removed");
    until("it goes with its last label", async || there(&engine) == [4]).await;
    until("with its volume", async || volumes(&home) == 1).await;
    let ended = ChangeSettings { keep: Some(Default::default()), ..ChangeSettings::default() };
    let view = engine.change_settings("app", ended).await.expect("no rule");
    assert!(view.settings.keep.is_empty());
    engine.close().await.expect("close");
}

/// G10.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn branches_are_made_of_what_is_kept() {
    let home = Home::new();
    let engine = home.open().await;
    source(&home, &engine, 3, "9 last").await;
    label(&engine, "1", "first", false).await.expect("a label");
    settle(&engine).await;
    for (name, wanted, number) in [("a", "1", 1), ("b", "first", 1), ("c", "2", 2), ("d", "3", 3)] {
        let view = of(&engine, name, wanted).await.unwrap_or_else(|error| panic!("{wanted}: {error}"));
        assert_eq!(view.generation, number, "{wanted}");
        assert_eq!(rows(&engine, name, "select x from t").await, json!([[number]]));
        query(&engine, name, "insert into t values (0)").await.expect("it is a branch like any other");
    }
    let again = of(&engine, "a", "first").await.expect("the same again");
    assert!(again.existing);
    let error = of(&engine, "a", "2").await.expect_err("it is of another one");
    assert_eq!(error.code, "name_clash", "{error}");
    assert_eq!(of(&engine, "e", "7").await.expect_err("unknown").code, "unknown_generation");
    assert!(of(&engine, "e", "frist").await.expect_err("misspelt").message.contains("first"));
    let both = CreateBranch {
        from: Some("a".to_owned()),
        generation: Some("1".to_owned()),
        ..CreateBranch::default()
    };
    assert_eq!(engine.create(both).await.expect_err("one or the other").code, "two_beginnings");
    // A reset restores what it was made of (B14); a child is one of it.
    engine.reset("a").await.expect("a reset");
    assert_eq!(rows(&engine, "a", "select x from t").await, json!([[1]]));
    let child = CreateBranch {
        name: Some("child".to_owned()),
        from: Some("c".to_owned()),
        ..CreateBranch::default()
    };
    assert_eq!(engine.create(child).await.expect("a child").generation, 2);
    // The branch keeps its generation when nothing else does.
    engine
        .change_settings(
            "app",
            ChangeSettings { keep: Some(Default::default()), ..ChangeSettings::default() },
        )
        .await
        .expect("no rule");
    label(&engine, "first", "first", true).await.expect("no label");
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(there(&engine), [1, 2, 3]);
    engine.close().await.expect("close");
    let engine = home.open().await;
    assert_eq!(
        rows(&engine, "b", "select max(x) from t").await,
        json!([[1]]),
        "another daemon goes on with it"
    );
    for name in ["a", "b", "c", "d", "child"] {
        engine.destroy(name).expect("destroy");
    }
    until("then they go", async || there(&engine) == [3] && volumes(&home) == 1).await;
    engine.close().await.expect("close");
}

/// G10: whoever goes away leaves nothing, and rules for masking hold for earlier generations, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_create_of_a_generation_leaves_nothing_half_made() {
    let home = Home::new();
    let engine = home.open().await;
    source(&home, &engine, 2, "9 last").await;
    settle(&engine).await;
    let usual = fs::read_dir(home.path().join("volumes/branches")).expect("volumes").count();
    for pause in [0, 5, 20, 60] {
        let left = tokio::time::timeout(Duration::from_millis(pause), of(&engine, "gone", "1")).await;
        if left.is_ok() {
            engine.destroy("gone").expect("it was made in time");
        }
    }
    until("nothing is left", async || {
        let found = fs::read_dir(home.path().join("volumes/branches")).expect("volumes").count();
        engine.status().settled && engine.branches().is_empty() && found == usual
    })
    .await;
    let masking: Masking =
        serde_json::from_value(json!({ "columns": { "public.t": { "x": "null" } } })).expect("rules");
    let change = ChangeSettings { masking: Some(masking), ..ChangeSettings::default() };
    engine.change_settings("app", change).await.expect("rules");
    engine.refresh_source("app", |_, _| {}).await.expect("a masked generation");
    assert_eq!(there(&engine), [1, 2, 3]);
    let error = of(&engine, "old", "1").await.expect_err("it was not masked");
    assert_eq!(error.code, "rules_changed", "{error}");
    let error = engine.generation_diff("app", "1", "3").await.expect_err("nor is it compared");
    assert_eq!(error.code, "rules_changed", "{error}");
    assert_eq!(rows_of(&engine, "3").await, json!([[null]]));
    engine.close().await.expect("close");
}

async fn rows_of(engine: &Arc<Engine>, generation: &str) -> serde_json::Value {
    of(engine, "looked-at", generation).await.expect("a branch");
    let found = rows(engine, "looked-at", "select x from t").await;
    engine.destroy("looked-at").expect("destroy");
    found
}

/// G9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_nearly_full_keeps_what_has_a_label_only() {
    let home = Home::with_small_store();
    let engine = home.open().await;
    source(&home, &engine, 4, "9 last").await;
    settle(&engine).await;
    label(&engine, "2", "wanted", false).await.expect("a label");
    let filler = Filler::begin(&home);
    until("the others go", async || {
        filler.leave(LITTLE);
        there(&engine) == [2, 4]
    })
    .await;
    filler.remove();
    // It is written down just after it is done.
    until("it is said of each", async || {
        let log = fs::read_dir(home.path().join("audit")).expect("the audit log").flatten();
        let log: String = log.map(|file| fs::read_to_string(file.path()).expect("its text")).collect();
        log.matches("generation_dropped").count() == 2
    })
    .await;
    engine.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_branches_can_be_made_of_is_told_in_the_order_of_time() {
    let home = Home::new();
    let engine = home.open().await;
    source(&home, &engine, 1, "9 last").await;
    lease(&engine, "try", Policy::ReadWrite).await;
    let taken = TakeSnapshot { name: Some("before".to_owned()), quiesce: false };
    engine.take_snapshot("try", taken).await.expect("a snapshot");
    script(&home, 2);
    engine.refresh_source("app", |_, _| {}).await.expect("a refresh");
    engine.promote("try", Default::default(), |_, _| {}).await.expect("a promotion");
    label(&engine, "3", "promoted", false).await.expect("a label");
    let found = engine.timeline("app").expect("a timeline");
    let told: Vec<_> = found.iter().map(|it| (it.kind, it.generation, it.snapshot.as_deref())).collect();
    let generation = MomentKind::Generation;
    let expected = [
        (generation, 1, None),
        (MomentKind::Snapshot, 1, Some("before")),
        (generation, 2, None),
        (generation, 3, None),
    ];
    assert_eq!(told, expected);
    assert_eq!(
        (found[1].branch.as_deref(), found[3].labels.as_slice()),
        (Some("try"), &["promoted".to_owned()][..])
    );
    assert!(found.windows(2).all(|pair| pair[0].at <= pair[1].at));
    assert_eq!(engine.timeline("none").expect_err("unknown").code, "unknown_source");
    engine.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_generations_define_is_compared() {
    let home = Home::new();
    let engine = home.open().await;
    source(&home, &engine, 3, "9 last").await;
    label(&engine, "1", "first", false).await.expect("a label");
    settle(&engine).await;
    let before = there(&engine);
    for (from, to) in [("first", "2"), ("1", "3"), ("3", "1")] {
        let diff = engine.generation_diff("app", from, to).await.expect("a comparison");
        let told: Vec<_> =
            diff.changes.iter().map(|it| (it.how.as_str(), it.kind.as_str(), it.name.as_str())).collect();
        let (number_from, number_to) = (from.replace("first", "1"), to);
        let (gone, new) = (format!("public.only_{number_from}"), format!("public.only_{number_to}"));
        assert!(
            told.contains(&("removed", "table", &gone)) && told.contains(&("added", "table", &new)),
            "{from} {to}: {told:?}"
        );
        assert!(diff.from.ends_with(&format!("generation {number_from}")), "{}", diff.from);
        assert!(diff.script.contains("only_"), "{}", diff.script);
    }
    let same = engine.generation_diff("app", "2", "2").await.expect("a comparison");
    assert!(same.changes.is_empty());
    assert_eq!(
        engine.generation_diff("app", "2", "9").await.expect_err("unknown").code,
        "unknown_generation"
    );
    settle(&engine).await;
    assert_eq!(there(&engine), before);
    engine.close().await.expect("close");
}
