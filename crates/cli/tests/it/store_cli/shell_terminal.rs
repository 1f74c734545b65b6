//! `duramen store shell` at a terminal: a pseudo terminal, on which keys are typed and the screen is read.

use super::shell::Shell;
use duramen_base::clock;
use rustix::{
    fs::{open, Mode, OFlags},
    pty::{grantpt, openpt, ptsname, unlockpt, OpenptFlags},
};
use std::{
    fs::{self, File},
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, Command},
    sync::mpsc::{channel, Receiver},
    time::Duration,
};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Terminal {
    child: Child,
    keys: File,
    screen: Receiver<Vec<u8>>,
    /// What came and was not read yet.
    rest: String,
    /// All that came.
    all: String,
}

fn history(shell: &Shell) -> PathBuf {
    shell.beside("state/duramen/store-shell-history")
}

impl Terminal {
    /// Starts a shell on a terminal of its own, which sends it Ctrl-C as a signal while a line runs.
    fn new(shell: &Shell, arguments: &[&str]) -> Terminal {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a pseudo terminal");
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let name = ptsname(&keys, Vec::new()).unwrap();
        let side = || {
            open(&name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())
                .expect("its other side")
        };
        let inner = shell.command(&[&["shell"], arguments].concat());
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(inner.get_program()).args(inner.get_args());
        command
            .envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env_remove("DURAMEN_HOME");
        command.env("XDG_STATE_HOME", shell.beside("state")).env("TERM", "xterm").env_remove("NO_COLOR");
        command.current_dir(inner.get_current_dir().unwrap());
        let child = command.stdin(side()).stdout(side()).stderr(side()).spawn().expect("setsid runs");
        // It holds the other side, too, and would keep the terminal from ending.
        drop(command);
        let keys = File::from(keys);
        let mut screen_of = keys.try_clone().unwrap();
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // When the shell has ended, reading fails.
            while let Ok(count @ 1..) = screen_of.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Terminal { child, keys, screen, rest: String::new(), all: String::new() }
    }

    fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// Waits for something on the screen. Returns what came before it.
    #[track_caller]
    fn sees(&mut self, wanted: &str) -> String {
        let begin = clock::now();
        loop {
            if let Some((before, behind)) = self.rest.split_once(wanted) {
                let before = before.to_owned();
                self.rest = behind.to_owned();
                return before;
            }
            let left = PATIENCE.saturating_sub(begin.elapsed());
            match self.screen.recv_timeout(left) {
                Ok(bytes) => {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    self.rest += &text;
                    self.all += &text;
                }
                Err(_) => panic!("{wanted:?} was not seen; there was {:?}", self.rest),
            }
        }
    }

    /// Waits for a prompt behind which nothing was typed yet.
    #[track_caller]
    fn prompts(&mut self, prompt: &str) {
        self.sees(&format!("\x1b[K{prompt}\r"));
    }

    /// Types a line. It is done when the prompt comes again. Returns what was on the screen until then.
    #[track_caller]
    fn runs(&mut self, line: &str, prompt: &str) -> String {
        self.types(&format!("{line}\r"));
        self.sees(&format!("\x1b[K{prompt}\r"))
    }

