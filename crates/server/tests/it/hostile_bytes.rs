//! What the doors read before anybody has proved anything is given bytes that are nearly right, and bytes that are anything: it
//! refuses them or reads them, never panics, and lets nobody in.
//!
//! The same readers are targets of the fuzzer under `fuzz/`.

use duramen_base::{clock, entropy};
use duramen_postgres::{
    scram::{Binding, ClientExchange, Mechanism, ServerExchange, Verifier},
    Secret,
};
use duramen_server::router::passed_on;
use std::{num::NonZeroU32, time::Duration};

const TIME: Duration = Duration::from_millis(1500);

/// What attackers put into places.
const TREATS: &[&[u8]] = &[
    b"\0",
    b"\0\0",
    b",",
    b"=",
    b"-c ",
    b"--",
    b"\\",
    b" ",
    b"duramen.policy=ddl",
    b"DURAMEN.",
    b"user",
    b"options",
    b"replication",
    b"database",
    b"_pq_.",
    b"r=",
    b",p=",
    b"c=biws",
    b"n,,",
    b"y,,",
    b"p=tls-server-end-point",
    b"i=4294967295",
    b"\xff\xff\xff\xff",
];

fn mutate(rng: &mut fastrand::Rng, bytes: &mut Vec<u8>) {
    for _ in 0..rng.usize(1..5) {
        let length = bytes.len();
        let at = rng.usize(..=length);
        match rng.u8(..6) {
            0 if length > 0 => bytes[rng.usize(..length)] = rng.u8(..),
            1 => bytes.truncate(at),
            2 => drop(bytes.drain(at..rng.usize(at..=length.min(at + 16)))),
            3 => {
                let copy = bytes[at..rng.usize(at..=length.min(at + 64))].to_vec();
                bytes.splice(at..at, copy);
            }
            4 => bytes.extend((0..rng.usize(1..40)).map(|_| rng.u8(..))),
            _ => drop(bytes.splice(at..at, TREATS[rng.usize(..TREATS.len())].iter().copied())),
        }
    }
}

/// Gives a reader mutants of what is valid for a while.
fn attack(valid: &[Vec<u8>], mut read: impl FnMut(&[u8])) {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let mut rng = entropy::rng(seed);
    let (begin, mut count) = (clock::now(), 0_u64);
    while begin.elapsed() < TIME {
        for _ in 0..50 {
            let mut bytes = valid[rng.usize(..valid.len())].clone();
            mutate(&mut rng, &mut bytes);
            read(&bytes);
            count += 1;
        }
    }
    println!("{count} mutants");
    assert!(count > 1000);
}

#[test]
fn start_up_packets_pass_nothing_on_that_is_not_for_the_server() {
    let start = |version: u32, pairs: &str| [&version.to_be_bytes()[..], pairs.as_bytes(), b"\0"].concat();
    let valid = [
        start(3 << 16, "user\0ci\0database\0app@try\0"),
        start(3 << 16 | 2, "user\0ci\0database\0@app\0duramen.ttl\x0090m\0_pq_.x\0y\0application_name\0psql\0"),
        start(3 << 16, "options\0-c duramen.policy=ddl -c search_path=a\\ b --work-mem=8MB\0user\0ci\0replication\0off\0"),
        [80_877_102_u32.to_be_bytes(), 7_u32.to_be_bytes(), 9_u32.to_be_bytes()].concat(),
        80_877_103_u32.to_be_bytes().to_vec(),
    ];
    assert_eq!(passed_on(&valid[1]).map(|passed| passed.len()), Some(1));
    let mut passed_some = 0;
    attack(&valid, |bytes| {
        for (name, value) in passed_on(bytes).into_iter().flatten() {
            passed_some += 1;
            let lower = name.to_ascii_lowercase();
            assert!(!["user", "database", "replication"].contains(&name.as_str()), "{name}");
            assert!(!lower.starts_with("duramen.") && !name.starts_with("_pq_."), "{name}");
            assert!(!name.is_empty() && !name.contains('\0') && !value.contains('\0'), "{name}={value}");
        }
    });
    assert!(passed_some > 0, "some are right enough to be read");
}

/// R1.
#[test]
fn no_message_of_a_client_that_has_not_the_secret_is_a_proof() {
    let secret = Secret::random();
    let verifier: Verifier = secret.verifier(NonZeroU32::new(64).unwrap()).parse().unwrap();
    let proof = ["p=", &"A".repeat(43), "="].concat();
    let valid = [
        format!("n,,n=,r=abc\0c=biws,r=NONCE,{proof}").into_bytes(),
        format!("y,,n=,r=abc\0c=eSws,r=NONCE,{proof}").into_bytes(),
        format!("p=tls-server-end-point,,n=,r=abc\0c=cD10bHM=,r=NONCE,{proof}").into_bytes(),
    ];
    attack(&valid, |bytes| {
        let zero = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let (first, last) = (&bytes[..zero], bytes.get(zero + 1..).unwrap_or_default());
        for (mechanism, binding) in [
            (Mechanism::Plain, Binding::None),
            (Mechanism::Plain, Binding::EndPoint(b"hash")),
            (Mechanism::Plus, Binding::EndPoint(b"hash")),
        ] {
            let begun = ServerExchange::begin(verifier.clone(), mechanism, first, binding);
            let Ok((exchange, challenge)) = begun else { continue };
            let nonce = challenge.strip_prefix("r=").unwrap().split(',').next().unwrap();
            let last = String::from_utf8_lossy(last).replace("NONCE", nonce);
            assert!(exchange.finish(last.as_bytes()).is_err(), "{last}");
        }
    });
}

#[test]
fn no_message_of_a_server_that_has_not_the_verifier_is_a_proof() {
    let secret = Secret::random();
    let valid = [
        format!("r=NONCEserver,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=64\0v={}=", "A".repeat(43)).into_bytes(),
        b"r=NONCEserver,s=AA==,i=1\0v=AA==".to_vec(),
        b"e=other-error\0e=invalid-proof".to_vec(),
    ];
    attack(&valid, |bytes| {
        let zero = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let (first, last) = (&bytes[..zero], bytes.get(zero + 1..).unwrap_or_default());
        let mut exchange = ClientExchange::begin();
        let own = exchange.first();
        let nonce = own.rsplit_once("r=").unwrap().1;
        let first = String::from_utf8_lossy(first).replace("NONCE", nonce);
        if exchange.last(&secret, first.as_bytes()).is_ok() {
            assert!(first.starts_with(&format!("r={nonce}")), "only its own login goes on: {first}");
        }
        assert!(!exchange.is_proven(last));
    });
}
