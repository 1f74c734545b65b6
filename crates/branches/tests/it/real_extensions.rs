//! Sources that use extensions of the real world: imported, branched, read by their types and indexes, written, and kept
//! from reaching out. `make test-extensions` installs what it can of them and runs these tests, which do nothing else.

use crate::{
    origin::{import, OtherServer},
    support::{majors_with, query, rows, settle, Home},
};
use duramen_api::model::{ChangeSettings, CreateBranch, Origin, Policy, SourceView};
use duramen_base::clock;
use duramen_branches::Engine;
use duramen_postgres::{processes_below, Settings};
use serde_json::{json, Value};
use std::{
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Whether these tests run; if not, it is said, past the harness, which keeps what macros print.
fn wanted(test: &str) -> bool {
    let wanted = std::env::var("DURAMEN_TEST_EXTENSIONS").is_ok_and(|value| value == "1");
    if !wanted {
        let _ =
            writeln!(std::io::stderr(), "real_extensions::{test}: skipped; `make test-extensions` runs it");
    }
    wanted
}

/// A source, imported, with a branch of each policy that is called like it.
struct Shop {
    engine: Arc<Engine>,
    origin: OtherServer,
    source: SourceView,
    home: Home,
}

impl Shop {
    async fn new(major: u32, settings: &str, sql: &str) -> Shop {
        let home = Home::new();
        let origin = OtherServer::start_with(&home, major, settings).await;
        origin.run("shop", sql).await;
        Shop::of(home, origin, None).await
    }

    /// Of a server that runs, or from elsewhere.
    async fn of(home: Home, origin: OtherServer, from: Option<Origin>) -> Shop {
        let engine = home.open().await;
        let from = from.unwrap_or_else(|| origin.running());
        let source = import(&engine, "shop", from, &Policy::ALL).await.expect("the import");
        let shop = Shop { engine, origin, source, home };
        shop.lease().await;
        shop
    }

    async fn lease(&self) {
        settle(&self.engine).await;
        for policy in Policy::ALL {
            let request = CreateBranch {
                name: Some(policy.to_string()),
                policy: Some(policy),
                ..CreateBranch::default()
            };
            self.engine.create(request).await.expect("a lease");
        }
    }

    async fn rows(&self, policy: Policy, sql: &str) -> Value {
        rows(&self.engine, &policy.to_string(), sql).await
    }

    /// DDL of those who may.
    async fn defines(&self, statements: &[&str]) {
        for sql in statements {
            query(&self.engine, &Policy::Ddl.to_string(), sql).await.expect(sql);
        }
    }

    /// What every policy reads.
    async fn reads(&self, sql: &str, expected: Value) {
        for policy in Policy::ALL {
            assert_eq!(self.rows(policy, sql).await, expected, "{}, {policy}: {sql}", self.origin.major);
        }
    }

    /// A write that all policies may make that may write, and `read-only` may not.
    async fn writes(&self, sql: &str) {
        for policy in Policy::ALL {
            let outcome = query(&self.engine, &policy.to_string(), sql).await;
            match outcome {
                Ok(_) => assert_ne!(policy, Policy::ReadOnly, "{sql}"),
                Err(error) => {
                    assert_eq!(policy, Policy::ReadOnly, "{}: {sql}: {error}", self.origin.major);
                    assert_eq!(error.sqlstate.as_deref(), Some("25006"), "{sql}: {error}");
                }
            }
        }
    }

    /// A statement that no policy may run, for want of a right.
    async fn refused(&self, sql: &str) {
        for policy in Policy::ALL {
            let outcome = query(&self.engine, &policy.to_string(), sql).await;
            let error = outcome.map(|_| ()).expect_err(sql);
            let code = error.sqlstate.clone().unwrap_or_default();
            let read_only = policy == Policy::ReadOnly && code == "25006";
            assert!(code == "42501" || read_only, "{}, {policy}: {sql}: {error}", self.origin.major);
        }
    }

    /// Statements after which the planner of a branch uses an index.
    async fn uses(&self, index: &str, sql: &str) {
        let plan = self.rows(Policy::ReadWrite, &format!("explain (costs off) {sql}")).await.to_string();
        assert!(plan.contains(index), "{}: {sql}: {plan}", self.origin.major);
    }

    fn said(&self, kind: &str, object: &str, action: &str) {
        let found = self.source.sanitised.iter().any(|entry| {
            entry.kind == kind && entry.object.contains(object) && entry.action.contains(action)
        });
        assert!(found, "{}: {kind} {object}: {action}: {:#?}", self.origin.major, self.source.sanitised);
    }

    /// Nothing that a user would miss is missing: each table can be read, and its statistics were gathered.
    fn whole(&self) {
        let lost = ["missing library", "warm-up", "statistics"];
        let found = self.source.sanitised.iter().find(|entry| lost.contains(&&*entry.kind));
        assert!(found.is_none(), "{}: {found:?}", self.origin.major);
    }

    /// The source is as it was; of it, this alone was not read.
    async fn unchanged(&self, left_out: &[&str]) {
        let evidence = self.engine.evidence(&Policy::ReadWrite.to_string()).await.expect("evidence");
        assert!(evidence.source.comparable && evidence.source.unchanged, "{:?}", evidence.source);
        let found: Vec<&String> = evidence.source_now.left_out.keys().collect();
        assert_eq!(found, left_out, "{:?}", evidence.source_now.left_out);
        assert_eq!(evidence.snapshot_digest, evidence.snapshot_digest_now);
    }

    async fn end(self) {
        self.unchanged(&[]).await;
        self.engine.close().await.expect("close");
    }
}

/// Contrib's types, operators and indexes work, in branches of every major version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pg_trgm_and_hstore() {
    if !wanted("pg_trgm_and_hstore") {
        return;
    }
    for major in majors_with("pg_trgm") {
        let shop = Shop::new(
            major,
            "",
            "create extension pg_trgm;; create extension hstore;;
             create table docs (id int generated always as identity primary key, body text, tags hstore);;
             insert into docs (body, tags) select md5(n::text) || ' word', hstore('n', n::text) || 'kind=>odd'::hstore
               from generate_series(1, 20000) n;;
             create index docs_body on docs using gin (body gin_trgm_ops);; create index docs_tags on docs using gin (tags)",
        )
        .await;
        shop.whole();
        let (like, has) = (
            "select id from docs where body like '%c4ca4238a0%'",
            "select id from docs where tags @> 'n=>77'",
        );
        shop.uses("docs_body", like).await;
        shop.uses("docs_tags", has).await;
        shop.reads(like, json!([[1]])).await;
        shop.reads(has, json!([[77]])).await;
        shop.reads(
            "select tags -> 'kind', similarity('word', 'words') > 0.5 from docs where id = 5",
            json!([["odd", true]]),
        )
        .await;
        shop.writes("insert into docs (body, tags) values ('c4ca4238a0 again', 'n=>77')").await;
        shop.writes("update docs set tags = tags || 'seen=>yes' where id = 1").await;
        let after = "select (select count(*) from docs where body like '%c4ca4238a0%'), (select count(*) from docs where tags @> 'n=>77')";
        assert_eq!(shop.rows(Policy::ReadWrite, after).await, json!([[2, 2]]));
        assert_eq!(shop.rows(Policy::ReadOnly, after).await, json!([[1, 1]]));
        shop.end().await;
    }
}

