//! What a repository says of its benchmark, its tests and its build: what `init` writes into a spec.

use super::{guarded, Reader};
use std::{fs, path::Path};

/// Files are read up to this, in bytes.
const FILE_MAX: u64 = 1 << 20;
/// Test files of Go are looked for so deep.
const DEPTH_MAX: usize = 6;
/// In so many folders.
const FOLDERS_MAX: usize = 2_000;
/// Folders that hold what others wrote.
const FOREIGN: [&str; 5] = ["node_modules", "target", "vendor", ".git", ".venv"];

/// A benchmark, with what belongs to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// What it is, in words.
    pub what: String,
    /// What is measured.
    pub command: String,
    /// How its figures are read.
    pub reader: Reader,
    /// The file of figures, if they are not printed.
    pub file: Option<String>,
    /// What builds it. What it leaves is there in every run.
    pub build: Option<String>,
    /// The tests.
    pub check: Option<String>,
    /// Files that measure or test beyond those that are off limits in any case, as globs.
    pub protects: Vec<String>,
}

impl Found {
    /// Just a command that prints `METRIC` lines.
    pub fn command(command: &str) -> Found {
        Found { command: command.to_owned(), ..Found::default() }
    }
}

/// The benchmarks of a repository: the target `bench` of its Makefile, those of cargo, of Go, of pytest-benchmark and the
/// script `bench` of a `package.json`, in this order.
pub fn benchmarks(root: &Path) -> Vec<Found> {
    [makefile(root), cargo(root), go(root), pytest(root), npm(root)].into_iter().flatten().collect()
}

fn makefile(root: &Path) -> Option<Found> {
    let name = ["GNUmakefile", "makefile", "Makefile"].into_iter().find(|name| root.join(name).is_file())?;
    let text = text(&root.join(name))?;
    let recipe = |target: &str| recipe_of(&text, target);
    let target = ["bench", "benchmark"].into_iter().find(|target| recipe(target).is_some())?;
    let tests = ["test", "check"].into_iter().find(|target| recipe(target).is_some());
    let recipes = [Some(target), tests].into_iter().flatten().filter_map(recipe).flatten();
    let scripts =
        recipes.flat_map(|line| guarded::of_command(line.trim_start_matches(['\t', '@', '-', '+', ' '])));
    Some(Found {
        what: format!("the target `{target}` of {name}"),
        command: format!("make -s {target}"),
        build: Some("make".to_owned()),
        check: tests.map(|target| format!("make {target}")),
        protects: unique(scripts),
        ..Found::default()
    })
}

/// The lines of a target.
fn recipe_of<'t>(makefile: &'t str, target: &str) -> Option<Vec<&'t str>> {
    let mut lines = makefile.lines();
    lines.find(|line| line.strip_prefix(target).is_some_and(is_rule))?;
    Some(lines.take_while(|line| line.starts_with('\t')).collect())
}

/// Whether what follows a word makes it a target, and no variable.
fn is_rule(rest: &str) -> bool {
    rest.trim_start().strip_prefix(':').is_some_and(|rest| !rest.starts_with('='))
}

fn cargo(root: &Path) -> Option<Found> {
    let text = text(&root.join("Cargo.toml"))?;
    let manifest: toml::Table = text.parse().ok()?;
    let named: Vec<&toml::Value> = ["bench", "test"]
        .into_iter()
        .filter_map(|kind| manifest.get(kind).and_then(toml::Value::as_array))
        .flatten()
        .collect();
    let members = ["crates", "."].into_iter().map(|folder| root.join(folder));
    let has_folder =
        root.join("benches").is_dir()
            || members.filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten().any(|entry| {
                entry.path().join("Cargo.toml").is_file() && entry.path().join("benches").is_dir()
            });
    if !manifest.contains_key("bench") && !has_folder {
        return None;
    }
    let named = named.into_iter().filter_map(|entry| entry.get("path")?.as_str().map(str::to_owned));
    let script =
        manifest.get("package").and_then(|package| package.get("build")?.as_str().map(str::to_owned));
    let is_criterion = text.contains("criterion") || has_criterion(root);
    Some(Found {
        what: "the benchmarks of cargo".to_owned(),
        command: "cargo bench --quiet".to_owned(),
        reader: if is_criterion { Reader::Criterion } else { Reader::Metric },
        build: Some("cargo bench --no-run".to_owned()),
        check: Some("cargo test".to_owned()),
        protects: unique(named.chain(script)),
        ..Found::default()
    })
}

