//! `duramen store shell` where its lines come from a pipe.

use super::shell::{said, text, Shell};
use serde_json::json;
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{channel, Receiver},
    time::Duration,
};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A store to begin with.
fn made() -> Shell {
    let shell = Shell::new();
    shell.ok(&["init"]);
    shell
}

/// Runs lines that all must do their work. Returns what they printed.
#[track_caller]
fn lines(shell: &Shell, lines: &str) -> String {
    shell.ok_fed(lines.as_bytes(), &["shell"])
}

#[test]
fn lines_are_commands_on_one_open_store() {
    let shell = made();
    let printed = lines(
        &shell,
        "kv put greeting hello\n\n# a note\n  kv get greeting\nkv put 'two words' \"it's\"\nkv get 'two words'\n\
         json set user:1 '$' '{\"name\": \"Ada\"}'\njson get user:1 name\nkv count",
    );
    assert_eq!(printed, "put, version 1\nhello\nput, version 2\nit's\nset, version 3\n\"Ada\"\n2\n");
    // It was closed behind them.
    assert_eq!(shell.ok(&["kv", "get", "greeting"]), "hello\n");
    assert_eq!(lines(&shell, "kv get greeting\nexit\nkv get nothing\n"), "hello\n");
    assert_eq!(lines(&shell, "\\q\nkv get nothing\n"), "");
    assert_eq!(lines(&shell, ""), "");
    assert_eq!(lines(&shell, "kv get greeting --json\r\n").lines().count(), 5);
    let found = shell.ok_fed(b"kv get greeting\n", &["shell", "--json"]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&found).unwrap()["value"], json!("hello"));
}

#[test]
fn a_line_makes_no_checkpoint_and_counts_its_own_work() {
    let shell = made();
    let output = shell.fed(b"kv put a 1\nkv get a\nkv put b 2\n", &["shell", "--counters"]);
    let told = text(&output.stderr);
    let of = |name: &str| -> Vec<String> {
        let lines = told.lines().filter(|line| line.starts_with(name));
        lines.map(|line| line[name.len()..].trim().to_owned()).collect()
    };
    assert_eq!(of("log appends"), ["1", "0", "1"], "{told}");
    assert_eq!(of("checkpoints"), ["0", "0", "0"], "{told}");
}

