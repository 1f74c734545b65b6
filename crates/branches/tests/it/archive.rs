//! Sources that follow their origin by its archive. The invariants F9 to F14 are in `docs/design/following.md`.

use crate::{
    filler::Filler,
    origin::{import, OtherServer},
    support::{lease, majors, rows, signal_all_below, until, Home},
};
use duramen_api::model::{ChangeSettings, CreateBranch, FollowSettings, FollowView, Policy};
use duramen_branches::{Engine, EngineError};
use duramen_postgres::processes_below;
use jiff::Timestamp;
use rustix::process::Signal;
use std::{
    collections::BTreeMap,
    fs::{self, Permissions},
    os::unix::fs::{symlink, FileExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

const SETUP: &str = "create table orders (id int primary key, state text);;
insert into orders select i, 'new' from generate_series(1, 1000) i";
const SEGMENT: u64 = 16 << 20;

/// An origin whose `archive_command` copies its log into one directory, from which a test delivers it to the archive that is followed.
struct Archived {
    origin: OtherServer,
    /// What the origin archived.
    all: PathBuf,
    /// What is followed.
    dir: PathBuf,
    orders: i64,
}

fn by(archive: Option<&Path>, keep_history_s: Option<u32>) -> ChangeSettings {
    let archive = archive.map(|dir| dir.display().to_string());
    let follow = FollowSettings { enabled: true, archive, keep_history_s, ..FollowSettings::default() };
    ChangeSettings { follow: Some(follow), ..ChangeSettings::default() }
}

impl Archived {
    async fn start(home: &Home, major: u32) -> Archived {
        let (all, dir) = (home.beside("archived"), home.beside("archive"));
        for dir in [&all, &dir] {
            fs::create_dir(dir).expect("a directory");
            fs::set_permissions(dir, Permissions::from_mode(0o777)).expect("its mode");
        }
        let settings = format!(
            "archive_mode = on\narchive_command = 'cp %p {0}/.%f && mv {0}/.%f {0}/%f'\n",
            all.display()
        );
        let origin = OtherServer::start_with(home, major, &settings).await;
        origin.run("shop", SETUP).await;
        Archived { origin, all, dir, orders: 1000 }
    }

    /// With a source that follows the archive, of which there is a generation.
    async fn followed(home: &Home, engine: &Arc<Engine>, major: u32) -> Archived {
        let archived = Archived::start(home, major).await;
        import(engine, "app", archived.origin.running(), &[Policy::ReadWrite]).await.expect("the import");
        engine.change_settings("app", by(Some(&archived.dir), None)).await.expect("it follows");
        refresh(engine).await.expect("the first generation of the standby");
        archived
    }

    /// Adds an order, has what was written archived, and returns the name of the segment that it is in.
    async fn order(&mut self) -> String {
        self.orders += 1;
        let client = self.origin.client("boss", "shop").await;
        let insert = format!("insert into orders values ({}, 'x')", self.orders);
        client.batch_execute(&insert).await.expect("an order");
        let name: String = client
            .query_one("select pg_walfile_name(pg_current_wal_lsn())", &[])
            .await
            .expect("a row")
            .get(0);
        client.batch_execute("select pg_switch_wal()").await.expect("the next segment");
        until("it is archived", async || self.all.join(&name).exists()).await;
        name
    }

    /// What is archived and was not delivered yet, the earliest first.
    fn undelivered(&self) -> Vec<String> {
        let names = fs::read_dir(&self.all).expect("it is there").flatten();
        let mut names: Vec<String> = names.map(|it| it.file_name().into_string().expect("UTF-8")).collect();
        names.retain(|name| !name.starts_with('.') && !self.dir.join(name).exists());
        names.sort();
        names
    }

    fn deliver(&self, name: &str) {
        // As `cp` does it, which is not at once.
        fs::copy(self.all.join(name), self.dir.join(name)).expect("it is delivered");
    }

    fn deliver_all(&self) {
        self.undelivered().iter().for_each(|name| self.deliver(name));
    }
}

async fn refresh(engine: &Arc<Engine>) -> Result<u32, EngineError> {
    engine.refresh_source("app", |_, _| {}).await.map(|source| source.generation)
}

async fn look(engine: &Arc<Engine>) -> FollowView {
    engine.look_after_followed().await;
    view(engine)
}

fn view(engine: &Engine) -> FollowView {
    engine.source("app").expect("the source").follow.expect("it follows")
}

async fn count(engine: &Arc<Engine>, branch: &str) -> i64 {
    rows(engine, branch, "select count(*) from orders").await[0][0].as_i64().expect("a number")
}

/// How many orders a fresh branch has.
async fn orders(engine: &Arc<Engine>) -> i64 {
    lease(engine, "look", Policy::ReadWrite).await;
    let found = count(engine, "look").await;
    engine.destroy("look").expect("it is destroyed");
    found
}

/// A generation of what was delivered, and how many orders it holds.
async fn refreshed(engine: &Arc<Engine>) -> i64 {
    refresh(engine).await.expect("a generation");
    orders(engine).await
}

fn standby(home: &Home) -> PathBuf {
    home.path().join("volumes/standbys/app")
}

/// Whether the server of the standby, which runs, is in the network of the machine.
fn has_network(home: &Home) -> bool {
    let network = |of: &str| fs::read_link(format!("/proc/{of}/ns/net")).expect("its network");
    let is_server = |pid: &String| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "postgres")
    };
    let all = processes_below(&standby(home)).into_iter().map(|pid| pid.to_string());
    network(&all.filter(is_server).min().expect("it runs")) == network("self")
}

