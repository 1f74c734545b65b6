//! The rules: each is a function from files to findings.
//!
//! What a rule forbids is put together from pieces here, so that these files do not break it themselves.

use std::collections::BTreeSet;
use std::fmt;

use crate::files::File;

/// The longest source file, in lines. Tests may be longer: they are lists.
pub(crate) const LINES_MAX: usize = 800;

/// A place that breaks a rule, and what to do about it.
pub(crate) struct Finding {
    path: String,
    line: usize,
    advice: String,
}

impl Finding {
    pub(crate) fn new(file: &File, line: usize, advice: impl Into<String>) -> Self {
        Self { path: file.path.clone(), line, advice: advice.into() }
    }

    fn at(path: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { path: path.into(), line: 1, advice: advice.into() }
    }

    /// `file:line`.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.path, self.line)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place(), self.advice)
    }
}

/// The names of the folders under `crates/`.
pub(crate) fn crate_names(files: &[File]) -> BTreeSet<String> {
    let name = |file: &File| Some(file.path.strip_prefix("crates/")?.split_once('/')?.0.to_owned());
    files.iter().filter_map(name).collect()
}

fn find<'a>(files: &'a [File], path: &str) -> Option<&'a File> {
    files.iter().find(|file| file.path == path)
}

fn numbered(file: &File) -> impl Iterator<Item = (usize, &str)> {
    file.text.lines().enumerate().map(|(index, line)| (index + 1, line))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Every place of `needle` in `line`, with the characters before and after it.
fn places<'a>(
    line: &'a str,
    needle: &'a str,
) -> impl Iterator<Item = (Option<char>, std::str::Chars<'a>)> + 'a {
    let around =
        move |(at, _): (usize, &str)| (line[..at].chars().next_back(), line[at + needle.len()..].chars());
    line.match_indices(needle).map(around)
}

/// What the first line of a source says that a program writes.
const GENERATED: &str = "/** Written by generate.js out of";

/// Sources outside `tests/` folders that people write have at most `LINES_MAX` lines.
pub(crate) fn file_length(files: &[File]) -> Vec<Finding> {
    let is_source = |file: &&File| {
        matches!(file.extension(), "rs" | "py" | "ts" | "tsx" | "sql")
            && !file.path.split('/').any(|part| part == "tests")
            && !file.text.starts_with(GENERATED)
    };
    let too_long = |file: &File| {
        let lines = file.text.lines().count();
        let advice =
            format!("{lines} lines, {LINES_MAX} at most: give the second idea in it a file of its own");
        (lines > LINES_MAX).then(|| Finding::new(file, LINES_MAX + 1, advice))
    };
    files.iter().filter(is_source).filter_map(too_long).collect()
}

/// A module with files of its own is `foo.rs` beside `foo/`: one style, and editors show its name.
pub(crate) fn module_files(files: &[File]) -> Vec<Finding> {
    let module = |file: &&File| file.path.ends_with(concat!("/mod", ".rs"));
    let finding = |file| Finding::new(file, 1, "move it beside its folder and name it for the folder");
    files.iter().filter(module).map(finding).collect()
}

/// No absolute path that only exists on somebody's machine.
pub(crate) fn machine_paths(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        for (number, line) in numbered(file) {
            if let Some(path) = machine_path(line) {
                let advice =
                    format!("`{path}` exists on one machine only: use a relative path, or ask for it");
                findings.push(Finding::new(file, number, advice));
            }
        }
    }
    findings
}

fn machine_path(line: &str) -> Option<String> {
    // What stands before the slash when the path is not absolute: `../work`, `~/work`, `$(HOME)/work`.
    let continues = |c: char| is_word(c) || "./-~$})]>*".contains(c);
    for folder in ["work", "root", "home", "Users"] {
        let needle = format!("/{folder}");
        for (before, mut after) in places(line, &needle) {
            let below = match after.next() {
                Some('/') => after.next().is_some_and(|c| is_word(c) || c == '.'),
                // The names of the others have honest uses: a route, a user, a tag.
                next => folder == "work" && !next.is_some_and(|c| is_word(c) || c == '-'),
            };
            if below && !before.is_some_and(continues) {
                return Some(format!("/{folder}"));
            }
        }
    }
    None
}