#[test]
fn the_first_line_that_fails_ends_it_and_is_named() {
    let shell = made();
    for (line, status, wanted) in [
        ("kv get nothing", 1, "line 2: there is no key \"nothing\""),
        ("kv", 2, "line 2: "),
        ("kv put", 2, "line 2: the following required arguments"),
        ("nonsense", 2, "line 2: unrecognized subcommand 'nonsense'"),
        ("\\nonsense", 2, "line 2: unknown command \\nonsense"),
        ("kv put 'a", 2, "line 2: the line ends within quotes"),
        ("kv exists nothing", 1, "line 2 ended with a status other than 0"),
        ("kv get a --branch gone", 1, "line 2: "),
        ("\\branch gone", 1, "line 2: "),
        ("\\space Bad", 1, "line 2: "),
        ("kv get a --at elsewhere", 2, "unexpected argument '--at'"),
        ("kv put a 1 --durability strict", 2, "unexpected argument '--durability'"),
        ("shell", 2, "this is a shell already"),
        ("repair", 2, "leave the shell first"),
        ("upgrade", 2, "leave the shell first"),
        ("init", 2, "has opened a store"),
        ("\\diff", 2, "main has no parent"),
    ] {
        let input = format!("kv put a 1\n{line}\nkv put after 1\n");
        let error = shell.fails_fed(status, input.as_bytes(), &["shell"]);
        assert!(error.contains(wanted), "{line}: {error}");
        shell.fails(1, &["kv", "get", "after"]);
        // The status is that of the first line that failed.
        let output =
            shell.fed(format!("{line}\nkv get a\nkv get nothing\n").as_bytes(), &["shell", "--keep-going"]);
        assert_eq!(output.status.code(), Some(status), "{line}: {}", said(&output));
        assert!(text(&output.stdout).ends_with("1\n"), "{line}: {}", said(&output));
        assert!(text(&output.stderr).contains("line 3: there is no key"), "{line}: {}", said(&output));
    }
    let error = shell.fails_fed(1, b"kv get nothing\n", &["shell", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&error).unwrap();
    assert_eq!(error["error"]["code"], json!("failed"));
    assert!(error["error"]["message"].as_str().unwrap().starts_with("line 1: there is no key"), "{error}");
}

#[test]
fn hostile_lines_are_errors_and_nothing_else() {
    let shell = made();
    let long = vec![b'x'; 3 << 20];
    let of_quotes = "'\"".repeat(20_000);
    let hostile: Vec<Vec<u8>> = vec![
        b"kv put 'a b".to_vec(),
        b"kv put a\\".to_vec(),
        b"\\".to_vec(),
        b"\\\\\\\\".to_vec(),
        b"\\branch '".to_vec(),
        b"\\\x1b]0;x\x07".to_vec(),
        b"\x1b[2J\x1b]0;owned\x07".to_vec(),
        b"kv put \xff\xfe 1".to_vec(),
        b"kv get a\0b\0c".to_vec(),
        b"\0".to_vec(),
        b"<".to_vec(),
        b"< <".to_vec(),
        b"kv load < /".to_vec(),
        b"--".to_vec(),
        b"-- --".to_vec(),
        b"--json".to_vec(),
        b"=\x7f\x08".to_vec(),
        "kv \u{202e}\u{9b}31m".as_bytes().to_vec(),
        of_quotes.into_bytes(),
        [b"kv put ".as_slice(), &long].concat(),
        [b"kv get ".as_slice(), &long].concat(),
        "kv ".repeat(100_000).into_bytes(),
    ];
    for line in &hostile {
        let input = [line.as_slice(), b"\nkv put after 1\n"].concat();
        let shown = String::from_utf8_lossy(&line[..line.len().min(40)]).into_owned();
        let output = shell.fed(&input, &["shell", "--keep-going"]);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{shown:?}: {told}");
        assert!(told.contains("line 1") && !told.contains("panicked"), "{shown:?}: {told}");
        assert!(text(&output.stdout).starts_with("put, version"), "{shown:?}: the next line did not run");
    }
    assert_eq!(shell.ok(&["kv", "count"]), "1\n");
    shell.ok(&["verify"]);
}

#[test]
fn a_line_longer_than_any_value_is_refused_without_holding_it() {
    let shell = made();
    let mut input = b"kv put k ".to_vec();
    input.resize(65 << 20, b'x');
    input.extend_from_slice(b"\nkv put after 1\n");
    let output = shell.fed(&input, &["shell", "--keep-going"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(text(&output.stderr), "error: line 1: it has more than 64 MiB; no value may\n");
    assert_eq!(text(&output.stdout), "put, version 1\n");
}

#[test]
fn a_branch_and_a_space_are_chosen_for_the_lines_that_follow() {
    let shell = made();
    let printed = lines(&shell, "kv put k main\n\\branch\n\\fork try\n");
    assert!(printed.contains("branch      try"), "{printed}");
    let printed = lines(
        &shell,
        "\\branch try\nkv put k other\n\\space tenant-7\nkv put k third\n\\space\nkv get k\nkv get k --space default\n\
         kv get k --branch main --space default\n\\diff\n\\diff main\n\\diff try main\n\\tables\n\\branches\n",
    );
    let expected =
        ["try", "put, version 3", "tenant-7", "put, version 4", "tenant-7", "third", "other", "main"];
    assert_eq!(printed.lines().take(8).collect::<Vec<_>>(), expected, "{printed}");
    assert_eq!(printed.matches("1 added, 0 removed, 1 modified").count(), 2, "{printed}");
    assert!(printed.contains("0 added, 1 removed, 1 modified"), "{printed}");
    assert!(printed.lines().any(|line| line.starts_with("tenant-7") && line.ends_with("kv")), "{printed}");
    assert!(printed.lines().any(|line| line.starts_with("*  try")), "{printed}");
    // It was a choice of that shell, and `branch switch` is one of the folder.
    assert_eq!(lines(&shell, "\\branch\n"), "main\n");
    assert_eq!(lines(&shell, "\\branch main\nbranch switch try\n\\branch\n"), "main\nswitched to try\ntry\n");
    assert_eq!(lines(&shell, "\\branch\n"), "try\n");
    assert_eq!(shell.ok_fed(b"kv get k\n", &["shell", "--branch", "main"]), "main\n");
    assert_eq!(shell.ok_fed(b"kv get k\n", &["shell", "--space", "tenant-7"]), "third\n");
    shell.fails_fed(1, b"", &["shell", "--branch", "gone"]);
}

#[test]
fn lines_for_a_branch_that_is_gone_fail_and_write_to_no_other() {
    let shell = made();
    shell.ok(&["branch", "fork", "told"]);
    let told: &[&str] = &["shell", "--branch", "told"];
    for (arguments, choice, name) in
        [(&["shell"][..], "branch fork gone\n\\branch gone\n", "gone"), (told, "", "told")]
    {
        for line in
            ["kv put k lost", "kv get k", "\\branch", "\\space tenant-7", "branch fork more", "\\diff"]
        {
            let input = format!("branch list\n{choice}branch delete {name}\n{line}\nkv put after lost\n");
            let error = shell.fails_fed(1, input.as_bytes(), arguments);
            let last = 3 + choice.lines().count();
            assert!(error.contains(&format!("line {last}: ")) && error.contains(name), "{line}: {error}");
            assert_eq!(shell.ok(&["kv", "count"]), "0\n", "{line}");
            if name == "told" {
                shell.ok(&["branch", "fork", "told"]);
            }
        }
    }
    // What names its branch, or needs none, goes on, and another one may be chosen.
    let input = "branch delete told\nkv put k kept --branch main\n\n# a note\nbranch list\n\\json off\n\\branch main\nkv get k\n\\q\n";
    let printed = shell.ok_fed(input.as_bytes(), told);
    assert!(printed.ends_with("main\nkept\n"), "{printed}");
    // Leaving needs no branch.
    shell.ok(&["branch", "fork", "told"]);
    for end in ["exit", "quit", "\\q", "", "# a note", "\\help", "help kv"] {
        shell.ok_fed(format!("branch delete told\n{end}\n").as_bytes(), told);
        shell.ok(&["branch", "fork", "told"]);
    }
}

#[test]
fn a_state_of_a_branch_is_read_in_a_shell() {
    let shell = made();
    let printed = lines(
        &shell,
        "history keep\nkv put k 1\ntag create v1\nkv put k 2\n\\branch main@v1\nkv get k\n\\branch main\nkv get k\n\\log\n\\log k\n",
    );
    assert!(printed.contains("\nmain@v1\n1\nmain\n2\n"), "{printed}");
    assert!(printed.contains("SINCE") && printed.contains("HOLDS"), "{printed}");
    let error = shell.fails_fed(2, b"\\branch main@v1\nkv put k 3\n", &["shell"]);
    assert!(error.contains("line 2: main@v1 is what a branch was"), "{error}");
}

#[test]
fn output_is_switched_between_tables_and_json() {
    let shell = made();
    let printed = lines(&shell, "kv put k v\n\\json\nkv get k\n\\branch\n\\json off\nkv get k\n");
    let objects = printed.split_once('\n').unwrap().1;
    assert!(objects.starts_with("{\n  \"json\": true\n}\n{\n  \"key\": \"k\""), "{printed}");
    assert!(printed.ends_with("results are printed as text and tables\nv\n"), "{printed}");
    let output = shell.fed(b"\\timing\nkv get k\n\\timing off\nkv get k\n", &["shell"]);
    let told = text(&output.stderr);
    assert!(told.starts_with("took ") && told.ends_with(" ms\n") && told.lines().count() == 1, "{told}");
}

#[test]
fn commands_are_fed_by_files_because_the_lines_are_on_the_standard_input() {
    let shell = made();
    fs::write(shell.beside("two pairs.tsv"), "a\t1\nb\t2\n").unwrap();
    fs::write(shell.beside("events"), "{\"n\": 1}\n{\"n\": 2}\n").unwrap();
    fs::write(shell.beside("bytes"), b"\xff\0\n").unwrap();
    fs::write(shell.beside("bytes.txt"), "of a file\n").unwrap();
    fs::write(shell.beside("docs"), "id,age\nx,7\n").unwrap();
    let printed = lines(
        &shell,
        "kv load --type int < 'two pairs.tsv'\nkv scan\nevent append tick --batch <events\n\
         kv put photo --type bytes --stdin < bytes\njson load --format csv --key id --infer < docs\njson get x age\n\
         kv put text - < bytes.txt\nkv get text\n",
    );
    let printed: Vec<&str> = printed.lines().filter(|line| !line.starts_with("put, version ")).collect();
    let expected =
        ["loaded 2 pairs", "a\t1", "b\t2", "appended events 0 to 1", "loaded 1 document", "7", "of a file"];
    assert_eq!(printed, expected);
    for taken in
        ["kv load", "kv put k -", "event append tick --batch", "json load --format csv", "json set y '$' -"]
    {
        let input = format!("{taken}\na\t1\n");
        let error = shell.fails_fed(2, input.as_bytes(), &["shell"]);
        assert!(
            error.contains("line 1: the lines of the shell come from the standard input"),
            "{taken}: {error}"
        );
    }
    let error = shell.fails_fed(1, b"kv load < gone.tsv\n", &["shell"]);
    assert!(error.contains("cannot open gone.tsv"), "{error}");
    fs::write(shell.beside("bad"), "no tab\n").unwrap();
    let error = shell.fails_fed(1, b"kv load < bad\n", &["shell"]);
    assert!(error.contains("line 1: line 1 of bad: it has no tab"), "{error}");
}

#[test]
fn a_store_that_is_not_there_is_not_made_by_a_shell() {
    let shell = Shell::new();
    for arguments in [&["shell"][..], &["shell", "--read-only"], &["shell", "--at", "elsewhere"]] {
        let error = shell.fails_fed(1, b"kv put a 1\n", arguments);
        assert!(error.contains("no store at") && error.contains("store init --at"), "{error}");
    }
    assert!(!shell.home().join("store").exists() && !shell.beside("elsewhere").exists());
    shell.ok_fed(b"kv put a 1\n", &["shell", "--at", "elsewhere", "--create"]);
    assert_eq!(shell.ok(&["kv", "get", "a", "--at", "elsewhere"]), "1\n");
}

#[test]
fn a_pack_and_a_checkpoint_are_read_and_not_written() {
    let shell = made();
    shell.ok(&["kv", "put", "a", "1"]);
    shell.ok(&["export", "main.dpack"]);
    for options in [&["--at", "main.dpack"][..], &["--read-only"], &["--checkpoint-only"]] {
        let arguments = [&["shell"], options].concat();
        assert_eq!(shell.ok_fed(b"kv get a\n\\tables\n\\branch\n", &arguments).lines().next(), Some("1"));
        for line in ["kv put a 2", "branch switch main", "branch fork x", "compact"] {
            let error = shell.fails_fed(2, format!("{line}\n").as_bytes(), &arguments);
            assert!(error.contains("line 1: "), "{options:?}, {line}: {error}");
        }
    }
    assert_eq!(shell.ok(&["kv", "get", "a"]), "1\n");
    let error = shell.fails_fed(2, b"kv put a 2 --read-only\n", &["shell"]);
    assert!(error.contains("leave out --read-only"), "{error}");
}

/// A shell whose lines are written one by one.
struct Talk {
    child: Child,
    input: ChildStdin,
    printed: Receiver<String>,
}

impl Talk {
    fn new(shell: &Shell, arguments: &[&str]) -> Talk {
        let mut command = shell.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program runs");
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, printed) = channel();
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Talk { child, input, printed }
    }

    /// Writes a line, and returns the first one that comes of it.
    #[track_caller]
    fn say(&mut self, line: &str) -> String {
        writeln!(self.input, "{line}").expect("it reads");
        self.printed.recv_timeout(PATIENCE).expect("an answer in time")
    }

    fn end(mut self) {
        drop(self.input);
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn the_store_is_held_from_the_first_line_to_the_last_and_read_beside() {
    let shell = made();
    let mut writer = Talk::new(&shell, &["shell"]);
    assert_eq!(writer.say("kv put k 1"), "put, version 1");
    let pid = format!("(process {})", writer.child.id());
    for other in [&["kv", "put", "k", "2", "--wait", "0"][..], &["shell", "--wait", "0"]] {
        let error = shell.fails(1, other);
        assert!(error.contains("open in another process") && error.contains(&pid), "{error}");
    }
    let mut reader = Talk::new(&shell, &["shell", "--read-only"]);
    assert_eq!(reader.say("kv get k"), "1");
    for number in 2..20 {
        writer.say(&format!("kv put k {number}"));
        assert_eq!(reader.say("kv get k"), number.to_string());
    }
    writer.say("branch fork try");
    assert_eq!(reader.say("\\branch try"), "try");
    assert_eq!(reader.say("kv get k"), "19");
    // A watch and a backup read beside the shell that they run in.
    let printed = {
        writeln!(writer.input, "backup copy").unwrap();
        let mut line = writer.printed.recv_timeout(PATIENCE).unwrap();
        while !line.starts_with("copy holds") {
            line = writer.printed.recv_timeout(PATIENCE).unwrap();
        }
        line
    };
    assert!(printed.contains("the store up to version"), "{printed}");
    reader.end();
    writer.end();
    assert_eq!(shell.ok(&["kv", "get", "k", "--at", "copy"]), "19\n");
    shell.ok(&["kv", "put", "k", "free", "--wait", "0"]);
}

#[test]
fn a_shell_that_is_killed_has_lost_nothing_that_was_acknowledged() {
    let shell = made();
    let mut writer = Talk::new(&shell, &["shell"]);
    for number in 0..50 {
        writer.say(&format!("kv put {number:02} x"));
    }
    writer.child.kill().unwrap();
    writer.child.wait().unwrap();
    assert_eq!(shell.ok(&["kv", "count"]), "50\n");
}

#[test]
fn every_command_of_the_store_is_reached_in_a_shell() {
    let shell = made();
    let listed = |mut command: Command| -> Vec<String> {
        let help = text(&command.arg("--help").output().unwrap().stdout);
        let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let lines = lines.take_while(|line| line.starts_with("  "));
        let names = lines.filter_map(|line| line.split_whitespace().next());
        names.filter(|name| *name != "help").map(str::to_owned).collect()
    };
    let mut input = String::new();
    let mut wanted = Vec::new();
    for noun in listed(shell.command(&[])) {
        if ["shell", "init", "repair", "upgrade"].contains(&noun.as_str()) {
            continue;
        }
        let below = listed(shell.command(&[&noun]));
        let names = match below.is_empty() {
            true => vec![noun.clone()],
            false => below.iter().map(|verb| format!("{noun} {verb}")).collect(),
        };
        for name in names {
            input += &format!("{name} --help\n\\help {name}\n");
            wanted.push(name);
        }
    }
    assert!(wanted.len() > 60, "{wanted:?}");
    let printed = lines(&shell, &input);
    for name in &wanted {
        let usage = printed.lines().filter(|line| {
            let rest = line.strip_prefix("Usage: ").and_then(|rest| rest.strip_prefix(name.as_str()));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        });
        assert_eq!(usage.count(), 2, "{name}");
        // The example is that of the command outside.
        assert!(printed.contains(&format!("duramen store {name}")), "{name}");
    }
    let help = lines(&shell, "\\help\n");
    for name in wanted.iter().filter_map(|name| name.split(' ').next()).chain(["\\branch", "\\timing"]) {
        assert!(help.lines().any(|line| line.starts_with(name)), "{name}: {help}");
    }
}

/// One of each kind is really run, and prints what the command prints outside.
#[test]
fn what_a_line_prints_is_what_its_command_prints() {
    let shell = made();
    lines(
        &shell,
        "kv put k 1 --type int\nstate init leader alice\nevent append login '{\"user\": 1}'\njson set d '$' '{\"a\": 1}'\n\
         vector create words --dimension 2\nvector upsert words oak '[1, 0]'\nindex create by-a a\nbranch fork try\n\
         kv add k 4 --branch try\nhistory keep\ntag create v1\nexport it.dpack\nimport it.dpack --as theirs\ncheckpoint\ncompact\n",
    );
    let mut seen = 0;
    for command in [
        &["kv", "scan"][..],
        &["state", "get", "leader", "--json"],
        &["event", "range"],
        &["json", "find", "a = 1"],
        &["vector", "search", "words", "[1, 0]"],
        &["index", "list"],
        &["space", "list"],
        &["branch", "diff", "main", "try", "--json"],
        &["branch", "merge", "try", "--dry-run"],
        &["history", "list"],
        &["tag", "list"],
        &["verify"],
        &["watch", "--from", "v1", "--idle", "10ms"],
        &["kv", "get", "k", "--branch", "theirs"],
    ] {
        let line = shlex::try_join(command.iter().copied()).unwrap();
        assert_eq!(lines(&shell, &line), shell.ok(command), "{line}");
        seen += 1;
    }
    assert_eq!(seen, 14);
}
