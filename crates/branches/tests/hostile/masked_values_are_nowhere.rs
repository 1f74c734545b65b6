//! B37-B39: of what rules are about, no original value reaches the volume store or anything else in a home, in whatever
//! form a server keeps values; and what stands for them is as good as they were.

use crate::support::{majors, pool, query, rows, settle, Home};
use duramen_api::model::{AddSource, CreateBranch, Masking, Origin, Policy, SourceSettings, SourceView};
use duramen_branches::{Engine, EngineError};
use duramen_postgres::{Cluster, Installation, Postmaster, ServerUser, Settings, StopMode};
use serde_json::json;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
};
use tokio_postgres::{Client, Config, NoTls};

const LIMIT: Duration = Duration::from_secs(60);
/// What every value begins with that must not be found.
const MARK: &str = "zqorig1nalqz";

/// A server with values of which each bears the mark.
pub(crate) struct Secretive {
    cluster: Cluster,
    server: Option<Postmaster>,
    socket: PathBuf,
}

impl Drop for Secretive {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            server.kill();
        }
    }
}

impl Secretive {
    pub(crate) async fn start(home: &Home, major: u32) -> Secretive {
        let installation = Installation::choose(home.path(), Some(major)).expect("a server");
        let user = ServerUser::current().expect("a server user");
        let cluster = Cluster::new(installation, home.beside(&format!("origin-{major}")), user);
        cluster.init("boss", true).expect("initdb");
        cluster.write_file("pg_hba.conf", "local all all trust\nlocal replication all trust\n").expect("hba");
        let settings = "fsync = off\nlisten_addresses = ''\nautovacuum = off\n";
        cluster.write_file("postgresql.auto.conf", settings).expect("settings");
        let socket = home.beside(&format!("o{major}"));
        let server = cluster.start(&socket, &Settings::new(), LIMIT).expect("the origin starts");
        let origin = Secretive { cluster, server: Some(server), socket };
        origin
            .run("postgres", "create role app login;; create database shop owner app;; create database hr;;")
            .await;
        origin.run("hr", &format!("create table salaries as select '{MARK}-hr' as who;;")).await;
        origin
    }

    async fn client(&self, database: &str) -> Client {
        let mut config = Config::new();
        config.host_path(&self.socket).port(5432).user("boss").dbname(database);
        let (client, connection) = config.connect(NoTls).await.expect("the origin answers");
        tokio::spawn(connection);
        client
    }

    /// Runs statements, which are divided by `;;`.
    pub(crate) async fn run(&self, database: &str, sql: &str) {
        let client = self.client(database).await;
        for statement in sql.split(";;").map(str::trim).filter(|statement| !statement.is_empty()) {
            let statement = statement.replace("MARK", MARK);
            client.batch_execute(&statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
        }
    }

    pub(crate) fn origin(&self) -> Origin {
        self.at("shop")
    }

    /// The same server by another database.
    pub(crate) fn at(&self, database: &str) -> Origin {
        url(database, &self.socket)
    }

    /// The same server behind a socket of its own, which is passed through but for connections on which `text` is asked:
    /// these break, or stall for good. It also tells whether one was.
    pub(crate) fn behind(&self, dir: &Path, text: &'static str, stalls: bool) -> (Origin, Arc<AtomicBool>) {
        std::fs::create_dir(dir).expect("a directory");
        let name = ".s.PGSQL.5432";
        let listener = UnixListener::bind(dir.join(name)).expect("a socket");
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(dir.join(name), open).expect("its mode");
        let met = Arc::new(AtomicBool::new(false));
        let (upstream, seen) = (self.socket.join(name), Arc::clone(&met));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = UnixStream::connect(&upstream).await.expect("the origin");
                tokio::spawn(pass(client, server, text, stalls, Arc::clone(&seen)));
            }
        });
        (url("shop", dir), met)
    }

    /// How many rows a table has; 0 if it is not there.
    pub(crate) async fn count(&self, database: &str, table: &str) -> i64 {
        let client = self.client(database).await;
        let is_there = "select to_regclass($1::text) is not null";
        if !client.query_one(is_there, &[&table]).await.expect("an answer").get::<_, bool>(0) {
            return 0;
        }
        client.query_one(&format!("select count(*) from {table}"), &[]).await.expect("a count").get(0)
    }

    fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.stop(StopMode::Fast, LIMIT).expect("it stops");
        }
    }
}

