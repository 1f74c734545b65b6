//! Sessions are their tokens', and are kept (W1, W2).

use super::*;
use duramen_api::token::CreateToken;
use std::{fs, os::unix::fs::PermissionsExt};
use tokio::time::timeout;

struct Home {
    dir: tempfile::TempDir,
    tokens: Tokens,
    sessions: Sessions,
}

impl Home {
    fn of(names: &[&str]) -> Home {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::open(dir.path()).unwrap();
        for name in names {
            tokens.create(CreateToken { name: (*name).to_owned(), ..CreateToken::default() }).unwrap();
        }
        let sessions = Sessions::open(dir.path());
        Home { dir, tokens, sessions }
    }

    fn begin(&self, name: &str, now: Timestamp) -> String {
        self.sessions.begin(&self.tokens, &self.tokens.alive(name).unwrap(), now).unwrap().0
    }

    fn who(&self, secret: &str, now: Timestamp) -> Option<String> {
        Some(self.sessions.find(&self.tokens, secret, now)?.token.name.clone())
    }

    /// What a daemon knows that is started now.
    fn again(&self) -> Sessions {
        Sessions::open(self.dir.path())
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join(FILE)
    }
}

fn after(begin: Timestamp, seconds: i64) -> Timestamp {
    begin + SignedDuration::from_secs(seconds)
}

const HOUR: i64 = 3600;

