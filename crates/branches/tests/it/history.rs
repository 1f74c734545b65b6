//! Branches of moments of the past. The invariants H1 to H8 are in `docs/design/history.md`.

use crate::{
    filler::Filler,
    origin::{import, OtherServer},
    support::{majors, rows, settle, signal_all_below, until, Home},
};
use duramen_api::model::{
    BranchView, ChangeSettings, CreateBranch, FollowSettings, HistoryView, Moment, MomentKind, Policy,
};
use duramen_branches::{Engine, EngineError};
use duramen_postgres::processes_below;
use jiff::Timestamp;
use rustix::process::Signal;
use std::{fs, os::unix::fs::symlink, path::PathBuf, sync::Arc, time::Duration};

const SETUP: &str = "create table orders (id int primary key, state text);;
insert into orders select i, 'new' from generate_series(1, 1000) i";

fn keeping(seconds: Option<u32>, bytes: Option<u64>) -> ChangeSettings {
    let follow = FollowSettings {
        enabled: true,
        keep_history_s: seconds,
        history_bytes: bytes,
        ..FollowSettings::default()
    };
    ChangeSettings { follow: Some(follow), ..ChangeSettings::default() }
}

/// An origin, and a source of it that keeps history, whose first base is there.
async fn kept(home: &Home, engine: &Arc<Engine>, major: u32, settings: &str) -> OtherServer {
    let origin = OtherServer::start_with(home, major, settings).await;
    origin.run("shop", SETUP).await;
    import(engine, "app", origin.running(), &[Policy::ReadWrite]).await.expect("the import");
    engine.change_settings("app", keeping(Some(7 * 86_400), None)).await.expect("it follows");
    refresh(engine).await.expect("the first generation of the standby");
    begun(engine, &origin).await;
    origin
}

async fn refresh(engine: &Arc<Engine>) -> Result<u32, EngineError> {
    engine.refresh_source("app", |_, _| {}).await.map(|source| source.generation)
}

/// Waits until every moment from now on is in reach, and returns one.
async fn begun(engine: &Arc<Engine>, origin: &OtherServer) -> Timestamp {
    let now = moment(origin).await;
    let reached = async || {
        engine.look_after_followed().await;
        let stretch = stretches(engine).pop();
        let reached =
            stretch.is_some_and(|it| it.ended.is_none() && it.until.is_some_and(|until| until >= now));
        if !reached {
            // What a failure shows.
            eprintln!("{now} is not reached yet: {:?}", engine.source("app").expect("the source").follow);
        }
        reached
    };
    until("history reaches it", reached).await;
    moment(origin).await
}

fn stretches(engine: &Engine) -> Vec<Moment> {
    let mut found = engine.timeline("app").expect("the timeline");
    found.retain(|moment| moment.kind == MomentKind::Stretch);
    found
}

fn history(engine: &Engine) -> HistoryView {
    engine.source("app").expect("the source").follow.expect("it follows").history.expect("it is kept")
}

/// The origin's clock, between what was committed before this and what is after it.
async fn moment(origin: &OtherServer) -> Timestamp {
    let client = origin.client("boss", "shop").await;
    client.query_one("select clock_timestamp()", &[]).await.expect("a row").get(0)
}

/// The position behind what it has written.
async fn position(origin: &OtherServer) -> String {
    let client = origin.client("boss", "shop").await;
    client.query_one("select pg_current_wal_insert_lsn()::text", &[]).await.expect("a row").get(0)
}

/// Adds an order, with a moment before it and after it.
async fn order(origin: &OtherServer, id: i32) {
    origin.run("shop", &format!("insert into orders values ({id}, 'x')")).await;
}

async fn at(engine: &Arc<Engine>, name: &str, at: Timestamp) -> Result<BranchView, EngineError> {
    let request = CreateBranch { name: Some(name.to_owned()), at: Some(at), ..CreateBranch::default() };
    engine.create(request).await
}

async fn at_position(engine: &Arc<Engine>, name: &str, lsn: &str) -> Result<BranchView, EngineError> {
    let lsn = Some(lsn.to_owned());
    engine.create(CreateBranch { name: Some(name.to_owned()), lsn, ..CreateBranch::default() }).await
}

/// How many orders a branch has.
async fn orders(engine: &Arc<Engine>, branch: &str) -> i64 {
    rows(engine, branch, "select count(*) from orders").await[0][0].as_i64().expect("a number")
}

async fn orders_at(engine: &Arc<Engine>, moment: Timestamp) -> i64 {
    at(engine, "look", moment).await.unwrap_or_else(|error| panic!("{moment}: {error}"));
    let found = orders(engine, "look").await;
    engine.destroy("look").expect("it is destroyed");
    found
}

