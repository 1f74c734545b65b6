//! What a cage keeps in and out, tried from inside. bubblewrap is installed by `make setup`.

use duramen_cage::{Cage, Walls};
use std::{
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;

const SHELL: &str = "/bin/bash";

fn cage() -> Cage {
    Cage::find().expect("bubblewrap, which make setup installs")
}

fn run(walls: &Walls, script: &str) -> Output {
    run_with(walls, script, &[])
}

fn run_with(walls: &Walls, script: &str, arguments: &[&Path]) -> Output {
    let mut command = cage().command(Path::new(SHELL), walls);
    command.args(["-c", script, "inside"]).args(arguments).stdin(Stdio::null());
    command.output().expect("a shell in a cage")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

/// A directory that everybody may enter, as the programs inside may be somebody else.
fn dir() -> TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
    dir
}

#[test]
fn there_is_no_network_inside() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = listener.local_addr().expect("its address").port();
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    let outside = Command::new(SHELL).args(["-c", &script]).status().expect("a shell");
    assert!(outside.success(), "from outside it is reached");
    let inside = run(&Walls::new(), &script);
    assert!(!inside.status.success(), "{inside:?}");
}

#[test]
fn files_are_read_only_hidden_or_given() {
    let outer = dir();
    let (secret, given, shown) =
        (outer.path().join("secret"), outer.path().join("given"), outer.path().join("shown"));
    for path in [&given, &shown] {
        fs::create_dir(path).expect("a directory");
    }
    fs::write(&secret, "secret").expect("a file");
    fs::write(shown.join("file"), "shown").expect("a file");
    let walls = Walls::new().hide(outer.path()).readable(&shown).writable(&given);
    let script = r#"
        cat "$1" 2>/dev/null && echo SEEN
        cat "$3/file"; echo
        echo x 2>/dev/null >"$3/file" && echo CHANGED
        echo x 2>/dev/null >/etc/caged && echo WRITTEN
        echo from inside >"$2/file"
        ls /tmp
        pwd
    "#;
    let output = run_with(&walls.work_dir(&given), script, &[&secret, &given, &shown]);
    // The given and the shown directory lie below /tmp, so something of /tmp is there; the test's secret is not.
    let said = text(&output.stdout);
    assert!(said.starts_with("shown\n") && said.ends_with(given.to_str().expect("text")), "{said}");
    for wrong in ["SEEN", "CHANGED", "WRITTEN"] {
        assert!(!said.contains(wrong), "{said}");
    }
    assert_eq!(fs::read_to_string(given.join("file")).expect("what was written"), "from inside\n");
    assert_eq!(fs::read_to_string(&secret).expect("the secret"), "secret");
}

#[test]
fn the_longer_path_counts_for_what_lies_below_it() {
    let outer = dir();
    let inner = outer.path().join("shown/secret/given");
    fs::create_dir_all(&inner).expect("a directory");
    for (path, text) in
        [("shown/file", "shown"), ("shown/secret/file", "secret"), ("shown/secret/given/file", "given")]
    {
        fs::write(outer.path().join(path), text).expect("a file");
    }
    // In whatever order they are named.
    let walls = Walls::new()
        .writable(&inner)
        .readable(outer.path().join("shown"))
        .hide(outer.path().join("shown/secret"))
        .hide(outer.path());
    let script = r#"cd "$1/shown"; cat file secret/given/file; test -e secret/file && echo SEEN
        echo x 2>/dev/null >file && echo CHANGED; echo more >>secret/given/file; echo x >"$1/own" && cat "$1/own""#;
    let output = run_with(&walls, script, &[outer.path()]);
    assert_eq!(text(&output.stdout), "showngivenx", "{output:?}");
    assert_eq!(fs::read_to_string(inner.join("file")).expect("what was written"), "givenmore\n");
    assert!(!outer.path().join("own").exists());
}

#[test]
fn messages_do_not_outlive_what_sends_them() {
    let walls = Walls::new().with_messages_of_its_own();
    let made = run(&walls, "ipcmk -M 4096 && ipcs -m | grep -c '^0x'");
    assert!(text(&made.stdout).ends_with('1'), "{made:?}");
    assert_eq!(text(&run(&walls, "ipcs -m | grep -c '^0x'").stdout), "0");
}