/// By which a copy is known from the one that was there before it.
fn identity(path: &Path) -> SystemTime {
    fs::metadata(path.join("PG_VERSION")).and_then(|meta| meta.created()).expect("it is there")
}

/// What an archive holds: nothing of ours is to change it.
fn contents(dir: &Path) -> BTreeMap<PathBuf, (u64, SystemTime)> {
    let all = fs::read_dir(dir).expect("it is there").flatten();
    all.map(|it| (it.path(), it.metadata().expect("it is there")))
        .map(|(path, meta)| (path, (meta.len(), meta.modified().expect("a time"))))
        .collect()
}

/// F9, F11, F13.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_archive_has_is_in_the_next_generation_and_nobody_asks_the_origin() {
    for major in majors() {
        let home = Home::new();
        let engine = home.open().await;
        let mut archived = Archived::followed(&home, &engine, major).await;
        assert_eq!(orders(&engine).await, 1000);
        let copied = identity(&standby(&home));
        let client = archived.origin.client("boss", "shop").await;
        let sql = "select (select count(*) from pg_replication_slots) + (select count(*) from pg_stat_replication) \
                   + (select count(*) from pg_stat_activity where datname = 'shop' and pid <> pg_backend_pid())";
        let held = client.query_one(sql, &[]).await.expect("a row").get::<_, i64>(0);
        assert_eq!(held, 0, "the origin has neither a slot nor a connection of ours");
        drop(client);
        assert!(!has_network(&home), "the standby has no network");

        // More than one segment at once, and then one after the other.
        for _ in 0..3 {
            archived.order().await;
        }
        archived.deliver_all();
        assert_eq!(refreshed(&engine).await, 1003);
        // F11: of what was not archived nothing is known.
        archived.origin.run("shop", "insert into orders values (100000, 'not archived')").await;
        assert_eq!(refreshed(&engine).await, 1003);
        archived.origin.run("shop", "delete from orders where id = 100000").await;
        let before = duramen_base::clock::utc_now();
        let last = archived.order().await;
        archived.deliver_all();
        until("it is replayed", async || look(&engine).await.lag_bytes == Some(0)).await;
        let seen = view(&engine);
        assert_eq!((seen.state.as_str(), &seen.problem), ("replaying", &None), "{seen:?}");
        assert_eq!(seen.archive.as_deref(), archived.dir.to_str());
        assert!(seen.replayed_at.is_some_and(|at| at >= before), "{seen:?}");
        assert!(seen.awaits.as_deref().is_some_and(|awaits| awaits > last.as_str()), "{seen:?}");
        assert!(seen.replayed_to.is_some() && seen.lag_s == Some(0), "{seen:?}");

        // The origin is not asked: it may be down. A daemon that comes later knows where it was.
        archived.origin.stop();
        assert_eq!(refreshed(&engine).await, 1004);
        engine.close().await.expect("it closes");
        assert_eq!(processes_below(&standby(&home)), Vec::<u32>::new());
        archived.origin.run_server();
        archived.order().await;
        archived.order().await;
        archived.deliver_all();
        archived.origin.stop();
        let engine = home.open().await;
        assert_eq!(
            engine.source("app").expect("it").settings.follow.archive.as_deref(),
            archived.dir.to_str()
        );
        assert_eq!(refreshed(&engine).await, 1006);
        assert_eq!(identity(&standby(&home)), copied, "the origin was copied once");

        // And it streams again, from where the archive ended.
        archived.origin.run_server();
        archived.origin.run("shop", "insert into orders values (200000, 'streamed')").await;
        engine.change_settings("app", by(None, None)).await.expect("it streams");
        assert_eq!(refreshed(&engine).await, 1007);
        assert!(has_network(&home), "one that streams has");
        archived.orders += 1000;
        archived.order().await;
        archived.deliver_all();
        engine.change_settings("app", by(Some(&archived.dir), None)).await.expect("and replays again");
        assert_eq!(refreshed(&engine).await, 1008);
        assert_eq!(identity(&standby(&home)), copied, "the origin was copied once");
        engine.close().await.expect("it closes");
    }
}

