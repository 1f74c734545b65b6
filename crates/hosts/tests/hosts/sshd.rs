//! A host: a sshd of our own, which lets in one user with a key that was made for the test.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use duramen_base::clock;

/// Whom servers run as.
pub(crate) const USER: &str = "postgres";
/// What is to go away has gone within this.
const GONE: Duration = Duration::from_secs(40);

/// A host, with a folder for temporary files that is its own.
pub(crate) struct Sshd {
    child: Child,
    pub(crate) port: u16,
    pub(crate) dir: PathBuf,
    mounted: bool,
}

/// Two hosts, and what a user needs to reach them.
pub(crate) struct Hosts {
    pub(crate) a: Sshd,
    pub(crate) b: Sshd,
    pub(crate) root: tempfile::TempDir,
}

pub(crate) fn sh(script: &str) -> String {
    let said = Command::new("/bin/sh").args(["-ec", script]).output().unwrap();
    assert!(said.status.success(), "{script}: {}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8_lossy(&said.stdout).trim().to_owned()
}

fn program(name: &str) -> PathBuf {
    PathBuf::from(std::env::var_os(name).unwrap_or_else(|| panic!("{name}: run `make test-hosts`")))
}

impl Sshd {
    /// `prefix` is a command before sshd, as root: it may change what the host sees.
    fn start(root: &Path, name: &str, prefix: &str, disk: Option<&str>) -> Self {
        let dir = root.join(name);
        let (dir_text, sshd) = (dir.display(), program("DURAMEN_SSHD"));
        sh(&format!(
            "mkdir -p {dir_text}/bin {dir_text}/tmp && ssh-keygen -q -t ed25519 -N '' -f {dir_text}/host_key"
        ));
        if let Some(size) = disk {
            // Sparse: it takes no more than is written to it.
            sh(&format!(
                "truncate -s {size} {dir_text}/disk && mkfs.ext4 -q -m 0 {dir_text}/disk && \
                 mount -o loop {dir_text}/disk {dir_text}/tmp && rmdir {dir_text}/tmp/lost+found"
            ));
        }
        // A port that is free now.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {dir_text}/host_key\nPidFile none\nUsePAM no\nStrictModes no\n\
             AuthorizedKeysFile {}/key.pub\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nMaxStartups 50\n\
             SetEnv PATH={dir_text}/bin:/usr/bin:/bin TMPDIR={dir_text}/tmp\nLogLevel ERROR\n",
            root.display()
        );
        std::fs::write(dir.join("config"), config).unwrap();
        sh(&format!("chown -R {USER} {dir_text} && chmod 755 {dir_text}"));
        let libraries = std::env::var("DURAMEN_SSHD_LIBRARIES").unwrap_or_default();
        let line = format!(
            "{prefix} exec setpriv --reuid={USER} --regid={USER} --init-groups env LD_LIBRARY_PATH={libraries} {} -D -e -f \
             {dir_text}/config",
            sshd.display()
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "slave", "/bin/sh", "-ec", &line]);
        let child = command.stdin(Stdio::null()).spawn().unwrap();
        let begin = clock::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begin.elapsed() < GONE, "sshd does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { child, port, dir, mounted: disk.is_some() }
    }

    pub(crate) fn url(&self) -> String {
        format!("ssh://{USER}@127.0.0.1:{}", self.port)
    }

    /// A program of the host's that is found before the others.
    pub(crate) fn install(&self, name: &str, script: &str) {
        let (new, path) = (self.dir.join("bin/.new"), self.dir.join("bin").join(name));
        // Written by another process: one that is open for writing in any process cannot be started.
        let said = Command::new("/bin/sh")
            .args(["-ec", "printf '%s\\n' \"$1\" >\"$2\"; chmod 755 \"$2\"; mv \"$2\" \"$3\"", "sh", script])
            .args([&new, &path])
            .status();
        assert!(said.unwrap().success());
    }

    /// The programs of a server, all of them the real ones but those that were installed before.
    pub(crate) fn has_server(&self) {
        let bin = sh("ls -d /usr/lib/postgresql/*/bin | tail -n 1");
        for name in ["postgres", "initdb", "pg_basebackup", "pg_ctl"] {
            if !self.dir.join("bin").join(name).exists() {
                self.install(name, &format!("#!/bin/sh\nexec {bin}/{name} \"$@\""));
            }
        }
    }

    /// Processes that work below its folder for temporary files.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let tmp = self.dir.join("tmp");
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| {
            let cwd = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
            cwd.to_string_lossy().starts_with(&*tmp.to_string_lossy())
        })
        .collect()
    }

    /// Guardians and watchers that are there, by the directory that is theirs.
    pub(crate) fn guardians(&self) -> Vec<u32> {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let has = |text: &[u8], what: &str| text.windows(what.len()).any(|part| part == what.as_bytes());
            line.starts_with(b"/bin/sh\0-c\0# The guardian")
                && has(&environment, &self.dir.join("tmp").to_string_lossy())
        })
        .collect()
    }

    pub(crate) fn left(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.join("tmp")).unwrap().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if self.mounted {
            let _ = Command::new("umount").arg("-l").arg(self.dir.join("tmp")).status();
        }
    }
}

