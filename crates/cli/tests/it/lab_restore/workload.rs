//! A workload has a role of its own on servers that are not ours: that goes, too, however the run ends.

use super::{assert_restored, exe, guardians, until, user::majors, user::User};
use duramen_replication::scenario::Node;
use std::process::{Child, Command, Stdio};

const SHOP: &str = r#"
setup = "schema.sql"

[[transaction]]
name = "write"
sql = ["INSERT INTO t VALUES (:id)"]
check = "SELECT count(*) > 0 FROM t WHERE id = :id"
parameters = { id = { sequence = 1 } }

[[transaction]]
name = "disguise"
sql = ["SET application_name = 'somebody else'", "SELECT pg_sleep(0.05)"]
"#;

fn start(user: &User) -> Child {
    let files = user.home().join("files");
    std::fs::create_dir_all(&files).unwrap();
    std::fs::write(files.join("shop.toml"), SHOP).unwrap();
    std::fs::write(files.join("schema.sql"), "CREATE TABLE t (id int8);").unwrap();
    Command::new(exe())
        .args(["lab", "run", "replication", "--quick", "--levels", "ra", "--clients", "4"])
        .args(["--primary", &user.dsn(Node::Primary), "--standby", &user.dsn(Node::Standby)])
        .arg("--workload")
        .arg(files.join("shop.toml"))
        .env("DURAMEN_HOME", user.home())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("it can be run")
}

async fn count(user: &User, sql: &str) -> i64 {
    user.client(Node::Primary).await.query_one(sql, &[]).await.unwrap().get(0)
}

const ROLES: &str = "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'duramen_load%'";
const LOADED: &str = "SELECT count(*) FROM pg_stat_activity WHERE usename LIKE 'duramen_load%'";

/// W3.
#[tokio::test]
async fn a_workload_on_servers_of_others_would_leave_its_role() {
    let user = User::new(majors()[0]).await;
    let before = user.state().await;
    for is_killed in [true, false] {
        let mut child = start(&user);
        if is_killed {
            until("its sessions are there", async || count(&user, LOADED).await >= 4).await;
            child.kill().unwrap();
        }
        let status = child.wait().unwrap();
        assert!(is_killed || status.success(), "{status}");
        until("its guardian has done its work", async || guardians(&user.home()).is_empty()).await;
        assert_eq!(count(&user, ROLES).await, 0, "killed: {is_killed}");
        assert_restored(&user, &before).await;
    }
}