/// What is wrong with a segment that a test delivers.
type Spoil = fn(&Path, &Path);

/// F9, F10: whatever lies under a segment's name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_the_next_segment_is_not_replayed() {
    let mut home = Home::new();
    home.options.stall = Some(Duration::from_secs(8));
    let engine = home.open().await;
    let mut archived = Archived::followed(&home, &engine, majors()[0]).await;
    archived.order().await;
    archived.deliver_all();
    assert_eq!(refreshed(&engine).await, 1001);

    let spoils: [(&str, Spoil, &str); 9] = [
        ("missing", |_, _| {}, "archive_gap"),
        (
            "a FIFO",
            |_, to| rustix::fs::mkfifoat(rustix::fs::CWD, to, 0o666.into()).expect("a FIFO"),
            "archive_damaged",
        ),
        ("a link to the right one", |from, to| symlink(from, to).expect("a link"), "archive_damaged"),
        ("a directory", |_, to| fs::create_dir(to).expect("a directory"), "archive_damaged"),
        (
            "longer",
            |from, to| {
                fs::copy(from, to).expect("a copy");
                fs::OpenOptions::new()
                    .write(true)
                    .open(to)
                    .and_then(|file| file.set_len(SEGMENT + 1))
                    .expect("it is");
            },
            "archive_damaged",
        ),
        (
            "cut off",
            |from, to| {
                fs::copy(from, to).expect("a copy");
                fs::OpenOptions::new()
                    .write(true)
                    .open(to)
                    .and_then(|file| file.set_len(SEGMENT / 2))
                    .expect("it is");
            },
            "",
        ),
        (
            "filled with zeros",
            |_, to| fs::File::create(to).and_then(|file| file.set_len(SEGMENT)).expect("a file"),
            "",
        ),
        (
            "changed by one bit",
            |from, to| {
                fs::copy(from, to).expect("a copy");
                let file = fs::OpenOptions::new().read(true).write(true).open(to).expect("it is there");
                let mut byte = [0];
                file.read_exact_at(&mut byte, 150).expect("a byte");
                file.write_all_at(&[byte[0] ^ 4], 150).expect("it is changed");
            },
            "",
        ),
        (
            "of another server",
            |from, to| {
                fs::copy(from, to).expect("a copy");
                let file = fs::OpenOptions::new().read(true).write(true).open(to).expect("it is there");
                file.write_all_at(&[1, 2, 3, 4, 5, 6, 7, 8], 24).expect("it is changed");
            },
            "archive_damaged",
        ),
    ];
    for (what, spoil, code) in spoils {
        let before = orders(&engine).await;
        let first = archived.order().await;
        archived.order().await;
        spoil(&archived.all.join(&first), &archived.dir.join(&first));
        for name in archived.undelivered().iter().filter(|name| **name != first) {
            archived.deliver(name);
        }
        let was = contents(&archived.dir);
        let seen = look(&engine).await;
        assert_eq!(seen.awaits.as_ref(), Some(&first), "{what}: {seen:?}");
        assert!(seen.lag_bytes.is_some(), "{what}: {seen:?}");
        if code.is_empty() {
            // It may become whole.
            assert_eq!(seen.problem, None, "{what}: {seen:?}");
            if what.starts_with("changed") {
                let refused = refresh(&engine).await.expect_err("nobody waits for that without an end");
                assert_eq!(refused.code, "archive_damaged", "{refused}");
                assert!(refused.message.contains("checksum"), "{refused}");
            }
        } else {
            assert!(seen.problem.is_some_and(|it| it.contains(&first)), "{what}");
            let refused = refresh(&engine).await.expect_err(what);
            assert_eq!(refused.code, code, "{what}: {refused}");
            assert!(refused.message.contains(&first), "{what}: {refused}");
        }
        assert_eq!(orders(&engine).await, before, "{what}");
        assert_eq!(contents(&archived.dir), was, "{what}: the archive is as it was");
        // Put right, it goes on.
        let wrong = archived.dir.join(&first);
        let _ = fs::remove_file(&wrong).or_else(|_| fs::remove_dir(&wrong));
        archived.deliver(&first);
        assert_eq!(refreshed(&engine).await, before + 2, "{what}");
    }
    let log = standby(&home).join("pg_wal");
    let left =
        fs::read_dir(log).expect("it is there").flatten().any(|it| it.file_name() == "xlogtemp.archive");
    assert!(!left, "nothing half-made is left");
    engine.close().await.expect("it closes");
}

