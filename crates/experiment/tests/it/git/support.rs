//! A user with a repository, and everything of theirs at a moment.

use duramen_experiment::git::Repository;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use tempfile::TempDir;

/// Files by name: mode of git and content.
pub(crate) type Files = BTreeMap<Vec<u8>, (String, Vec<u8>)>;

/// A folder that is the user's, with a repository in it, and one that is ours.
pub(crate) struct User {
    dir: TempDir,
    /// The top of the repository; its name has a space.
    pub(crate) root: PathBuf,
}

impl User {
    /// With an empty repository on the branch `main`.
    pub(crate) fn unborn() -> Self {
        let dir = tempfile::Builder::new().prefix("duramen-test-").tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("user/my repo");
        fs::create_dir_all(&root).unwrap();
        let user = Self { dir, root };
        user.git(["init", "-q", "-b", "main"]);
        user.git(["config", "user.name", "The User"]);
        user.git(["config", "user.email", "user@example"]);
        user
    }

    /// With two commits: `code/fast.txt` of ten lines, `bench.sh`, a link, names that are hard to write, an ignore file.
    pub(crate) fn new() -> Self {
        let user = Self::unborn();
        user.write("code/fast.txt", &lines(10, ""));
        user.write("bench.sh", "#!/bin/sh\necho METRIC t=1\n");
        fs::set_permissions(user.root.join("bench.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("code/fast.txt", user.root.join("link")).unwrap();
        user.write(" with spaces ", "1\n");
        user.write("with\nnewline", "2\n");
        user.write(".gitignore", "target/\n*.log\n");
        fs::write(user.root.join(OsStr::from_bytes(b"not-\xff-utf8")), "3\n").unwrap();
        user.commit("first");
        user.write("code/other.txt", "other\n");
        user.commit("second");
        user
    }

    /// Everything that a working tree can be at once: staged, not staged, both, deleted, new, ignored, renamed, a mode
    /// changed, a link replaced, a stash.
    pub(crate) fn dirty() -> Self {
        let user = Self::new();
        user.write("code/fast.txt", "stashed\n");
        user.git(["stash", "-q"]);
        user.write("code/fast.txt", &lines(10, "staged"));
        user.git(["add", "code/fast.txt"]);
        user.write("code/fast.txt", &lines(10, "not staged"));
        user.write("staged only", "4\n");
        user.git(["add", "staged only"]);
        user.write("new/file\nof two lines", "5\n");
        user.write("target/cache", "6\n");
        user.write("a.log", "7\n");
        fs::write(user.root.join(OsStr::from_bytes(b"new-\xfe")), "8\n").unwrap();
        fs::remove_file(user.root.join("code/other.txt")).unwrap();
        fs::set_permissions(user.root.join("bench.sh"), fs::Permissions::from_mode(0o644)).unwrap();
        fs::remove_file(user.root.join("link")).unwrap();
        symlink("bench.sh", user.root.join("link")).unwrap();
        symlink("/there/is/nothing", user.root.join("dangling")).unwrap();
        user.git(["mv", " with spaces ", " moved "]);
        user
    }

    /// What a snapshot of [`dirty`](Self::dirty) holds.
    pub(crate) fn dirty_content() -> Files {
        let file =
            |name: &[u8], content: &str| (name.to_vec(), ("100644".to_owned(), content.as_bytes().to_vec()));
        let link = |name: &[u8], to: &str| (name.to_vec(), ("120000".to_owned(), to.as_bytes().to_vec()));
        Files::from([
            file(b"code/fast.txt", &lines(10, "not staged")),
            file(b"bench.sh", "#!/bin/sh\necho METRIC t=1\n"),
            link(b"link", "bench.sh"),
            link(b"dangling", "/there/is/nothing"),
            file(b" moved ", "1\n"),
            file(b"with\nnewline", "2\n"),
            file(b".gitignore", "target/\n*.log\n"),
            file(b"not-\xff-utf8", "3\n"),
            file(b"staged only", "4\n"),
            file(b"new/file\nof two lines", "5\n"),
            file(b"new-\xfe", "8\n"),
        ])
    }

    pub(crate) fn open(&self) -> Repository {
        Repository::open(&self.root).unwrap()
    }

    /// A folder for a worktree; it is not there yet.
    pub(crate) fn work(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("ours").join(name)
    }

    /// A folder of the user's beside the repository.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.root.parent().unwrap().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn commit(&self, message: &str) -> String {
        self.git(["add", "--all"]);
        self.git(["commit", "-q", "--allow-empty", "-m", message]);
        self.git(["rev-parse", "HEAD"])
    }

    /// The output of a git that succeeds, without the end of the last line.
    pub(crate) fn git<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        text(git(&self.root, args))
    }

    /// The same of one that may fail.
    pub(crate) fn try_git<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Output {
        git(&self.root, args)
    }

