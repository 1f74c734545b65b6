//! Flags in an index, filters and files that are ignored hide no change: neither that of a build (X13) nor that of the
//! user's working tree.

use crate::project::Project;
use crate::walls::project;
use duramen_experiment::event::Verdict;
use duramen_experiment::series::SeriesError;

/// A try that is better, and whose build does something besides.
fn building(project: &Project, code: &str) -> (Verdict, String) {
    project.reset();
    for (name, value) in [("small", "80"), ("large", "320"), ("held", "200")] {
        project.set(name, value);
    }
    project.write("program/build.sh", code);
    let ended = project.attempt().expect("the try ends");
    (ended.judgement.verdict, ended.judgement.reason)
}

#[test]
fn x13_what_a_build_changes_of_its_commit_is_found_by_content() {
    let project = project();
    project.write("Makefile", "all:\n");
    project.commit("Have something that is off limits");
    project.baseline();
    for (file, code) in [
        ("Makefile", "echo x >> Makefile\n"),
        ("Makefile", "git update-index --assume-unchanged Makefile; echo x >> Makefile\n"),
        ("Makefile", "git update-index --skip-worktree Makefile; echo x >> Makefile\n"),
        ("Makefile", "git update-index --skip-worktree Makefile; rm Makefile\n"),
        ("Makefile", "chmod +x Makefile; git config core.fileMode false\n"),
        (
            "Makefile",
            "git config filter.same.clean 'git show HEAD:Makefile'; echo 'Makefile filter=same' >> .git/info/attributes\n\
             echo x >> Makefile\n",
        ),
        ("Makefile", "echo x >> Makefile; git add Makefile; git -c user.name=a -c user.email=b commit -qm x\n"),
        ("Makefile", "rm -rf .git; echo x >> Makefile\n"),
        ("benches/extra.rs", "mkdir benches; echo '*' > benches/.gitignore; echo x > benches/extra.rs\n"),
        ("conftest.py", "echo conftest.py >> .git/info/exclude; echo x > conftest.py\n"),
    ] {
        let (verdict, reason) = building(&project, code);
        assert_eq!(verdict, Verdict::Invalid, "{code}: {reason}");
        assert!(reason.contains(file) && reason.contains("while it was built"), "{code}: {reason}");
    }
    // What the commit has git ignore is the build's own affair, and so is what both builds change alike.
    project.reset();
    project.write(".gitignore", "built.txt\n.count\nout\n");
    let build = std::fs::read_to_string(project.root.join("build.sh")).expect("the build");
    project.write("build.sh", &(build + "echo generated > Makefile\n"));
    project.commit("Generate a file");
    project.baseline();
    let (verdict, reason) = building(&project, "mkdir -p out/benches; echo $small > out/benches/a.rs\n");
    assert_eq!(verdict, Verdict::Keep, "{reason}");
}

#[test]
fn what_the_users_index_does_not_look_at_is_tried_all_the_same() {
    for flag in ["assume-unchanged", "skip-worktree"] {
        let project = Project::new();
        project.baseline();
        project.git(&["update-index", &format!("--{flag}"), "program/small"]);
        project.set("small", "80");
        let index = std::fs::read(project.root.join(".git/index")).expect("the index");
        let ended = project.attempt().expect("the try ends");
        assert_eq!(ended.files, ["program/small"], "{flag}");
        let error = project.with(|series| series.baseline()).expect_err("no baseline");
        assert!(
            matches!(&error, SeriesError::Dirty { files } if files == &["program/small"]),
            "{flag}: {error}"
        );
        assert_eq!(std::fs::read(project.root.join(".git/index")).expect("the index"), index, "X1");
    }
}