#[test]
fn a_session_is_its_tokens_and_is_kept_without_its_secret() {
    let home = Home::of(&["ci", "eve"]);
    let now = clock::utc_now();
    let secret = home.begin("ci", now);
    let text = fs::read_to_string(home.file()).unwrap();
    assert!(
        secret.len() == 43 && !text.contains(&secret) && !format!("{:?}", home.sessions).contains(&secret)
    );
    assert_eq!(fs::metadata(home.file()).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(home.who(&secret, now).as_deref(), Some("ci"));
    let kept = hash(&secret).to_hex().to_string();
    for wrong in ["", "x", &secret[1..], &kept] {
        assert_eq!(home.who(wrong, now), None, "{wrong}");
    }
    assert!(home.again().find(&home.tokens, &secret, now).is_some(), "another daemon knows it");
    let session = home.sessions.find(&home.tokens, &secret, now).unwrap().into_session().unwrap();
    home.sessions.end(&session).unwrap();
    assert_eq!(home.who(&secret, now), None);
    assert!(home.again().find(&home.tokens, &secret, now).is_none(), "the end is kept too");
}

#[test]
fn a_session_ends_unused_after_twelve_hours_and_in_any_case_after_seven_days() {
    let home = Home::of(&["ci"]);
    let begin = clock::utc_now();
    let unused = home.begin("ci", begin);
    assert_eq!(home.who(&unused, after(begin, 12 * HOUR)), None);
    let used = home.begin("ci", begin);
    for hour in (0..7 * 24).step_by(11) {
        assert!(home.who(&used, after(begin, hour * HOUR)).is_some(), "hour {hour}");
    }
    assert!(home.who(&used, after(begin, 7 * 24 * HOUR - 1)).is_some());
    assert_eq!(home.who(&used, after(begin, 7 * 24 * HOUR)), None);
    // A clock that is set back ends nothing, and what was used stays so.
    let set_back = home.begin("ci", begin);
    assert!(home.who(&set_back, after(begin, -HOUR)).is_some());
    assert!(home.who(&set_back, after(begin, 11 * HOUR)).is_some());
    // Use is written down, at times.
    assert!(home.again().find(&home.tokens, &set_back, after(begin, 22 * HOUR)).is_some());
}

#[tokio::test]
async fn a_session_ends_with_its_tokens_secret_whatever_the_file_says() {
    let home = Home::of(&["rotated", "revoked", "kept"]);
    let now = clock::utc_now();
    let all: Vec<_> = ["rotated", "revoked", "kept"].iter().map(|name| home.begin(name, now)).collect();
    let mut grants: Vec<_> =
        all.iter().map(|secret| home.sessions.find(&home.tokens, secret, now).unwrap()).collect();
    home.tokens.rotate("rotated").unwrap();
    home.tokens.revoke("revoked").unwrap();
    home.tokens.create(CreateToken { name: "revoked".to_owned(), ..CreateToken::default() }).unwrap();
    for (secret, is_there) in all.iter().zip([false, false, true]) {
        assert_eq!(home.who(secret, now).is_some(), is_there);
        assert_eq!(home.again().find(&home.tokens, secret, now).is_some(), is_there);
    }
    let mut kept = grants.pop().unwrap();
    for grant in &mut grants {
        timeout(Duration::from_secs(5), grant.ends()).await.expect("what goes on in it ends (H9)");
    }
    timeout(Duration::from_millis(100), kept.ends()).await.expect_err("another one goes on");
    let session = kept.session().unwrap().clone();
    home.sessions.end(&session).unwrap();
    timeout(Duration::from_secs(5), kept.ends()).await.expect("signed out");
}

#[test]
fn a_token_that_has_ended_has_no_session() {
    let home = Home::of(&[]);
    let now = clock::utc_now();
    let soon = CreateToken {
        name: "short".to_owned(),
        expires_at: Some(now + SignedDuration::from_millis(200)),
        ..CreateToken::default()
    };
    home.tokens.create(soon).unwrap();
    let secret = home.begin("short", now);
    assert!(home.who(&secret, now).is_some());
    std::thread::sleep(Duration::from_millis(250));
    assert_eq!(home.who(&secret, now), None);
    assert!(home.tokens.alive("short").is_err());
}

#[tokio::test]
async fn one_more_than_a_token_may_have_ends_the_one_that_was_used_least_lately() {
    let home = Home::of(&["ci", "other"]);
    let begin = clock::utc_now();
    let other = home.begin("other", begin);
    let all: Vec<_> =
        (0..SESSIONS_OF_ONE as i64).map(|number| home.begin("ci", after(begin, number))).collect();
    let now = after(begin, HOUR);
    // The first one is used again, so the second is the one that goes.
    assert!(home.who(&all[0], now).is_some());
    let mut second = home.sessions.find(&home.tokens, &all[1], begin).unwrap();
    let more = home.begin("ci", now);
    timeout(Duration::from_secs(5), second.ends()).await.expect("it made way");
    let there: Vec<_> = all.iter().map(|secret| home.who(secret, now).is_some()).collect();
    assert_eq!(there.iter().filter(|there| !**there).count(), 1, "{there:?}");
    assert!(there[0] && !there[1] && home.who(&more, now).is_some() && home.who(&other, now).is_some());
}

#[test]
fn sessions_of_tokens_that_are_gone_take_no_room() {
    let home = Home::of(&["gone", "ci"]);
    let now = clock::utc_now();
    let session = |name: &str, number: usize| {
        let bond = home.tokens.alive(name).unwrap().bond();
        let line = Line {
            hash: blake3::hash(&number.to_le_bytes()).to_hex().to_string(),
            bond,
            began_at: now,
            used_at: after(now, -(number as i64)),
        };
        serde_json::to_value(line).unwrap()
    };
    let file = |lines: Vec<serde_json::Value>| {
        fs::write(home.file(), serde_json::json!({ "sessions": lines }).to_string()).unwrap();
        home.again()
    };
    let sessions = file((0..SESSIONS_MAX).map(|number| session("ci", number)).collect());
    assert_eq!(sessions.lock().len(), SESSIONS_MAX);
    sessions.begin(&home.tokens, &home.tokens.alive("ci").unwrap(), now).unwrap();
    assert_eq!(sessions.lock().len(), SESSIONS_OF_ONE);
    let sessions = file((0..100).map(|number| session("gone", number)).collect());
    home.tokens.revoke("gone").unwrap();
    sessions.begin(&home.tokens, &home.tokens.alive("ci").unwrap(), now).unwrap();
    assert_eq!(sessions.lock().len(), 1);
}

#[test]
fn a_damaged_file_signs_everybody_out_and_nothing_else() {
    let home = Home::of(&["ci"]);
    let now = clock::utc_now();
    let secret = home.begin("ci", now);
    let whole = fs::read_to_string(home.file()).unwrap();
    for text in
        ["", "{", "[]", &whole[..whole.len() / 2], &whole.replace("hash\": \"", "hash\": \"x"), "\u{0}"]
    {
        fs::write(home.file(), text).unwrap();
        let sessions = home.again();
        assert!(sessions.find(&home.tokens, &secret, now).is_none(), "{text}");
        let (other, _) = sessions.begin(&home.tokens, &home.tokens.alive("ci").unwrap(), now).unwrap();
        assert!(home.again().find(&home.tokens, &other, now).is_some(), "the next sign-in replaces it");
    }
    fs::remove_file(home.file()).unwrap();
    fs::create_dir(home.file()).unwrap();
    let sessions = home.again();
    let refused = sessions.begin(&home.tokens, &home.tokens.alive("ci").unwrap(), now).expect_err("no file");
    assert!(refused.to_string().contains(FILE), "{refused}");
    assert!(sessions.lock().is_empty(), "what is not written down is not begun");
}