    /// The files of a commit.
    pub(crate) fn files(&self, commit: &str) -> Files {
        let listed = git(&self.root, ["ls-tree", "-r", "-z", "--full-tree", commit]);
        assert!(listed.status.success(), "no commit {commit}");
        let mut files = Files::new();
        for item in listed.stdout.split(|byte| *byte == 0).filter(|item| !item.is_empty()) {
            let tab = item.iter().position(|byte| *byte == b'\t').unwrap();
            let meta: Vec<&str> = std::str::from_utf8(&item[..tab]).unwrap().split(' ').collect();
            files.insert(item[tab + 1..].to_vec(), (meta[0].to_owned(), meta[2].as_bytes().to_vec()));
        }
        let ids: Vec<u8> = files.values().flat_map(|(_, id)| [id, &b"\n"[..]].concat()).collect();
        let mut batch = command(&self.root, ["cat-file", "--batch"]);
        let mut batch = batch.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = batch.stdin.take().unwrap();
        let writer = thread::spawn(move || input.write_all(&ids));
        let output = batch.wait_with_output().unwrap().stdout;
        writer.join().unwrap().unwrap();
        let mut rest = &output[..];
        for (mode, content) in files.values_mut() {
            let end = rest.iter().position(|byte| *byte == b'\n').unwrap();
            let header = std::str::from_utf8(&rest[..end]).unwrap();
            rest = &rest[end + 1..];
            // The commit of a submodule is not in this repository.
            if mode != "160000" {
                let size: usize = header.rsplit(' ').next().unwrap().parse().unwrap();
                *content = rest[..size].to_vec();
                rest = &rest[size + 1..];
            }
        }
        files
    }

    /// Everything of the user's at this moment.
    pub(crate) fn everything(&self) -> Everything {
        let mut all = BTreeMap::new();
        collect(self.root.parent().unwrap(), &mut all);
        assert!(all.len() > 5, "the look at the user's files sees nothing");
        Everything(all)
    }
}

/// The content of ten lines like those of the first commit, each with an ending.
pub(crate) fn lines(count: u32, ending: &str) -> String {
    (0..count).map(|line| format!("line {line} {ending}\n")).collect()
}

/// Git as the user calls it, untouched by the machine's settings.
pub(crate) fn git<S: AsRef<OsStr>>(dir: &Path, args: impl IntoIterator<Item = S>) -> Output {
    command(dir, args).output().expect("git runs")
}

fn command<S: AsRef<OsStr>>(dir: &Path, args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.as_bytes().starts_with(b"GIT_") {
            command.env_remove(name);
        }
    }
    command.current_dir(dir).args(args);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").env("LC_ALL", "C");
    command
}

pub(crate) fn text(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned()
}

/// The files of a folder as git would name them, without `.git`.
pub(crate) fn on_disk(dir: &Path) -> Files {
    let mut files = Files::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(dir.join(&folder)).unwrap() {
            let name = folder.join(entry.unwrap().file_name());
            let (path, meta) = (dir.join(&name), dir.join(&name).symlink_metadata().unwrap());
            if name == Path::new(".git") {
                continue;
            }
            let value = match meta.file_type() {
                kind if kind.is_dir() => {
                    folders.push(name);
                    continue;
                }
                kind if kind.is_symlink() => {
                    ("120000".to_owned(), fs::read_link(&path).unwrap().into_os_string().into_vec())
                }
                _ if meta.mode() & 0o100 != 0 => ("100755".to_owned(), fs::read(&path).unwrap()),
                _ => ("100644".to_owned(), fs::read(&path).unwrap()),
            };
            files.insert(name.into_os_string().into_vec(), value);
        }
    }
    files
}

/// All files of the user, those of git among them, with mode, content and, where it is the user's, time.
pub(crate) struct Everything(BTreeMap<OsString, Thing>);

/// The mode, the content, and of files whose time matters the time.
type Thing = (u32, Vec<u8>, Option<(i64, i64)>);

impl Everything {
    /// Fails with the names of what is not as it was.
    pub(crate) fn assert_same(&self, now: &Everything, after: &str) {
        let changed: Vec<&OsString> =
            self.0.keys().chain(now.0.keys()).filter(|name| self.0.get(*name) != now.0.get(*name)).collect();
        assert!(changed.is_empty(), "after {after}: {changed:?}");
    }
}

fn collect(dir: &Path, all: &mut BTreeMap<OsString, Thing>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let within_git = path.components().any(|part| part.as_os_str() == ".git");
        let text = path.to_string_lossy().into_owned();
        // What is made for us: objects, and refs of our own.
        let ours = within_git && (text.ends_with("/objects") || text.ends_with("/refs/duramen"));
        let meta = path.symlink_metadata().unwrap();
        if ours {
            continue;
        }
        let content = match meta.file_type() {
            kind if kind.is_symlink() => fs::read_link(&path).unwrap().into_os_string().into_vec(),
            kind if kind.is_file() => fs::read(&path).unwrap(),
            _ => Vec::new(),
        };
        let has_time = meta.is_file() && (!within_git || path.file_name() == Some(OsStr::new("index")));
        let time = has_time.then(|| (meta.mtime(), meta.mtime_nsec()));
        all.insert(path.clone().into_os_string(), (meta.mode(), content, time));
        if meta.is_dir() {
            collect(&path, all);
        }
    }
}

/// Makes a program that can be started at once. Another process writes it: what is open for writing here, or in a child
/// that another test just forked, cannot be started.
pub(crate) fn install(program: &Path, script: &str) {
    let mut child = Command::new("install")
        .args(["-m", "755", "/dev/stdin"])
        .arg(program)
        .stdin(Stdio::piped())
        .spawn()
        .expect("install starts");
    child.stdin.take().expect("a pipe").write_all(script.as_bytes()).expect("it is written");
    assert!(child.wait().expect("install ends").success(), "{} is not installed", program.display());
}
