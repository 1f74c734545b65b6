//! The house rules that a machine can check, over every file that git tracks or would track.
//!
//! A rule is a function from files to findings (`tidy/rules.rs`); `tidy/samples.rs` shows each of them a bad
//! sample, because a rule that cannot fail is not a rule. Run with `cargo test -p duramen-cli --test tidy`.

#[path = "tidy/files.rs"]
mod files;
#[path = "tidy/layers.rs"]
mod layers;
#[path = "tidy/rules.rs"]
mod rules;
#[path = "tidy/samples.rs"]
mod samples;

use files::File;
use rules::Finding;

/// Runs one rule over the repository and fails with every finding, each with its place and what to do.
fn enforce(rule: fn(&[File]) -> Vec<Finding>) {
    let files = files::of_repository();
    // A listing that misses what must be there would make every rule pass.
    for path in ["Cargo.toml", "crates/cli/tests/tidy.rs"] {
        assert!(files.iter().any(|file| file.path == path), "the listing of the repository lacks {path}");
    }
    let findings = rule(&files);
    let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
    assert!(lines.is_empty(), "{} finding(s):\n{}\n", lines.len(), lines.join("\n"));
}

#[test]
fn source_files_stay_short() {
    enforce(rules::file_length);
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    enforce(rules::machine_paths);
}

#[test]
fn no_file_names_a_registry_host() {
    enforce(rules::registry_hosts);
}

#[test]
fn every_crate_says_what_it_is() {
    enforce(rules::crate_documentation);
}

#[test]
fn the_code_map_lists_every_crate_and_no_other() {
    enforce(rules::code_map);
}

#[test]
fn crates_know_only_the_crates_below_them() {
    enforce(layers::layers);
}

#[test]
fn programs_of_other_workspaces_name_what_they_use() {
    enforce(layers::outer_workspaces);
}

#[test]
fn nothing_unfinished_is_left() {
    enforce(rules::leftovers);
}

#[test]
fn retired_words_do_not_come_back() {
    enforce(rules::retired_words);
}

#[test]
fn rust_sources_are_ascii() {
    enforce(rules::ascii_only);
}

#[test]
fn every_design_page_is_listed() {
    enforce(rules::design_pages);
}

#[test]
fn every_silenced_lint_has_a_reason() {
    enforce(rules::reasons);
}

#[test]
fn a_module_stands_beside_its_folder() {
    enforce(rules::module_files);
}