/// Whether a member of a workspace asks for criterion.
fn has_criterion(root: &Path) -> bool {
    let members = fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    members.filter_map(|entry| text(&entry.path().join("Cargo.toml"))).any(|text| text.contains("criterion"))
}

fn go(root: &Path) -> Option<Found> {
    let has_one = root.join("go.mod").is_file()
        && any_file(root, &|path| {
            path.to_str().is_some_and(|path| path.ends_with("_test.go"))
                && text(path).is_some_and(|text| text.contains("func Benchmark"))
        });
    // The cache lies in the worktree, or each run would compile everything.
    let go = |rest: &str| format!("GOCACHE=\"$PWD/.gocache\" go {rest}");
    has_one.then(|| Found {
        what: "the benchmarks of Go".to_owned(),
        command: go("test -run '^$' -bench . ./..."),
        reader: Reader::Go,
        build: Some(go("test -run '^$' ./...")),
        check: Some(go("test ./...")),
        ..Found::default()
    })
}

fn pytest(root: &Path) -> Option<Found> {
    const DECLARED: [&str; 6] =
        ["pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "requirements.txt", "requirements-dev.txt"];
    let is_declared =
        |name: &&str| text(&root.join(name)).is_some_and(|text| text.contains("pytest-benchmark"));
    if !DECLARED.iter().any(is_declared) {
        return None;
    }
    Some(Found {
        what: "the benchmarks of pytest-benchmark".to_owned(),
        command: "python3 -m pytest -q --benchmark-only --benchmark-json=figures.json".to_owned(),
        reader: Reader::PytestBenchmark,
        file: Some("figures.json".to_owned()),
        build: Some("python3 -m compileall -q .".to_owned()),
        check: Some("python3 -m pytest -q --benchmark-skip".to_owned()),
        ..Found::default()
    })
}

fn npm(root: &Path) -> Option<Found> {
    let package: serde_json::Value = serde_json::from_str(&text(&root.join("package.json"))?).ok()?;
    let script = |name: &str| package.get("scripts")?.get(name)?.as_str();
    let name = ["bench", "benchmark"].into_iter().find(|name| script(name).is_some())?;
    let commands = [name, "test", "build"].into_iter().filter_map(script);
    let build = script("build").map(|_| "npm run --silent build".to_owned());
    let install = root.join("package-lock.json").is_file().then(|| "npm ci --silent".to_owned());
    let build: Vec<String> = install.into_iter().chain(build).collect();
    Some(Found {
        what: format!("the script `{name}` of package.json"),
        command: format!("npm run --silent {name}"),
        build: (!build.is_empty()).then(|| build.join(" && ")),
        check: script("test").map(|_| "npm test --silent".to_owned()),
        protects: unique(commands.flat_map(guarded::of_command)),
        ..Found::default()
    })
}

fn unique(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut all = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

fn text(path: &Path) -> Option<String> {
    if !path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() <= FILE_MAX) {
        return None;
    }
    fs::read_to_string(path).ok()
}

/// Whether any file below a folder is of a kind.
fn any_file(root: &Path, is_it: &dyn Fn(&Path) -> bool) -> bool {
    let (mut folders, mut seen) = (vec![(root.to_owned(), 0)], 0);
    while let Some((folder, depth)) = folders.pop() {
        seen += 1;
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, is_folder) = (entry.path(), entry.file_type().is_ok_and(|kind| kind.is_dir()));
            if !is_folder && is_it(&path) {
                return true;
            }
            let is_foreign = FOREIGN.iter().any(|name| path.ends_with(name));
            if is_folder && !is_foreign && depth < DEPTH_MAX && seen + folders.len() < FOLDERS_MAX {
                folders.push((path, depth + 1));
            }
        }
    }
    false
}