fn kept_in(home: &Home) -> PathBuf {
    home.path().join("volumes/history/app")
}

fn moments(home: &Home) -> Vec<String> {
    let names = fs::read_dir(home.path().join("volumes/snapshots")).expect("it is there").flatten();
    names.map(|it| it.file_name().into_string().expect("UTF-8")).filter(|it| it.len() > 12).collect()
}

/// H1, H6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_holds_what_the_origin_had_committed_at_a_moment() {
    for major in majors() {
        let home = Home::new();
        let engine = home.open().await;
        let origin = kept(&home, &engine, major, "").await;
        let mut told = vec![(moment(&origin).await, position(&origin).await, 1000)];
        for round in 1..=5 {
            order(&origin, 2000 + round).await;
            told.push((moment(&origin).await, position(&origin).await, 1000 + i64::from(round)));
            if round == 2 {
                // Segments are kept, and what is asked for is in the middle of them.
                origin.run("shop", "select pg_switch_wal();; checkpoint").await;
            }
            if round == 3 {
                refresh(&engine).await.expect("another base");
                begun(&engine, &origin).await;
            }
        }
        for (time, lsn, count) in &told {
            assert_eq!(orders_at(&engine, *time).await, *count, "{time}");
            at_position(&engine, "there", lsn).await.unwrap_or_else(|error| panic!("{lsn}: {error}"));
            assert_eq!(orders(&engine, "there").await, *count, "{lsn}");
            engine.destroy("there").expect("it is destroyed");
        }
        // Nothing is committed after it, and the origin is asked for it.
        assert_eq!(orders_at(&engine, moment(&origin).await).await, 1005);

        // The same moment again is the same generation, until no branch of it is left.
        let (time, _, count) = told[1].clone();
        let one = at(&engine, "one", time).await.expect("a branch");
        let two = at(&engine, "two", time).await.expect("another one");
        assert_eq!(one.generation, two.generation);
        assert!(at(&engine, "one", time).await.expect("it is there").existing);
        let clash = at(&engine, "one", told[2].0).await.expect_err("it is of another moment");
        assert_eq!(clash.code, "name_clash");
        rows(&engine, "one", "insert into orders values (9999, 'mine') returning id").await;
        engine.reset("one").await.expect("it goes back to its moment");
        assert_eq!(orders(&engine, "one").await, count);
        let seen = engine.timeline("app").expect("the timeline");
        let of_it: Vec<&Moment> = seen.iter().filter(|it| it.kind == MomentKind::Moment).collect();
        assert_eq!((of_it[0].at, of_it[0].generation, of_it.len()), (time, one.generation, 1));
        let listed = engine.generations("app").expect("generations");
        let listed = listed.iter().find(|it| it.generation == one.generation).expect("it is listed");
        assert_eq!(listed.moment.as_ref().and_then(|of| of.at), Some(time));
        assert!(!listed.current);
        assert!(!engine.evidence("one").await.expect("evidence").snapshot_digest.is_empty());
        engine.destroy("one").expect("it is destroyed");
        settle(&engine).await;
        assert_eq!(moments(&home).len(), 1, "a branch of it is left");
        engine.destroy("two").expect("it is destroyed");
        until("the moment is gone", async || moments(&home).is_empty()).await;

        // A daemon that comes later has the same history.
        engine.close().await.expect("it closes");
        let engine = home.open().await;
        for (time, _, count) in &told {
            assert_eq!(orders_at(&engine, *time).await, *count, "{time}");
        }
        let off = keeping(None, None);
        engine.change_settings("app", off).await.expect("none is kept any more");
        until("it is gone", async || {
            engine.look_after_followed().await;
            !kept_in(&home).exists()
        })
        .await;
        let refused = at(&engine, "late", told[0].0).await.expect_err("there is none");
        assert_eq!(refused.code, "no_history");
        engine.close().await.expect("it closes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_moment_out_of_reach_is_refused_with_what_is_possible() {
    let home = Home::new();
    let engine = home.open().await;
    let major = majors()[0];
    let early = duramen_base::clock::utc_now();
    let mut origin = kept(&home, &engine, major, "").await;
    let refused = at(&engine, "early", early).await.expect_err("before the first base");
    assert_eq!(refused.code, "moment_out_of_reach");
    let from = stretches(&engine)[0].at.to_string();
    assert!(refused.message.contains(&from), "{refused} does not name {from}");
    let future = moment(&origin).await + Duration::from_secs(3600);
    assert_eq!(at(&engine, "late", future).await.expect_err("tomorrow").code, "moment_to_come");
    assert_eq!(at_position(&engine, "late", "FFFF/0").await.expect_err("not written").code, "moment_to_come");
    assert_eq!(at_position(&engine, "late", "0/1").await.expect_err("long ago").code, "moment_out_of_reach");
    for text in ["", "0", "0/x", "0/0; drop", "1/2/3"] {
        assert_eq!(at_position(&engine, "late", text).await.expect_err(text).code, "bad_lsn");
    }
    let both = CreateBranch { at: Some(early), lsn: Some("0/1".to_owned()), ..CreateBranch::default() };
    assert_eq!(engine.create(both).await.expect_err("two").code, "two_beginnings");
    let both = CreateBranch { at: Some(early), generation: Some("1".to_owned()), ..CreateBranch::default() };
    assert_eq!(engine.create(both).await.expect_err("two").code, "two_beginnings");

    // What is known stays in reach when the origin is gone.
    order(&origin, 5000).await;
    let known = begun(&engine, &origin).await;
    engine.look_after_followed().await;
    let until = history(&engine).until.expect("it reaches somewhere");
    origin.stop();
    assert_eq!(orders_at(&engine, until).await, 1001);
    let refused = at(&engine, "late", known + Duration::from_secs(60)).await.expect_err("nobody knows");
    assert_eq!(refused.code, "moment_out_of_reach");
    for (change, what) in [(keeping(Some(1), None), "too short"), (keeping(Some(600), Some(1)), "too small")]
    {
        assert_eq!(engine.change_settings("app", change).await.expect_err(what).code, "cannot_follow");
    }
    engine.close().await.expect("it closes");
}

/// H3: what comes after a failover is another stretch, and the one before it stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_of_the_origin_begins_another_stretch() {
    let home = Home::new();
    let engine = home.open().await;
    let major = majors()[0];
    let mut origin = OtherServer::start(&home, major).await;
    origin.run("shop", SETUP).await;
    let (either, second) = origin.running_here_or_there(&home);
    import(&engine, "app", either, &[Policy::ReadWrite]).await.expect("the import");
    engine.change_settings("app", keeping(Some(86_400), None)).await.expect("it follows");
    refresh(&engine).await.expect("the first generation");
    begun(&engine, &origin).await;
    order(&origin, 2000).await;
    let before = moment(&origin).await;
    order(&origin, 2001).await;
    begun(&engine, &origin).await;
    origin.stop();
    let mut other = origin.moved_to(&home.beside("second"), &second);
    other.promote().await;
    order(&other, 3000).await;
    begun(&engine, &other).await;
    let after = moment(&other).await;
    order(&other, 3001).await;
    let found = stretches(&engine);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].ended.as_ref().is_some_and(|why| why.contains("timeline 2")), "{found:?}");
    assert_eq!(found[1].ended, None);
    assert_eq!(orders_at(&engine, before).await, 1001);
    assert_eq!(orders_at(&engine, after).await, 1003);
    assert_eq!(orders_at(&engine, moment(&other).await).await, 1004);
    refresh(&engine).await.expect("a generation, and a base of the second stretch");
    order(&other, 3002).await;
    let later = moment(&other).await;
    order(&other, 3003).await;
    assert_eq!(orders_at(&engine, later).await, 1005);
    assert_eq!(stretches(&engine).len(), 2);
    engine.close().await.expect("it closes");
}

