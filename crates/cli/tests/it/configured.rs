//! What a daemon serves with: a file, the environment and options, by one rule.

use crate::support::EXE;
use serde_json::Value;
use std::{fs, process::Command};
use tempfile::TempDir;

struct Home(TempDir);

impl Home {
    fn with(text: &str) -> Home {
        let home = Home(tempfile::tempdir().unwrap());
        fs::write(home.0.path().join("duramen.toml"), text).unwrap();
        home
    }

    /// Runs the program; whether it succeeded, and what it said.
    fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> (bool, String) {
        let output = Command::new(EXE)
            .arg("--home")
            .arg(self.0.path())
            .args(arguments)
            .env_remove("DURAMEN_CONFIG")
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        let said = if output.status.success() { output.stdout } else { output.stderr };
        (output.status.success(), String::from_utf8(said).unwrap())
    }

    fn shown(&self, variables: &[(&str, &str)]) -> impl Fn(&str) -> (String, String) + use<> {
        let (done, said) = self.run(&["config", "show", "--json"], variables);
        assert!(done, "{said}");
        let all: Value = serde_json::from_str(&said).unwrap();
        move |name: &str| {
            let found = all.as_array().unwrap().iter().find(|it| it["name"] == name).expect(name);
            let text = |key: &str| found[key].as_str().unwrap().to_owned();
            (text("value"), text("from"))
        }
    }
}

const FILE: &str = r#"
# Everything that is a text may also be a number.
pg-listen = "127.0.0.1:7001"
pg-idle = 90
insecure = true
unmasked-ok = false
pg-proxy-protocol = ["10.0.0.1", "10.1.0.0/16"]
"#;

#[test]
fn the_environment_comes_before_the_file_and_both_are_read_as_options_are() {
    let home = Home::with(FILE);
    let shown = home.shown(&[("DURAMEN_PG_LISTEN", "127.0.0.1:7002"), ("DURAMEN_INSECURE", "false")]);
    let file = home.0.path().join("duramen.toml").display().to_string();
    let of_file = |value: &str| (value.to_owned(), file.clone());
    assert_eq!(shown("pg-listen"), ("127.0.0.1:7002".to_owned(), "DURAMEN_PG_LISTEN".to_owned()));
    assert_eq!(shown("pg-idle"), of_file("90"));
    assert_eq!(
        shown("insecure"),
        ("false".to_owned(), "default".to_owned()),
        "the environment takes it back"
    );
    assert_eq!(shown("pg-proxy-protocol"), of_file("10.0.0.1,10.1.0.0/16"));
    assert_eq!(shown("volumes"), ("auto".to_owned(), "default".to_owned()));
    assert_eq!(shown("http-listen"), ("nowhere".to_owned(), "default".to_owned()));
    assert_eq!(home.shown(&[])("insecure"), of_file("true"));
    let (done, said) = home.run(&["config", "check"], &[]);
    assert!(done && said.contains("is in order; 4 settings are given"), "{said}");
    let other = home.0.path().join("other.toml");
    fs::write(&other, "pg-idle = \"2h\"").unwrap();
    let other = other.display().to_string();
    assert_eq!(home.shown(&[("DURAMEN_CONFIG", &other)])("pg-idle"), ("2h".to_owned(), other));
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (text, told) in [
        ("pg-lisen = \"127.0.0.1:1\"", "there is no setting pg-lisen; did you mean pg-listen?"),
        ("pg-listen = \"nowhere at all\"", "is not an address"),
        ("pg-idle = \"soon\"", "is not a time span"),
        ("insecure = \"yes\"", "insecure has to be true or false"),
        ("pg-listen = true", "pg-listen has to be a text"),
        ("pg-listen = [\"127.0.0.1:1\"]", "pg-listen has to be a text"),
        ("handover = true", "there is no setting handover"),
        ("pg-listen = ", "line 1"),
        ("[postgres]\nlisten = \"127.0.0.1:1\"", "there is no setting postgres"),
    ] {
        let home = Home::with(text);
        let file = home.0.path().join("duramen.toml").display().to_string();
        for command in [vec!["config", "check"], vec!["serve"]] {
            let (done, said) = home.run(&command, &[]);
            assert!(!done && said.contains(told) && said.contains(&file), "{text}: {said}");
        }
    }
    // One without the other, of which each may stand elsewhere.
    let home = Home::with("tls-cert = \"a.pem\"");
    let (done, said) = home.run(&["config", "check"], &[]);
    assert!(!done && said.contains("--tls-key"), "{said}");
    let (done, said) = home.run(&["config", "check"], &[("DURAMEN_TLS_KEY", "b.pem")]);
    assert!(done, "{said}");
    let (done, said) = home.run(&["config", "check"], &[("DURAMEN_HTTP_LISTEN", "x")]);
    assert!(!done && said.contains("DURAMEN_HTTP_LISTEN"), "{said}");
    let (done, said) = home.run(&["config", "check", "/nonexistent/duramen.toml"], &[]);
    assert!(!done && said.contains("/nonexistent/duramen.toml"), "{said}");
    let (_, said) = Home::with("x = 1").run(&["doctor"], &[]);
    assert!(said.contains("there is no setting x"), "{said}");
}

#[test]
fn the_schema_has_each_setting() {
    let home = Home::with("");
    let (done, said) = home.run(&["config", "schema"], &[]);
    assert!(done, "{said}");
    let schema: Value = serde_json::from_str(&said).unwrap();
    let properties = schema["properties"].as_object().unwrap();
    assert_eq!(properties["insecure"]["type"], "boolean");
    assert_eq!(properties["volumes"]["enum"][0], "auto");
    assert!(properties.values().all(|it| it["description"].as_str().is_some_and(|text| !text.is_empty())));
    let (_, shown) = home.run(&["config", "show", "--json"], &[]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown.as_array().unwrap().len(), properties.len());
}
