//! A request that comes again with its key is not done again; keys are bounded, and each belongs to who showed it.

use super::*;
use crate::caller::Visitor;
use duramen_api::{
    route::{Op, ENDPOINTS},
    token::{CreateToken, Token},
};

fn holder(id: &str) -> Caller {
    let token = Token::new(id.to_owned(), CreateToken::default(), jiff::Timestamp::UNIX_EPOCH);
    Caller::Holder(Visitor { token: Arc::new(token), sees_unmasked: true, router: None, session: None })
}

fn done(body: &str) -> Answer {
    Ok(reply::text(StatusCode::OK, Bytes::copy_from_slice(body.as_bytes())))
}

fn claim(keys: &Keys, caller: &Caller, key: &str, request: &str) -> Claim {
    match keys.turn(caller, key, &[request.as_bytes()]) {
        Ok(Turn::First(claim)) => claim,
        Ok(Turn::Again(_)) => panic!("it was there"),
        Err(refusal) => panic!("{refusal:?}"),
    }
}

fn code(turn: Result<Turn, Refusal>) -> (u16, String) {
    match turn {
        Err(refusal) => (refusal.status.as_u16(), refusal.body.code),
        Ok(_) => panic!("it was let through"),
    }
}

#[test]
fn the_second_is_told_what_came_of_the_first() {
    let keys = Keys::default();
    let one = holder("t-1");
    claim(&keys, &one, "k", "create").answered(done("first")).unwrap();
    match keys.turn(&one, "k", &[b"create"]).unwrap_or_else(|refusal| panic!("{refusal:?}")) {
        Turn::Again(response) => {
            assert_eq!(response.body().whole().unwrap().as_ref(), b"first");
            assert_eq!(response.headers()["idempotent-replayed"], "true");
        }
        Turn::First(_) => panic!("it would be done twice"),
    }
    let other = code(keys.turn(&one, "k", &[b"destroy"]));
    assert_eq!(other, (422, "idempotency_key_reused".to_owned()));
    // Where one part ends and the next begins is a part of the request.
    let shifted = code(keys.turn(&one, "k", &[b"crea", b"te"]));
    assert_eq!(shifted.0, 422);
}

#[test]
fn a_key_belongs_to_who_showed_it() {
    let keys = Keys::default();
    claim(&keys, &holder("t-1"), "k", "create").answered(done("first")).unwrap();
    claim(&keys, &holder("t-2"), "k", "create").answered(done("second")).unwrap();
    claim(&keys, &Caller::Owner, "k", "create").answered(done("third")).unwrap();
}

#[test]
fn while_it_runs_nobody_does_it_again_and_what_did_not_end_is_forgotten() {
    let keys = Keys::default();
    let one = holder("t-1");
    let running = claim(&keys, &one, "k", "create");
    let second = code(keys.turn(&one, "k", &[b"create"]));
    assert_eq!(second, (409, "request_in_progress".to_owned()));
    drop(running);
    let refused = claim(&keys, &one, "k", "create").answered(Err(Refusal::unauthenticated()));
    assert!(refused.is_err());
    claim(&keys, &one, "k", "create").answered(done("at last")).unwrap();
}

#[test]
fn what_is_too_long_to_keep_is_not_done_again() {
    let keys = Keys::default();
    let long = "x".repeat(REPLY_MAX + 1);
    claim(&keys, &Caller::Owner, "k", "query").answered(done(&long)).unwrap();
    let again = code(keys.turn(&Caller::Owner, "k", &[b"query"]));
    assert_eq!(again, (409, "reply_not_kept".to_owned()));
}

#[test]
fn who_shows_many_keys_loses_his_own_oldest() {
    let keys = Keys::default();
    let (one, other) = (holder("t-1"), holder("t-2"));
    claim(&keys, &other, "k", "create").answered(done("other")).unwrap();
    for number in 0..KEYS_OF_ONE * 2 {
        claim(&keys, &one, &number.to_string(), "create").answered(done("one")).unwrap();
    }
    assert_eq!(keys.lock().len(), KEYS_OF_ONE + 1);
    assert!(matches!(keys.turn(&other, "k", &[b"create"]), Ok(Turn::Again(_))));
    let running: Vec<Claim> =
        (0..KEYS_OF_ONE).map(|number| claim(&keys, &one, &format!("r{number}"), "create")).collect();
    let full = code(keys.turn(&one, "more", &[b"create"]));
    assert_eq!(full, (503, "too_many_keys".to_owned()));
    drop(running);
}

#[test]
fn a_key_is_short_alone_and_for_what_changes_something() {
    let of = |op: Op| ENDPOINTS.iter().find(|endpoint| endpoint.op == op).expect("it is there");
    let headers = |values: &[&str]| {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(HEADER, value.parse().unwrap());
        }
        headers
    };
    let create = of(Op::CreateBranch);
    assert_eq!(shown(create, &headers(&["a"])).unwrap(), Some("a"));
    assert_eq!(shown(create, &headers(&[])).unwrap(), None);
    for (endpoint, values) in [
        (create, vec![""]),
        (create, vec!["a", "b"]),
        (of(Op::Branches), vec!["a"]),
        (of(Op::CreateToken), vec!["a"]),
        (of(Op::AddSource), vec!["a"]),
    ] {
        assert_eq!(shown(endpoint, &headers(&values)).unwrap_err().body.code, "bad_idempotency_key");
    }
    assert!(shown(create, &headers(&[&"k".repeat(KEY_MAX + 1)])).is_err());
}
