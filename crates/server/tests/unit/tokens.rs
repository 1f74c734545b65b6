//! Tokens are kept, and what was entered by one ends with it.

use super::*;
use jiff::Timestamp;
use std::time::Duration;
use tokio::time::timeout;

fn named(name: &str) -> CreateToken {
    CreateToken { name: name.to_owned(), ..CreateToken::default() }
}

#[test]
fn no_secret_is_in_the_file_and_it_is_the_daemons_alone() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let tokens = Tokens::open(home.path()).unwrap();
    let made = tokens.create(named("ci")).unwrap();
    let path = home.path().join(FILE);
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains(&made.secret), "R7");
    assert!(!format!("{made:?} {tokens:?}").contains(&made.secret), "R7");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_stranger_sees_no_difference_between_names_that_are_there_and_others() {
    let home = tempfile::tempdir().unwrap();
    let tokens = Tokens::open(home.path()).unwrap();
    tokens.create(named("ci")).unwrap();
    let salt = |tokens: &Tokens, name: &str| {
        let text = tokens.challenge(name).0.to_string();
        text.split('$').nth(1).unwrap().to_owned()
    };
    let again = Tokens::open(home.path()).unwrap();
    for name in ["ci", "eve"] {
        assert_eq!(salt(&tokens, name), salt(&again, name), "R1: always the same for {name}");
    }
    assert_eq!(salt(&tokens, "ci").len(), salt(&tokens, "eve").len());
    assert_ne!(salt(&tokens, "bob"), salt(&tokens, "eve"));
    let past = Timestamp::UNIX_EPOCH;
    assert!(tokens.challenge("eve").1.is_none());
    let token = Token { expires_at: Some(past), ..Token::clone(&tokens.kept()["ci"].token) };
    let verifier = tokens.kept()["ci"].verifier.clone();
    tokens.kept().insert("ci".to_owned(), Kept::new(token, verifier.clone(), None));
    let (shown, grant) = tokens.challenge("ci");
    assert!(grant.is_none() && shown != verifier, "one whose time is over is nobody");
}

#[tokio::test]
async fn what_was_entered_ends_with_the_secret() {
    let home = tempfile::tempdir().unwrap();
    let tokens = Tokens::open(home.path()).unwrap();
    for name in ["rotated", "revoked", "kept"] {
        tokens.create(named(name)).unwrap();
    }
    let grant = |name: &str| tokens.challenge(name).1.unwrap();
    let (mut rotated, mut revoked, mut kept) = (grant("rotated"), grant("revoked"), grant("kept"));
    tokens.rotate("rotated").unwrap();
    tokens.revoke("revoked").unwrap();
    for ended in [&mut rotated, &mut revoked] {
        timeout(Duration::from_secs(5), ended.ends()).await.expect("R6");
    }
    timeout(Duration::from_millis(100), kept.ends()).await.expect_err("another one goes on");
    assert!(tokens.challenge("revoked").1.is_none());
    assert_eq!(grant("rotated").token.id, rotated.token.id, "branches stay its own");
    let soon = clock::utc_now() + jiff::SignedDuration::from_millis(300);
    tokens.create(CreateToken { expires_at: Some(soon), ..named("short") }).unwrap();
    timeout(Duration::from_secs(5), grant("short").ends()).await.expect("R6: its time is over");
}

#[test]
fn a_name_that_was_given_again_is_another_token() {
    let home = tempfile::tempdir().unwrap();
    let tokens = Tokens::open(home.path()).unwrap();
    let first = tokens.create(named("ci")).unwrap().token;
    assert!(matches!(tokens.create(named("ci")), Err(TokenError::Exists(_))));
    tokens.revoke("ci").unwrap();
    assert_ne!(tokens.create(named("ci")).unwrap().token.id, first.id);
    assert!(matches!(tokens.revoke("co"), Err(TokenError::NotFound { closest: Some(_), .. })));
}