#[test]
fn rights_are_not_gained_inside() {
    let status = run(&Walls::new(), "grep NoNewPrivs /proc/self/status");
    assert_eq!(text(&status.stdout).split_whitespace().last(), Some("1"), "{status:?}");
    if rustix::process::geteuid().is_root() {
        let remount = run(&Walls::new(), "mount -o remount,bind,rw / 2>/dev/null; touch /etc/caged");
        assert!(!remount.status.success() && !Path::new("/etc/caged").exists(), "{remount:?}");
        let walls = Walls::new().user(65_534, 65_534);
        let status = run(&walls, "id -u; id -g; id -G; grep -E 'Cap(Inh|Prm|Eff|Bnd)' /proc/self/status");
        let said = text(&status.stdout);
        assert!(said.starts_with("65534\n65534\n65534\n"), "{said}");
        for line in said.lines().skip(3) {
            assert!(line.ends_with("\t0000000000000000"), "a right is left: {line}");
        }
        let outer = dir();
        let own = outer.path().join("of/nobody");
        fs::create_dir_all(&own).expect("a directory");
        std::os::unix::fs::chown(&own, Some(65_534), Some(65_534)).expect("its owner");
        fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).expect("its mode");
        let walls = walls.hide(outer.path()).writable(&own).work_dir(&own);
        let there = run(&walls, "touch x && pwd");
        assert_eq!(text(&there.stdout), own.to_str().expect("text"), "{there:?}");
    }
}

#[test]
fn other_processes_are_not_seen_and_what_is_left_running_ends() {
    assert_eq!(run(&Walls::new(), "exit 7").status.code(), Some(7));
    let outer = dir();
    fs::set_permissions(outer.path(), fs::Permissions::from_mode(0o777)).expect("its mode");
    let own = std::process::id().to_string();
    let script = r#"
        test -e "/proc/$2/root" && readlink "/proc/$2/exe" && echo SEEN
        kill -0 "$2" 2>/dev/null && test "$2" -gt 100 && echo SIGNALLED
        cd /
        setsid sh -c 'while sleep 0.05; do echo x >>"$0/left"; done' "$1" </dev/null >/dev/null 2>&1 &
        while ! test -s "$1/left"; do sleep 0.01; done
    "#;
    let walls = Walls::new().writable(outer.path());
    let output = run_with(&walls, script, &[outer.path(), Path::new(&own)]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stdout), "", "a process outside was reached");
    let length = || fs::metadata(outer.path().join("left")).expect("what it wrote").len();
    let before = length();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(length(), before, "something of it still runs");
}

#[test]
fn sockets_of_the_machine_are_not_there() {
    let beside = tempfile::Builder::new().prefix("caged-").tempdir_in("/run");
    // Only root makes sockets in /run; others find it empty all the same.
    if let Ok(dir) = &beside {
        let _listener = std::os::unix::net::UnixListener::bind(dir.path().join("s")).expect("a socket");
        let output = run_with(&Walls::new(), "ls -A /run; test -e \"$1/s\" && echo SEEN", &[dir.path()]);
        assert_eq!(text(&output.stdout), "", "{output:?}");
    }
    assert_eq!(text(&run(&Walls::new(), "ls -A /run").stdout), "");
}

#[test]
fn root_is_given_files_of_others_only_if_it_is_said() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = dir();
    let given = dir.path().join("given");
    fs::create_dir(&given).expect("a directory");
    std::os::unix::fs::chown(&given, Some(12_345), Some(12_345)).expect("its owner");
    fs::set_permissions(&given, fs::Permissions::from_mode(0o700)).expect("its mode");
    let script = r#"echo x 2>/dev/null >"$1/file" && cat "$1/file""#;
    let closed = Walls::new().writable(&given);
    assert_eq!(text(&run_with(&closed, script, &[&given]).stdout), "");
    assert_eq!(text(&run_with(&closed.clone().with_files_of_any_owner(), script, &[&given]).stdout), "x");
    // Not beyond the walls.
    let shown = Walls::new().readable(dir.path()).with_files_of_any_owner();
    assert_eq!(
        text(&run_with(&shown, r#"echo y 2>/dev/null >"$1/other"; echo end"#, &[&given]).stdout),
        "end"
    );
    assert!(!given.join("other").exists());
}
