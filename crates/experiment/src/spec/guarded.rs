//! What a try may not change unless its spec says otherwise: what measures, what checks, and what decides how it is built.

use super::{Equal, Spec};
use crate::glob::GLOB_BYTES_MAX;

/// What is off limits where a spec does not say: globs, and what each is for.
pub const OFF_LIMITS: [(&str, &str); 12] = [
    ("benchmarks and tests", "**/{bench,benches,benchmark,benchmarks,test,tests,__tests__,testdata}"),
    ("", "**/{bench,benches,benchmark,benchmarks,test,tests}[._-]*"),
    ("", "**/*[._-]{bench,benchmark,test,spec}.*"),
    ("Rust", "**/{Cargo.toml,Cargo.lock,build.rs,.cargo,rust-toolchain,rust-toolchain.toml}"),
    ("C and C++", "**/{[Mm]akefile,GNUmakefile,*.mk,CMakeLists.txt,*.cmake,configure,configure.ac,meson.build}"),
    (
        "Python",
        "**/{pyproject.toml,setup.py,setup.cfg,requirements*.txt,tox.ini,noxfile.py,pytest.ini,conftest.py,\
         sitecustomize.py}",
    ),
    (
        "Node",
        "**/{package.json,package-lock.json,npm-shrinkwrap.json,pnpm-lock.yaml,.npmrc,tsconfig*.json,*.config.[cm]js,\
         *.config.js,*.config.ts}",
    ),
    ("Go", "**/{go.mod,go.sum,go.work,go.work.sum}"),
    ("other builds", "**/{justfile,Justfile,Taskfile.yml,BUILD,BUILD.bazel,WORKSPACE,*.bzl,Dockerfile,flake.nix}"),
    ("what was locked", "**/{*.lock,*.lockb}"),
    ("CI", "{.github,.gitlab-ci.yml,.gitlab,.circleci,.buildkite,.ci,.travis.yml,Jenkinsfile}"),
    ("what git does with files", "**/{.gitignore,.gitattributes,.gitmodules}"),
];

/// Programs that run the file that is named to them first.
const INTERPRETERS: [&str; 11] =
    ["sh", "bash", "dash", "zsh", "python", "python3", "node", "ruby", "perl", "php", "Rscript"];
/// Programs that run the command that follows.
const WRAPPERS: [&str; 7] = ["exec", "env", "time", "nice", "nohup", "sudo", "command"];
/// Endings of files that are run wherever they stand in a command.
const SCRIPTS: [&str; 16] =
    ["sh", "bash", "py", "js", "mjs", "cjs", "ts", "rb", "pl", "php", "lua", "awk", "R", "jl", "mk", "sql"];

/// The files of the repository that a spec's commands run, as globs: a script that prints the figures could print
/// others.
pub(super) fn scripts(spec: &Spec) -> Vec<String> {
    let mut found = of_command(&spec.measure.command);
    let digest = spec.measure.equal.iter().filter_map(|equal| match equal {
        Equal::Command { command } => Some(command),
        _ => None,
    });
    let others =
        spec.measure.build.iter().chain(digest).chain(spec.checks.iter().map(|check| &check.command));
    for script in others.flat_map(|command| of_command(command)) {
        if !found.contains(&script) {
            found.push(script);
        }
    }
    found.truncate(SCRIPTS_MAX);
    found
}

/// The most files that commands name. More are not scripts.
const SCRIPTS_MAX: usize = 50;

/// What the next word of a command is.
#[derive(PartialEq)]
enum Next {
    Program,
    /// What an interpreter runs.
    Script,
    Argument,
}

/// The files of the repository that one command runs.
pub(super) fn of_command(command: &str) -> Vec<String> {
    let mut found = Vec::new();
    for simple in command.split([';', '&', '|', '(', ')', '`', '\n']) {
        let mut next = Next::Program;
        for word in simple.split_whitespace().map(|word| word.trim_matches(['\'', '"'])) {
            let is_assignment = word.split_once('=').is_some_and(|(name, _)| !name.contains(['-', '/']));
            if next == Next::Program && (is_assignment || WRAPPERS.contains(&word)) {
                continue;
            }
            let name = word.rsplit('/').next().unwrap_or(word);
            let is_script = name.rsplit_once('.').is_some_and(|(_, ending)| SCRIPTS.contains(&ending));
            // A program that is named without a folder is one of the system's.
            let is_file = is_script || next == Next::Script || (next == Next::Program && word.contains('/'));
            let path = word.strip_prefix("./").unwrap_or(word);
            if is_file && is_inside(path) && !found.iter().any(|known| known == path) {
                found.push(path.to_owned());
            }
            let is_interpreter = next == Next::Program && INTERPRETERS.contains(&name);
            next = if is_interpreter { Next::Script } else { Next::Argument };
        }
    }
    found
}

/// Whether a word is a path within the repository, of signs that mean nothing else in a glob.
fn is_inside(path: &str) -> bool {
    !path.starts_with(['/', '-', '~', '@'])
        && path.len() <= GLOB_BYTES_MAX
        && path.chars().all(|c| c.is_alphanumeric() || "_-./+@, ".contains(c))
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}