/// No host of a package registry: clients are told which registry to use by the machine they run on.
pub(crate) fn registry_hosts(files: &[File]) -> Vec<Finding> {
    const HOSTS: [(&str, &str); 14] = [
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("crates", "io"),
        ("maven", "org"),
        ("maven.apache", "org"),
        ("goproxy", "io"),
        ("goproxy", "cn"),
        ("proxy.golang", "org"),
        ("sum.golang", "org"),
        ("deb.debian", "org"),
        ("security.debian", "org"),
    ];
    let hosts: Vec<String> = HOSTS.iter().map(|(name, domain)| format!("{name}.{domain}")).collect();
    let mut findings = Vec::new();
    for file in files {
        for (number, line) in numbered(file) {
            // cargo names the index of each package in its lock file.
            if file.path.ends_with("Cargo.lock") && line.starts_with("source = ") {
                continue;
            }
            let line = line.to_ascii_lowercase();
            let names =
                |host: &&String| places(&line, host).any(|(_, mut after)| !after.next().is_some_and(is_word));
            if let Some(host) = hosts.iter().find(names) {
                let advice =
                    format!("names the registry host {host}: name the package, and leave the host out");
                findings.push(Finding::new(file, number, advice));
            }
        }
    }
    findings
}

/// Every crate has a manifest with a description, and documentation at the top of its root file.
pub(crate) fn crate_documentation(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in crate_names(files) {
        let manifest = format!("crates/{name}/Cargo.toml");
        match find(files, &manifest) {
            None => findings.push(Finding::at(&manifest, "missing: a folder under crates/ is a crate")),
            Some(file) if !has_description(&file.text) => {
                findings.push(Finding::new(file, 1, "add `description = \"...\"` under [package]"));
            }
            Some(_) => {}
        }
        let roots = ["lib.rs", "main.rs"].map(|root| format!("crates/{name}/src/{root}"));
        let present: Vec<&File> = roots.iter().filter_map(|path| find(files, path)).collect();
        if present.is_empty() {
            findings.push(Finding::at(&roots[0], "missing: a crate has a src/lib.rs or a src/main.rs"));
        }
        for file in present {
            let first = file.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            if first.trim_start_matches("//!").trim().is_empty() || !first.starts_with("//!") {
                findings.push(Finding::new(file, 1, "begin with `//!` lines that say what the crate is for"));
            }
        }
    }
    findings
}

fn has_description(manifest: &str) -> bool {
    let mut in_package = false;
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            in_package = line == "[package]";
        }
        if let (true, Some(("description", value))) =
            (in_package, line.split_once('=').map(|(key, value)| (key.trim(), value.trim())))
        {
            return value.trim_matches('"').trim().len() > 1;
        }
    }
    false
}

/// ARCHITECTURE.md's code map names every crate as `crates/NAME`, in backquotes, and the page names no other.
pub(crate) fn code_map(files: &[File]) -> Vec<Finding> {
    const PAGE: &str = "ARCHITECTURE.md";
    let Some(page) = find(files, PAGE) else {
        return vec![Finding::at(PAGE, "missing: write it, with a heading `Code map`")];
    };
    let mut findings = Vec::new();
    let crates = crate_names(files);
    let mut map_line = None;
    let mut level = 0;
    let mut listed = BTreeSet::new();
    for (number, line) in numbered(page) {
        let depth = line.chars().take_while(|c| *c == '#').count();
        let is_map = depth > 0 && line.to_ascii_lowercase().contains("code map");
        if is_map && map_line.is_none() {
            (map_line, level) = (Some(number), depth);
        } else if depth > 0 && depth <= level {
            level = 0;
        }
        for (_, after) in places(line, "`crates/") {
            let name: String = after.take_while(|c| is_word(*c) || *c == '-').collect();
            if !crates.contains(&name) {
                let advice = format!("there is no crate `crates/{name}`: remove it, or fix its name");
                findings.push(Finding::new(page, number, advice));
            } else if level > 0 {
                listed.insert(name);
            }
        }
    }
    let line = map_line.unwrap_or(1);
    if map_line.is_none() {
        findings.push(Finding::new(page, 1, "add a heading `Code map` with one entry per crate"));
    }
    for name in crates.difference(&listed) {
        findings.push(Finding::new(
            page,
            line,
            format!("the code map lacks `crates/{name}`: say what it is"),
        ));
    }
    findings
}

/// Words that were used for what the field has a name for, with that name.
const RETIRED_WORDS: &[(&str, &str)] = &[
    ("lay_to_rest", "retire"),
    ("grave", "tombstone"),
    ("graves", "tombstones"),
    ("doomed", "retired"),
    ("workshop", "environment"),
    ("desk", "handle"),
    ("mend", "fix"),
];