/// A branch counts its own statements. What others ran, in the source too, its holder does not read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pg_stat_statements() {
    if !wanted("pg_stat_statements") {
        return;
    }
    for major in majors_with("pg_stat_statements") {
        for stopped in [false, true] {
            let home = Home::new();
            let settings = "shared_preload_libraries = 'pg_stat_statements'\n";
            let mut origin = OtherServer::start_with(&home, major, settings).await;
            origin
                .run(
                    "shop",
                    "create extension pg_stat_statements;; create table t (id int primary key);; insert into t select generate_series(1, 50);;
                     create role app password 'told to nobody';; select 1 as only_in_the_source from t",
                )
                .await;
            let from = stopped.then(|| {
                origin.stop();
                // What the server had counted lies in a file, which is copied.
                let file = origin.cluster.data_dir().join("pg_stat/pg_stat_statements.stat");
                let text = std::fs::read(file).expect("what was counted");
                assert!(String::from_utf8_lossy(&text).contains("only_in_the_source"));
                origin.directory()
            });
            let shop = Shop::of(home, origin, from).await;
            shop.whole();
            for kind in ["preloaded library", "extension"] {
                assert!(
                    !shop.source.sanitised.iter().any(|entry| entry.kind == kind),
                    "{:#?}",
                    shop.source.sanitised
                );
            }
            for policy in Policy::ALL {
                for _ in 0..3 {
                    shop.rows(policy, "select count(*) as counted_here from t").await;
                }
                let own = "select sum(calls)::int from pg_stat_statements where query like '%counted_here%' and query not like '%calls%'";
                assert_eq!(shop.rows(policy, own).await, json!([[3]]), "{major}, {policy}");
            }
            shop.reads(
                "select count(*) from pg_stat_statements where query like '%only_in_the_source%' or query like '%told to%'",
                json!([[0]]),
            )
            .await;
            shop.refused("select pg_stat_statements_reset()").await;
            // Settings of the library are given to branches anew.
            let server = [("pg_stat_statements.track".to_owned(), "all".to_owned())].into();
            let change = ChangeSettings { server, ..ChangeSettings::default() };
            shop.engine.change_settings("shop", change).await.expect("a setting of the library");
            shop.engine.destroy("ddl").expect("destroy");
            settle(&shop.engine).await;
            let request = CreateBranch {
                name: Some("tracks".to_owned()),
                policy: Some(Policy::Ddl),
                ..CreateBranch::default()
            };
            shop.engine.create(request).await.expect("a lease");
            assert_eq!(rows(&shop.engine, "tracks", "show pg_stat_statements.track").await, json!([["all"]]));
            if stopped {
                shop.engine.close().await.expect("close");
            } else {
                shop.end().await;
            }
        }
    }
}

