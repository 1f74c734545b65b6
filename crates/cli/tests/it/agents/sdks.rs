//! Agents with the official SDKs of the protocol. Of a tier of its own, because it fetches them: `make test-clients`.

use crate::support::{add_script, connect, settle, text, Home, EXE};
use duramen_api::token::CreateToken;
use std::{
    path::{Path, PathBuf},
    process::Command,
};

const PYTHON: &str = "mcp>=2.3,<3";
const NODE: &str = "@modelcontextprotocol/sdk@1";

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_others_speak_the_protocol() {
    if std::env::var_os("DURAMEN_TEST_CLIENTS").is_none() {
        eprintln!("skipped: DURAMEN_TEST_CLIENTS is not set");
        return;
    }
    let home = Home::new();
    let daemon = home.serve_with(&["--pg-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"]).await;
    let mut connection = connect(&daemon).await;
    let table = "create table t (x int); insert into t select generate_series(1, 100);";
    add_script(&home, &mut connection, table, 2, 0).await;
    settle(&mut connection).await;
    let wanted = CreateToken { name: "ci".to_owned(), ..CreateToken::default() };
    let token = connection.create_token(&wanted).await.expect("a token");
    let token = format!("ci:{}", token.secret);
    let door = connection.doors().await.expect("the doors").http.expect("it listens").address;
    let url = format!("http://{door}/mcp");

    let folder = tempfile::tempdir().expect("a folder");
    let venv = folder.path().join("venv");
    run(Command::new("python3").args(["-m", "venv"]).arg(&venv));
    run(Command::new(venv.join("bin/pip")).args(["install", "-q", PYTHON]));
    let node = folder.path().join("node");
    std::fs::create_dir(&node).expect("a folder");
    run(Command::new("npm")
        .args(["install", "--silent", "--no-audit", "--no-fund", NODE])
        .current_dir(&node));

    for (runtime, name) in [(venv.join("bin/python"), "agent.py"), (PathBuf::from("node"), "agent.mjs")] {
        let agent = || {
            let mut command = Command::new(&runtime);
            command.arg(program(name)).current_dir(&node);
            command
        };
        let home = home.path().display().to_string();
        let said = run(agent().args(["stdio", "app", "by-stdio", EXE, "--home", &home, "mcp"]));
        assert_eq!(said, "stdio: ok\n", "{name}");
        assert_eq!(run(agent().args(["http", "app", "by-http", &url, &token])), "http: ok\n", "{name}");
    }
    daemon.stop().await.expect("it stops in order");
    assert_eq!(home.left_overs(), Vec::<String>::new());
}