fn url(database: &str, socket: &Path) -> Origin {
    Origin::Server { url: format!("postgresql://boss@/{database}?host={}&port=5432", socket.display()) }
}

/// Carries bytes both ways until `text` comes from the client.
async fn pass(
    mut client: UnixStream,
    mut server: UnixStream,
    text: &'static str,
    stalls: bool,
    met: Arc<AtomicBool>,
) {
    let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => match read {
                Ok(count) if count > 0 => {
                    if asked[..count].windows(text.len()).any(|window| window == text.as_bytes()) {
                        met.store(true, Ordering::Relaxed);
                        if stalls {
                            // Until the other side leaves.
                            let _ = client.read(&mut asked).await;
                        }
                        return;
                    }
                    if server.write_all(&asked[..count]).await.is_err() { return }
                }
                _ => return,
            },
            read = server.read(&mut answered) => match read {
                Ok(count) if count > 0 => {
                    if client.write_all(&answered[..count]).await.is_err() { return }
                }
                _ => return,
            },
        }
    }
}

pub(crate) fn rules(text: &str) -> SourceSettings {
    let masking: Masking = serde_json::from_str(text).expect("rules");
    SourceSettings { masking: Some(masking), ..pool(&[(Policy::ReadWrite, 1), (Policy::Ddl, 1)]) }
}

pub(crate) async fn add(
    engine: &Arc<Engine>,
    name: &str,
    origin: Origin,
    settings: SourceSettings,
) -> Result<SourceView, EngineError> {
    let request = AddSource { name: name.to_owned(), origin, database: Some("shop".to_owned()), settings };
    engine.add_source(request, |_, _| {}).await
}

/// Every file below a directory that holds the mark, however it is written. Of a store that lies in a file that file
/// counts, all of it.
pub(crate) fn marked(dir: &Path) -> Vec<String> {
    // What a file holds between two of its zeros is a line.
    let search = format!("LC_ALL=C grep --text --null-data --ignore-case --fixed-strings -e {MARK}");
    let store = dir.join("volumes.btrfs");
    let others = if store.exists() { "--exclude-dir=volumes --exclude=volumes.btrfs" } else { "" };
    // A file may go while this looks: a branch lives on.
    let command =
        format!("{search} --recursive --no-messages --files-with-matches {others} '{}'", dir.display());
    let listed = Command::new("sh").args(["-c", &command]).output().expect("a search");
    let mut found: Vec<String> = String::from_utf8_lossy(&listed.stdout).lines().map(str::to_owned).collect();
    if store.exists() {
        let count = piped(&store, &format!("{search} --count"));
        if count != "0" {
            found.push(format!("{} ({count} times)", store.display()));
        }
    }
    found
}