/// Vectors, their distances and both of their indexes work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pgvector() {
    if !wanted("pgvector") {
        return;
    }
    for major in majors_with("vector") {
        let shop = Shop::new(
            major,
            "",
            "create extension vector;; create table items (id int primary key, at vector(3));;
             insert into items select n, array[sin(n), cos(n), n % 7]::vector from generate_series(1, 5000) n;;
             create index items_near on items using hnsw (at vector_l2_ops);;
             create index items_alike on items using ivfflat (at vector_cosine_ops) with (lists = 10)",
        )
        .await;
        shop.whole();
        let near = "select id from items order by at <-> '[9,9,9]' limit 1";
        shop.uses("items_near", near).await;
        shop.uses("items_alike", "select id from items order by at <=> '[0,1,0]' limit 5").await;
        shop.reads(
            "select at <-> '[0,0,0]' > 0, vector_dims(at) from items where id = 3",
            json!([[true, 3]]),
        )
        .await;
        shop.writes("insert into items values (9999, '[9,9,9]')").await;
        assert_eq!(shop.rows(Policy::ReadWrite, near).await, json!([[9999]]));
        assert_ne!(shop.rows(Policy::ReadOnly, near).await, json!([[9999]]));
        let error = query(&shop.engine, "read-write", "insert into items values (8888, '[9,9]')").await;
        assert!(error.map(|_| ()).expect_err("two dimensions").message.contains("expected 3 dimensions"));
        shop.defines(&[
            "create table more (v vector(2))",
            "create index on more using hnsw (v vector_l2_ops)",
        ])
        .await;
        shop.end().await;
    }
}

