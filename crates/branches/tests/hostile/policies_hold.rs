//! What a policy forbids cannot be done, whatever is sent: on the query path, and over the raw wire.
//!
//! The wire is tried with the simple protocol, which lets several statements through in one text, and for `read-only`
//! a second time after the session switched its own READ ONLY default off: then grants alone must hold.

use crate::support::{lease, majors, pool, settle, Home};
use duramen_api::model::{BranchView, ChangeSettings, Policy, QueryRequest, QueryStatement};
use duramen_branches::Engine;
use std::{collections::BTreeSet, str::FromStr, sync::Arc};
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

/// A source with what is known to leak rights: things owned by a superuser that run with its rights, things open to
/// the public, an ordinary owner that may become the superuser.
const SOURCE: &str = r"
create role app;
create role clerk;
grant postgres to app;
create table t (id bigint generated always as identity primary key, name text not null);
insert into t (name) select 'row ' || n from generate_series(1, 100) n;
create view v as select id, name from t;
create sequence counter;
create table open_to_all (x int);
insert into open_to_all values (1);
grant all on open_to_all to public;
grant all on sequence counter to public;
create table open_column (x int, y int);
insert into open_column values (1, 1);
grant update (y) on open_column to public;
create table passed_on (x int);
grant all on passed_on to clerk with grant option;
set role clerk;
grant all on passed_on to public;
reset role;
create function definer_write() returns void language sql security definer
  as $$ insert into public.t (name) values ('by the definer') $$;
create function definer_run(statement text) returns void language plpgsql security definer
  as $$ begin execute statement; end $$;
create procedure definer_procedure() language sql security definer
  as $$ delete from public.t where id = 1 $$;
create schema app authorization app;
set role app;
create table app.owned (x int primary key);
insert into app.owned values (1), (2);
create function app.definer_run(statement text) returns void language plpgsql security definer
  as $$ begin execute statement; end $$;
reset role;
create table shared as select 1 as x;
grant select on shared to public;
create schema clerk authorization clerk;
set role clerk;
create view clerk.seen as select x from public.shared;
grant all on clerk.seen to public;
reset role;
grant alter system, set on parameter archive_command to public;
grant set on parameter session_preload_libraries to app;
select lo_from_bytea(4242, 'large');
select lo_from_bytea(4243, 'of nobody here');
grant all on large object 4242 to public;
";

/// Everything that a forbidden statement could have changed, as text, read as the administrator.
const STATE: &str = r"
select (
  select string_agg(x, E'\n' order by x) from (
    select 't ' || count(*) || ' ' || coalesce(sum(hashtextextended(t::text, 0)::numeric), 0) from t
    union all select 'open_to_all ' || count(*) || ' ' || coalesce(sum(x), 0) from open_to_all
    union all select 'open_column ' || count(*) || ' ' || sum(x) || ' ' || sum(y) from open_column
    union all select 'passed_on ' || count(*) from passed_on
    union all select 'app.owned ' || count(*) || ' ' || sum(x) from app.owned
    union all select 'sequence ' || s::text from pg_sequences s
    union all select 'relation ' || n.nspname || '.' || c.relname || ' ' || c.relkind::text || ' ' || c.relowner || ' ' || c.relfilenode
      || ' ' || coalesce(c.relacl::text, '') from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname !~ '^pg_toast'
    union all select 'column ' || attrelid || ' ' || attname || coalesce(attacl::text, '') from pg_attribute where attrelid >= 16384
    union all select 'schema ' || n::text from pg_namespace n where nspname !~ '^pg_(temp|toast)'
    union all select 'function ' || p::text from pg_proc p where oid >= 16384
    union all select 'type ' || typname from pg_type where oid >= 16384
    union all select 'role ' || r::text from pg_authid r
    union all select 'member ' || roleid::text || ' ' || member from pg_auth_members
    union all select 'role setting ' || s::text from pg_db_role_setting s
    union all select 'default acl ' || d::text from pg_default_acl d
    union all select 'extension ' || extname from pg_extension
    union all select 'language ' || lanname from pg_language
    union all select 'database ' || datname || ' ' || datdba || coalesce(datacl::text, '') from pg_database
    union all select 'comment ' || d::text from pg_description d where objoid >= 16384
    union all select 'trigger ' || tgname from pg_trigger
    union all select 'rule ' || rulename from pg_rewrite where ev_class >= 16384
    union all select 'publication ' || pubname from pg_publication
    union all select 'large object ' || oid || coalesce(lomacl::text, '') from pg_largeobject_metadata
    union all select 'page ' || loid || ' ' || md5(data) from pg_largeobject
    union all select 'file setting ' || regexp_replace(sourcefile, '.*/', '') || ' ' || name || ' ' || coalesce(setting, '') from pg_file_settings
  ) s (x)
)";