/// What a command prints of the data of a file, whose holes are left out.
pub(crate) fn piped(path: &Path, command: &str) -> String {
    use rustix::fs::{seek, SeekFrom};
    use std::io::{copy, Read};
    let child = Command::new("sh").args(["-c", command]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.expect("a search");
    // A file may go while this looks: a branch lives on.
    if let (Ok(mut file), Some(mut input)) = (fs::File::open(path), child.stdin.take()) {
        let mut position = 0;
        while let Ok(data) = seek(&file, SeekFrom::Data(position)) {
            position = seek(&file, SeekFrom::Hole(data)).expect("a hole, at the end at the latest");
            seek(&file, SeekFrom::Start(data)).expect("a position");
            copy(&mut (&mut file).take(position - data), &mut input).expect("a copy");
        }
    }
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn flush(home: &Home) {
    let flushed = Command::new("sync").arg("-f").arg(home.path().join("volumes")).status();
    assert!(flushed.expect("sync runs").success());
}

/// Values in every place in which a server keeps any, which are not masked at the source.
const SCHEMA: &str = r"
create table users (
  id int generated always as identity primary key,
  email varchar(80) not null unique check (email <> ''),
  name text, city text, notes text, born date default '1990-01-01', avatar bytea, token uuid,
  shout text generated always as (upper(email)) stored,
  gone text);;
alter table users alter notes set storage external;;
insert into users (email, name, city, notes, avatar, token, gone)
  select 'MARK-' || n || '@example.org', 'MARK name ' || n, case when n % 2 = 0 then 'MARK-even' else 'MARK-odd' end,
    repeat('MARK-notes ' || n, 800), convert_to('MARK' || n, 'UTF8'), md5(n::text)::uuid, 'MARK dropped ' || n
  from generate_series(1, 500) n;;
create index on users (lower(email));;
create index on users (city, name);;
create statistics together on city, name from users;;
alter table users drop gone;;
alter table users add added text default 'MARK-added';;
alter table users alter added drop default;;
insert into users (email, name) values ('MARK-deleted@example.org', 'MARK-deleted');;
delete from users where name = 'MARK-deleted';;
update users set name = 'MARK changed' where id = 1;;
create table letters (id bigint primary key, to_whom varchar(80) references users (email), user_id int references users (id),
  body oid, text text);;
insert into letters select n, 'MARK-' || n || '@example.org', n, null, 'hello' from generate_series(1, 500) n;;
insert into letters select 500 + n, null, n, null, 'again' from generate_series(1, 10) n;;
update letters set body = lo_from_bytea(0, convert_to(repeat('MARK-object', 500), 'UTF8')) where id = 1;;
create table parts (id int, who text, at date) partition by range (at);;
create table parts_old partition of parts for values from ('2000-01-01') to ('2020-01-01');;
create table parts_new (at date, who text, id int);;
alter table parts attach partition parts_new for values from ('2020-01-01') to ('2040-01-01');;
insert into parts select n, 'MARK part ' || n, date '2010-01-01' + n * 10 from generate_series(1, 700) n;;
create materialized view towns as select city, count(*) from users group by city;;
create materialized view of_towns as select city from towns;;
create unique index on of_towns (city);;
create table history (what text);;
create function note() returns trigger language plpgsql as
  $$ begin insert into history values ('history ' || old.*::text); return coalesce(new, old); end $$;;
create trigger keep before update or delete on users for each row execute function note();;
alter table users enable always trigger keep;;
create trigger off before update on users for each row execute function note();;
alter table users disable trigger off;;
create rule stash as on update to letters do also insert into history values (old.to_whom);;
alter table users enable row level security;;
alter table users force row level security;;
create policy nobody on users using (false);;
alter table letters replica identity full;;
analyze;;
";

const RULES: &str = r#"{
  "columns": {
    "public.users": {"id": "hash", "email": "hash", "name": {"constant": "Jane Doe"}, "city": "hash", "notes": "hash",
                     "avatar": "hash", "token": "hash", "added": "null"},
    "public.letters": {"to_whom": "hash", "user_id": "hash"},
    "public.parts": {"who": "hash"}
  },
  "rows": {"public.users": "id <= 400 -- those who stay", "public.parts": "parts.id % 7 <> 0"}
}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_original_value_is_anywhere_in_the_home() {
    let mut home = Home::new();
    home.options.volume_size = Some(768 << 20);
    let engine = home.open().await;
    for major in majors() {
        let origin = Secretive::start(&home, major).await;
        origin.run("shop", SCHEMA).await;
        assert!(
            !marked(&home.beside(&format!("origin-{major}"))).is_empty(),
            "the search finds what is there"
        );
        let name = format!("of{major}");

        // A second name for the file that the copy lies in, to see what is left of it.
        let scratch = home.path().join("scratch.btrfs");
        let link = home.beside(&format!("scratch-{major}"));
        let done = AtomicBool::new(false);
        let view = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) && fs::hard_link(&scratch, &link).is_err() {
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            let view = tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(add(&engine, &name, origin.origin(), rules(RULES)))
            });
            done.store(true, Ordering::Release);
            view
        });
        let view = view.unwrap_or_else(|error| panic!("{major}: {error}"));
        assert_eq!(view.data, "masked");
        settle(&engine).await;
        check_branch(&engine, &name, major).await;

        flush(&home);
        assert_eq!(marked(home.path()), Vec::<String>::new(), "PostgreSQL {major}");
        assert!(link.exists(), "the scratch was seen");
        assert!(!scratch.exists() && !home.path().join("scratch").exists(), "the scratch is gone");
        assert_eq!(piped(&link, "tr -d '\\0' | wc -c"), "0", "the scratch was overwritten");
        fs::remove_file(&link).expect("remove");
    }
    engine.close().await.expect("close");
}