/// H3: so is what comes after another copy, when the log in between is gone. A restart of the origin ends nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gap_in_the_log_begins_another_stretch_and_a_restart_does_not() {
    let home = Home::new();
    let engine = home.open().await;
    let settings = "wal_keep_size = 0\nmax_wal_size = 32MB\nmin_wal_size = 32MB\n";
    let mut origin = kept(&home, &engine, majors()[0], settings).await;
    order(&origin, 2000).await;
    let before = begun(&engine, &origin).await;
    begun(&engine, &origin).await;
    origin.stop();
    engine.look_after_followed().await;
    origin.run_server();
    order(&origin, 2001).await;
    let restarted = begun(&engine, &origin).await;
    begun(&engine, &origin).await;
    assert_eq!(stretches(&engine).len(), 1, "it goes on");
    engine.close().await.expect("it closes");
    for _ in 0..6 {
        origin
            .run("shop", "update orders set state = state || 'y';; select pg_switch_wal();; checkpoint")
            .await;
    }
    order(&origin, 2002).await;
    let engine = home.open().await;
    refresh(&engine).await.expect("a generation of another copy");
    let after = begun(&engine, &origin).await;
    let found = stretches(&engine);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].ended.as_ref().is_some_and(|why| why.contains("copied anew")), "{found:?}");
    for (moment, count) in [(before, 1001), (restarted, 1002), (after, 1003)] {
        assert_eq!(orders_at(&engine, moment).await, count);
    }
    engine.close().await.expect("it closes");
}