/// Geometries, their indexes and transformations work. Nobody writes PostGIS's own tables.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgis() {
    if !wanted("postgis") {
        return;
    }
    for major in majors_with("postgis-3") {
        let shop = Shop::new(
            major,
            "",
            "create extension postgis;; create extension postgis_topology;;
             create table places (id int primary key, at geometry(Point, 4326), around geography);;
             insert into places select n, st_setsrid(st_makepoint(n % 360 - 180, n % 171 - 85), 4326),
               st_point(n % 180, n % 90)::geography from generate_series(1, 20000) n;;
             create index places_at on places using gist (at);; create index places_around on places using gist (around);;
             select createtopology('streets', 4326)",
        )
        .await;
        shop.whole();
        let near =
            "select count(*) from places where st_dwithin(at, st_setsrid(st_makepoint(8.2, 46.9), 4326), 1)";
        shop.uses("places_at", near).await;
        let around = "select count(*) from places where st_dwithin(around, st_point(8, 46)::geography, 1000)";
        shop.uses("places_around", around).await;
        let before = shop.rows(Policy::ReadWrite, near).await;
        shop.reads(
            "select st_astext(at), round(st_x(st_transform(at, 3857))), st_asgeojson(at)::json ->> 'type' from places where id = 181",
            json!([["POINT(1 -75)", 111_319, "Point"]]),
        )
        .await;
        shop.reads(
            "select srid, type from geometry_columns where f_table_name = 'places'",
            json!([[4326, "POINT"]]),
        )
        .await;
        shop.reads("select count(*) > 1000 from spatial_ref_sys", json!([[true]])).await;
        shop.writes("insert into places (id, at) values (99999, st_setsrid(st_makepoint(8.2, 46.9), 4326))")
            .await;
        assert_eq!(
            shop.rows(Policy::ReadWrite, near).await[0][0].as_i64(),
            before[0][0].as_i64().map(|count| count + 1)
        );
        shop.defines(&[
            "create table more (g geometry(Polygon, 4326))",
            "create index on more using gist (g)",
        ])
        .await;
        for sql in [
            "insert into spatial_ref_sys values (990001, 'x', 1, 'x', '+proj=longlat')",
            "update spatial_ref_sys set proj4text = '+proj=longlat +nadgrids=/etc/passwd'",
            "delete from spatial_ref_sys",
            "update topology.topology set name = 'x'",
            "select createtopology('more')",
            "select st_estimatedextent('places', 'at')",
        ] {
            shop.refused(sql).await;
        }
        shop.said("table", "public.spatial_ref_sys", "not writable in branches (extension postgis)");
        shop.end().await;
    }
}

/// Rasters, whose functions open files, are kept and not computed with. They have no binary form, so evidence leaves them out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgis_raster() {
    if !wanted("postgis_raster") {
        return;
    }
    for major in majors_with("postgis_raster-3") {
        let shop = Shop::new(
            major,
            "",
            "create extension postgis;; create extension postgis_raster;;
             create table pictures (id int primary key, picture raster);;
             insert into pictures values (1, st_makeemptyraster(4, 4, 0, 0, 1))",
        )
        .await;
        shop.said("extension", "postgis_raster", "not executable");
        shop.said("warm-up", "pictures", "no binary output");
        shop.reads("select id, length(picture::text) > 10 from pictures", json!([[1, true]])).await;
        shop.writes("insert into pictures select 2, picture from pictures").await;
        for sql in [
            "select st_width(picture) from pictures",
            "select st_makeemptyraster(4, 4, 0, 0, 1)",
            "select st_fromgdalraster('x')",
        ] {
            shop.refused(sql).await;
        }
        shop.unchanged(&["shop.public.pictures.picture"]).await;
        shop.engine.close().await.expect("close");
    }
}

