//! `duramen change apply --durable` on real servers with durable functions: invariants C13 to C19.

use crate::{
    carried::{parts, run, text, Server},
    functions_cli::shell::{said, Shell, Worker},
    support::until,
};
use duramen_carry::{apply, ApplyOptions, ChangeSet, Outcome};
use duramen_functions::schema;
use rustix::process::{kill_process, Pid, Signal};
use serde_json::Value;
use std::{
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};
use tokio_postgres::Client;

const SETUP: &str = "
create table customer (id int primary key, name text);
insert into customer select i, 'c' || i from generate_series(1, 100) i;
create table orders (id bigint generated always as identity primary key, customer int not null references customer, state text not null,
  total numeric, data json, mood text[]);
insert into orders (customer, state, total, data, mood) select i % 100 + 1, 'new', i / 3.0, '{\"a\" : 1}', array['x', null] from generate_series(1, 2000) i;
create table notes (body text, n int);
insert into notes select 'note ' || i % 10, i % 3 from generate_series(1, 90) i;
create table \"odd \"\"name; drop table notes --\" (\"a b\" int primary key, \"$run$\" varchar(20), \"{{home}}\" date);
insert into \"odd \"\"name; drop table notes --\" values (1, '$run$', '2026-01-01'), (2, null, null);
create sequence ticket;
";

const WORK: &[&str] = &[
    "insert into customer values (500, E'$outcome {{home}} \\\\N\\t'' ; drop schema df --')",
    "insert into orders (customer, state, data) values (500, 'fresh', '{\"q\": \"''$$\"}'), (500, 'fresh', null)",
    "update orders set state = 'paid' where id % 100 = 7",
    "update orders set total = null, mood = '{}' where id % 100 = 9",
    "delete from orders where id between 20 and 29",
    "delete from customer where id = 100 and not exists (select from orders where customer = 100)",
    "delete from notes where ctid in (select ctid from notes where body = 'note 1' order by ctid limit 2)",
    "insert into notes values (E'tab\\there \\\\.', null), ('note 3', 0)",
    "update \"odd \"\"name; drop table notes --\" set \"$run$\" = E'$run$ \\\\ ''', \"{{home}}\" = '1999-12-31' where \"a b\" = 2",
    "select nextval('ticket'), nextval('ticket')",
];

/// A database of its own with durable functions, and a worker's role that is no superuser.
struct Target<'a> {
    server: &'a Server,
    name: String,
    role: String,
}

impl Target<'_> {
    async fn new<'a>(server: &'a Server, template: &str) -> Target<'a> {
        let name = server.copy(template).await;
        let admin = server.connect(&name).await;
        let role = format!("app_{name}");
        run(&admin, &format!("create role {role} login; grant create on database {name} to {role}")).await;
        run(
            &admin,
            &format!(
                "do $$ declare t record; begin for t in select c.oid::regclass as name, c.relkind from pg_class c where c.relnamespace = 'public'::regnamespace \
                   and c.relkind in ('r', 'S') and not exists (select from pg_depend d where d.objid = c.oid and d.deptype in ('a', 'i') and c.relkind = 'S') \
                 loop execute format('alter %s %s owner to {role}', case t.relkind when 'S' then 'sequence' else 'table' end, t.name); end loop; end $$"
            ),
        )
        .await;
        let url = url(server, "postgres", &name);
        let worker = schema::WorkerRole { name: format!("worker_{name}"), submitters: vec![role.clone()] };
        schema::install_for(&url, Some(&worker)).await.unwrap();
        Target { server, name, role }
    }

    fn url(&self) -> String {
        url(self.server, &self.role, &self.name)
    }

    /// The database as the role enters it.
    fn own(&self) -> duramen_postgres::connection::Target {
        self.server.target_as(&self.role, &self.name)
    }

    async fn admin(&self) -> Client {
        self.server.connect(&self.name).await
    }

    fn worker(&self) -> Worker {
        let shell = Shell::new(&url(self.server, &format!("worker_{}", self.name), &self.name));
        shell.worker_with(&[], |_| {})
    }

    /// The schema of what was brought, if there is one.
    async fn home(&self) -> Option<String> {
        let sql = "select max(nspname::text) from pg_namespace where nspname ~ '^duramen_change_'";
        Some(text(&self.admin().await, sql).await).filter(|name| !name.is_empty())
    }

    async fn is_as(&self, other: &str) -> bool {
        let told = parts(&self.server.connect(other).await, &self.admin().await).await;
        let rows = told.iter().filter(|part| !matches!(part, duramen_changes::Part::Summary(_)));
        // Sequences are only moved on.
        let mut rows = rows.filter(|part| !matches!(part, duramen_changes::Part::Sequence(_)));
        rows.all(|part| match part {
            duramen_changes::Part::Table(table) => table.schema == "df" || table.schema.starts_with("df_"),
            _ => true,
        }) && digest(&self.admin().await).await == digest(&self.server.connect(other).await).await
    }

    async fn applied(&self) -> i64 {
        let found = self.admin().await.query_one("select count(*) from duramen.applied_changes", &[]).await;
        found.unwrap().get(0)
    }
}