/// What a branch holds instead, and that everything else is as it was.
async fn check_branch(engine: &Arc<Engine>, source: &str, major: u32) {
    let request = CreateBranch {
        source: Some(source.to_owned()),
        name: Some(source.to_owned()),
        policy: Some(Policy::Ddl),
        ..Default::default()
    };
    let branch = engine.create(request).await.expect("a lease");
    assert_eq!(branch.data, "masked");
    let reply = query(engine, source, "select 1").await.expect("an answer");
    assert_eq!(reply.data, "masked");
    let evidence = engine.evidence(source).await.expect("evidence");
    assert_eq!(
        (evidence.branch.data.as_str(), evidence.source.unchanged),
        ("masked", true),
        "{:?}",
        evidence.source
    );
    for (sql, expected) in [
        ("select count(*), count(distinct id), count(distinct email), count(distinct city) from users", json!([[400, 400, 400, 2]])),
        ("select count(*) from users where email !~ '^[0-9a-f]{32}$' or shout <> upper(email) or name <> 'Jane Doe' or added is not null or id < 0", json!([[0]])),
        ("select min(length(notes)), min(length(avatar)), count(distinct token) from users", json!([[32, 32, 400]])),
        // 100 users went, and with each the letter that refers to it.
        ("select count(*) from letters", json!([[410]])),
        ("select count(*) from letters l join users u on u.email = l.to_whom and u.id = l.user_id", json!([[400]])),
        ("select count(*) from letters l join users u on u.id = l.user_id", json!([[410]])),
        ("select count(*), count(*) filter (where who ~ '^[0-9a-f]{32}$') from parts", json!([[600, 600]])),
        ("select count(*) from history", json!([[0]])),
        ("select count(*), sum(count)::int from towns", json!([[2, 400]])),
        ("select count(*) from of_towns o join users u using (city) ", json!([[400]])),
        ("select count(*) from letters l join pg_largeobject_metadata o on o.oid = l.body", json!([[1]])),
        ("select count(*) from pg_largeobject_metadata", json!([[1]])),
        ("select tgname::text, tgenabled::text from pg_trigger where not tgisinternal order by 1", json!([["keep", "A"], ["off", "D"]])),
        ("select count(*) from pg_trigger where tgisinternal and tgenabled <> 'O'", json!([[0]])),
        ("select ev_enabled::text from pg_rewrite where rulename = 'stash'", json!([["O"]])),
        ("select attidentity::text from pg_attribute where attrelid = 'users'::regclass and attname = 'id'", json!([["a"]])),
        ("select count(*) from pg_index where not (indisvalid and indisready)", json!([[0]])),
        ("select relrowsecurity, relforcerowsecurity from pg_class where oid = 'users'::regclass", json!([[true, true]])),
        ("select count(*) from pg_stats where tablename = 'users' and attname = 'city' and most_common_vals is not null", json!([[1]])),
        ("select count(*) from pg_namespace where nspname = 'duramen_masking'", json!([[0]])),
        ("select datname::text from pg_database order by 1", json!([["shop"], ["template0"], ["template1"]])),
        ("select count(*) from pg_roles where rolname = 'app'", json!([[1]])),
    ] {
        assert_eq!(rows(engine, source, sql).await, expected, "{sql} of PostgreSQL {major}");
    }
    // Constraints are in force again.
    for sql in [
        "insert into letters values (9000, 'nobody')",
        "insert into users (email) select email from users limit 1",
        "insert into users (id, email) values (1, 'x')",
    ] {
        query(engine, source, sql).await.expect_err(sql);
    }
}