/// F9: `cp` is not done at once, and what it makes can have its length from the beginning.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_segment_that_grows_is_replayed_when_it_is_whole() {
    let home = Home::new();
    let engine = home.open().await;
    let mut archived = Archived::followed(&home, &engine, majors()[0]).await;
    for has_its_length in [false, true] {
        let insert = "insert into orders select max + i, repeat('x', 1000) \
                      from generate_series(1, 10000) i, (select max(id) from orders) it";
        archived.origin.run("shop", "select pg_switch_wal()").await;
        archived.origin.run("shop", insert).await;
        archived.orders += 10_000;
        let name = archived.order().await;
        for earlier in archived.undelivered().iter().filter(|it| **it < name) {
            archived.deliver(earlier);
        }
        let bytes = fs::read(archived.all.join(&name)).expect("it is there");
        assert!(bytes[9 << 20..].iter().any(|byte| *byte != 0), "its second half says something");
        let to = fs::File::create(archived.dir.join(&name)).expect("a file");
        if has_its_length {
            to.set_len(SEGMENT).expect("its length");
        }
        // Pages and records do not end where a copy does.
        let step = bytes.len() / 16 + 1013;
        for (index, part) in bytes.chunks(step).enumerate().take(15) {
            to.write_all_at(part, (index * step) as u64).expect("a part");
            let seen = look(&engine).await;
            let is_whole = has_its_length && seen.awaits.as_deref() > Some(name.as_str());
            // What follows the last record of a segment says nothing.
            assert!(!is_whole || bytes[(index + 1) * step..].iter().all(|byte| *byte == 0), "{seen:?}");
        }
        to.write_all_at(&bytes[15 * step..], (15 * step) as u64).expect("the rest");
        assert_eq!(refreshed(&engine).await, archived.orders);
    }
    engine.close().await.expect("it closes");
}

/// F9: a server that crashed says where its log goes on; a record that it could not finish is passed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_origin_that_crashed_is_followed_over_its_crashes() {
    let home = Home::new();
    let engine = home.open().await;
    let mut archived = Archived::followed(&home, &engine, majors()[0]).await;
    for _ in 0..2 {
        let client = archived.origin.client("boss", "shop").await;
        let write = tokio::spawn(async move {
            let sql = "create table if not exists filling (t text); insert into filling select repeat(md5(i::text), 300) \
                       from generate_series(1, 200000) i";
            let _ = client.batch_execute(sql).await;
        });
        let begun = archived.undelivered().len();
        until("it writes", async || archived.undelivered().len() > begun).await;
        signal_all_below(archived.origin.cluster.data_dir(), Signal::KILL);
        write.await.expect("it ends with its server");
        until("it has ended", async || processes_below(archived.origin.cluster.data_dir()).is_empty()).await;
        archived.origin.run_server();
        archived.order().await;
        archived.deliver_all();
        assert_eq!(refreshed(&engine).await, archived.orders);
    }
    engine.close().await.expect("it closes");
}