/// What all tables hold.
async fn digest(client: &Client) -> Vec<(String, String)> {
    let sql = "select c.oid::regclass::text from pg_class c where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace order by 1";
    let mut all = Vec::new();
    for row in client.query(sql, &[]).await.unwrap() {
        let name: String = row.get(0);
        let held = format!(
            "select md5(coalesce(string_agg(t::text, '|' order by t::text collate \"C\"), '')) from {name} t"
        );
        all.push((name, text(client, &held).await));
    }
    all
}

fn url(server: &Server, role: &str, database: &str) -> String {
    let socket = server.socket();
    let (dir, port) = (socket.parent().unwrap(), socket.extension().unwrap().to_str().unwrap().to_owned());
    format!(
        "postgres://{role}@/{database}?host={}&port={port}",
        dir.display().to_string().replace('/', "%2F")
    )
}

fn command(file: &Path, url: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duramen"));
    command
        .env_remove("DURAMEN_HOME")
        .args(["--json", "change", "apply"])
        .arg(file)
        .args(["--to", url])
        .args(more);
    command.stdin(Stdio::null());
    command
}

fn durable(file: &Path, target: &Target<'_>, more: &[&str]) -> Output {
    command(file, &target.url(), &[&["--durable"], more].concat()).output().unwrap()
}

fn told(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(output)))
}

