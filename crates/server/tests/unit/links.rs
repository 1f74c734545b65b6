//! W5: a link works once, for a minute, and there are few.

use super::*;
use duramen_api::token::CreateToken;
use duramen_base::clock;

fn home(names: &[&str]) -> (tempfile::TempDir, Tokens) {
    let home = tempfile::tempdir().unwrap();
    let tokens = Tokens::open(home.path()).unwrap();
    for name in names {
        tokens.create(CreateToken { name: (*name).to_owned(), ..CreateToken::default() }).unwrap();
    }
    (home, tokens)
}

#[test]
fn a_link_is_taken_once_and_within_its_time() {
    let (_home, tokens) = home(&["ci"]);
    let (links, begin) = (Links::default(), clock::now());
    let grant = tokens.alive("ci").unwrap();
    let link = links.make(&grant, begin);
    assert!(link.len() == 43 && !format!("{links:?}").contains(&link), "256 bits, of which the hash is kept");
    for wrong in ["", "x", &link[1..], &format!("{link}A")] {
        assert!(links.take(&tokens, wrong, begin).is_none(), "{wrong}");
    }
    let last = begin + GOOD_FOR - Duration::from_millis(1);
    assert_eq!(links.take(&tokens, &link, last).expect("it is good").token.name, "ci");
    assert!(links.take(&tokens, &link, last).is_none(), "twice");
    let late = links.make(&grant, begin);
    assert!(links.take(&tokens, &late, begin + GOOD_FOR).is_none());
    assert!(links.take(&tokens, &late, begin).is_none(), "what was too late is gone");
}

#[test]
fn one_more_than_there_may_be_ends_the_oldest() {
    let (_home, tokens) = home(&["ci"]);
    let (links, begin) = (Links::default(), clock::now());
    let grant = tokens.alive("ci").unwrap();
    let all: Vec<_> = (0..=LINKS_MAX).map(|_| links.make(&grant, begin)).collect();
    assert_eq!(links.0.lock().unwrap().len(), LINKS_MAX);
    let good: Vec<_> = all.iter().map(|link| links.take(&tokens, link, begin).is_some()).collect();
    assert!(!good[0] && good[1..].iter().all(|good| *good), "{good:?}");
    // Those whose time is over take no place.
    links.make(&grant, begin);
    links.make(&grant, begin + GOOD_FOR);
    assert_eq!(links.0.lock().unwrap().len(), 1);
}

#[test]
fn a_link_of_a_token_that_was_rotated_or_revoked_is_none() {
    let (_home, tokens) = home(&["one", "two"]);
    let (links, begin) = (Links::default(), clock::now());
    let make = |name: &str| links.make(&tokens.alive(name).unwrap(), begin);
    let (one, two) = (make("one"), make("two"));
    tokens.rotate("one").unwrap();
    tokens.revoke("two").unwrap();
    tokens.create(CreateToken { name: "two".to_owned(), ..CreateToken::default() }).unwrap();
    assert!(links.take(&tokens, &one, begin).is_none());
    assert!(links.take(&tokens, &two, begin).is_none(), "the name is another token's");
}
