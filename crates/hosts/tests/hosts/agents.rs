//! Load from a third host.

use super::sshd::{sh, until, Hosts};
use std::process::Stdio;

const WORKLOAD: &str = r#"
setup = "schema.sql"
clients = 4

[[transaction]]
name = "write"
sql = ["INSERT INTO t VALUES (:id)"]
check = "SELECT count(*) = 1 FROM t WHERE id = :id"
parameters = { id = { sequence = 1 } }
"#;

/// A copy of the program that the user of the host may start, and the workload.
fn prepared() -> (Hosts, Vec<String>) {
    let hosts = Hosts::new();
    let root = hosts.root.path().display().to_string();
    // A name that a shell could take for something else.
    let program = format!("{root}/it's a $(program); duramen");
    sh(&format!("cp \"$DURAMEN_PROGRAM\" '{}'", program.replace('\'', "'\\''")));
    std::fs::write(hosts.root.path().join("w.toml"), WORKLOAD).unwrap();
    std::fs::write(hosts.root.path().join("schema.sql"), "CREATE TABLE t (id int8 PRIMARY KEY);").unwrap();
    let arguments =
        ["--workload", &format!("{root}/w.toml"), "--agent", &hosts.b.url(), "--agent-program", &program];
    let arguments = arguments.map(str::to_owned).to_vec();
    (hosts, arguments)
}

fn agents(hosts: &Hosts) -> Vec<u32> {
    let root = hosts.root.path().display().to_string();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let exe = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        exe.starts_with(&root)
    })
    .collect()
}

/// A1, A3, A4.
#[test]
fn load_from_another_host_would_not_be_the_same_or_outlive_its_run() {
    let (hosts, arguments) = prepared();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (output, said) = hosts.run(&arguments);
    assert!(output.status.success(), "{said}");
    assert_eq!(agents(&hosts), [0_u32; 0]);
    hosts.assert_nothing_left("a run with an agent");
    let evidence: serde_json::Value =
        serde_json::from_slice(&std::fs::read(hosts.evidence()).unwrap()).unwrap();
    let clocks = evidence["config"]["agent"]["clocks"].as_array().unwrap().clone();
    assert_eq!(clocks.len(), 2);
    for clock in clocks {
        let number = |name: &str| clock[name].as_f64().unwrap();
        // It is the same machine.
        assert!(
            number("uncertainty_ms") > 0.0 && number("offset_ms").abs() <= number("uncertainty_ms") + 0.5,
            "{clock}"
        );
    }
    let checks = evidence["checks"].as_array().unwrap();
    assert!(checks.iter().any(|check| check["name"] == "read_your_writes/write"), "{checks:?}");
}

/// A2: an agent that is killed is told, and one whose lab is killed ends.
#[test]
fn an_agent_would_outlive_its_lab_or_its_end_not_be_told() {
    for victim in ["agent", "lab"] {
        let (hosts, arguments) = prepared();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut child =
            hosts.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        until("the agent is there", || agents(&hosts).len() == 1);
        std::thread::sleep(std::time::Duration::from_secs(1));
        if victim == "agent" {
            sh(&format!("kill -KILL {}", agents(&hosts)[0]));
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(!output.status.success() && said.contains("agent"), "{said}");
        } else {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        until("the agent is gone", || agents(&hosts).is_empty());
        hosts.assert_nothing_left(victim);
    }
}

/// A5: what an agent is told by somebody else is not done.
#[test]
fn an_agent_would_do_what_it_does_not_understand() {
    for line in [
        "",
        "{}",
        "\"Beat\"\\n{\"Run\":{\"level\":\"local\",\"lasts_ms\":1,\"rate_per_s\":null}}",
        "SELECT 1;",
        "\\0\\377",
    ] {
        let script =
            format!("printf '{line}\\n' | timeout 60 \"$DURAMEN_PROGRAM\" lab agent --stdio || echo $?");
        let said = sh(&script);
        assert!(said.starts_with("{\"run\":\"\",\"said\":{\"Hello\""), "{said}");
        let mut lines = said.lines().skip(1).filter(|line| !line.contains("Beat"));
        let code = lines.next().and_then(|line| line.parse::<u8>().ok());
        assert!(code.is_some_and(|code| code != 0) && lines.next().is_none(), "{said}");
    }
}