/// C13, C14, C16, C17: all of it, once, whatever names and values it has; both ways to apply know of each other; nothing is left; a
/// worker's role that is no superuser does it as the role that asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_set_is_done_by_a_worker_once() {
    let server = Server::start();
    let [source, branch, _] = server.three(SETUP, WORK).await;
    let file = server.file(&source, &branch).await;
    let target = Target::new(&server, &source).await;
    // Whoever runs triggers is the role that asked, and cannot become the worker.
    let admin = target.admin().await;
    run(
        &admin,
        "create table seen (who text, session text, path text, reset text); grant insert on seen to public; \
         create function look() returns trigger language plpgsql as $$ declare said text := 'no'; begin \
           begin reset role; said := 'yes'; exception when others then said := sqlstate; end; \
           insert into public.seen values (current_user, session_user, current_setting('search_path'), said); return null; end $$; \
         create trigger looking after insert on customer for each row execute function look()",
    )
    .await;
    let triggers = durable(&file, &target, &["--wait", "0"]);
    assert!(triggers.status.code() == Some(1) && said(&triggers).contains("triggers"), "{}", said(&triggers));
    assert_eq!(target.home().await, None, "nothing was brought");

    let brought = durable(&file, &target, &["--triggers", "fire", "--wait", "0"]);
    assert_eq!(
        (brought.status.code(), &told(&brought)["status"]),
        (Some(0), &"brought".into()),
        "{}",
        said(&brought)
    );
    let instance = told(&brought)["instance"].as_str().unwrap().to_owned();
    let again = durable(&file, &target, &["--triggers", "fire", "--wait", "1s"]);
    assert_eq!(
        (again.status.code(), &told(&again)["instance"]),
        (Some(1), &instance.clone().into()),
        "it goes on"
    );
    let shell = Shell::new(&target.url());
    let label = format!("change set {}", told(&brought)["digest"].as_str().unwrap());
    assert!(shell.json(&["list"]).to_string().contains(&label), "fn list shows it");

    // C15: the rows are the role's alone.
    let home = target.home().await.expect("it was brought");
    run(&admin, "create role somebody login; grant usage on schema public to somebody").await;
    let somebody = server.connect_as("somebody", &target.name).await;
    for sql in [
        format!("select * from {home}.duramen_new_0"),
        format!("select {home}.run()"),
        format!("select * from {home}.plan"),
    ] {
        let refused = somebody.batch_execute(&sql).await.unwrap_err();
        assert_eq!(refused.code().unwrap().code(), "42501", "{sql}");
    }

    // Whoever comes when a worker has done it is told that it was done before.
    let mut waiting = command(&file, &target.url(), &["--durable", "--triggers", "fire"]);
    let waiting = waiting.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the client waits", async || {
        let sql = format!(
            "select count(*)::text from pg_stat_activity where usename = '{}' and query like '%df.status%'",
            target.role
        );
        text(&admin, &sql).await != "0"
    })
    .await;
    let mut worker = target.worker();
    let done = waiting.wait_with_output().unwrap();
    let outcome = told(&done);
    assert_eq!(
        (done.status.code(), outcome["status"].as_str()),
        (Some(0), Some("applied")),
        "{}",
        said(&done)
    );
    assert_eq!(
        (&outcome["inserted"], &outcome["deleted"], &outcome["updated"]),
        (&5.into(), &12.into(), &41.into()),
        "{outcome}"
    );
    let seen = admin.query("select who, reset, path, session from seen", &[]).await.unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!(
        (seen[0].get::<_, String>(0), seen[0].get::<_, String>(1)),
        (target.role.clone(), "42501".to_owned())
    );
    assert_ne!(seen[0].get::<_, String>(2), "pg_catalog, pg_temp", "triggers have the role's own path");
    run(&admin, "drop trigger looking on customer; drop function look(); drop table seen").await;
    assert!(target.is_as(&branch).await);
    assert_eq!(text(&admin, "select last_value::text from ticket").await, "2");
    assert_eq!((target.home().await, target.applied().await), (None, 1), "nothing is left");
    assert_eq!(text(&admin, "select applied_by from duramen.applied_changes").await, target.role);

    // C14.
    let again = durable(&file, &target, &[]);
    assert_eq!((again.status.code(), &told(&again)["status"]), (Some(0), &"already-applied".into()));
    let ordinary = command(&file, &target.url(), &[]).output().unwrap();
    assert_eq!((ordinary.status.code(), &told(&ordinary)["status"]), (Some(0), &"already-applied".into()));
    worker.signal(Signal::TERM);
    worker.end();
    assert_eq!(digest(&admin).await, digest(&server.connect(&branch).await).await);
}

/// C13, C18: what is not as it was is told as it is by an application from outside, and nothing is changed; also if it is changed between the
/// bringing and the applying, and if definitions are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_as_it_was_is_told_and_nothing_is_changed() {
    let server = Server::start();
    let [source, branch, _] = server.three(SETUP, WORK).await;
    let file = server.file(&source, &branch).await;
    let set = ChangeSet::open(&file).unwrap();
    for (upset, is_of_rows) in [
        ("update orders set total = 77 where id = 107", true),
        ("update orders set customer = 3, state = 'x' where id in (7, 9, 21); delete from orders where id = 22", true),
        ("insert into customer values (500, 'mine')", true),
        ("delete from notes where body = 'note 1'", true),
        ("insert into item values (1, 25)", true),
        ("alter table orders drop column mood", false),
        ("create function f() returns trigger language plpgsql as 'begin return null; end'; create trigger late before insert on notes execute function f()", false),
        ("alter table customer drop constraint customer_pkey cascade", false),
    ] {
        let target = Target::new(&server, &source).await;
        let other = "create table item (id int primary key, o bigint references orders on delete cascade); \
            grant select on item to public";
        run(&target.admin().await, other).await;
        let brought = durable(&file, &target, &["--wait", "0"]);
        assert_eq!(told(&brought)["status"], "brought", "{upset}: {}", said(&brought));
        run(&target.admin().await, upset).await;
        let before = digest(&target.admin().await).await;
        let mut worker = target.worker();
        let done = durable(&file, &target, &[]);
        assert_eq!(done.status.code(), Some(1), "{upset}: {}", said(&done));
        assert_eq!(digest(&target.admin().await).await, before, "{upset}");
        assert_eq!((target.home().await, target.applied().await), (None, 0), "{upset}");
        // Whoever asks may see what is defined otherwise before the plan is compared, and tells it as an application from outside does.
        if is_of_rows || said(&done).contains("\"conflicts\"") {
            let outside = apply(&set, &target.own(), &ApplyOptions::default()).await.unwrap_err();
            let duramen_carry::ApplyError::Conflicts { conflicts, .. } = outside else { panic!("{upset}: {outside}") };
            assert_eq!(told(&done)["conflicts"], serde_json::to_value(&conflicts).unwrap(), "{upset}");
        } else {
            let is_trigger = upset.contains("create trigger") && said(&done).contains("have triggers");
            assert!(is_trigger || said(&done).contains("defined otherwise"), "{upset}: {}", said(&done));
        }
        // What stands in the way is gone: the same command does it.
        if upset.starts_with("update orders set total") {
            run(&target.admin().await, "update orders set total = 107 / 3.0 where id = 107").await;
            let done = durable(&file, &target, &[]);
            assert_eq!(told(&done)["status"], "applied", "{}", said(&done));
            run(&target.admin().await, "drop table item").await;
            assert!(target.is_as(&branch).await);
        }
        worker.signal(Signal::TERM);
        worker.end();
    }
}