    /// Waits for its end. Returns all that was on the screen.
    #[track_caller]
    fn ends(mut self) -> String {
        while let Ok(bytes) = self.screen.recv_timeout(PATIENCE) {
            self.all += &String::from_utf8_lossy(&bytes);
        }
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{:?}", self.all);
        std::mem::take(&mut self.all)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has ended, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn made() -> Shell {
    let shell = Shell::new();
    shell.ok(&["init"]);
    shell
}

#[test]
fn a_line_is_typed_completed_by_tab_and_run() {
    let shell = made();
    shell.ok(&["kv", "put", "greeting one", "hello", "--space", "tenant-7"]);
    shell.ok(&["branch", "fork", "experiment"]);
    let mut terminal = Terminal::new(&shell, &[]);
    terminal.prompts("main> ");
    // A verb, and a space.
    let seen = terminal.runs("\\spa\tten\t", "main [tenant-7]> ");
    assert!(seen.contains("\\space tenant-7 ") && seen.contains("\r\ntenant-7\r\n"), "{seen:?}");
    // Commands, and a key, which is quoted.
    let seen = terminal.runs("kv ge\tgree\t", "main [tenant-7]> ");
    assert!(seen.contains("kv get 'greeting one' ") && seen.contains("\r\nhello\r\n"), "{seen:?}");
    let seen = terminal.runs("\\branch exp\t", "experiment [tenant-7]> ");
    assert!(seen.contains("\\branch experiment "), "{seen:?}");
    // An option, a branch, and a key within quotes that are open.
    let seen = terminal.runs("kv get --bra\tma\t'greeting o\t", "experiment [tenant-7]> ");
    let line = "kv get --branch main 'greeting one' ";
    assert!(seen.contains(line) && seen.contains("\r\nhello\r\n"), "{seen:?}");
    // A file.
    fs::write(shell.beside("pairs.tsv"), "a\t1\n").unwrap();
    let seen = terminal.runs("kv load < pai\t", "experiment [tenant-7]> ");
    assert!(seen.contains("\r\nloaded 1 pair\r\n"), "{seen:?}");
    // What fails is told, and the shell goes on.
    let seen = terminal.runs("kv get nothing", "experiment [tenant-7]> ");
    assert!(seen.contains("error: there is no key \"nothing\""), "{seen:?}");
    let seen = terminal.runs("kv put 'unclosed", "experiment [tenant-7]> ");
    assert!(seen.contains("error: the line ends within quotes"), "{seen:?}");
    terminal.types("exit\r");
    terminal.ends();
    assert_eq!(shell.ok(&["kv", "get", "a", "--space", "tenant-7", "--branch", "experiment"]), "1\n");
}

#[test]
fn each_kind_of_name_is_completed() {
    let shell = made();
    shell.ok(&["state", "init", "cell-1", "x"]);
    shell.ok(&["json", "set", "document-1", "$", "{\"a\": 1}"]);
    shell.ok(&["vector", "create", "words", "--dimension", "2"]);
    shell.ok(&["index", "create", "by-a", "a"]);
    let mut terminal = Terminal::new(&shell, &[]);
    terminal.prompts("main> ");
    for (keys, line) in [
        ("state get ce\t", "state get cell-1 "),
        ("json get doc\t", "json get document-1 "),
        ("vector count wo\t", "vector count words "),
        ("index drop by\t", "index drop by-a "),
        ("history key x --kind js\t", "history key x --kind json "),
        ("kv put k 1 --type fl\t", "kv put k 1 --type float "),
        ("branch merge x --into=ma\t", "branch merge x --into=main "),
        ("branch merge x --strategy th\t", "branch merge x --strategy theirs "),
        ("\\help his\tkee\t", "\\help history keep "),
        ("\\timing of\t", "\\timing off "),
        ("com\t", "compact "),
    ] {
        terminal.types(keys);
        terminal.sees(line);
        terminal.types("\x03");
        terminal.prompts("main> ");
    }
    terminal.types("\x04");
    terminal.ends();
}

#[test]
fn keys_are_offered_up_to_a_limit() {
    let shell = made();
    let pairs: String = (0..500).map(|number| format!("key{number:03}\tx\n")).collect();
    shell.ok_fed(pairs.as_bytes(), &["kv", "load"]);
    let mut terminal = Terminal::new(&shell, &[]);
    terminal.prompts("main> ");
    terminal.types("kv get k\t\t");
    terminal.sees("key000");
    terminal.sees("key049");
    terminal.types("\x03");
    terminal.prompts("main> ");
    terminal.types("\x04");
    let all = terminal.ends();
    assert!(!all.contains("key050"), "{all}");
}

#[test]
fn ctrl_c_leaves_the_line_and_what_runs_but_not_the_shell() {
    let shell = made();
    let mut terminal = Terminal::new(&shell, &[]);
    terminal.prompts("main> ");
    terminal.types("kv put half a line\x03");
    terminal.prompts("main> ");
    assert!(terminal.runs("kv put whole line", "main> ").contains("put, version 1"));
    assert!(terminal.runs("tag create v1", "main> ").contains("main@v1 is version"));
    terminal.runs("kv put next 2", "main> ");
    terminal.types("watch --from v1\r");
    terminal.sees("+ kv default/next \"2\"");
    terminal.types("\x03");
    terminal.sees("interrupted");
    terminal.prompts("main> ");
    assert!(terminal.runs("kv count", "main> ").contains("\r\n2\r\n"));
    terminal.types("\\q\r");
    terminal.ends();
}

#[test]
fn what_is_stored_steers_no_terminal() {
    let shell = made();
    let evil = "a\x1b]0;owned\x07\u{9b}31mb\rc";
    shell.ok(&["kv", "put", "evil", evil]);
    shell.ok(&["kv", "put", "key\x1b[31m", "x"]);
    shell.ok(&["state", "set", "cell\x1b[31m", evil]);
    shell.ok(&["state", "set", "evil", evil]);
    shell.ok(&["json", "set", "doc\x1b[31m", "$", &serde_json::json!({ "m": evil }).to_string()]);
    shell.ok(&["event", "append", "type\x1b[31m", &serde_json::json!({ "m": evil }).to_string()]);
    shell.ok(&["vector", "create", "vec\x1b[31m", "--dimension", "2"]);
    // Where no terminal is, it is as it was stored.
    assert_eq!(shell.ok(&["kv", "get", "evil"]), format!("{evil}\n"));
    let mut terminal = Terminal::new(&shell, &[]);
    terminal.prompts("main> ");
    for line in [
        "kv get evil",
        "kv get evil --json",
        "kv scan",
        "kv list",
        "state list",
        "state get evil",
        "json list",
        "json scan",
        "json find",
        "event range",
        "event types",
        "vector collections",
        "\\tables",
        "history key evil",
        "watch --from 0 --idle 1ms",
    ] {
        terminal.runs(line, "main> ");
    }
    for keys in ["kv get ke\t\t", "state get ce\t\t", "json get do\t\t", "vector count ve\t\t"] {
        terminal.types(keys);
        terminal.types("\x03");
        terminal.prompts("main> ");
    }
    terminal.types("\\q\r");
    let all = terminal.ends();
    for steering in ["\x1b]0;", "\x07", "\u{9b}", "\x1b[31m"] {
        assert!(!all.contains(steering), "{steering:?} in {all:?}");
    }
    assert!(all.contains("a\\u{1b}]0;owned\\u{7}\\u{9b}31mb\\rc"), "{all:?}");
}

#[test]
fn the_history_is_kept_for_its_owner_and_within_limits() {
    let shell = made();
    let run = |lines: &[&str]| {
        let mut terminal = Terminal::new(&shell, &[]);
        terminal.prompts("main> ");
        for line in lines {
            terminal.runs(line, "main> ");
        }
        terminal.types("\x04");
        terminal.ends()
    };
    let long = format!("kv put k {}", "x".repeat(5000));
    run(&["kv put kept 1", " kv put hidden 1", "kv count", "kv count", &long]);
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(history(&shell)), 0o600);
    assert_eq!(mode(shell.beside("state/duramen")), 0o700);
    let kept = || -> Vec<String> {
        fs::read_to_string(history(&shell)).unwrap().lines().skip(1).map(str::to_owned).collect()
    };
    assert_eq!(kept(), ["kv put kept 1", "kv count"]);
    assert_eq!(shell.ok(&["kv", "count"]), "3\n", "a line did not run");

    // The next shell has it, and what others could read is its owner's again.
    fs::set_permissions(history(&shell), fs::Permissions::from_mode(0o644)).unwrap();
    let mut terminal = Terminal::new(&shell, &[]);
    terminal.prompts("main> ");
    terminal.types("\x1b[A");
    terminal.sees("kv count");
    assert!(terminal.runs("", "main> ").contains("\r\n3\r\n"));
    terminal.runs("kv get other", "main> ");
    terminal.types("\x04");
    terminal.ends();
    assert_eq!(mode(history(&shell)), 0o600);
    assert_eq!(kept(), ["kv put kept 1", "kv count", "kv get other"]);

    let many: String = (0..3000).map(|number| format!("kv get {number}\n")).collect();
    fs::write(history(&shell), format!("#V2\n{many}")).unwrap();
    run(&["kv count"]);
    let lines = kept();
    assert_eq!((lines.len(), lines.last().unwrap().as_str()), (1000, "kv count"));
}

#[test]
fn a_history_that_cannot_be_kept_keeps_no_shell_from_running() {
    let shell = made();
    fs::create_dir_all(history(&shell)).unwrap();
    let mut terminal = Terminal::new(&shell, &["--read-only"]);
    terminal.sees("warning: no history is kept");
    terminal.prompts("main (read only)> ");
    assert!(terminal.runs("kv count", "main (read only)> ").contains("\r\n0\r\n"));
    assert!(terminal.runs("kv put k 1", "main (read only)> ").contains("error: this command writes"));
    terminal.types("exit\r");
    terminal.ends();
}

#[test]
fn a_branch_that_is_gone_is_left_with_a_note_unless_the_shell_was_started_for_it() {
    let shell = made();
    shell.ok(&["branch", "fork", "told"]);
    let mut terminal = Terminal::new(&shell, &[]);
    terminal.prompts("main> ");
    terminal.runs("branch fork lost", "main> ");
    terminal.runs("\\branch lost", "lost> ");
    let seen = terminal.runs("branch delete lost", "main> ");
    assert!(seen.contains("note: the branch \"lost\" is gone; using \"main\""), "{seen:?}");
    terminal.types("\x04");
    terminal.ends();

    let mut terminal = Terminal::new(&shell, &["--branch", "told"]);
    terminal.prompts("told> ");
    terminal.runs("branch delete told", "told> ");
    let seen = terminal.runs("kv put k lost", "told> ");
    assert!(seen.contains("error: ") && !seen.contains("put, version"), "{seen:?}");
    terminal.runs("\\branch main", "main> ");
    terminal.types("exit\r");
    terminal.ends();
    assert_eq!(shell.ok(&["kv", "count"]), "0\n");
}

#[test]
fn a_shell_is_left_although_its_branch_cannot_be_looked_up() {
    let shell = made();
    shell.ok(&["branch", "fork", "try"]);
    let mut terminal = Terminal::new(&shell, &["--read-only"]);
    terminal.prompts("main (read only)> ");
    terminal.runs("\\branch try", "try (read only)> ");
    fs::remove_dir_all(shell.home().join("store")).unwrap();
    // If it were not left by the first line, Ctrl-D would do it, behind an error.
    terminal.types("exit\r\x04");
    let seen = terminal.ends();
    assert!(!seen.contains("error"), "{seen:?}");
}