/// No identifier is one of the words that have been replaced; the glossary in CONTRIBUTING.md has the right ones.
pub(crate) fn retired_words(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let sources = files.iter().filter(|file| file.extension() == "rs" && !file.path.contains("tests/tidy"));
    for file in sources {
        for (number, line) in numbered(file) {
            let identifiers = line.split(|c: char| !is_word(c));
            let parts = identifiers.flat_map(|word| [word].into_iter().chain(word.split('_')));
            let found: BTreeSet<&str> = parts.collect();
            for (word, right) in RETIRED_WORDS {
                if found.iter().any(|part| part.eq_ignore_ascii_case(word)) {
                    findings.push(Finding::new(file, number, format!("`{word}` is called `{right}` here")));
                }
            }
        }
    }
    findings
}

/// No marker of unfinished work, and no test that is skipped.
pub(crate) fn leftovers(files: &[File]) -> Vec<Finding> {
    let macros = [["to", "do!"].concat(), ["unimple", "mented!"].concat()];
    let marker = ["FIX", "ME"].concat();
    let skipped = ["#[", "ignore"].concat();
    let mut findings = Vec::new();
    for file in files {
        for (number, line) in numbered(file) {
            let whole_word = |(before, mut after): (Option<char>, std::str::Chars<'_>)| {
                !before.is_some_and(is_word) && !after.next().is_some_and(is_word)
            };
            if places(line, &marker).any(whole_word) {
                let advice = format!("{marker}: do it now, or file an issue and say here how it behaves");
                findings.push(Finding::new(file, number, advice));
            }
            if file.extension() != "rs" {
                continue;
            }
            for name in &macros {
                let called = |(before, mut after): (Option<char>, std::str::Chars<'_>)| {
                    !before.is_some_and(is_word) && after.next().is_some_and(|c| "([{".contains(c))
                };
                if places(line, name).any(called) {
                    findings.push(Finding::new(
                        file,
                        number,
                        format!("{name}: write the code, or leave it out"),
                    ));
                }
            }
            if line.contains(&skipped) {
                let advice = "a skipped test: fix it, or assert how the code behaves now and say why";
                findings.push(Finding::new(file, number, advice));
            }
        }
    }
    findings
}

/// Rust sources hold ASCII only; other characters are escaped, so that a reader sees what the compiler sees.
pub(crate) fn ascii_only(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.extension() == "rs") {
        for (number, line) in numbered(file) {
            if let Some(other) = line.chars().find(|c| !c.is_ascii()) {
                let code = u32::from(other);
                let advice =
                    format!("U+{code:04X} is not ASCII: write \\u{{{code:x}}} in a string, words elsewhere");
                findings.push(Finding::new(file, number, advice));
            }
        }
    }
    findings
}

/// Every page under `docs/design/` is named in ARCHITECTURE.md.
pub(crate) fn design_pages(files: &[File]) -> Vec<Finding> {
    let map = find(files, "ARCHITECTURE.md").map(|file| file.text.as_str()).unwrap_or_default();
    let is_page = |file: &&File| file.path.starts_with("docs/design/") && file.extension() == "md";
    let unlisted = |file: &&File| !map.contains(&file.path);
    let finding = |file| Finding::new(file, 1, "ARCHITECTURE.md does not name this page: add a link to it");
    files.iter().filter(is_page).filter(unlisted).map(finding).collect()
}

/// An attribute that silences a lint says why: with `reason = ".."`, or in a comment beside or right above it.
pub(crate) fn reasons(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.extension() == "rs") {
        let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
        for (index, line) in lines.iter().enumerate() {
            let is_attribute = line.starts_with("#[") || line.starts_with("#![");
            let silences = |name| places(line, name).any(|(before, _)| !before.is_some_and(is_word));
            if !is_attribute || !(silences("allow(") || silences("expect(")) {
                continue;
            }
            let end = lines[index..].iter().position(|line| line.contains(")]")).map_or(index, |n| index + n);
            let attribute = lines[index..=end].join(" ");
            let above = index.checked_sub(1).map(|above| lines[above]).unwrap_or_default();
            let is_comment =
                above.starts_with("//") && !above.starts_with("///") && !above.starts_with("//!");
            let beside = attribute.rsplit_once(")]").is_some_and(|(_, rest)| rest.contains("//"));
            if !attribute.contains("reason =") && !is_comment && !beside {
                let advice = "say why the lint is wrong here: `reason = \"...\"`, or a comment right above";
                findings.push(Finding::new(file, index + 1, advice));
            }
        }
    }
    findings
}
