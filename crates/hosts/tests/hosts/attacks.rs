//! Hosts and runs that end, hang or are short of something at each step: nothing of ours stays on either.

use super::sshd::{sh, until, Hosts};
use duramen_base::clock;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn begun(hosts: &Hosts, arguments: &[&str]) -> Child {
    hosts.command(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn kill(signal: &str, pids: &[u32]) {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    assert!(Command::new("kill").arg(signal).args(pids).status().unwrap().success());
}

fn said(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// H4: killed while a program of the host hangs, which hears nothing.
#[test]
fn a_run_that_is_killed_while_a_step_hangs_would_leave_it() {
    for step in ["postgres", "initdb", "pg_ctl", "pg_basebackup"] {
        let hosts = Hosts::new();
        let host = if step == "pg_basebackup" { &hosts.b } else { &hosts.a };
        host.install(
            step,
            "#!/bin/sh\ntrap '' INT TERM HUP QUIT\n: >\"$TMPDIR/../hangs\"\nwhile :; do sleep 1000; done",
        );
        host.has_server();
        let mut child = begun(&hosts, &["S2"]);
        until("it hangs", || host.dir.join("hangs").exists());
        child.kill().unwrap();
        child.wait().unwrap();
        hosts.assert_nothing_left(step);
    }
}

/// H5: a step that hangs has a deadline, and the host is named.
#[test]
fn a_step_that_hangs_would_be_waited_for_for_ever() {
    let hosts = Hosts::new();
    hosts.b.install("postgres", "#!/bin/sh\nexec sleep 1000");
    hosts.b.has_server();
    let (output, said) = hosts.run(&["S2"]);
    assert!(
        !output.status.success() && said.contains("in vain") && said.contains(&hosts.b.port.to_string()),
        "{said}"
    );
    hosts.assert_nothing_left("a step that hangs");
}

/// H5: who accepts and says nothing.
#[test]
fn a_host_that_says_nothing_would_be_waited_for_for_ever() {
    let hosts = Hosts::new();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let begin = clock::now();
    let mut command = hosts.command(&[]);
    let arguments: Vec<std::ffi::OsString> = command.get_args().map(ToOwned::to_owned).collect();
    let url = format!("{},{}", hosts.a.url(), hosts.b.url());
    let arguments = arguments.into_iter().map(|word| match word.to_str() == Some(&url) {
        true => format!("{},ssh://postgres@127.0.0.1:{port}", hosts.a.url()).into(),
        false => word,
    });
    let arguments: Vec<std::ffi::OsString> = arguments.collect();
    command = {
        let mut new = Command::new(command.get_program());
        new.args(arguments).env("DURAMEN_HOME", hosts.root.path().join("home"));
        new
    };
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains(&port.to_string()), "{text}");
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    hosts.assert_nothing_left("a host that says nothing");
}

/// H5: what is missing is named.
#[test]
fn a_host_without_postgresql_would_not_be_told_from_others() {
    let hosts = Hosts::with("mount -t tmpfs none /usr/lib/postgresql;", None);
    let (output, said) = hosts.run(&["S2"]);
    assert!(!output.status.success() && said.contains("has none") && said.contains("install"), "{said}");
    hosts.assert_nothing_left("no PostgreSQL");
}

/// What fills a disk.
const FILL: &str = "fallocate -l $(df --output=avail -B1 . | tail -n 1)";

/// H4, H5: a disk that is full or too small at the beginning, and one that gets full while the primary is copied.
#[test]
fn a_full_disk_would_leave_something() {
    for (size, when) in [("20m", "before"), ("20m", "small"), ("1200m", "meanwhile")] {
        let hosts = Hosts::with("", Some(size));
        let tmp = hosts.b.dir.join("tmp").display().to_string();
        match when {
            "before" => {
                drop(sh(&format!("cd {tmp} && {FILL} full; head -c 100000 /dev/zero >>full || true")))
            }
            "small" => {}
            _ => {
                let real = sh("ls -d /usr/lib/postgresql/*/bin | tail -n 1");
                let script =
                    format!("#!/bin/sh\n({FILL} ballast) 2>/dev/null\nexec {real}/pg_basebackup \"$@\"");
                hosts.b.install("pg_basebackup", &script);
                hosts.b.has_server();
            }
        }
        let (output, said) = hosts.run(&["S2"]);
        assert!(!output.status.success() && said.contains(&hosts.b.port.to_string()), "{when}: {said}");
        assert!(
            said.contains("space") || said.contains("full") || said.contains("No space"),
            "{when}: {said}"
        );
        let _ = std::fs::remove_file(hosts.b.dir.join("tmp/full"));
        hosts.assert_nothing_left(when);
    }
}

/// H4: the lab killed in the midst of the load, with sessions that wait.
#[test]
fn a_lab_that_is_killed_would_leave_its_servers() {
    let hosts = Hosts::new();
    let mut child = begun(&hosts, &["S2"]);
    until("both servers run", || hosts.a.processes().len() > 8 && hosts.b.processes().len() > 5);
    std::thread::sleep(Duration::from_secs(2));
    child.kill().unwrap();
    child.wait().unwrap();
    hosts.assert_nothing_left("the lab was killed");
}

/// H4: the guardian, its watcher, or both killed; or held, so that it says nothing.
#[test]
fn a_host_whose_guardian_is_killed_would_keep_what_it_watched() {
    for (who, signal) in
        [("guardian", "-KILL"), ("watcher", "-KILL"), ("both", "-KILL"), ("guardian", "-STOP")]
    {
        let hosts = Hosts::new();
        let child = begun(&hosts, &["S2"]);
        until("both servers run", || hosts.a.processes().len() > 8 && hosts.b.processes().len() > 5);
        let guardians = hosts.b.guardians();
        let watchers: Vec<u32> = watchers(&hosts);
        assert!(!guardians.is_empty() && watchers.len() == 1, "{guardians:?} {watchers:?}");
        let victims = match who {
            "guardian" => guardians,
            "watcher" => watchers,
            _ => [guardians, watchers].concat(),
        };
        kill(signal, &victims);
        if signal == "-STOP" {
            // That it is held is noticed after 20 s; until then the run may have come to its end.
            child.wait_with_output().unwrap();
        } else {
            let said = said(child);
            let port = hosts.b.port.to_string();
            assert!(said.contains("guardian is gone") && said.contains(&port), "{who}: {said}");
        }
        hosts.assert_nothing_left(&format!("{who} {signal}"));
    }
}

fn watchers(hosts: &Hosts) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let tmp = hosts.b.dir.join("tmp").display().to_string();
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains("watch \"$2\"") && !line.contains("# The guardian") && line.contains(&tmp)
    })
    .collect()
}
