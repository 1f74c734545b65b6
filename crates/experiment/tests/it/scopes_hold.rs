//! A try changes what its spec allows, and never what decides about it.

use duramen_experiment::scope::{Rules, Violation, Why};
use duramen_experiment::spec::{Direction, Scope, Spec, SpecError};
use std::path::Path;

fn spec(allow: &[&str], off_limits: &[&str]) -> Spec {
    let text = Spec::template("rows", "./bench", "ms", Direction::Lower);
    let mut spec = Spec::parse(&text, Path::new("experiment.toml")).expect("the template");
    let owned = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect();
    spec.scope = Scope { allow: owned(allow), off_limits: owned(off_limits) };
    spec
}

/// The files of those that may not be changed.
fn refused(rules: &Rules, files: &[&str]) -> Vec<String> {
    let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
    rules.violations(&files).into_iter().map(|violation| violation.file).collect()
}

fn rules(allow: &[&str], off_limits: &[&str]) -> Rules {
    Rules::new(&spec(allow, off_limits), "lab/rows").expect("globs")
}

#[test]
fn without_globs_all_but_the_series_may_be_changed() {
    let rules = rules(&[], &[]);
    let files =
        ["src/a.rs", "README", ".hidden", "lab/rows/experiment.toml", "lab/rows/sub/x", "lab/rowsx", "lab/x"];
    assert_eq!(refused(&rules, &files), ["lab/rows/experiment.toml", "lab/rows/sub/x"]);
    // The folder, or one above it, could be replaced by a file or a link.
    assert_eq!(refused(&rules, &["lab/rows", "lab"]), ["lab/rows", "lab"]);
}

#[test]
fn the_series_is_off_limits_even_if_it_is_allowed() {
    let rules = rules(&["**", "lab/rows/**"], &[]);
    let found = rules.violations(&["lab/rows/bench.sh".to_owned()]);
    assert_eq!(found, [Violation { file: "lab/rows/bench.sh".to_owned(), why: Why::Series }]);
    assert!(found[0].to_string().contains("lab/rows/bench.sh"), "{}", found[0]);
}

#[test]
fn a_series_in_the_root_keeps_its_own_files() {
    for root in ["", ".", "./"] {
        let rules = Rules::new(&spec(&[], &[]), root).expect("rules");
        let files =
            ["experiment.toml", "experiments.jsonl", "experiments.html", "src/experiment.toml", "src/a"];
        assert_eq!(
            refused(&rules, &files),
            ["experiment.toml", "experiments.jsonl", "experiments.html"],
            "{root:?}"
        );
    }
    for outside in ["../lab", "..", "/elsewhere/lab"] {
        let rules = Rules::new(&spec(&[], &[]), outside).expect("rules");
        assert_eq!(refused(&rules, &["experiment.toml", "lab/x"]), Vec::<String>::new(), "{outside:?}");
    }
    for folder in ["lab", "lab/", "./lab"] {
        let rules = Rules::new(&spec(&[], &[]), folder).expect("rules");
        assert_eq!(refused(&rules, &["lab/x", "src/lab/x"]), ["lab/x"], "{folder:?}");
    }
}

#[test]
fn only_what_is_allowed_may_be_changed() {
    let rules = rules(&["src", "lib/*.c", "docs/**/*.md"], &[]);
    let good = ["src/a.rs", "src/deep/b.rs", "lib/x.c", "docs/x.md", "docs/a/b/x.md", "src"];
    let bad = ["srcs/a.rs", "crates/src/a.rs", "lib/deep/x.c", "lib/x.h", "docs/x.txt", "Cargo.toml"];
    assert_eq!(refused(&rules, &good), Vec::<String>::new());
    assert_eq!(refused(&rules, &bad), bad);
}

#[test]
fn off_limits_wins_and_covers_what_is_below() {
    let rules = rules(&["src/**"], &["src/bench", "src/{gen,made}", "**/*.lock", "src/x/*"]);
    let bad =
        ["src/bench", "src/bench/a.rs", "src/gen/deep/a.rs", "src/made/b", "src/a/go.lock", "src/x/y/z"];
    assert_eq!(refused(&rules, &bad), bad);
    assert_eq!(refused(&rules, &["src/benches/a.rs", "src/general", "src/x"]), Vec::<String>::new());
    let found = rules.violations(&["src/gen/a".to_owned()]);
    assert_eq!(found[0].why, Why::OffLimits("src/{gen,made}".to_owned()));
}

#[test]
fn a_folder_with_a_slash_is_no_file() {
    let rules = rules(&["src/"], &[]);
    assert_eq!(refused(&rules, &["src/a", "src"]), ["src"]);
}

#[test]
fn no_try_brings_its_own_figures() {
    let mut spec = spec(&[], &[]);
    spec.measure.file = Some("out/figures.json".to_owned());
    let rules = Rules::new(&spec, "lab").expect("rules");
    assert_eq!(refused(&rules, &["out/figures.json", "out", "out/other.json"]), ["out/figures.json", "out"]);
}

#[test]
fn what_is_no_path_is_refused() {
    let bad = ["../x", "a/../b", "", "/etc/passwd", "a//b", "./a"];
    assert_eq!(refused(&rules(&[], &[]), &bad), bad);
}

