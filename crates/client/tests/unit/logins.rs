//! Which daemon is meant, and how the secret of one elsewhere is kept.

use super::*;
use std::{collections::BTreeMap, os::unix::fs::PermissionsExt};

fn login() -> Login {
    Login { url: "https://db.example:6433".to_owned(), token: "ci:secret".to_owned(), ca: None }
}

fn write(file: &Path, login: &Login, mode: u32) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, serde_json::to_string(login).unwrap()).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_is_named_goes_before_what_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().to_str().unwrap().to_owned();
    let mut variables = BTreeMap::from([("XDG_CONFIG_HOME", config.as_str())]);
    let usual = Path::new("/usual");
    let found = |named: Option<&str>, variables: &BTreeMap<&str, &str>| {
        let variable = |name: &str| variables.get(name).map(|value| (*value).to_owned());
        Client::of_environment(named.map(Path::new), usual, variable).map(|client| client.to_string())
    };
    assert_eq!(found(None, &variables).unwrap(), "/usual");
    write(&folder.path().join("duramen/login.json"), &login(), 0o600);
    assert_eq!(found(None, &variables).unwrap(), "https://db.example:6433");
    assert_eq!(found(Some("/named"), &variables).unwrap(), "/named");
    variables.insert("DURAMEN_HOME", "/usual");
    assert_eq!(found(None, &variables).unwrap(), "/usual");
    variables.insert("DURAMEN_URL", "https://other.example");
    assert!(matches!(found(None, &variables), Err(LoginError::NoToken)));
    variables.insert("DURAMEN_TOKEN", "ci:secret");
    assert_eq!(found(None, &variables).unwrap(), "https://other.example");
    assert_eq!(found(Some("/named"), &variables).unwrap(), "/named");
}

#[test]
fn a_secret_that_others_can_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("duramen/login.json");
    assert!(Login::read(&file).unwrap().is_none());
    for mode in [0o604, 0o640, 0o622] {
        write(&file, &login(), mode);
        let error = Login::read(&file).unwrap_err();
        assert!(matches!(error, LoginError::Open { .. }), "{mode:o}: {error}");
    }
    write(&file, &login(), 0o600);
    assert_eq!(Login::read(&file).unwrap().unwrap().token, "ci:secret");
    fs::write(&file, "{").unwrap();
    let damaged = Login::read(&file).unwrap_err().to_string();
    assert!(damaged.contains("duramen login"), "{damaged}");
    assert!(Login::forget(&file).unwrap());
    assert!(!Login::forget(&file).unwrap());
    assert!(!format!("{:?}", login()).contains("secret"));
}

/// As root, who alone can give files away; others read their own only.
#[test]
fn a_login_of_another_user_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("duramen/login.json");
    write(&file, &login(), 0o600);
    if !rustix::process::geteuid().is_root() {
        return;
    }
    std::os::unix::fs::chown(&file, Some(12_345), None).unwrap();
    let error = Login::read(&file).unwrap_err();
    assert!(matches!(error, LoginError::Foreign { owner: 12_345, .. }), "{error}");
    assert!(error.to_string().contains("remove it and run `duramen login` again"), "{error}");
    std::os::unix::fs::chown(&file, Some(0), None).unwrap();
    assert!(Login::read(&file).unwrap().is_some());
}

#[tokio::test]
async fn what_nobody_confirmed_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("duramen/login.json");
    let nobody = Login { url: "http://127.0.0.1:1".to_owned(), ..login() };
    assert!(matches!(nobody.keep(&file).await, Err(LoginError::Client(ClientError::Connect { .. }))));
    assert!(!file.exists());
}