/// H7, H8.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_is_kept_for_as_long_and_as_much_as_it_is_to_be() {
    let home = Home::with_small_store();
    let engine = home.open().await;
    let origin = kept(&home, &engine, majors()[0], "").await;
    let first = moment(&origin).await;
    engine.change_settings("app", keeping(Some(86_400), Some(128 << 20))).await.expect("less is kept");
    let segments = || fs::read_dir(kept_in(&home).join("000001/wal")).map_or(0, Iterator::count);
    // A quarter of the limit after the last one there is another base, so that the earliest can go.
    until("what is too much is gone", async || {
        origin.run("shop", "update orders set state = state || 'y';; select pg_switch_wal()").await;
        begun(&engine, &origin).await;
        stretches(&engine)[0].at > first
    })
    .await;
    assert!(segments() <= 9, "{}", segments());
    assert_eq!(at(&engine, "look", first).await.expect_err("gone").code, "moment_out_of_reach");
    let bases = || {
        let names = fs::read_dir(kept_in(&home).join("000001")).expect("it is there").flatten();
        names.filter(|it| it.file_name().to_string_lossy().starts_with("base-")).count()
    };
    assert!((1..=5).contains(&bases()), "{}", bases());
    let known = begun(&engine, &origin).await;
    order(&origin, 2000).await;
    assert_eq!(orders_at(&engine, known).await, 1000);

    // What is short of room keeps none.
    let filler = Filler::begin(&home);
    until("it is gone", async || {
        filler.leave(96 << 20);
        engine.look_after_followed().await;
        stretches(&engine).is_empty()
    })
    .await;
    assert!(fs::read_dir(kept_in(&home)).is_ok_and(|mut names| names.next().is_none()));
    filler.remove();
    begun(&engine, &origin).await;
    assert_eq!(orders_at(&engine, moment(&origin).await).await, 1001);
    engine.close().await.expect("it closes");
}

/// H2: whatever ends the daemon, what was promised is there, and nothing is left of what was not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_earlier_daemon_left_half_made_is_removed_and_the_rest_is_whole() {
    let home = Home::new();
    let engine = home.open().await;
    let origin = kept(&home, &engine, majors()[0], "").await;
    order(&origin, 2000).await;
    let known = moment(&origin).await;
    origin.run("shop", "select pg_switch_wal()").await;
    begun(&engine, &origin).await;
    origin.run("shop", "select pg_switch_wal()").await;
    begun(&engine, &origin).await;
    let one = at(&engine, "one", known).await.expect("a branch");
    engine.close().await.expect("it closes");

    let engine = home.open().await;
    assert_eq!(orders(&engine, "one").await, 1001, "a branch of a moment is there again");
    engine.close().await.expect("it closes");
    let stretch = kept_in(&home).join("000001");
    let volumes = home.path().join("volumes");
    let mounted = home.open().await;
    let kept = fs::read_dir(stretch.join("wal")).expect("it is there").count();
    for left in
        ["000001/wal/000000010000000000000099", "000001/wal/x.part", "000002/wal/x", "000001/base-000009/x"]
    {
        let path = kept_in(&home).join(left);
        fs::create_dir_all(path.parent().expect("one")).expect("a directory");
        fs::write(&path, "left").expect("a file");
    }
    let of_moment = volumes.join(format!("snapshots/app.{}", one.generation + 1));
    fs::create_dir(&of_moment).expect("a moment without a manifest");
    fs::create_dir(volumes.join("imports/app-x")).expect("a moment that was being made");
    mounted.close().await.expect("it closes");
    let engine = home.open().await;
    assert_eq!(fs::read_dir(stretch.join("wal")).expect("it is there").count(), kept);
    assert!(!kept_in(&home).join("000002").exists() && !stretch.join("base-000009").exists());
    assert!(!of_moment.exists() && !volumes.join("imports/app-x").exists());
    engine.destroy("one").expect("it is destroyed");
    until("the moment is gone", async || moments(&home).is_empty()).await;
    assert_eq!(orders_at(&engine, known).await, 1001);

    // What is missing is not promised.
    fs::remove_file(stretch.join("wal").join(first_segment(&stretch))).expect("it is gone");
    engine.close().await.expect("it closes");
    let engine = home.open().await;
    let refused = at(&engine, "late", known).await.expect_err("a part is missing");
    assert_eq!(refused.code, "moment_out_of_reach", "{refused}");
    let again = begun(&engine, &origin).await;
    assert_eq!(orders_at(&engine, again).await, 1001);
    engine.close().await.expect("it closes");
}

