//! Running functions rehearsed in a branch: `duramen fn worker --branch`. The origin is a server with instances in
//! flight whose worker was killed. F-28: nothing reaches outside, whatever the instances want.

use crate::{
    common::{one, rows, Server, OWNER},
    functions_cli::shell::Shell,
    http_door::Site,
    support::{connect, duramen, settle, text, until, wire, Home},
};
use duramen_api::model::{AddSource, CreateBranch, Origin, Policy, PoolSize, SourceSettings};
use duramen_api::token::Role;
use duramen_client::Connection;
use duramen_functions::schema;
use serde_json::{json, Value};
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    net::TcpListener,
    process::{Child, Stdio},
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc,
    },
};
use tokio::runtime::Handle;
use tokio_postgres::Client;

const SHOP: &str = "shop";
const LABELS: [&str; 4] = ["http", "middle", "sleep", "task"];

/// A web service that takes calls and never answers.
struct Silent {
    port: u16,
    calls: Arc<AtomicUsize>,
}

impl Silent {
    fn start() -> Silent {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let calls: Arc<AtomicUsize> = Arc::default();
        let counted = Arc::clone(&calls);
        std::thread::spawn(move || {
            let mut open = Vec::new();
            for stream in listener.incoming() {
                counted.fetch_add(1, Ordering::SeqCst);
                open.push(stream);
            }
        });
        Silent { port, calls }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

/// A server with one instance that waits for the service, one in the middle of its steps, one that sleeps and one with a task.
async fn origin(service: &Silent) -> Server {
    let server = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let admin = server.connect(OWNER, "postgres").await;
    for sql in [
        "CREATE DATABASE shop TEMPLATE template0",
        "CREATE ROLE alice LOGIN",
        "ALTER DATABASE shop SET df.http = 'on'",
        "ALTER DATABASE shop SET df.http_allowed_hosts = '127.0.0.1'",
        "ALTER DATABASE shop SET df.http_allow_private = 'on'",
    ] {
        admin.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }
    let url = server.url(OWNER, SHOP);
    schema::install(&url).await.unwrap();
    let owner = server.connect(OWNER, SHOP).await;
    owner
        .batch_execute(
            "CREATE TABLE public.ledger (entry text); GRANT ALL ON public.ledger TO alice;
             SELECT df.grant_usage('alice', include_http => true);
             GRANT USAGE ON SCHEMA df TO pg_execute_server_program",
        )
        .await
        .unwrap();
    let worker = Shell::new(&url).worker(&[]);
    let alice = server.connect("alice", SHOP).await;
    let enter = |what: &str| format!("'INSERT INTO public.ledger VALUES (''{what}'')'");
    let call =
        format!("df.http('http://127.0.0.1:{}/pay', 'POST', 'x', '{{}}', 600) |=> 'paid'", service.port);
    // F-30: what a user of the source wrote may find a way to whoever the session is of.
    let as_whom =
        "'INSERT INTO public.ledger SELECT CASE WHEN r.rolsuper THEN ''a superuser'' ELSE ''second'' END \
                   FROM pg_roles r WHERE r.rolname = session_user'";
    for (label, graph) in [
        ("http", format!("{call} ~> 'INSERT INTO public.ledger VALUES ($paid.body)'")),
        ("middle", format!("{} ~> 'SELECT pg_sleep(3)' ~> {as_whom}", enter("first"))),
        ("sleep", format!("df.sleep(20) ~> {}", enter("slept"))),
        ("task", format!("df.task('resize', '{{}}') ~> {}", enter("resized"))),
    ] {
        alice.batch_execute(&format!("SELECT df.start({graph}, '{label}')")).await.unwrap();
    }
    until("the service is called", async || service.calls() == 1).await;
    let halfway = "SELECT count(*) FROM df._activity WHERE owner IS NOT NULL AND kind = 'sql'";
    until("a step is halfway", async || one(&owner, halfway).await.as_deref() == Some("1")).await;
    until("a task waits", async || {
        one(&owner, "SELECT count(*) FROM df._task").await.as_deref() == Some("1")
    })
    .await;
    // It is killed.
    drop(worker);
    server
}

/// All that moves when instances do.
async fn state(owner: &Client) -> Vec<Vec<Option<String>>> {
    let sql = "SELECT w.seq::text, w.state::text, w.updated_at::text FROM df._work w
        UNION ALL SELECT a.seq::text, a.payload::text, a.attempt::text FROM df._activity a
        UNION ALL SELECT d.seq::text, d.status::text, d.output::text FROM df._done d
        UNION ALL SELECT t.seq::text, t.attempt::text, t.ended_at::text FROM df._task t
        UNION ALL SELECT '', m.identity, m.external FROM df._meta m
        UNION ALL SELECT '', l.entry, '' FROM public.ledger l ORDER BY 1, 2, 3";
    rows(owner, sql).await
}

/// Makes a source of the files of the server, which is stopped meanwhile.
async fn add(connection: &mut Connection, server: &Server) {
    let request = AddSource {
        name: "app".to_owned(),
        origin: Origin::DataDirectory { path: server.socket_dir().join("data").display().to_string() },
        database: Some(SHOP.to_owned()),
        settings: SourceSettings {
            pool: PoolSize { hot: [(Policy::ReadWrite, 1)].into(), cold: 1 },
            ..SourceSettings::default()
        },
    };
    let import = connection.add_source(&request, |_, _| {});
    let import = || tokio::task::block_in_place(|| Handle::current().block_on(import));
    server.while_stopped(import).expect("the import");
    settle(connection).await;
}

async fn branch(connection: &mut Connection, name: &str) {
    let request = CreateBranch { name: Some(name.to_owned()), ..CreateBranch::default() };
    connection.create_branch(&request).await.expect("a branch");
}

/// How each instance of a branch has ended, and its ledger.
async fn ends(connection: &mut Connection, name: &str) -> (Vec<String>, Vec<String>) {
    let client = wire(&connection.administrator_url(name).await.unwrap().url).await;
    let ends = rows(&client, "SELECT label || ' ' || status FROM df.instances ORDER BY 1").await;
    let ledger = rows(&client, "SELECT entry FROM public.ledger ORDER BY 1").await;
    let first = |rows: Vec<Vec<Option<String>>>| {
        rows.into_iter().map(|row| row.into_iter().next().flatten().unwrap_or_default()).collect()
    };
    (first(ends), first(ledger))
}

/// A worker as a process, once it is ready.
struct Working {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Working {
    fn start(home: &Home, arguments: &[&str]) -> Working {
        let mut command = home.command(&[&["fn", "worker"], arguments].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert!(line.starts_with("worker ready: "), "{line}");
        Working { child, out }
    }

    /// What it says at its end, and its exit status.
    fn end(mut self) -> (Option<i32>, String) {
        let (mut said, mut error) = (String::new(), String::new());
        self.out.read_to_string(&mut said).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        (self.child.wait().unwrap().code(), said + &error)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn running_functions_end_in_a_branch_and_neither_move_nor_reach_anything_outside() {
    let service = Silent::start();
    let server = origin(&service).await;
    let owner = server.connect(OWNER, SHOP).await;
    let before = state(&owner).await;
    drop(owner);
    let home = Home::new();
    let daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    add(&mut connection, &server).await;
    branch(&mut connection, "try").await;

    let answers = home.beside("answers.toml");
    let toml = "[[answers]]\nhttp = \"POST http://127.0.0.1:*/pay\"\nbody = \"paid in the branch\"\n\
                [[answers]]\ntask = \"resize\"\nresult = { ok = true }\n";
    fs::write(&answers, toml).unwrap();
    let answers = answers.display().to_string();
    let work = |more: &[&str]| home.run(&[&["fn", "worker"], more].concat());
    let output = work(&[
        "--branch",
        "try",
        "--external=stub",
        "--answers",
        &answers,
        "--answers-strict",
        "--until-idle",
        "--json",
    ]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = text(&output.stdout);
    let ended: Value = serde_json::from_str(said.split_once('\n').unwrap().1).unwrap();
    assert_eq!(
        ended,
        json!({"completed": 4, "failed": 0, "cancelled": 0, "waiting": 0, "failures": []}),
        "{output:?}"
    );
    assert!(text(&output.stderr).contains("has adopted 4 instances"), "{output:?}");
    let (found, ledger) = ends(&mut connection, "try").await;
    assert_eq!(found, LABELS.map(|label| format!("{label} completed")));
    assert_eq!(ledger, ["first", "paid in the branch", "resized", "second", "slept"]);
    // F-30: who is called a submitter in the source need not be one.
    let client = wire(&connection.administrator_url("try").await.unwrap().url).await;
    let members =
        "SELECT string_agg(m.rolname, ' ') FROM pg_roles m WHERE NOT m.rolsuper AND m.rolname !~ '^pg_' \
                   AND pg_has_role(m.oid, 'pg_execute_server_program', 'MEMBER')";
    assert_eq!(one(&client, members).await, None);
    drop(client);

    // One that has ended is done again from a step on.
    let client = wire(&connection.administrator_url("try").await.unwrap().url).await;
    let fork =
        "ALTER ROLE alice LOGIN; SET ROLE alice; SELECT df.fork(id, 'paid', label => 'again') FROM df.instances WHERE label = 'http'";
    client.batch_execute(fork).await.unwrap();
    drop(client);
    let output = work(&["--branch", "try", "--external=stub", "--answers", &answers, "--until-idle"]);
    let said = text(&output.stdout);
    assert!(output.status.code() == Some(0) && said.contains("idle: 1 completed, 0 failed"), "{output:?}");
    let (found, ledger) = ends(&mut connection, "try").await;
    assert!(found.contains(&"again completed".to_owned()), "{found:?}");
    assert_eq!(ledger.iter().filter(|entry| *entry == "paid in the branch").count(), 2, "{ledger:?}");

    // What has been decided stays so.
    let output = work(&["--branch", "try", "--external=skip", "--until-idle"]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("was adopted with --external=stub"), "{said}");

    // A failure is told, in words and by the exit status; what is written in JSON is read, too.
    branch(&mut connection, "two").await;
    let refusing = home.beside("answers.json");
    fs::write(&refusing, r#"{"answers": [{"http": "*", "error": "the card was declined"}]}"#).unwrap();
    let refusing = refusing.display().to_string();
    let output = work(&["--branch", "two", "--external=stub", "--answers", &refusing, "--until-idle"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said.contains("idle: 3 completed, 1 failed, 0 cancelled, 0 still waiting"), "{said}");
    assert!(said.contains("\"http\": the card was declined"), "{said}");

    // The branch goes while a worker works in it.
    let working = Working::start(&home, &["--branch", "two", "--external=stub"]);
    connection.reset_branch("two").await.unwrap();
    let (code, said) = working.end();
    assert!(code == Some(1) && said.contains("it was put back"), "{code:?}: {said}");
    let working = Working::start(&home, &["--branch", "two", "--external=stub"]);
    connection.destroy_branch("two").await.unwrap();
    let (code, said) = working.end();
    assert!(code == Some(1) && said.contains("branch \"two\" was destroyed"), "{code:?}: {said}");

    // Nothing of it is the original's.
    assert_eq!(service.calls(), 1, "F-28: only the original has called");
    assert_eq!(state(&server.connect(OWNER, SHOP).await).await, before);
    let evidence = connection.evidence("try", None).await.unwrap();
    assert_eq!(evidence.snapshot_digest, evidence.snapshot_digest_now);

    // Whoever may define something works there as well, and who may only read does not.
    for (name, policy) in [("open", Policy::Ddl), ("shut", Policy::ReadOnly)] {
        let request =
            CreateBranch { name: Some(name.to_owned()), policy: Some(policy), ..CreateBranch::default() };
        connection.create_branch(&request).await.expect("a branch");
    }
    let output = work(&["--branch", "open", "--external=stub", "--answers", &answers, "--until-idle"]);
    assert!(text(&output.stdout).contains("idle: 4 completed, 0 failed"), "{output:?}");

    // What is said wrongly changes nothing.
    branch(&mut connection, "three").await;
    let bad = home.beside("bad.toml");
    fs::write(&bad, "[[answers]]\ntask = \"x\"\n").unwrap();
    let bad = bad.display().to_string();
    for (arguments, status, word) in [
        (&["--branch", "three"][..], 2, "--external"),
        (&["--external=stub"], 2, "--branch"),
        (&["--branch", "three", "--external=skip", "--answers", "record"], 2, "--external=stub"),
        (&["--branch", "three", "--external=stub", "--answers", &bad], 2, "answer 1"),
        (&["--branch", "three", "--external=stub", "--answers", "/no/such"], 1, "/no/such"),
        (&["--branch", "three", "--external=stub", "--url", "postgres://x@/y"], 2, "--url"),
        (&["--branch", "four", "--external=stub"], 1, "four"),
        (&["--branch", "shut", "--external=stub"], 2, "--policy ddl"),
    ] {
        let output = work(arguments);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(status) && said.contains(word), "{arguments:?}: {said}");
    }
    let client = wire(&connection.administrator_url("three").await.unwrap().url).await;
    let rule = "SELECT coalesce(external, 'none') FROM df._meta";
    assert_eq!(one(&client, rule).await.as_deref(), Some("none"));
    drop(client);
    daemon.stop().await.unwrap();
    assert_eq!(home.left_overs(), Vec::<String>::new());
    // The daemon that is gone cannot be asked.
    let output = duramen(&home.path(), &["fn", "worker", "--branch", "try", "--external=stub"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

/// F-30: the holder of a token gets no rights that the token does not give.
#[tokio::test(flavor = "multi_thread")]
async fn a_rehearsal_gives_the_holder_of_a_token_nothing() {
    let mut site = Site::open().await;
    site.add_source("app").await;
    let who = site.token("ci", Role::User, &["app"]).await;
    let made = who.post("/v1/branches", r#"{"name": "theirs", "source": "app"}"#);
    assert_eq!(made.status, 200, "{made:?}");
    let output =
        site.home.run(&["fn", "worker", "--branch", "theirs", "--external=skip", "--allow-superuser"]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("leased by the holder of a token"), "{said}");
    let client = wire(&site.connection.administrator_url("theirs").await.unwrap().url).await;
    let owners = "SELECT count(*) FROM pg_auth_members a JOIN pg_roles m ON m.oid = a.member \
                  WHERE m.rolname = 'duramen_write' AND a.roleid = 'duramen_owner'::regrole";
    assert_eq!(one(&client, owners).await.as_deref(), Some("0"));
    drop(client);
    site.daemon.stop().await.unwrap();
}
