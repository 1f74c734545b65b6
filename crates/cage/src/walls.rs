//! What is left open to a program in a cage.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

const HIDE: &str = "--tmpfs";
/// What a file is hidden by.
const EMPTY_FILE: [&str; 2] = ["--ro-bind", "/dev/null"];

/// What a program in a cage may reach. At first: the machine's files, read-only, but an empty `/tmp` and `/run`, and a
/// `/dev` and `/proc` of its own; no network; no process but its own; the user that calls.
#[derive(Debug, Clone, Default)]
pub struct Walls {
    hidden: Vec<PathBuf>,
    readable: Vec<PathBuf>,
    writable: Vec<PathBuf>,
    user: Option<(u32, u32)>,
    work_dir: Option<PathBuf>,
    network: bool,
    collected: bool,
    messages: bool,
    with_caller: bool,
    any_owner: bool,
}

impl Walls {
    /// Walls with no door in them.
    #[must_use]
    pub fn new() -> Walls {
        Walls::default()
    }

    /// Leaves the machine's network open.
    #[must_use]
    pub fn with_network(mut self) -> Walls {
        self.network = true;
        self
    }

    /// Has processes that lose their parent collected by another one than the program. For programs that wait for their children, and
    /// would take others for these.
    #[must_use]
    pub fn with_orphans_collected(mut self) -> Walls {
        self.collected = true;
        self
    }

    /// Gives the program System V and POSIX message queues, semaphores and shared memory of its own, which are gone
    /// with it.
    #[must_use]
    pub fn with_messages_of_its_own(mut self) -> Walls {
        self.messages = true;
        self
    }

    /// Lets root in the cage read and write files whoever owns them, where the walls let it at all. Otherwise it may no
    /// more than their modes say, which is less than root is used to: a socket of somebody else is closed to it.
    #[must_use]
    pub fn with_files_of_any_owner(mut self) -> Walls {
        self.any_owner = true;
        self
    }

    /// Kills everything inside when the thread that started it ends, however it ends. Not together with
    /// [`user`](Walls::user): who becomes somebody else is not told any more.
    #[must_use]
    pub fn ended_with_caller(mut self) -> Walls {
        self.with_caller = true;
        self
    }

    /// Puts an empty directory where the directory `path` is, which the program may write to and which is gone with it, or
    /// an empty device where it is a file. Of several paths that are hidden or shown, the longer one counts for what lies
    /// below it.
    #[must_use]
    pub fn hide(mut self, path: impl Into<PathBuf>) -> Walls {
        self.hidden.push(path.into());
        self
    }

    /// Shows `path`, which may lie in a hidden directory, read-only.
    #[must_use]
    pub fn readable(mut self, path: impl Into<PathBuf>) -> Walls {
        self.readable.push(path.into());
        self
    }

    /// Shows `path`, which may lie in a hidden directory, and lets it be written to by whom its mode allows.
    #[must_use]
    pub fn writable(mut self, path: impl Into<PathBuf>) -> Walls {
        self.writable.push(path.into());
        self
    }

    /// Runs the program as this user and group, without further groups and rights. Only root can do so.
    #[must_use]
    pub fn user(mut self, uid: u32, gid: u32) -> Walls {
        self.user = Some((uid, gid));
        self
    }

    /// The directory in which the program starts; the root directory if it is not said.
    #[must_use]
    pub fn work_dir(mut self, dir: impl Into<PathBuf>) -> Walls {
        self.work_dir = Some(dir.into());
        self
    }

    /// The arguments of bubblewrap, up to the program.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let mut arguments = Arguments(Vec::new());
        arguments.words(&["--unshare-pid", "--new-session"]);
        // The kernel ends all processes of a namespace with the first, which is the program, or ends with it.
        if !self.collected {
            arguments.words(&["--as-pid-1"]);
        }
        if !self.network {
            arguments.words(&["--unshare-net"]);
        }
        if self.messages {
            arguments.words(&["--unshare-ipc"]);
        }
        if self.with_caller {
            arguments.words(&["--die-with-parent"]);
        }
        arguments.words(&["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]);
        // What listens on a socket of `/run` would do outside what is refused inside.
        for shared in ["/dev/shm", "/tmp", "/run"] {
            arguments.words(&["--perms", "1777", "--tmpfs", shared]);
        }
        for (how, path) in self.mounts() {
            if how == HIDE {
                arguments.words(if path.is_file() { &EMPTY_FILE } else { &[HIDE] });
                arguments.path(path);
                continue;
            }
            for dir in self.way_to(path) {
                arguments.words(&["--perms", "0755", "--dir"]);
                arguments.path(dir);
            }
            arguments.words(&[how]);
            arguments.path(path);
            arguments.path(path);
        }
        // Root without capabilities cannot undo a mount; who becomes somebody else needs three on the way.
        arguments.words(&["--cap-drop", "ALL"]);
        if self.any_owner {
            arguments.words(&["--cap-add", "CAP_DAC_OVERRIDE"]);
        }
        if self.user.is_some() {
            for needed in ["CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"] {
                arguments.words(&["--cap-add", needed]);
            }
        }
        arguments.words(&["--chdir", "/"]);
        arguments.words(&["--"]);
        if let Some((uid, gid)) = self.user {
            let (uid, gid) = (uid.to_string(), gid.to_string());
            arguments.words(&["setpriv", "--reuid", &uid, "--regid", &gid, "--clear-groups"]);
            arguments.words(&["--inh-caps=-all", "--bounding-set=-all", "--"]);
        }
        if let Some(dir) = &self.work_dir {
            // Not by bubblewrap, which goes there as root without its rights: the directory may be the user's alone.
            let mut chdir = OsString::from("--chdir=");
            chdir.push(dir);
            arguments.words(&["env"]);
            arguments.0.extend([chdir, OsString::from("--")]);
        }
        arguments.0
    }

    /// What is hidden and shown, from the outside in: a mount covers what was mounted below it before.
    fn mounts(&self) -> Vec<(&'static str, &Path)> {
        let all = [(HIDE, &self.hidden), ("--ro-bind", &self.readable), ("--bind", &self.writable)];
        let mut mounts: Vec<(&'static str, &Path)> = all
            .into_iter()
            .flat_map(|(how, paths)| paths.iter().map(move |path| (how, path.as_path())))
            .collect();
        mounts.sort_by_key(|(_, path)| path.components().count());
        mounts
    }

    /// The directories between a hidden one and a path below it, from the outside in. They have to be made, and passed
    /// through by whoever runs inside; bubblewrap makes them with the mode of the path.
    fn way_to<'a>(&self, path: &'a Path) -> Vec<&'a Path> {
        let hidden = |dir: &&Path| {
            *dir != path
                && ["/tmp", "/run"]
                    .into_iter()
                    .map(Path::new)
                    .chain(self.hidden.iter().map(PathBuf::as_path))
                    .any(|hidden| *dir != hidden && dir.starts_with(hidden))
        };
        let mut way: Vec<&Path> = path.ancestors().filter(hidden).collect();
        way.reverse();
        way
    }
}

struct Arguments(Vec<OsString>);

impl Arguments {
    fn words(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    fn path(&mut self, path: &Path) {
        self.0.push(path.as_os_str().to_owned());
    }
}