fn first_segment(stretch: &std::path::Path) -> String {
    let names = fs::read_dir(stretch.join("wal")).expect("it is there").flatten();
    names.map(|it| it.file_name().into_string().expect("UTF-8")).min().expect("one is kept")
}

/// H1: recovery that stops at a damaged or misplaced segment fails the create, instead of passing for the end of the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_segment_makes_no_branch() {
    let home = Home::new();
    let engine = home.open().await;
    let origin = kept(&home, &engine, majors()[0], "").await;
    for id in 2000..2004 {
        order(&origin, id).await;
        origin.run("shop", "select pg_switch_wal()").await;
        begun(&engine, &origin).await;
    }
    let known = moment(&origin).await;
    begun(&engine, &origin).await;
    let wal = kept_in(&home).join("000001/wal");
    let mut names: Vec<_> = fs::read_dir(&wal).expect("it is there").flatten().map(|it| it.path()).collect();
    names.sort();
    let damaged = &names[1];
    let whole = fs::read(damaged).expect("it is read");
    for (what, bytes) in [
        ("zeros behind its first page", [&whole[..8192], &vec![0; whole.len() - 8192][..]].concat()),
        ("another one", fs::read(&names[2]).expect("it is read")),
        ("a short one", whole[..1 << 20].to_vec()),
    ] {
        fs::write(damaged, bytes).expect("it is damaged");
        let refused = at(&engine, "late", known).await.err().unwrap_or_else(|| panic!("{what} is taken"));
        assert_eq!(refused.code, "history_damaged", "{what}: {refused}");
    }
    fs::write(damaged, whole).expect("it is whole again");
    assert_eq!(orders_at(&engine, known).await, 1004);
    assert!(processes_below(&home.path().join("volumes/imports")).is_empty());
    assert_eq!(fs::read_dir(home.path().join("volumes/imports")).expect("it is there").count(), 0);
    engine.close().await.expect("it closes");
}

/// What is put where a segment should be.
type Attack<'a> = &'a dyn Fn(&std::path::Path);

/// H5: what a standby is taken over by may put into its log is not followed, and not waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_puts_links_into_its_log_is_not_followed() {
    let home = Home::new();
    let engine = home.open().await;
    let origin = kept(&home, &engine, majors()[0], "").await;
    let known = begun(&engine, &origin).await;
    let secret = home.beside("secret");
    fs::write(&secret, vec![7; 16 << 20]).expect("a secret");
    let log = home.path().join("volumes/standbys/app/pg_wal");
    let next = fs::read_dir(&log)
        .expect("it is there")
        .flatten()
        .map(|it| it.file_name().into_string().expect("UTF-8"));
    let next = next.filter(|name| name.len() == 24).max().expect("a segment");
    signal_all_below(&home.path().join("volumes/standbys"), Signal::STOP);
    let real = fs::read(log.join(&next)).expect("it is read");
    let attacks: [(&str, Attack<'_>); 4] = [
        ("a link", &|at| symlink(&secret, at).expect("a link")),
        ("a pipe", &|at| rustix::fs::mkfifoat(rustix::fs::CWD, at, rustix::fs::Mode::RUSR).expect("a pipe")),
        ("a directory", &|at| fs::create_dir(at).expect("a directory")),
        ("a long file", &|at| fs::write(at, [&real[..], b"x"].concat()).expect("a file")),
    ];
    for (what, attack) in attacks {
        let at = log.join(&next);
        if at.is_dir() {
            fs::remove_dir(&at).expect("it is gone");
        } else {
            fs::remove_file(&at).expect("it is gone");
        }
        attack(&at);
        fs::write(log.join("archive_status").join(format!("{next}.ready")), "").expect("it is noted");
        fs::write(log.join("archive_status/..ready"), "").expect("a name");
        engine.look_after_followed().await;
        let kept = kept_in(&home).join("000001/wal").join(&next);
        assert!(!kept.symlink_metadata().is_ok_and(|it| it.len() > 0), "{what} was kept");
        let found = stretches(&engine);
        assert!(
            found.iter().any(|it| it.ended.as_ref().is_some_and(|why| why.contains("refused"))),
            "{what}: {found:?}"
        );
    }
    assert_eq!(orders_at(&engine, known).await, 1000, "what was kept is there");
    engine.close().await.expect("it closes");
}