/// F9: the line of the server that takes over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_is_followed_in_the_archive() {
    let home = Home::new();
    let engine = home.open().await;
    let mut archived = Archived::followed(&home, &engine, majors()[0]).await;
    archived.order().await;
    archived.deliver_all();
    assert_eq!(refreshed(&engine).await, 1001);
    let copied = identity(&standby(&home));
    archived.origin.stop();
    let mut other = archived.origin.moved_to(&home.beside("second"), &home.beside("o2"));
    other.promote().await;
    std::mem::swap(&mut archived.origin, &mut other);
    let first = archived.order().await;
    assert!(first.starts_with("00000002"), "{first}");
    until("the history is archived", async || archived.all.join("00000002.history").exists()).await;

    // The history is there before its segments: what the old server wrote on is not replayed.
    archived.deliver("00000002.history");
    let seen = look(&engine).await;
    assert_eq!(seen.problem, None, "{seen:?}");
    assert_eq!(refreshed(&engine).await, 1001);
    archived.deliver_all();
    assert_eq!(refreshed(&engine).await, 1002);
    archived.order().await;
    archived.deliver_all();
    assert_eq!(refreshed(&engine).await, 1003);
    assert!(view(&engine).awaits.is_some_and(|awaits| awaits.starts_with("00000002")));

    // Another daemon goes on in it.
    engine.close().await.expect("it closes");
    archived.order().await;
    archived.deliver_all();
    let engine = home.open().await;
    assert_eq!(refreshed(&engine).await, 1004);

    // Histories of somebody else's.
    for (text, code) in [
        ("no history", "archive_damaged"),
        ("1\t0/1000000\tleft long ago\n2\t0/1000000\tleft long ago\n", "archive_diverged"),
        ("1\t0/1000000\tof another line\n", "archive_diverged"),
    ] {
        fs::write(archived.dir.join("00000005.history"), text).expect("a file");
        let refused = refresh(&engine).await.expect_err(text);
        assert_eq!(refused.code, code, "{text}: {refused}");
        assert_eq!(orders(&engine).await, archived.orders);
    }
    // Of another line, it does not keep the standby from going on in its own.
    archived.order().await;
    archived.deliver_all();
    look(&engine).await;
    fs::remove_file(archived.dir.join("00000005.history")).expect("it is gone");
    assert_eq!(refreshed(&engine).await, 1005);
    assert_eq!(identity(&standby(&home)), copied, "the origin was copied once");
    engine.close().await.expect("it closes");
}

/// F12, F14: and whatever ends the standby, it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_goes_on_after_its_end_a_vanished_archive_and_a_full_disk() {
    let home = Home::with_small_store();
    let engine = home.open().await;
    let mut archived = Archived::followed(&home, &engine, majors()[0]).await;
    let copied = identity(&standby(&home));
    archived.order().await;
    archived.deliver_all();
    look(&engine).await;

    // Its server is killed.
    signal_all_below(&standby(&home), Signal::KILL);
    until("it has ended", async || processes_below(&standby(&home)).is_empty()).await;
    assert_eq!(refreshed(&engine).await, 1001);

    // The directory vanishes.
    let away = home.beside("away");
    fs::rename(&archived.dir, &away).expect("it is moved");
    let seen = look(&engine).await;
    assert!(seen.state == "waiting" && seen.problem.is_some_and(|it| it.contains("cannot be read")));
    assert_eq!(refresh(&engine).await.expect_err("it is gone").code, "archive_unreadable");
    fs::rename(&away, &archived.dir).expect("it is back");
    archived.order().await;
    archived.deliver_all();
    assert_eq!(refreshed(&engine).await, 1002);

    // The disk is full, up to the last block.
    let filler = Filler::begin(&home);
    filler.leave_nothing();
    archived.order().await;
    archived.deliver_all();
    until("it is stopped", async || {
        filler.leave_nothing();
        look(&engine).await.problem.is_some_and(|problem| problem.contains("short of room"))
    })
    .await;
    assert_eq!(processes_below(&standby(&home)), Vec::<u32>::new());
    // What was removed a while ago is given back, and is room.
    until("there is no room", async || {
        filler.leave_nothing();
        refresh(&engine).await.is_err()
    })
    .await;
    filler.remove();
    until("it replays again", async || look(&engine).await.state == "replaying").await;
    assert_eq!(refreshed(&engine).await, 1003);
    assert_eq!(identity(&standby(&home)), copied, "the origin was copied once");
    engine.close().await.expect("it closes");
}