/// C13, C14: triggers are off where that is asked for, and fire again afterwards; and what was brought goes when the change set was applied from
/// outside.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn triggers_are_off_where_that_is_asked_for_and_what_is_not_needed_goes() {
    let server = Server::start();
    let [source, branch, _] = server.three(SETUP, WORK).await;
    let file = server.file(&source, &branch).await;
    let target = Target::new(&server, &source).await;
    let admin = target.admin().await;
    run(
        &admin,
        "create function undo() returns trigger language plpgsql as $$ begin return null; end $$; \
         create trigger undoing before update or insert or delete on orders for each row execute function undo(); \
         create trigger always before insert on notes for each row execute function undo(); \
         alter table notes enable always trigger always",
    )
    .await;
    // A trigger that has other rows come about is told of, and nothing is changed.
    let before = digest(&admin).await;
    let mut worker = target.worker();
    let fired = durable(&file, &target, &["--triggers", "fire"]);
    assert!(fired.status.code() == Some(1) && said(&fired).contains("--triggers off"), "{}", said(&fired));
    assert_eq!((digest(&admin).await, target.home().await, target.applied().await), (before, None, 0));
    let done = durable(&file, &target, &["--triggers", "off"]);
    assert_eq!(told(&done)["status"], "applied", "{}", said(&done));
    let states = "select string_agg(tgname || tgenabled::text, ' ' order by tgname) from pg_trigger where not tgisinternal and tgrelid in ('orders'::regclass, 'notes'::regclass)";
    assert_eq!(text(&admin, states).await, "alwaysA undoingO");
    run(&admin, "drop trigger undoing on orders; drop trigger always on notes").await;
    assert!(target.is_as(&branch).await);
    worker.signal(Signal::TERM);
    worker.end();

    // Brought, and applied from outside before any worker came.
    let target = Target::new(&server, &source).await;
    let brought = told(&durable(&file, &target, &["--wait", "0"]));
    assert_eq!(brought["status"], "brought");
    let ordinary = command(&file, &target.url(), &[]).output().unwrap();
    assert_eq!(told(&ordinary)["status"], "applied", "{}", said(&ordinary));
    assert!(target.home().await.is_some());
    // No instance will see to it.
    Shell::new(&target.url()).ok(&["cancel", brought["instance"].as_str().unwrap()]);
    let mut worker = target.worker();
    let again = durable(&file, &target, &[]);
    assert_eq!(told(&again)["status"], "already-applied", "{}", said(&again));
    crate::support::until("nothing is left", async || {
        durable(&file, &target, &[]);
        target.home().await.is_none()
    })
    .await;
    assert!(target.is_as(&branch).await);
    assert_eq!(target.applied().await, 1);
    worker.signal(Signal::TERM);
    worker.end();
}

const LARGE: &str = "create table big (id int primary key, v text, n int); insert into big select i, repeat('v', 60) || i, 0 from generate_series(1, 100000) i";

fn kill(child: &mut Child) {
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    let _ = kill_process(pid, Signal::KILL);
    child.wait().unwrap();
}