/// Files that are nobody's, in a data directory that was not stopped for us to look at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_no_relation_has_stay_behind() {
    let mut home = Home::new();
    home.options.volume_size = Some(768 << 20);
    let engine = home.open().await;
    for major in majors() {
        let mut origin = Secretive::start(&home, major).await;
        origin
            .run(
                "shop",
                "create table t (a text);; insert into t values ('MARK-t');;
            create unlogged table u (a text);; insert into u select 'MARK-u';;",
            )
            .await;
        origin.stop();
        let dir = origin.cluster.data_dir().to_owned();
        let base = fs::read_dir(dir.join("base")).expect("databases").flatten().last().expect("one").path();
        for path in [
            "junk.txt",
            "pg_stat/pgss_query_texts.stat",
            "pg_notify/0000",
            "pg_xact/notes.txt",
            "global/99999",
            "pg_logical/snapshots/x.snap",
            "log",
            "pg_multixact/old",
        ] {
            let _ = fs::write(dir.join(path), MARK);
        }
        for name in ["99999", "99999.1", "t3_99999", "core"] {
            fs::write(base.join(name), MARK).expect("a file");
        }
        let settings = rules(r#"{"columns": {"public.t": {"a": "hash"}, "public.u": {"a": "hash"}}}"#);
        let name = format!("of{major}");
        let from = Origin::DataDirectory { path: dir.display().to_string() };
        add(&engine, &name, from, settings).await.unwrap_or_else(|error| panic!("{major}: {error}"));
        settle(&engine).await;
        flush(&home);
        assert_eq!(marked(home.path()), Vec::<String>::new(), "PostgreSQL {major}");
    }
    // The search would have found something: without rules it does.
    let sql = format!("create table t as select '{MARK}' as a");
    home.add_script(&engine, &sql, pool(&[(Policy::ReadWrite, 1)])).await;
    flush(&home);
    assert!(!marked(&home.path().join("volumes")).is_empty(), "the search sees the files of volumes");
    assert!(marked(home.path()).iter().any(|it| it.contains("volumes.btrfs")), "and the store itself");
    engine.close().await.expect("close");
}

/// What lies in a tablespace is masked and copied like all else, and a tablespace that holds nothing stays one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tablespaces_are_masked_too() {
    let mut home = Home::new();
    home.options.volume_size = Some(768 << 20);
    let engine = home.open().await;
    for major in majors() {
        let origin = Secretive::start(&home, major).await;
        for name in ["spare", "used"] {
            let place = home.beside(&format!("{name}-{major}"));
            origin.cluster.prepare_dir(&place).expect("a directory");
            origin.run("postgres", &format!("create tablespace {name} location '{}'", place.display())).await;
        }
        origin
            .run(
                "shop",
                "create table t (a text primary key using index tablespace used) tablespace used;;
                 insert into t select 'MARK' || n from generate_series(1, 100) n;;
                 grant create on tablespace spare to public;;",
            )
            .await;
        let name = format!("of{major}");
        let settings = rules(r#"{"columns": {"public.t": {"a": "hash"}}}"#);
        add(&engine, &name, origin.origin(), settings)
            .await
            .unwrap_or_else(|error| panic!("{major}: {error}"));
        settle(&engine).await;
        let request = CreateBranch {
            source: Some(name.clone()),
            name: Some(name.clone()),
            policy: Some(Policy::Ddl),
            ..Default::default()
        };
        engine.create(request).await.expect("a lease");
        let masked = "select count(*) from t where a ~ '^[0-9a-f]{32}$'";
        assert_eq!(rows(&engine, &name, masked).await, json!([[100]]));
        query(&engine, &name, "create table made tablespace spare as select * from t").await.expect("DDL");
        flush(&home);
        assert_eq!(marked(home.path()), Vec::<String>::new(), "PostgreSQL {major}");
    }
    engine.close().await.expect("close");
}
