//! The layer rule: a crate knows only the crates below it.

use crate::files::File;
use crate::rules::{crate_names, Finding};

/// Each crate with the crates that it may depend on, from the bottom up. A crate that is not here has no layer.
const LAYERS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("cage", &[]),
    ("measure", &["base"]),
    ("tree", &["base"]),
    ("store", &["base", "tree"]),
    ("store-tokio", &["store"]),
    ("store-legacy", &["base", "tree", "store"]),
    ("store-s3", &["base", "tree", "store"]),
    ("pack", &["base", "tree", "store"]),
    ("parquet", &[]),
    ("store-arrow", &["base", "store", "pack", "parquet"]),
    ("access", &["base", "pack", "parquet"]),
    ("postgres", &["base", "cage"]),
    ("changes", &["base", "postgres"]),
    ("schema", &["base", "postgres"]),
    ("carry", &["base", "pack", "postgres", "changes"]),
    ("traces", &["base"]),
    ("api", &[]),
    ("client", &["base", "api"]),
    ("console", &[]),
    ("mcp", &["base", "api", "client"]),
    ("branches", &["base", "cage", "measure", "postgres", "changes", "schema", "carry", "api"]),
    ("functions", &["base", "postgres", "traces"]),
    ("reports", &["base", "measure"]),
    ("experiment", &["base", "cage", "measure", "api", "client", "reports"]),
    (
        "attachments",
        &[
            "base",
            "measure",
            "store",
            "pack",
            "access",
            "postgres",
            "api",
            "functions",
            "reports",
            "experiment",
        ],
    ),
    ("fleet", &["base"]),
    ("operate", &["base", "api", "functions", "fleet"]),
    (
        "server",
        &[
            "base",
            "postgres",
            "traces",
            "api",
            "client",
            "console",
            "mcp",
            "branches",
            "attachments",
            "fleet",
        ],
    ),
    ("rehearse", &["base", "measure", "postgres", "api", "client", "reports"]),
    (
        "lab",
        &[
            "base",
            "measure",
            "tree",
            "store",
            "pack",
            "access",
            "postgres",
            "api",
            "client",
            "branches",
            "functions",
            "server",
            "reports",
        ],
    ),
    ("hosts", &["base"]),
    ("workload", &["base", "measure", "postgres", "hosts"]),
    ("replication", &["base", "measure", "postgres", "reports", "hosts", "workload"]),
    ("watch", &["base", "measure", "postgres", "replication", "reports"]),
    ("drill", &["base", "measure", "postgres", "functions", "reports"]),
    (
        "cli",
        &[
            "base",
            "cage",
            "measure",
            "tree",
            "store",
            "store-legacy",
            "store-s3",
            "pack",
            "store-arrow",
            "access",
            "postgres",
            "changes",
            "carry",
            "drill",
            "traces",
            "api",
            "client",
            "mcp",
            "branches",
            "fleet",
            "operate",
            "functions",
            "server",
            "reports",
            "rehearse",
            "lab",
            "replication",
            "watch",
            "experiment",
        ],
    ),
];

/// Normal and build dependencies stay inside the layer rule. Those of tests do not count.
pub(crate) fn layers(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in crate_names(files) {
        let manifest = format!("crates/{name}/Cargo.toml");
        let Some(file) = files.iter().find(|file| file.path == manifest) else { continue };
        let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| *layer == name) else {
            let advice = "this crate has no layer: add it to LAYERS in crates/cli/tests/tidy/layers.rs";
            findings.push(Finding::new(file, 1, advice));
            continue;
        };
        for (line, dependency) in own_dependencies(&file.text) {
            if !allowed.contains(&dependency.as_str()) {
                let below = if allowed.is_empty() { "no other crate".to_owned() } else { allowed.join(", ") };
                let advice =
                    format!("`{name}` may depend on {below}, not on `{dependency}`: move the code down");
                findings.push(Finding::new(file, line, advice));
            }
        }
    }
    findings
}

/// Programs that are workspaces of their own are not built here: what they use of ours stands in their manifests.
pub(crate) fn outer_workspaces(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        if !manifest.text.lines().any(|line| line.trim() == "[workspace]") {
            continue;
        }
        let folder = manifest.path.trim_end_matches("Cargo.toml");
        let declared: Vec<String> =
            own_dependencies(&manifest.text).into_iter().map(|(_, name)| name.replace('-', "_")).collect();
        for file in files.iter().filter(|file| file.path.starts_with(folder) && file.extension() == "rs") {
            for (index, line) in file.text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or_default();
                for (at, prefix) in code.match_indices("duramen_") {
                    let word = &code[at + prefix.len()..];
                    let end =
                        word.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(word.len());
                    let name = &word[..end];
                    if word[end..].starts_with("::") && !declared.iter().any(|known| known == name) {
                        let advice = format!("{} does not depend on `duramen-{name}`", manifest.path);
                        findings.push(Finding::new(file, index + 1, advice));
                    }
                }
            }
        }
    }
    findings
}

/// The crates of this workspace that a manifest depends on, with the lines that say so.
fn own_dependencies(manifest: &str) -> Vec<(usize, String)> {
    const PREFIX: &str = "duramen-";
    let mut found = Vec::new();
    let mut counts = false;
    for (index, line) in manifest.lines().enumerate() {
        let code = line.split('#').next().unwrap_or_default().trim();
        if let Some(header) = code.strip_prefix('[') {
            let parts: Vec<&str> = header.trim_end_matches(']').split('.').collect();
            counts = parts.iter().any(|part| matches!(*part, "dependencies" | "build-dependencies"));
        }
        if counts {
            for (at, _) in code.match_indices(PREFIX) {
                let name = &code[at + PREFIX.len()..];
                let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(name.len());
                found.push((index + 1, name[..end].to_owned()));
            }
        }
    }
    found
}
