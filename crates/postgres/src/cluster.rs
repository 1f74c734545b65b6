//! A data directory and the programs that belong to it.

use crate::{
    control_group::ControlGroup,
    conversation::Conversation,
    installation::Installation,
    postmaster::{release_socket, vacate, LogFile, Postmaster, StartError},
    settings::Settings,
    shut::Shut,
    user::ServerUser,
};
use duramen_base::file;
use std::{
    fs::{self, File},
    io::{Read, Write},
    os::unix::{
        fs::{DirBuilderExt, PermissionsExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

/// Why a program of PostgreSQL that works on a data directory failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The program could not be run at all.
    #[error("cannot run {program}: {source}")]
    Run {
        /// The program.
        program: String,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// The program reported a failure.
    #[error("{program} failed ({status}): {output}")]
    Failed {
        /// The program.
        program: String,
        /// Its exit status.
        status: String,
        /// The end of what it printed.
        output: String,
    },
    /// A file of the directory could not be read or written.
    #[error("cannot access {path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// A server, or what is left of one, works in the directory.
    #[error(transparent)]
    Occupied(Box<StartError>),
    /// The directory is not a data directory.
    #[error("{path} is not a PostgreSQL data directory: {reason}")]
    NotADataDirectory {
        /// The directory.
        path: String,
        /// What is missing or wrong.
        reason: String,
    },
}

/// One data directory with the installation that runs it.
#[derive(Debug, Clone)]
pub struct Cluster {
    installation: Installation,
    data_dir: PathBuf,
    user: ServerUser,
    log: PathBuf,
    private_socket: Option<PathBuf>,
    shut: Option<Shut>,
    group: Option<ControlGroup>,
    env: Vec<(String, String)>,
}

impl Cluster {
    /// A cluster in `data_dir`, which need not exist yet. Its log is `<data_dir>.log`, beside it.
    #[must_use]
    pub fn new(installation: Installation, data_dir: impl Into<PathBuf>, user: ServerUser) -> Cluster {
        let data_dir = data_dir.into();
        let log = data_dir.with_extension("log");
        Cluster {
            installation,
            data_dir,
            user,
            log,
            private_socket: None,
            shut: None,
            group: None,
            env: Vec::new(),
        }
    }

    /// Another data directory with the same programs and the same user.
    pub(crate) fn with_data_dir(&self, data_dir: PathBuf) -> Cluster {
        Cluster::new(self.installation.clone(), data_dir, self.user.clone())
    }

    /// Keeps the server's log in another file.
    #[must_use]
    pub fn with_log(mut self, log: PathBuf) -> Cluster {
        self.log = log;
        self
    }

    /// Has the server listen on a second socket, in a directory that only its own user, and root, may enter.
    #[must_use]
    pub fn with_private_socket(mut self, dir: PathBuf) -> Cluster {
        self.private_socket = Some(dir);
        self
    }

    /// Runs the server and all other programs shut in, if this machine has the means.
    #[must_use]
    pub fn shut_in(mut self, shut: Option<Shut>) -> Cluster {
        self.shut = shut;
        self
    }

    /// Has the server run in a control group, with every process that it starts. The group must be there by then.
    #[must_use]
    pub fn in_group(mut self, group: Option<ControlGroup>) -> Cluster {
        self.group = group;
        self
    }

    /// Has the server start with a variable in its environment, which is empty otherwise but for the locale and a search path.
    #[must_use]
    pub fn with_server_env(mut self, name: &str, value: &str) -> Cluster {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The data directory.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// The server's log file.
    #[must_use]
    pub fn log(&self) -> LogFile {
        LogFile(self.log.clone())
    }

    /// The programs that run this cluster.
    #[must_use]
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// The major version that a data directory was made by.
    ///
    /// # Errors
    /// [`ClusterError::NotADataDirectory`] if it holds no readable `PG_VERSION`.
    pub fn major_of(data_dir: &Path) -> Result<u32, ClusterError> {
        let refuse =
            |reason: String| ClusterError::NotADataDirectory { path: data_dir.display().to_string(), reason };
        if !data_dir.join("global/pg_control").exists() {
            return Err(refuse("it has no global/pg_control".to_owned()));
        }
        let text = file::read_plain(&data_dir.join("PG_VERSION"), 64)
            .map_err(|error| refuse(format!("PG_VERSION: {error}")))?;
        text.trim().parse().map_err(|_| refuse(format!("PG_VERSION holds {:?}", text.trim())))
    }

    /// Makes a new, empty cluster with `superuser` as its bootstrap superuser. `checksums` turns on page checksums.
    ///
    /// # Errors
    /// What `initdb` printed, if it failed.
    pub fn init(&self, superuser: &str, checksums: bool) -> Result<(), ClusterError> {
        let mut arguments = vec!["--encoding=UTF8".to_owned(), "--locale=C".to_owned()];
        match (checksums, self.installation.version.major) {
            (true, _) => arguments.push("--data-checksums".to_owned()),
            (false, 18..) => arguments.push("--no-data-checksums".to_owned()),
            (false, _) => {}
        }
        self.init_like(superuser, &arguments)
    }

    /// As [`Cluster::init`], with arguments of `initdb` that say what the cluster is like: its encoding, locale and checksums.
    ///
    /// # Errors
    /// What `initdb` printed, if it failed.
    pub fn init_like(&self, superuser: &str, like: &[String]) -> Result<(), ClusterError> {
        self.prepare_dir(&self.data_dir)?;
        let mut arguments = vec![
            "--pgdata".to_owned(),
            self.data_dir.display().to_string(),
            format!("--username={superuser}"),
            "--auth=peer".to_owned(),
            "--no-sync".to_owned(),
            "--no-instructions".to_owned(),
        ];
        arguments.extend_from_slice(like);
        self.run("initdb", &arguments, None).map(drop)
    }

    /// Makes an empty directory for the server user, with the permissions that PostgreSQL insists on.
    ///
    /// # Errors
    /// [`ClusterError::Io`].
    pub fn prepare_dir(&self, dir: &Path) -> Result<(), ClusterError> {
        let io = |source| ClusterError::Io { path: dir.display().to_string(), source };
        fs::create_dir_all(dir).map_err(io)?;
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(io)?;
        self.user.own(dir).map_err(io)
    }

    /// Writes a file of the data directory (configuration) as the server user's.
    ///
    /// # Errors
    /// [`ClusterError::Io`].
    pub fn write_file(&self, name: &str, text: &str) -> Result<(), ClusterError> {
        let path = self.data_dir.join(name);
        let io = |source| ClusterError::Io { path: path.display().to_string(), source };
        // The directory belongs to the servers' user, who may have put a link there to a file that is not his: links
        // are replaced, not followed.
        file::replace_with(&path, text.as_bytes(), 0o600, |fresh| self.user.own_file(fresh)).map_err(io)
    }

    /// Runs a program of the installation as the server user, to its end.
    ///
    /// # Errors
    /// What the program printed, if it failed.
    pub fn run(
        &self,
        program: &str,
        arguments: &[String],
        stdin: Option<&str>,
    ) -> Result<String, ClusterError> {
        let stdin_pipe = if stdin.is_some() { Stdio::piped() } else { Stdio::null() };
        let mut child = self.begin(program, arguments, stdin_pipe, &[])?;
        if let (Some(text), Some(mut pipe)) = (stdin, child.stdin.take()) {
            // A program that ends early closes its input; its exit status tells why.
            let _ = pipe.write_all(text.as_bytes());
        }
        let run = |source| ClusterError::Run { program: program.to_owned(), source };
        finished(program, &child.wait_with_output().map_err(run)?)
    }

    /// Runs a program of the installation as the server user until it prints something, and ends it then.
    ///
    /// # Errors
    /// What the program printed to its standard error, if it ended without anything else.
    pub fn run_until_output(
        &self,
        program: &str,
        arguments: &[String],
        env: &[(String, String)],
    ) -> Result<(), ClusterError> {
        let mut child = self.begin(program, arguments, Stdio::null(), env)?;
        let run = |source| ClusterError::Run { program: program.to_owned(), source };
        let printed = child.stdout.as_mut().map_or(Ok(0), |pipe| pipe.read(&mut [0_u8; 1])).map_err(run);
        if matches!(printed, Ok(0)) {
            return finished(program, &child.wait_with_output().map_err(run)?).map(drop);
        }
        // It may have ended by itself; what counts is that it is gone.
        let _ = child.kill();
        child.wait().map_err(run)?;
        printed.map(drop)
    }

    /// As [`Cluster::run`], with an open file as the program's input, and with environment variables (secrets go there,
    /// not into the arguments, which every user of the machine can read).
    ///
    /// # Errors
    /// What the program printed, if it failed.
    pub fn run_with_env(
        &self,
        program: &str,
        arguments: &[String],
        stdin: Option<File>,
        env: &[(String, String)],
    ) -> Result<String, ClusterError> {
        let child = self.begin(program, arguments, stdin.map_or_else(Stdio::null, Stdio::from), env)?;
        let run = |source| ClusterError::Run { program: program.to_owned(), source };
        finished(program, &child.wait_with_output().map_err(run)?)
    }

    /// Begins a program of the installation as the server user that answers lines by lines, and goes on until it is dropped.
    ///
    /// # Errors
    /// [`ClusterError::Run`].
    pub fn converse(
        &self,
        program: &str,
        arguments: &[String],
        env: &[(String, String)],
    ) -> Result<Conversation, ClusterError> {
        self.begin(program, arguments, Stdio::piped(), env).map(|child| Conversation::with(program, child))
    }

    fn begin(
        &self,
        program: &str,
        arguments: &[String],
        stdin: Stdio,
        env: &[(String, String)],
    ) -> Result<Child, ClusterError> {
        let path = self.installation.program(program);
        let run = |source| ClusterError::Run { program: path.display().to_string(), source };
        // `initdb` and single-user servers make shared memory too, and may be killed.
        own_ipc_namespace();
        let mut command = self.command(&path);
        if self.data_dir.is_dir() {
            // As a server does: who looks for processes that work on the directory finds this one too.
            command.current_dir(&self.data_dir);
        }
        command
            .args(arguments)
            .env("LC_ALL", "C")
            .env_remove("PGDATA")
            .envs(env.iter().map(|(name, value)| (name, value)))
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(run)
    }

    /// Runs SQL in single-user mode as the bootstrap superuser, whatever it is called. The server must be
    /// stopped; crash recovery is done on the way. One statement a line.
    ///
    /// # Errors
    /// What the server printed, if it failed. Single-user mode goes on after a failed statement: check the
    /// effect.
    pub fn single_user(
        &self,
        database: &str,
        sql: &str,
        settings: &Settings,
    ) -> Result<String, ClusterError> {
        vacate(&self.data_dir).map_err(|error| ClusterError::Occupied(Box::new(error)))?;
        let mut arguments = vec!["--single".to_owned(), "-D".to_owned(), self.data_dir.display().to_string()];
        arguments.extend(settings.to_arguments());
        arguments.push(database.to_owned());
        self.run("postgres", &arguments, Some(sql))
    }

    /// Starts the server and waits until it accepts connections on a socket in `socket_dir`. `settings` are
    /// given as arguments and win over those of the directory.
    ///
    /// # Errors
    /// [`StartError`], with the server's last log lines where there are any. Nothing is left running.
    pub fn start(
        &self,
        socket_dir: &Path,
        settings: &Settings,
        timeout: Duration,
    ) -> Result<Postmaster, StartError> {
        self.start_observed(socket_dir, settings, timeout, &mut |_| {})
    }

    /// As [`Cluster::start`]; `observe` is called with the server's process id every now and then until it is ready.
    ///
    /// # Errors
    /// As for [`Cluster::start`].
    pub fn start_observed(
        &self,
        socket_dir: &Path,
        settings: &Settings,
        timeout: Duration,
        observe: &mut dyn FnMut(u32),
    ) -> Result<Postmaster, StartError> {
        let mut postmaster = self.spawn(socket_dir, settings)?;
        postmaster.wait_for(&["ready"], &self.log(), timeout, observe)?;
        Ok(postmaster)
    }

    /// Starts a server that only replays what another one sends (`standby.signal`, and `hot_standby=off` in `settings`), and
    /// waits until it has begun to.
    ///
    /// # Errors
    /// As for [`Cluster::start`].
    pub fn start_replaying(
        &self,
        socket_dir: &Path,
        settings: &Settings,
        timeout: Duration,
    ) -> Result<Postmaster, StartError> {
        let mut postmaster = self.spawn(socket_dir, settings)?;
        postmaster.wait_for(&["standby", "ready"], &self.log(), timeout, &mut |_| {})?;
        Ok(postmaster)
    }

    fn spawn(&self, socket_dir: &Path, settings: &Settings) -> Result<Postmaster, StartError> {
        let socket_dirs: Vec<&Path> =
            std::iter::once(socket_dir).chain(self.private_socket.as_deref()).collect();
        if let Some(dir) = socket_dirs.iter().find(|dir| dir.as_os_str().len() > crate::SOCKET_DIR_MAX) {
            return Err(StartError::SocketPathTooLong { path: dir.display().to_string() });
        }
        let prepare = |path: &Path| {
            let path = path.display().to_string();
            move |source| StartError::Prepare { path, source }
        };
        if !socket_dir.exists() {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(socket_dir)
                .map_err(prepare(socket_dir))?;
            self.user.own_sockets(socket_dir).map_err(prepare(socket_dir))?;
        }
        if let Some(dir) = self.private_socket.as_deref().filter(|dir| !dir.exists()) {
            fs::DirBuilder::new().mode(0o700).create(dir).map_err(prepare(dir))?;
            self.user.own(dir).map_err(prepare(dir))?;
        }
        let log = file::open_log(&self.log).map_err(prepare(&self.log))?;
        let errors = log.try_clone().map_err(prepare(&self.log))?;
        vacate(&self.data_dir)?;
        // A pid file left by a killed server would be read as an answer of the new one.
        let _ = fs::remove_file(self.data_dir.join("postmaster.pid"));
        for dir in &socket_dirs {
            release_socket(dir);
        }
        let program = self.installation.program("postgres");
        own_ipc_namespace();
        let mut command = self.command(&program);
        if let Some(group) = &self.group {
            let entries = group.entries().map_err(prepare(&self.data_dir))?;
            enter_first(&mut command, entries);
        }
        let child = command
            // From its first moment on: by it the server is found while it has no pid file yet.
            .current_dir(&self.data_dir)
            .arg("-D")
            .arg(&self.data_dir)
            .arg("-k")
            .arg(directory_list(&socket_dirs))
            .arg("-p")
            .arg(crate::SOCKET_PORT.to_string())
            .args(settings.to_arguments())
            .env_clear()
            .env("LC_ALL", "C")
            .env("PATH", "/usr/bin:/bin")
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .map_err(|source| StartError::Spawn { program: program.display().to_string(), source })?;
        Ok(match self.shut {
            None => Postmaster::started(child, self.data_dir.clone()),
            Some(_) => Postmaster::launched(child, self.data_dir.clone()),
        })
    }

    /// A command that will run one of the installation's programs as the server's user.
    fn command(&self, program: &Path) -> Command {
        let Some(shut) = &self.shut else { return self.user.command(program) };
        let writable: Vec<&Path> =
            std::iter::once(&*self.data_dir).chain(self.private_socket.as_deref()).collect();
        shut.command(program, &self.installation, &self.user, &writable)
    }
}

/// A value of `unix_socket_directories`: names in quotes, because a comma would end one.
fn directory_list(dirs: &[&Path]) -> String {
    let quoted = dirs.iter().map(|dir| format!("\"{}\"", dir.display().to_string().replace('"', "\"\"")));
    quoted.collect::<Vec<_>>().join(",")
}

/// What a program printed, or the end of its complaints if it failed.
fn finished(program: &str, output: &Output) -> Result<String, ClusterError> {
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        return Ok(printed);
    }
    let text = if complaints.trim().is_empty() { printed } else { complaints };
    let lines: Vec<&str> = text.trim().lines().collect();
    Err(ClusterError::Failed {
        program: program.to_owned(),
        status: output.status.to_string(),
        output: lines[lines.len().saturating_sub(8)..].join("\n"),
    })
}

/// Gives the calling thread, and so the server that it starts next, an IPC namespace of its own.
///
/// A server finds the key of its System V shared memory by trying: it begins with the inode number of its data
/// directory, which is the same in every clone, and so the hundredth server tries a hundred keys. In a namespace of
/// its own the first key is free, and the segment vanishes with its server even after SIGKILL. Without the right to
/// make one (only root has it) the server tries keys as ever.
#[allow(
    unsafe_code,
    reason = "a measurement pays for it: a thousand servers try half a million keys without it"
)]
fn own_ipc_namespace() {
    // SAFETY: leaving the IPC namespace concerns System V and POSIX message objects only, and this program uses none.
    let _ = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWIPC) };
}

/// Has the program enter a control group before it begins, so that no process of it is ever outside.
#[allow(unsafe_code, reason = "a process that is moved by another one has children outside by then")]
fn enter_first(command: &mut Command, entries: Vec<File>) {
    let enter = move || entries.iter().try_for_each(|entry| rustix::io::write(entry, b"0").map(drop));
    // SAFETY: between fork and exec the closure only calls write(2) on open files. It allocates nothing and takes no
    // lock.
    unsafe { command.pre_exec(move || Ok(enter()?)) };
}