/// What is kept of an archive's log is what would have been streamed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_is_made_of_a_moment_that_was_archived() {
    let home = Home::new();
    let engine = home.open().await;
    let mut archived = Archived::followed(&home, &engine, majors()[0]).await;
    archived.order().await;
    archived.deliver_all();
    engine.change_settings("app", by(Some(&archived.dir), Some(86_400))).await.expect("history is kept");
    let told = async |engine: &Arc<Engine>| look(engine).await.history.is_some_and(|it| it.until.is_some());
    until("history begins", async || told(&engine).await).await;
    archived.order().await;
    archived.deliver_all();
    until("its base has a moment", async || {
        look(&engine).await.history.is_some_and(|it| it.from.is_some() && it.from < it.until)
    })
    .await;
    let mut moments = Vec::new();
    for _ in 0..4 {
        archived.order().await;
        let client = archived.origin.client("boss", "shop").await;
        let row = client
            .query_one("select clock_timestamp(), pg_current_wal_insert_lsn()::text", &[])
            .await
            .expect("a row");
        moments.push((row.get::<_, Timestamp>(0), row.get::<_, String>(1), archived.orders));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (last, _, _) = moments.pop().expect("a moment");
    archived.deliver_all();
    look(&engine).await;
    for (at, lsn, orders) in &moments {
        for (at, lsn) in [(Some(*at), None), (None, Some(lsn.clone()))] {
            let request = CreateBranch { name: Some("then".to_owned()), at, lsn, ..CreateBranch::default() };
            engine.create(request.clone()).await.unwrap_or_else(|error| panic!("{request:?}: {error}"));
            assert_eq!(count(&engine, "then").await, *orders);
            engine.destroy("then").expect("it is destroyed");
        }
    }
    // What was committed by then is not known: the archive may bring more of it.
    let request = CreateBranch { name: Some("late".to_owned()), at: Some(last), ..CreateBranch::default() };
    let refused = engine.create(request).await.expect_err("it is not archived");
    assert_eq!(refused.code, "moment_to_come", "{refused}");
    assert!(refused.message.contains("not archived"), "{refused}");
    engine.close().await.expect("it closes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_that_is_no_archive_is_refused_at_once() {
    let home = Home::new();
    let engine = home.open().await;
    let archived = Archived::start(&home, majors()[0]).await;
    import(&engine, "app", archived.origin.running(), &[Policy::ReadWrite]).await.expect("the import");
    let inside = home.beside("inside");
    symlink(home.path().join("volumes"), &inside).expect("a link");
    fs::write(home.beside("file"), "x").expect("a file");
    let too_long = format!("/{}", "x".repeat(5000));
    let refused = [
        ("relative", "cannot_follow"),
        ("/a\nb", "cannot_follow"),
        (too_long.as_str(), "cannot_follow"),
        (inside.to_str().expect("UTF-8"), "cannot_follow"),
        ("/nonexistent/archive", "archive_unreadable"),
    ];
    for (dir, code) in refused {
        let refused = engine.change_settings("app", by(Some(dir.as_ref()), None)).await.expect_err(dir);
        assert_eq!(refused.code, code, "{dir}: {refused}");
    }
    let file = home.beside("file");
    let refused = engine.change_settings("app", by(Some(&file), None)).await.expect_err("a file");
    assert_eq!(refused.code, "archive_unreadable");
    let follow = FollowSettings {
        enabled: true,
        archive: Some(archived.dir.display().to_string()),
        keep_wal: Some(1 << 30),
        ..FollowSettings::default()
    };
    let change = ChangeSettings { follow: Some(follow), ..ChangeSettings::default() };
    let refused = engine.change_settings("app", change).await.expect_err("there is nothing to keep");
    assert!(refused.message.contains("--keep-wal"), "{refused}");
    assert!(engine.source("app").expect("the source").follow.is_none());
    engine.close().await.expect("it closes");
}