impl Hosts {
    pub(crate) fn new() -> Self {
        Self::with("", None)
    }

    /// The second one is started by a command, and has a disk of a size.
    pub(crate) fn with(prefix: &str, disk: Option<&str>) -> Self {
        let root = tempfile::Builder::new().prefix("hosts-").tempdir().unwrap();
        std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = root.path().display().to_string();
        sh(&format!("ssh-keygen -q -t ed25519 -N '' -f {path}/key && chmod 644 {path}/key.pub"));
        let (a, b) = (Sshd::start(root.path(), "a", "", None), Sshd::start(root.path(), "b", prefix, disk));
        let hosts = Self { a, b, root };
        hosts.knows(&[&hosts.a, &hosts.b]);
        let config = format!(
            "Host *\n  IdentityFile {path}/key\n  IdentitiesOnly yes\n  UserKnownHostsFile {path}/known\n  \
             GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking no\n"
        );
        std::fs::write(hosts.config(), config).unwrap();
        hosts
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.root.path().join("config")
    }

    /// The user knows the keys of these hosts.
    pub(crate) fn knows(&self, of: &[&Sshd]) {
        let line = |host: &&Sshd| {
            let key = std::fs::read_to_string(host.dir.join("host_key.pub")).unwrap();
            format!("[127.0.0.1]:{} {key}", host.port)
        };
        std::fs::write(self.root.path().join("known"), of.iter().map(line).collect::<String>()).unwrap();
    }

    /// `duramen lab run replication` on both.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program("DURAMEN_PROGRAM"));
        command
            .args(["lab", "run", "replication", "--quick", "--levels", "ra", "--hosts"])
            .arg(format!("{},{}", self.a.url(), self.b.url()))
            .arg("--ssh-config")
            .arg(self.config())
            .arg("--json")
            .arg(self.evidence())
            .args(arguments)
            .env("DURAMEN_HOME", self.root.path().join("home"))
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn evidence(&self) -> PathBuf {
        self.root.path().join("evidence.json")
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> (Output, String) {
        let output = self.command(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned();
        (output, said)
    }

    /// Nothing of ours is on either: no process, no directory.
    pub(crate) fn assert_nothing_left(&self, what: &str) {
        let begin = clock::now();
        loop {
            let left = [&self.a, &self.b].map(|host| (host.left(), host.processes(), host.guardians()));
            if left.iter().all(|(files, processes, guardians)| {
                files.is_empty() && processes.is_empty() && guardians.is_empty()
            }) {
                return;
            }
            assert!(begin.elapsed() < GONE, "{what}: {left:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Waits until something is so.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = clock::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(90), "it never came to this: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
