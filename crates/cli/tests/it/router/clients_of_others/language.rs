//! What a client is run by: what that needs on the machine, how its packages are fetched, and its program.

use super::Client;
use crate::support::text;
use std::{
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::{process::Command, sync::Mutex};

/// How long a package may take to come, or a program to be built, on a machine that is busy with other things.
const SET_UP: Duration = Duration::from_secs(1200);
/// One of these at a time: two cannot write one folder, and each is work for all cores.
static SETTING_UP: Mutex<()> = Mutex::const_new(());

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Language {
    Shell,
    Python,
    Node,
    Go,
    Java,
    Rust,
}

impl Client {
    /// Its program, fetched and built, without its arguments; or what stands in the way.
    pub(super) async fn program(&self) -> Result<Command, String> {
        let language = format!("{:?}", self.language).to_lowercase();
        let set_up = repository().join("scripts/setup-clients");
        let missing = run(command(set_up, ["--missing", &language])).await?;
        if !missing.is_empty() {
            let missing = missing.trim().replace('\n', ", ");
            return Err(format!("{}: missing: {missing} (`make setup-clients` installs it)", self.name));
        }
        let _alone = SETTING_UP.lock().await;
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clients").join(&language);
        match self.language {
            Language::Shell => Ok(command("bash", [source("shell.sh")])),
            Language::Python => self.python(&folder.join(self.test)).await,
            Language::Node => self.node(&folder.join(self.test)).await,
            Language::Go => go(&folder).await,
            Language::Java => java(&folder).await,
            Language::Rust => rust(&folder).await,
        }
    }

    async fn python(&self, venv: &Path) -> Result<Command, String> {
        let python = venv.join("bin/python");
        if !python.exists() {
            let mut make = command("python3", ["-m", "venv"]);
            make.arg(venv);
            run(make).await?;
        }
        let mut install = command(venv.join("bin/pip"), ["install", "-q", "--retries", "2"]);
        install.args(self.packages);
        run(install).await?;
        Ok(command(python, [source("python.py")]))
    }

    async fn node(&self, folder: &Path) -> Result<Command, String> {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut install = command("npm", ["install", "--silent", "--no-audit", "--no-fund"]);
        install.args(self.packages).current_dir(folder);
        run(install).await?;
        let mut program = command("node", [source("node.mjs")]);
        program.current_dir(folder);
        Ok(program)
    }
}

async fn go(folder: &Path) -> Result<Command, String> {
    let program = folder.join("clients");
    let mut build = command("go", ["build", "-o"]);
    build.arg(&program).arg(".").current_dir(source("go"));
    run(build).await?;
    Ok(command(program, [""; 0]))
}

async fn java(folder: &Path) -> Result<Command, String> {
    let classpath = folder.join("classpath");
    let mut build = command("mvn", ["-q", "-B", "compile", "dependency:build-classpath"]);
    build
        .arg(format!("-Dfolder={}", folder.display()))
        .arg(format!("-Dmdep.outputFile={}", classpath.display()));
    build.current_dir(source("java"));
    run(build).await?;
    let packages =
        fs::read_to_string(&classpath).map_err(|error| format!("{}: {error}", classpath.display()))?;
    let all = format!("{}:{}", folder.join("classes").display(), packages.trim());
    Ok(command("java", ["-cp", &all, "duramen.clients.Main"]))
}

async fn rust(folder: &Path) -> Result<Command, String> {
    // The one on the PATH, which may be rustup's: packages that are built here name toolchains of their own, which it overrules.
    let mut build = command("cargo", ["build", "--quiet", "--locked", "--target-dir"]);
    build.arg(folder).current_dir(source("rust"));
    run(build).await?;
    Ok(command(folder.join("debug/clients"), [""; 0]))
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn source(name: &str) -> PathBuf {
    repository().join("crates/cli/tests/clients").join(name)
}

/// A command that ends with its test, and finds what `make setup-clients` has put beside the sources.
fn command<A: AsRef<OsStr>>(program: impl AsRef<OsStr>, arguments: impl IntoIterator<Item = A>) -> Command {
    let mut path = env::var_os("PATH").unwrap_or_default();
    path.push(":");
    path.push(repository().join("out/clients/bin"));
    let mut command = Command::new(program);
    command.args(arguments).env("PATH", path).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// What it prints.
async fn run(mut command: Command) -> Result<String, String> {
    let (program, arguments) = (command.as_std().get_program(), command.as_std().get_args());
    let what = Path::new(program).file_name().unwrap_or(program).display().to_string();
    let what = arguments.fold(what, |what, argument| format!("{what} {}", argument.display()));
    let output = tokio::time::timeout(SET_UP, command.output()).await;
    let output = output.map_err(|_| format!("{what}: not done after {SET_UP:?}"))?;
    let output = output.map_err(|error| format!("{what}: {error}"))?;
    let said = text(&output.stdout);
    if output.status.success() {
        Ok(said)
    } else {
        Err(format!("{what}: {said}{}", text(&output.stderr)))
    }
}