#[test]
fn a_glob_that_does_not_parse_is_named() {
    for glob in ["src/[", "{a", "", "/", "/abs", "../up", "a/../b", "./a", "!src", "a\\"] {
        for (allow, off_limits) in [(&[glob][..], &[][..]), (&[], &[glob])] {
            match Rules::new(&spec(allow, off_limits), "lab") {
                Err(SpecError::Glob { glob: named, .. }) => assert_eq!(named, glob),
                other => panic!("{glob:?}: {other:?}"),
            }
        }
    }
    assert!(Rules::new(&spec(&[&"a".repeat(1_001)], &[]), "lab").is_err());
}

/// What a spec says nothing of.
fn silent(command: &str, more: &str) -> Rules {
    let text = format!(
        "name = 's'\n[measure]\ncommand = \"{command}\"\n{more}\n[primary]\nmetric = 'm'\ndirection = 'lower'\n"
    );
    Rules::new(&Spec::parse(&text, Path::new("experiment.toml")).expect("a spec"), "lab").expect("globs")
}

#[test]
fn x5_what_measures_and_builds_is_off_limits_where_a_spec_does_not_say() {
    let bad = [
        "benches/speed.rs",
        "crates/core/benches/deep/speed.rs",
        "tests/all.rs",
        "src/__tests__/a.js",
        "bench.sh",
        "tools/bench_rows.py",
        "test_rows.py",
        "rows_test.go",
        "rows.bench.ts",
        "rows.test.js",
        "rows.spec.ts",
        "testdata/rows.json",
        "Cargo.toml",
        "crates/core/Cargo.toml",
        "Cargo.lock",
        "build.rs",
        ".cargo/config.toml",
        "rust-toolchain.toml",
        "Makefile",
        "src/makefile",
        "rules.mk",
        "CMakeLists.txt",
        "configure",
        "pyproject.toml",
        "setup.py",
        "requirements-dev.txt",
        "conftest.py",
        "poetry.lock",
        "package.json",
        "web/package-lock.json",
        "vite.config.mjs",
        "tsconfig.build.json",
        "go.mod",
        "go.sum",
        ".github/workflows/ci.yml",
        ".gitlab-ci.yml",
        ".gitignore",
        "src/.gitattributes",
    ];
    let good = [
        "src/main.rs",
        "src/attest.rs",
        "src/latest.py",
        "src/spec/read.rs",
        "words.c",
        "include/words.h",
        "pkg/rows/rows.go",
        "lib/index.js",
        "app.py",
        "README.md",
        "src/contest/a.go",
    ];
    for rules in [silent("cargo bench", ""), rules_of_template("cargo bench")] {
        assert_eq!(refused(&rules, &bad), bad);
        assert_eq!(refused(&rules, &good), Vec::<String>::new());
    }
    // Who names a list has that list, and who allows a folder does not allow what measures in it.
    assert_eq!(refused(&rules(&[], &[]), &bad), Vec::<String>::new());
    let allowed = silent("cargo bench", "[scope]\nallow = ['src/**', 'Cargo.toml']");
    assert_eq!(
        refused(&allowed, &["src/a.rs", "src/tests/a.rs", "Cargo.toml"]),
        ["src/tests/a.rs", "Cargo.toml"]
    );
}

fn rules_of_template(command: &str) -> Rules {
    let text = Spec::template("rows", command, "ms", Direction::Lower);
    Rules::new(&Spec::parse(&text, Path::new("experiment.toml")).expect("the template"), "lab")
        .expect("globs")
}

#[test]
fn x5_what_the_commands_run_is_off_limits_too() {
    for (command, scripts) in [
        ("sh measure.sh {scale}", &["measure.sh"][..]),
        ("./tools/measure {scale}", &["tools/measure"]),
        ("N=1 exec python3 -u tools/rows.py 5.5", &["tools/rows.py"]),
        ("bash tools/measure", &["tools/measure"]),
        ("make -s && time ./words | awk -f sums.awk", &["words", "sums.awk"]),
        ("go test ./store -bench . -run ^$", &[]),
        ("cargo bench -p core -- --exact rows", &[]),
        ("/usr/bin/env python ../other/x.py", &[]),
    ] {
        let scaled = "[[scale]]\nname = 'a'\nvalue = '1'";
        for rules in [silent(command, scaled), rules_of_template(command)] {
            let files =
                ["measure.sh", "tools/measure", "tools/rows.py", "words", "sums.awk", "store/a.go", "5.5"];
            assert_eq!(refused(&rules, &files), scripts, "{command}");
        }
    }
    // Unless it is the program itself, and allowed by its name.
    let own = silent("sh count.sh && sh sums.sh", "[scope]\nallow = ['count.sh', '**/*.sh']");
    assert_eq!(refused(&own, &["count.sh", "sums.sh"]), ["sums.sh"]);
    let checked = silent("./a", "build = 'sh make.sh'\n[[check]]\nname = 'c'\ncommand = 'node check.js'");
    assert_eq!(refused(&checked, &["make.sh", "check.js"]), ["make.sh", "check.js"]);
}