#[test]
fn a_damaged_file_lets_nobody_in() {
    let home = tempfile::tempdir().unwrap();
    Tokens::open(home.path()).unwrap().create(named("ci")).unwrap();
    let path = home.path().join(FILE);
    let text = fs::read_to_string(&path).unwrap();
    for damaged in [
        text.replace("SCRAM-SHA-256", "md5"),
        text[..text.len() / 2].to_owned(),
        String::new(),
        text.replace("\"key\": \"", "\"key\": \"x"),
    ] {
        fs::write(&path, damaged).unwrap();
        assert!(matches!(Tokens::open(home.path()), Err(TokenError::Damaged { .. })));
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let tokens = Tokens::open(home.path()).unwrap();
    let past = Some(Timestamp::UNIX_EPOCH);
    for wrong in [
        named(""),
        named("A"),
        named("../x"),
        CreateToken { expires_at: past, ..named("a") },
        CreateToken { max_ttl_s: Some(0), ..named("a") },
        CreateToken { max_connections: Some(0), ..named("a") },
    ] {
        assert!(tokens.create(wrong.clone()).is_err(), "{wrong:?}");
    }
    assert!(tokens.list().is_empty());
}

fn is_right(check: &Check) -> bool {
    matches!(check, Check::Right(_))
}

/// H1.
#[test]
fn only_the_secret_of_a_living_token_is_right() {
    let home = tempfile::tempdir().unwrap();
    let tokens = Tokens::open(home.path()).unwrap();
    let (ci, other) = (tokens.create(named("ci")).unwrap(), tokens.create(named("other")).unwrap());
    for tokens in [&tokens, &Tokens::open(home.path()).unwrap()] {
        assert!(is_right(&tokens.check("ci", &ci.secret)));
        for (name, secret) in [("ci", other.secret.as_str()), ("ci", ""), ("", ""), ("eve", &ci.secret)] {
            assert!(matches!(tokens.check(name, secret), Check::Wrong), "{name}");
        }
    }
    let new = tokens.rotate("ci").unwrap();
    assert!(matches!(tokens.check("ci", &ci.secret), Check::Wrong), "the old one is no longer good");
    assert!(is_right(&tokens.check("ci", &new.secret)));
    tokens.revoke("ci").unwrap();
    assert!(matches!(tokens.check("ci", &new.secret), Check::Wrong));
    let past = Token { expires_at: Some(Timestamp::UNIX_EPOCH), ..other.token };
    let (verifier, hash) = {
        let kept = tokens.kept();
        (kept["other"].verifier.clone(), kept["other"].hash)
    };
    tokens.kept().insert("other".to_owned(), Kept::new(past, verifier, hash));
    assert!(matches!(tokens.check("other", &other.secret), Check::Wrong), "its time is over");
}

/// H1: a file of before has no hashes; they are learned when the secret comes.
#[test]
fn a_token_of_before_is_checked_by_its_verifier_once() {
    let home = tempfile::tempdir().unwrap();
    let made = Tokens::open(home.path()).unwrap().create(named("ci")).unwrap();
    let path = home.path().join(FILE);
    let mut file: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    file["tokens"][0].as_object_mut().unwrap().remove("hash").expect("it has one");
    fs::write(&path, file.to_string()).unwrap();

    let tokens = Tokens::open(home.path()).unwrap();
    let Check::Slow(verifier, Some(grant)) = tokens.check("ci", &made.secret) else { panic!("it is slow") };
    assert!(verifier.is_of(&made.secret) && !verifier.is_of("guess"));
    let Check::Slow(nobody, None) = tokens.check("eve", &made.secret) else { panic!("so is nobody") };
    assert!(!nobody.is_of(&made.secret));
    tokens.learn(&grant, &made.secret);
    for tokens in [&tokens, &Tokens::open(home.path()).unwrap()] {
        assert!(is_right(&tokens.check("ci", &made.secret)));
        assert!(matches!(tokens.check("eve", &made.secret), Check::Wrong));
    }
}