fn peak_kib(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// C13, C17, C19: 200,000 rows; the client is killed after each slice, then workers, then the server, and then it is done, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_killed_it_is_done_once() {
    let server = Server::start();
    let work = [
        "update big set n = 1, v = v || '!' where id <= 50000",
        "delete from big where id > 50000",
        "insert into big select i, repeat('w', 60) || i, 2 from generate_series(200001, 300000) i",
    ];
    let [source, branch, _] = server.three(LARGE, &work).await;
    let file = server.file(&source, &branch).await;
    let target = Target::new(&server, &source).await;
    let admin = target.admin().await;
    let (mut killed, mut peak) = (0, 0);
    let mut slices = 0_i64;
    loop {
        let mut child = command(&file, &target.url(), &["--durable", "--wait", "0"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let ended = loop {
            peak = peak.max(peak_kib(&child));
            if let Some(status) = child.try_wait().unwrap() {
                assert!(status.success(), "{status}");
                break true;
            }
            let done = match target.home().await {
                Some(home) => {
                    let found = admin.query_one(&format!("select done from {home}.progress"), &[]).await;
                    found.map_or(0, |row| row.get::<_, i64>(0))
                }
                None => 0,
            };
            if done > slices {
                slices = done;
                kill(&mut child);
                killed += 1;
                break false;
            }
        };
        assert_eq!(
            text(&admin, "select count(*)::text from big where n > 0").await,
            "0",
            "nothing is seen of it yet"
        );
        if ended {
            break;
        }
    }
    assert!(killed >= 10, "{killed} clients were killed; {slices} slices");
    assert!(peak < 400 << 10, "a client has {peak} KiB");
    eprintln!("{killed} clients killed after {slices} slices, at most {peak} KiB");

    // Workers, at any time; what they ran is taken up by the next one.
    for pause in [5, 50, 150, 300, 600, 900] {
        let worker = target.worker();
        tokio::time::sleep(Duration::from_millis(pause)).await;
        worker.signal(Signal::KILL);
        drop(worker);
        let some = text(&admin, "select count(*)::text from big where n > 0").await;
        assert!(some == "0" || some == "150000", "{some} of 150000 rows are seen");
    }
    // The server, under a worker that works on.
    let mut worker = target.worker();
    tokio::time::sleep(Duration::from_millis(400)).await;
    let backend: i32 = admin.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    kill_process(Pid::from_raw(backend).unwrap(), Signal::KILL).unwrap();
    let done = loop {
        let done = durable(&file, &target, &["--wait", "3m"]);
        // While it recovers it lets nobody in.
        if done.status.success() {
            break told(&done);
        }
        assert!(
            said(&done).contains("\"connect")
                || said(&done).contains("recovery")
                || said(&done).contains("onnect"),
            "{}",
            said(&done)
        );
        tokio::time::sleep(Duration::from_millis(300)).await;
    };
    assert!(["applied", "already-applied"].contains(&done["status"].as_str().unwrap()), "{done}");
    assert!(target.is_as(&branch).await);
    assert_eq!(target.applied().await, 1);
    crate::support::until("nothing is left", async || target.home().await.is_none()).await;
    worker.signal(Signal::TERM);
    worker.end();
}

/// C14: of an application from outside, two durable ones and another change set of the same rows, one wins, and the rest is told so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_at_a_time_one_wins() {
    let server = Server::start();
    let [source, branch, other] = server.three(SETUP, WORK).await;
    run(&server.connect(&other).await, "update orders set state = 'mine' where id = 7").await;
    let (file, rival) = (server.file(&source, &branch).await, server.file(&source, &other).await);
    for round in 0..4 {
        let target = Target::new(&server, &source).await;
        let mut worker = target.worker();
        let spawn = |file: &Path, more: &[&str]| {
            command(file, &target.url(), more).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let durables =
            [spawn(&file, &["--durable"]), spawn(&file, &["--durable"]), spawn(&rival, &["--durable"])];
        tokio::time::sleep(Duration::from_millis(round * 150)).await;
        let ordinary = spawn(&file, &[]);
        let mut outputs: Vec<Output> =
            durables.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
        let of_rival = outputs.remove(2);
        outputs.push(ordinary.wait_with_output().unwrap());
        let rival_won = of_rival.status.success();
        for output in &outputs {
            let status = told(output)["status"].as_str().unwrap_or_default().to_owned();
            let expected = if rival_won { &["conflicts"][..] } else { &["applied", "already-applied"] };
            assert!(expected.contains(&status.as_str()), "round {round}: {rival_won}: {}", said(output));
        }
        if !rival_won {
            assert_eq!(told(&of_rival)["status"], "conflicts", "{}", said(&of_rival));
        }
        assert_eq!(target.applied().await, 1);
        assert!(target.is_as(if rival_won { &other } else { &branch }).await, "round {round}");
        crate::support::until("nothing is left", async || target.home().await.is_none()).await;
        worker.signal(Signal::TERM);
        worker.end();
    }
}

/// C15, C16: whoever may not, and wherever it cannot be done safely, is told what to do, and nothing is begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_it_cannot_be_done_it_says_what_can() {
    let server = Server::start();
    let [source, branch, _] = server.three(SETUP, WORK).await;
    let file = server.file(&source, &branch).await;
    let refused = |output: &Output, says: &str| {
        assert!(output.status.code() == Some(1) && said(output).contains(says), "{says}: {}", said(output));
    };
    // Without durable functions.
    let bare = server.copy(&source).await;
    refused(
        &command(&file, &url(&server, "postgres", &bare), &["--durable"]).output().unwrap(),
        "duramen fn install",
    );
    // A schema of that name which somebody made to be called in.
    run(&server.connect(&bare).await, "create role evil; create role app login; create schema df authorization evil; create table df._meta (x int); \
        grant usage on schema df to public; \
        create function df.start(text, text) returns text language plpgsql as $$ begin create table public.fell_for_it (); return 'x'; end $$; \
        grant all on all tables in schema public to app").await;
    run(&server.connect(&bare).await, &format!("grant create on database {bare} to app")).await;
    refused(
        &command(&file, &url(&server, "app", &bare), &["--durable"]).output().unwrap(),
        "belongs to evil",
    );

    let target = Target::new(&server, &source).await;
    let admin = target.admin().await;
    // Statements are done with the rows or not at all.
    let other = server.copy(&source).await;
    run(&server.connect(&other).await, "alter table notes add column more text").await;
    refused(&durable(&server.file(&source, &other).await, &target, &[]), "without --durable");
    // Without the right to use them; to create schemas; to the rows.
    run(&admin, &format!("create role nobody_{0} login; create role reader_{0} login; grant select on all tables in schema public to nobody_{0}, reader_{0}; \
        select df.grant_usage('reader_{0}'); grant reader_{0} to worker_{0}", target.name)).await;
    let as_role = |role: &str| {
        command(&file, &url(&server, &format!("{role}_{}", target.name), &target.name), &["--durable"])
            .output()
            .unwrap()
    };
    refused(&as_role("nobody"), "grant_usage");
    refused(&as_role("reader"), "create schemas");
    // Somebody whom default privileges let into every schema of the role's.
    run(
        &admin,
        &format!(
            "create role peer_{0}; alter default privileges for role {1} grant usage on schemas to peer_{0}",
            target.name, target.role
        ),
    )
    .await;
    refused(&durable(&file, &target, &[]), "default privileges");
    assert_eq!(target.home().await, None);
    run(
        &admin,
        &format!(
            "alter default privileges for role {1} revoke usage on schemas from peer_{0}",
            target.name, target.role
        ),
    )
    .await;
    // Somebody else's schema in the way.
    let digest = told(&command(&file, &target.url(), &["--dry-run"]).output().unwrap())["digest"]
        .as_str()
        .unwrap()
        .to_owned();
    run(&admin, &format!("create schema duramen_change_{}", &digest[..32])).await;
    refused(&durable(&file, &target, &[]), "another role's");
    run(&admin, &format!("drop schema duramen_change_{}", &digest[..32])).await;
    // A role that loses its right meanwhile: nothing is changed, and with it the same command does it.
    let brought = durable(&file, &target, &["--wait", "0"]);
    assert_eq!(told(&brought)["status"], "brought", "{}", said(&brought));
    run(&admin, "alter table orders owner to postgres").await;
    let before = self::digest(&admin).await;
    let mut worker = target.worker();
    refused(&durable(&file, &target, &["--wait", "1m"]), "permission denied");
    assert_eq!((self::digest(&admin).await, target.applied().await), (before, 0));
    run(&admin, &format!("alter table orders owner to {}", target.role)).await;
    let done = durable(&file, &target, &["--wait", "1m"]);
    assert_eq!(told(&done)["status"], "applied", "{}", said(&done));
    assert!(target.is_as(&branch).await);
    worker.signal(Signal::TERM);
    worker.end();
    let set = ChangeSet::open(&file).unwrap();
    let outside = apply(&set, &target.own(), &ApplyOptions::default()).await.unwrap();
    assert!(matches!(outside, Outcome::AlreadyApplied(_)), "{outside:?}");
}