/// What a policy makes of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    /// The server refuses it.
    No,
    /// It works.
    Yes,
    /// The server may accept it, but nothing changes.
    Nothing,
}

use Expect::{No, Nothing, Yes};

/// Statements that belong together, and what they come to under read-only, read-write and ddl.
struct Attempt {
    name: &'static str,
    steps: &'static [&'static str],
    expect: [Expect; 3],
}

const fn attempt(name: &'static str, steps: &'static [&'static str], expect: [Expect; 3]) -> Attempt {
    Attempt { name, steps, expect }
}

/// No policy allows it.
const fn never(name: &'static str, steps: &'static [&'static str]) -> Attempt {
    attempt(name, steps, [No, No, No])
}

/// It writes rows.
const fn write(name: &'static str, steps: &'static [&'static str]) -> Attempt {
    attempt(name, steps, [No, Yes, Yes])
}

/// It changes definitions.
const fn ddl(name: &'static str, steps: &'static [&'static str]) -> Attempt {
    attempt(name, steps, [No, No, Yes])
}

/// It only reads.
const fn read(name: &'static str, steps: &'static [&'static str]) -> Attempt {
    attempt(name, steps, [Yes, Yes, Yes])
}

const ATTEMPTS: &[Attempt] = &[
    // Reading.
    read("select", &["select count(*) from t"]),
    read("select from a view", &["select * from v order by id limit 3"]),
    read("select from another role's table", &["select sum(x) from app.owned"]),
    read("a view that reads by a right of the public", &["select x from clerk.seen"]),
    read("several reads in one transaction", &["select 1", "select count(*) from app.owned"]),
    read("common table expression", &["with q as (select * from t) select count(*) from q"]),
    read("explain", &["explain analyze select * from t"]),
    read("settings of one's own session", &["set work_mem = '8MB'", "show work_mem"]),
    read("a large object's content", &["select lo_get(4242)"]),
    read("an advisory lock", &["select pg_advisory_xact_lock(42)"]),
    read("the content of another's large object", &["select lo_get(4243)"]),
    // Becoming somebody else.
    never("set role postgres", &["set role postgres"]),
    never("set role duramen_admin", &["set role duramen_admin"]),
    never("reset role, then the superuser", &["reset role", "set role postgres"]),
    attempt("set role duramen_owner", &["set role duramen_owner"], [No, No, Yes]),
    attempt("set role app", &["set role app"], [No, No, Yes]),
    never("the superuser by way of an owner who is a member", &["set local role app", "set local role postgres"]),
    never("set session authorization postgres", &["set session authorization postgres"]),
    never("set session authorization duramen_admin", &["set session authorization duramen_admin"]),
    never("set_config role", &["select set_config('role', 'postgres', false)"]),
    never("become superuser", &["alter role current_user superuser"]),
    never("become a role's creator", &["alter role current_user createrole"]),
    never("create role", &["create role intruder superuser login"]),
    never("create user with a password", &["create user intruder password 'x'"]),
    never("drop role", &["drop role app"]),
    never("unlock another role", &["alter role app login password 'x'"]),
    never("grant server files", &["grant pg_read_server_files to current_user"]),
    never("grant the superuser", &["grant postgres to current_user"]),
    attempt("grant the owner", &["grant duramen_owner to duramen_read"], [No, No, No]),
    attempt("grant a table", &["grant all on t to public"], [Nothing, Nothing, Yes]),
    never("take over the passwords", &["select rolpassword from pg_authid"]),
    never("settings of every session", &["alter role all set work_mem = '1MB'"]),
    never("settings of the superuser", &["alter role duramen_admin set search_path = public"]),
    never("own the database", &["alter database app owner to current_user"]),
    never("rename the database", &["alter database app rename to other"]),
    never("settings of the database", &["alter database app set work_mem = '1MB'"]),
    never("limit the database's connections", &["alter database app connection limit 0"]),
    never("passwords by pg_shadow", &["select passwd from pg_shadow"]),
    // The server's files and programs.
    never("copy to program", &["copy t to program 'cat > /dev/null'"]),
    never("copy from program", &["copy t (name) from program 'id'"]),
    never("copy from a file", &["copy t (name) from '/etc/passwd'"]),
    never("copy to a file", &["copy t to '/tmp/duramen-policies-hold'"]),
    never("copy to program inside a block", &["do $$ begin execute 'copy t to program ''true'''; end $$"]),
    never("pg_read_file", &["select pg_read_file('/etc/passwd')"]),
    never("pg_read_binary_file", &["select pg_read_binary_file('PG_VERSION')"]),
    never("pg_stat_file", &["select pg_stat_file('PG_VERSION')"]),
    never("pg_ls_dir", &["select pg_ls_dir('.')"]),
    never("pg_ls_waldir", &["select pg_ls_waldir()"]),
    never("lo_import", &["select lo_import('/etc/passwd')"]),
    never("lo_export", &["select lo_export(4242, '/tmp/duramen-policies-hold')"]),
    never("load", &["load 'auto_explain'"]),
    never("load by setting", &["set session_preload_libraries = 'auto_explain'"]),
    never("library path", &["set dynamic_library_path = '/tmp'"]),
    never("alter system", &["alter system set archive_command = 'true'"]),
    never("alter database for all", &["alter database app set session_preload_libraries = 'auto_explain'"]),
    never("pg_reload_conf", &["select pg_reload_conf()"]),
    never("pg_rotate_logfile", &["select pg_rotate_logfile()"]),
    never("pg_switch_wal", &["select pg_switch_wal()"]),
    never("checkpoint", &["checkpoint"]),
    never("allow_system_table_mods", &["set allow_system_table_mods = on"]),
    never("write the catalogue", &["update pg_catalog.pg_authid set rolsuper = true"]),
    never("a part of a file", &["select pg_read_file('PG_VERSION', 0, 1)"]),
    never("pg_ls_logdir", &["select pg_ls_logdir()"]),
    never("pg_ls_tmpdir", &["select pg_ls_tmpdir()"]),
    never("pg_ls_archive_statusdir", &["select pg_ls_archive_statusdir()"]),
    never("pg_current_logfile", &["select pg_current_logfile()"]),
    never("access rules of the server", &["select * from pg_hba_file_rules"]),
    never("settings in files", &["select * from pg_file_settings"]),
    never("how the server was built", &["select * from pg_config"]),
    never("the server's shared memory", &["select * from pg_shmem_allocations"]),
    never("restore point", &["select pg_create_restore_point('x')"]),
    never("begin a backup", &["select pg_backup_start('x')"]),
    never("promote", &["select pg_promote()"]),
    never("stop the replay", &["select pg_wal_replay_pause()"]),
    never("replication slot", &["select pg_create_physical_replication_slot('s')"]),
    never("replication origin", &["select pg_replication_origin_create('o')"]),
    never("forget the statistics", &["select pg_stat_reset()"]),
    never("forget shared statistics", &["select pg_stat_reset_shared('bgwriter')"]),
    never("write into the server's log", &["select pg_log_backend_memory_contexts(pg_backend_pid())"]),
    never("more of the server's log", &["set log_min_messages = debug5"]),
    never("every statement into the log", &["set log_statement = 'all'"]),
    never("triggers off", &["set session_replication_role = replica"]),
    never("damaged pages as zeros", &["set zero_damaged_pages = on"]),
    never("no statement's limit of files", &["set temp_file_limit = -1"]),
    // Code and connections.
    never("create extension dblink", &["create extension dblink"]),
    never("create extension postgres_fdw", &["create extension postgres_fdw"]),
    never("function in C", &["create function c() returns int language c as 'libc', 'getpid'"]),
    never("internal function", &["create function i() returns int language internal as 'pg_backend_pid'"]),
    never("foreign data wrapper", &["create foreign data wrapper w"]),
    never("subscription", &["create subscription s connection 'host=/nowhere' publication p with (connect = false)"]),
    never("event trigger", &["create event trigger e on ddl_command_start execute function definer_run()"]),
    never("create database", &["create database intruder"]),
    never("tablespace", &["create tablespace s location '/tmp'"]),
    never("give a table to the superuser", &["alter table t owner to postgres"]),
    never("access method", &["create access method m type index handler bthandler"]),
    never("operator class", &["create operator class oc for type int4 using btree as operator 1 <"]),
    never("base type", &["create type shell", "create type shell (input = int4in, output = int4out)"]),
    never("leakproof function", &["create function leak(int) returns bool leakproof language sql as 'select true'"]),
    never("leakproof by alter", &["alter function definer_write() leakproof"]),
    never("text search parser", &["create text search parser p (start = prsd_start, gettoken = prsd_nexttoken, end = prsd_end, lextypes = prsd_lextype)"]),
    never("text search template", &["create text search template p (lexize = dsimple_lexize)"]),
    never("publish everything", &["create publication everything for all tables"]),
    never("publish a schema", &["create publication p for tables in schema public"]),
    // Writing rows.
    write("insert", &["insert into t (name) values ('x')"]),
    write("update", &["update t set name = 'y' where id = 2"]),
    write("delete", &["delete from t where id = 3"]),
    write("insert through a view", &["insert into v (name) values ('z')"]),
    write("write in a common table expression", &["with q as (delete from t where id = 5 returning *) select * from q"]),
    write("another role's table", &["insert into app.owned values ((select max(x) + 1 from app.owned))"]),
    write("an insert in a block", &["do $$ begin insert into t (name) values ('block'); end $$"]),
    write("nextval", &["select nextval('counter')"]),
    write("setval", &["select setval('counter', 77)"]),
    write("lock rows", &["select * from t where id = 7 for update"]),
    write("merge", &["merge into app.owned o using (values (1)) s (x) on o.x = s.x when matched then delete when not matched then insert values (s.x)"]),
    write("truncate", &["truncate app.owned"]),
    write("a table that was open to the public", &["insert into open_to_all values (2)"]),
    write("a sequence that was open to the public", &["select setval('counter', 5)"]),
    write("a column that was open to the public", &["update open_column set y = y + 1"]),
    write("a right that was passed on to the public", &["insert into passed_on values (1)"]),
    write("SECURITY DEFINER function of a superuser", &["select definer_write()"]),
    write("SECURITY DEFINER procedure of a superuser", &["call definer_procedure()"]),
    write("SECURITY DEFINER function with a given text", &["select definer_run('insert into t (name) values (''d'')')"]),
    write("explain analyze writes", &["explain analyze insert into t (name) values ('e')"]),
    write("lock a table", &["do $$ begin lock table t in access exclusive mode; end $$"]),
    // Leaving the READ ONLY transaction.
    write("set transaction_read_only off", &["set transaction_read_only = off", "insert into t (name) values ('x')"]),
    write("set transaction read write", &["set transaction read write", "update t set name = 'y' where id = 4"]),
    write("set_config transaction_read_only", &["select set_config('transaction_read_only', 'off', true)", "delete from t where id = 6"]),
    // Temporary and large objects.
    write("temporary table", &["create temporary table tt (x int)"]),
    write("select into temp", &["select 1 as x into temporary ttt"]),
    write("create table as, temporary", &["create temporary table tttt as select * from t"]),
    write("temporary view", &["create temporary view tv as select 1"]),
    write("lo_create", &["select lo_create(0)"]),
    write("lo_from_bytea", &["select lo_from_bytea(0, 'x')"]),
    write("lo_creat", &["select lo_creat(-1)"]),
    write("lo_put", &["select lo_put(4242, 0, 'X')"]),
    write("lo_unlink of another's object", &["select lo_unlink(4243)"]),
    write("lowrite", &["select lowrite(lo_open(4242, 131072), 'Y')"]),
    write("message into the log", &["select pg_logical_emit_message(false, 'p', 'x')"]),
    // Definitions.
    ddl("create table", &["create table made (x int)"]),
    ddl("create table as", &["create table made_as as select * from t"]),
    ddl("select into", &["select 1 as x into made_into"]),
    ddl("create schema", &["create schema made_schema"]),
    ddl("create index", &["create index made_index on t (name)"]),
    ddl("alter table", &["alter table t add column extra int"]),
    ddl("alter another role's table", &["alter table app.owned add column extra int"]),
    ddl("create view", &["create view made_view as select * from t"]),
    ddl("create function", &["create function made_function() returns int language plpgsql as 'begin return 1; end'"]),
    ddl("create type", &["create type made_type as enum ('a', 'b')"]),
    ddl("create trigger", &["create function f_trigger() returns trigger language plpgsql as 'begin return new; end'", "create trigger g before insert on t for each row execute function f_trigger()"]),
    ddl("create rule", &["create rule made_rule as on delete to app.owned do instead nothing"]),
    ddl("comment", &["comment on table t is 'mine'"]),
    ddl("rename", &["alter view v rename to w"]),
    ddl("reindex", &["reindex index t_pkey"]),
    ddl("definition by a SECURITY DEFINER function of a superuser", &["select definer_run('create table by_definer (x int)')"]),
    ddl("definition by a SECURITY DEFINER function of an owner", &["select app.definer_run('create table app.by_definer (x int)')"]),
    ddl("row security off by alter", &["alter table t enable row level security"]),
    ddl("create domain", &["create domain made_domain as int check (value > 0)"]),
    ddl("create aggregate", &["create aggregate made_sum (int) (sfunc = int4pl, stype = int)"]),
    ddl("create collation", &["create collation made_collation (locale = 'C')"]),
    ddl("create statistics", &["create statistics made_statistics on id, name from t"]),
    ddl("create policy", &["create policy made_policy on t using (true)"]),
    ddl("publish a table", &["create publication made_publication for table t"]),
    ddl("cluster", &["cluster app.owned using owned_pkey"]),
    ddl("rights by default", &["alter default privileges for role app grant select on tables to public"]),
    ddl("storage of a column", &["alter table t alter column name set storage external"]),
    ddl("inherit", &["create table made_child () inherits (t)"]),
    ddl("drop table, stacked", &["select 1", "drop table open_to_all"]),
    ddl("commit, then drop a schema", &["commit", "drop schema app cascade"]),
    attempt("commit, then drop schema public", &["commit", "drop schema public cascade"], [No, No, No]),
];

fn refusals(policy: Policy) -> impl Iterator<Item = (&'static Attempt, Expect)> {
    expectations(policy).filter(|(_, expect)| *expect != Yes)
}

fn expectations(policy: Policy) -> impl Iterator<Item = (&'static Attempt, Expect)> {
    let column = Policy::ALL.iter().position(|known| *known == policy).expect("a known policy");
    ATTEMPTS.iter().map(move |attempt| (attempt, attempt.expect[column]))
}

/// An answer that shows that the attempt itself was wrong, so that its refusal proves nothing.
fn vacuous(code: &str) -> bool {
    ["42601", "42P01", "42883", "42703", "42704", "3F000", "3D000", "58P01", "08P01", "22023"].contains(&code)
}

async fn connect(config: &Config) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn config(branch: &BranchView) -> Config {
    Config::from_str(&branch.url).expect("the URL of a branch is one of PostgreSQL")
}

/// Sends a text by the simple protocol over a connection of its own; gives the SQLSTATE of a refusal.
async fn wire(branch: &BranchView, prepare: &str, text: &str) -> Result<Vec<SimpleQueryMessage>, String> {
    let client = connect(&config(branch)).await.expect("the URL admits its role");
    client.batch_execute(prepare).await.expect("the session's own settings");
    client.simple_query(text).await.map_err(|error| match error.as_db_error() {
        Some(refusal) => format!("{}: {}", refusal.code().code(), refusal.message()),
        None => panic!("{text}: the connection broke: {error}"),
    })
}

/// Sends statements by the query path, in one request.
async fn by_query(engine: &Arc<Engine>, branch: &BranchView, request: QueryRequest) -> Result<(), String> {
    engine
        .query(&branch.name, request)
        .await
        .map(drop)
        .map_err(|error| format!("{}: {}", error.sqlstate.as_deref().unwrap_or(error.code), error.message))
}

fn several(steps: &[&str]) -> QueryRequest {
    let statements =
        steps.iter().map(|sql| QueryStatement { sql: (*sql).to_owned(), params: Vec::new() }).collect();
    QueryRequest { statements, ..QueryRequest::default() }
}

fn text(sql: &str) -> QueryRequest {
    QueryRequest { sql: Some(sql.to_owned()), ..QueryRequest::default() }
}

/// A connection as the branch's administrator.
async fn administrator(engine: &Engine, branch: &BranchView) -> Client {
    let url = engine.administrator_url(&branch.name).await.expect("the branch").url;
    connect(&url.parse().expect("a URL")).await.expect("the administrator's way in")
}

async fn state(admin: &Client) -> String {
    match admin.query_one(STATE, &[]).await {
        Ok(row) => row.get(0),
        Err(error) => format!("the state cannot be read: {error:?}"),
    }
}

fn differences(before: &str, after: &str) -> Vec<String> {
    if before == after {
        return Vec::new();
    }
    let (old, new): (BTreeSet<&str>, BTreeSet<&str>) = (before.lines().collect(), after.lines().collect());
    let gone = old.difference(&new).map(|line| format!("- {line}"));
    gone.chain(new.difference(&old).map(|line| format!("+ {line}"))).collect()
}

/// Judges one answer; the complaint names attempt, policy, path and what happened instead.
fn judge(
    complaints: &mut Vec<String>,
    (name, policy, path): (&str, Policy, &str),
    expect: Expect,
    answer: Result<(), String>,
) {
    let complaint = match (expect, answer) {
        (No, Ok(())) => "the server accepted it".to_owned(),
        (No, Err(error)) if vacuous(&error[..5]) => format!("refused for another reason: {error}"),
        (Yes, Err(error)) => format!("refused, but the policy allows it: {error}"),
        _ => return,
    };
    complaints.push(format!("{name} ({policy}, {path}): {complaint}"));
}

/// A home whose source `app` runs on a server of this major version.
async fn home_of(major: u32) -> (Home, Arc<Engine>) {
    let home = Home::new();
    let engine = home.open().await;
    let hot: Vec<(Policy, u32)> = Policy::ALL.into_iter().map(|policy| (policy, 2)).collect();
    home.add_cluster(&engine, major, SOURCE, pool(&hot)).await;
    settle(&engine).await;
    (home, engine)
}

/// Invariant: what a policy forbids is refused on both paths, and nothing has changed afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_published_bypass_gets_through_and_nothing_changes() {
    assert!(ATTEMPTS.len() >= 160, "{} attempts", ATTEMPTS.len());
    for major in majors() {
        no_bypass_gets_through(major).await;
    }
}

async fn no_bypass_gets_through(major: u32) {
    let (_home, engine) = home_of(major).await;
    let mut complaints = Vec::new();
    for policy in Policy::ALL {
        let branch = lease(&engine, &format!("no-{policy}"), policy).await;
        let mut admin = administrator(&engine, &branch).await;
        let before = state(&admin).await;
        for (attempt, expect) in refusals(policy) {
            let joined = attempt.steps.join("; ");
            let wired = wire(&branch, "", &joined).await.map(drop);
            judge(&mut complaints, (attempt.name, policy, "wire"), expect, wired);
            if policy == Policy::ReadOnly {
                let free = "set default_transaction_read_only = off";
                let answer = wire(&branch, free, &joined).await.map(drop);
                if answer.as_ref().is_err_and(|error| error.starts_with("25006")) {
                    complaints.push(format!("{}: only READ ONLY refused it, no grant did", attempt.name));
                }
                judge(&mut complaints, (attempt.name, policy, "wire, read write"), expect, answer);
                let begin = format!("begin; set transaction read write; {joined}; commit");
                let answer = wire(&branch, "", &begin).await.map(drop);
                judge(&mut complaints, (attempt.name, policy, "wire, in a block"), expect, answer);
                let mut steps = vec!["set transaction read write"];
                steps.extend(attempt.steps);
                let answer = by_query(&engine, &branch, several(&steps)).await;
                judge(&mut complaints, (attempt.name, policy, "query, read write"), expect, answer);
            }
            if attempt.steps.len() > 1 {
                let stacked = by_query(&engine, &branch, text(&joined)).await;
                if !stacked.as_ref().is_err_and(|error| error.starts_with("42601")) {
                    complaints
                        .push(format!("{} ({policy}): stacked statements gave {stacked:?}", attempt.name));
                }
            }
            let answer = by_query(&engine, &branch, several(attempt.steps)).await;
            judge(&mut complaints, (attempt.name, policy, "query"), expect, answer);
            let changed = differences(&before, &state(&admin).await);
            if !changed.is_empty() {
                complaints.push(format!("{} ({policy}) changed: {changed:?}", attempt.name));
                engine.reset(&branch.name).await.expect("a branch that was damaged is reset");
                admin = administrator(&engine, &branch).await;
            }
        }
        let fresh = administrator(&engine, &branch).await;
        assert_eq!(
            differences(&before, &state(&fresh).await),
            Vec::<String>::new(),
            "a fresh look at {policy}"
        );
    }
    assert!(
        complaints.is_empty(),
        "PostgreSQL {major}: {} complaints:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
    engine.close().await.expect("close");
}

/// Invariant: a policy forbids no more than it says; each path on a branch of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_policy_allows_works_on_both_paths() {
    for major in majors() {
        what_is_allowed_works(major).await;
    }
}

async fn what_is_allowed_works(major: u32) {
    let (_home, engine) = home_of(major).await;
    let mut complaints = Vec::new();
    for policy in Policy::ALL {
        let wired = lease(&engine, &format!("wire-{policy}"), policy).await;
        let queried = lease(&engine, &format!("query-{policy}"), policy).await;
        for (attempt, expect) in expectations(policy).filter(|(_, expect)| *expect == Yes) {
            let answer = wire(&wired, "", &attempt.steps.join("; ")).await.map(drop);
            judge(&mut complaints, (attempt.name, policy, "wire"), expect, answer);
            // The query path has no place for COMMIT, whatever the policy.
            let expect = if attempt.steps.contains(&"commit") { No } else { expect };
            let answer = by_query(&engine, &queried, several(attempt.steps)).await;
            judge(&mut complaints, (attempt.name, policy, "query"), expect, answer);
            // A role or setting of the resident session would follow into the next attempt.
            for reset in ["reset role", "reset all"] {
                by_query(&engine, &queried, text(reset)).await.expect("reset");
            }
        }
    }
    assert!(
        complaints.is_empty(),
        "PostgreSQL {major}: {} complaints:\n{}",
        complaints.len(),
        complaints.join("\n")
    );
    engine.close().await.expect("close");
}

/// Bypass: connecting to a branch as the role of another policy, as the source's superuser, or to the other databases
/// of the same server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_admits_its_own_role_alone_and_to_other_databases_only_if_asked() {
    let (_home, engine) = home_of(majors()[0]).await;
    for policy in Policy::ALL {
        let branch = lease(&engine, &format!("closed-{policy}"), policy).await;
        for database in ["postgres", "template1", "all", "nothing"] {
            let mut other = config(&branch);
            other.dbname(database);
            let refused =
                connect(&other).await.err().unwrap_or_else(|| panic!("{policy}: {database} is open"));
            let code = refused.code().map(|code| code.code().to_owned());
            assert_eq!(code.as_deref(), Some("28000"), "{policy}: {database}: {refused}");
        }
        connect(&config(&branch)).await.expect("its own database");
        engine.destroy(&format!("closed-{policy}")).expect("destroy");
    }
    let all = ChangeSettings { all_databases: Some(true), ..ChangeSettings::default() };
    engine.change_settings("app", all).await.expect("the setting");
    for policy in Policy::ALL {
        let branch = lease(&engine, &format!("door-{policy}"), policy).await;
        let others = Policy::ALL.iter().map(Policy::role).filter(|role| *role != policy.role());
        for role in others.chain(["postgres", "app", "duramen_owner", "nobody"]) {
            let mut other = config(&branch);
            other.user(role);
            let refused = connect(&other).await.err().unwrap_or_else(|| panic!("{policy}: {role} came in"));
            let code = refused.code().map(|code| code.code().to_owned());
            assert_eq!(code.as_deref(), Some("28000"), "{policy}: {role}: {refused}");
        }
        for database in ["postgres", "template1"] {
            let mut other = config(&branch);
            other.dbname(database);
            let client = connect(&other).await.expect("the database can be reached");
            client.batch_execute("set default_transaction_read_only = off").await.expect("set");
            let temporary = client.batch_execute("create temporary table x (y int)").await;
            assert_eq!(temporary.is_ok(), policy != Policy::ReadOnly, "{policy}: TEMP in {database}");
            let table = client.batch_execute("create table public.x (y int)").await;
            assert_eq!(table.is_ok(), policy == Policy::Ddl, "{policy}: DDL in {database}");
            let large = client.batch_execute("select lo_create(0)").await;
            assert_eq!(large.is_ok(), policy != Policy::ReadOnly, "{policy}: large object in {database}");
        }
    }
    engine.close().await.expect("close");
}