/// The job of a source runs there, every minute, and neither while it is imported nor in a branch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pg_cron() {
    const STEP: Duration = Duration::from_millis(250);
    if !wanted("pg_cron") {
        return;
    }
    for major in majors_with("pg_cron") {
        let home = Home::new();
        let marks = open_directory(&home, "marks");
        let settings =
            "shared_preload_libraries = 'pg_cron,pg_stat_statements'\ncron.database_name = 'shop'\n\
                        cron.use_background_workers = on\nmax_worker_processes = 20\n";
        let origin = OtherServer::start_with(&home, major, settings).await;
        let job = format!(
            "insert into ticks select now(), pg_postmaster_start_time(); copy (select 1) to ''{}/tick''",
            marks.display()
        );
        origin
            .run(
                "shop",
                &format!(
                    "create extension pg_cron;; create table ticks (at timestamptz, server timestamptz);;
                     select cron.schedule('tick', '* * * * *', '{job}')"
                ),
            )
            .await;
        // It is a job that does something, here.
        let client = origin.client("boss", "shop").await;
        let deadline = clock::now() + Duration::from_secs(150);
        while client.query("select from ticks", &[]).await.expect("ticks").is_empty()
            || !marks.join("tick").exists()
        {
            assert!(clock::now() < deadline, "the job of the source does not run");
            tokio::time::sleep(STEP).await;
        }
        drop(client);
        assert!(runs_cron(origin.cluster.data_dir()), "its worker is seen");
        // From now on the source runs none, so that whatever ticks is not the source.
        let mut origin = origin;
        origin.stop();
        let mut quiet = Settings::new();
        quiet.set("shared_preload_libraries", "pg_stat_statements");
        origin.run_server_with(&quiet);
        std::fs::remove_file(marks.join("tick")).expect("remove");

        let mut shop = Shop::of(home, origin, None).await;
        shop.whole();
        shop.said("preloaded library", "pg_cron", "not known to stay inside");
        shop.said("setting", "cron.database_name", "removed");
        shop.said("scheduled jobs", "cron.job", "left as they are");
        shop.said("extension", "pg_cron", "not executable");
        shop.said("function", "job_cache_invalidate", "raises when a trigger calls it");
        // The next generation is imported over the beginning of a minute, and so are branches, for one more.
        let ticks = "select count(*), count(distinct server) from ticks";
        let expected = shop.rows(Policy::ReadWrite, ticks).await;
        assert_eq!(expected[0][1], json!(1), "a copy has run the job");
        let begun = clock::now();
        while begun.elapsed() < Duration::from_secs(65) {
            shop.source = shop.engine.refresh_source("shop", |_, _| {}).await.expect("a refresh");
            settle(&shop.engine).await;
        }
        for policy in Policy::ALL {
            shop.engine.destroy(&policy.to_string()).expect("destroy");
        }
        shop.lease().await;
        tokio::time::sleep(Duration::from_secs(65)).await;
        shop.reads(ticks, expected).await;
        assert!(!marks.join("tick").exists(), "a job has run");
        shop.reads("select count(*) from cron.job where active", json!([[1]])).await;
        assert!(!runs_cron(shop.home.path()), "a worker of pg_cron runs");
        for sql in [
            "select cron.schedule('* * * * *', 'select 1')",
            "select cron.schedule_in_database('x', '* * * * *', 'select 1', 'shop')",
            "select cron.unschedule(1)",
            "select cron.alter_job(1, active => false)",
            "insert into cron.job (schedule, command) values ('* * * * *', 'select 1')",
            "update cron.job set command = 'select 1'",
            "delete from cron.job_run_details",
            "select nextval('cron.jobid_seq')",
        ] {
            shop.refused(sql).await;
        }
        shop.end().await;
    }
}

