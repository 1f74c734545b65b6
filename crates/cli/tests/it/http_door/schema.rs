//! The OpenAPI document is what the daemon does: a fuzzer of others (Schemathesis) makes requests from it, right and wrong ones,
//! and holds replies against it. Of the tier of `make test-clients`, because it is fetched.

use super::client::Site;
use crate::support::text;
use duramen_api::token::Role;
use std::{path::Path, process::Command};

/// How long it tries.
const SECONDS: &str = "60";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fuzzer_from_outside_finds_no_failure_and_nothing_that_is_not_described() {
    if std::env::var_os("DURAMEN_TEST_CLIENTS").is_none() {
        eprintln!("skipped: DURAMEN_TEST_CLIENTS is not set");
        return;
    }
    let mut site = Site::open().await;
    site.add_source("app").await;
    let boss = site.token("boss", Role::Admin, &[]).await;
    let folder = tempfile::tempdir().expect("a folder");
    let venv = folder.path().join("venv");
    for command in [
        Command::new("python3").args(["-m", "venv"]).arg(&venv),
        Command::new(venv.join("bin/pip")).args(["install", "-q", "schemathesis>=4.32,<5"]),
    ] {
        let output = command.output().expect("Python");
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let settings = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/schemathesis.toml");
    let output = Command::new(venv.join("bin/schemathesis"))
        .arg("--config-file")
        .arg(settings)
        .args(["run", &format!("http://{}/openapi.json", site.door), "--max-time", SECONDS, "--no-color"])
        // A stream has no end.
        .args(["--exclude-path", "/v1/events"])
        .args(["--header", &format!("Authorization: {}", boss.bearer)])
        .current_dir(folder.path())
        .output()
        .expect("the fuzzer");
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    let all = format!("Tested: {}", duramen_api::route::ENDPOINTS.len() - 1);
    assert!(said.contains(&all), "all requests are tried but that of the stream: {said}");
}