/// Types and functions of orafce work. `utl_file` writes where its table says, in the source; in a branch nobody calls it,
/// changes the table, or makes another function of the same library.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orafce() {
    if !wanted("orafce") {
        return;
    }
    for major in majors_with("orafce") {
        let home = Home::new();
        let place = open_directory(&home, "files");
        let origin = OtherServer::start(&home, major).await;
        let write = |name: &str| {
            format!(
                "do $do$ declare f utl_file.file_type; begin f := utl_file.fopen('{}', '{name}', 'w'); \
                 perform utl_file.put_line(f, 'x'); perform utl_file.fclose(f); end $do$",
                place.display()
            )
        };
        origin
            .run(
                "shop",
                &format!(
                    "create extension orafce;; insert into utl_file.utl_file_dir (dir) values ('{0}');;
                     grant all on utl_file.utl_file_dir to public;; {1};;
                     create table people (id int primary key, name oracle.varchar2(10), born oracle.date);;
                     insert into people values (1, 'Ann', now()), (2, null, now());;
                     create view named as select id, oracle.nvl(name::text, 'nobody') as name from people;;
                     create function mine(text, text, text) returns int language c as '$libdir/orafce', 'utl_file_fopen';;
                     grant execute on function mine to public;;
                     create function wrapped() returns int security definer language sql
                       as $$ select public.mine('{0}', 'by-a-branch', 'w') $$;;
                     create function fires() returns trigger security definer language plpgsql
                       as $$ begin perform public.wrapped(); return new; end $$;;
                     create table trapped (x int);;
                     create trigger trap before insert on trapped for each row execute function fires();;
                     grant all on trapped to public",
                    place.display(),
                    write("by-the-source")
                ),
            )
            .await;
        assert!(place.join("by-the-source").exists(), "it can write");
        let shop = Shop::of(home, origin, None).await;
        shop.whole();
        shop.reads("select name from named order by id", json!([["Ann"], ["nobody"]])).await;
        shop.reads(
            "select oracle.decode(id, 1, 'one', 'other'), oracle.add_months(date '2024-01-31', 1)::text from people order by id",
            json!([["one", "2024-02-29"], ["other", "2024-02-29"]]),
        )
        .await;
        shop.writes("insert into people values (3, 'Bob', oracle.sysdate())").await;
        shop.writes("update people set name = oracle.substr(name, 1, 1) where id = 1").await;
        shop.reads("select dbms_assert.enquote_literal('x')", json!([["'x'"]])).await;
        for sql in [
            &*write("by-a-branch"),
            // Under another name, which the source gave it, through others, and without being called.
            &*format!("select mine('{}', 'by-a-branch', 'w')", place.display()),
            "select wrapped()",
            "insert into trapped values (1)",
            "select utl_file.tmpdir()",
            "select utl_file.fremove('/tmp', 'x')",
            "select dbms_alert.signal('x', 'y')",
            "insert into utl_file.utl_file_dir (dir) values ('/tmp')",
            "update utl_file.utl_file_dir set dir = '/tmp'",
            "create function mine(text, text, text) returns int language c as '$libdir/orafce', 'utl_file_fopen'",
        ] {
            shop.refused(sql).await;
        }
        shop.said("function", "utl_file.fopen(", "language c");
        shop.said("function", "dbms_alert.signal(", "security definer");
        shop.said("table", "utl_file.utl_file_dir", "not writable in branches (extension orafce)");
        assert!(!place.join("by-a-branch").exists(), "a branch has written a file");
        shop.end().await;
    }
}

/// Whether a server below a directory has started the worker that runs jobs.
fn runs_cron(dir: &Path) -> bool {
    let titles = processes_below(dir).into_iter().map(|pid| std::fs::read(format!("/proc/{pid}/cmdline")));
    titles.flatten().any(|title| String::from_utf8_lossy(&title).contains("pg_cron"))
}

/// A directory that everybody may write to.
fn open_directory(home: &Home, name: &str) -> PathBuf {
    let path = home.beside(name);
    std::fs::create_dir(&path).expect("a directory");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).expect("its mode");
    path
}
