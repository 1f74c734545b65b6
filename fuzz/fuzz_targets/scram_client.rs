//! Both messages of a server, as the client's half reads them: what stands before the first zero byte, and what after it. `NONCE`
//! stands for the client's own.
#![no_main]

use duramen_postgres::{scram::ClientExchange, Secret};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static SECRET: LazyLock<Secret> = LazyLock::new(Secret::random);

fuzz_target!(|bytes: &[u8]| {
    let zero = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (first, last) = (&bytes[..zero], bytes.get(zero + 1..).unwrap_or_default());
    let mut exchange = ClientExchange::begin();
    let own = exchange.first();
    let nonce = own.rsplit_once("r=").expect("it has a nonce").1;
    let first = String::from_utf8_lossy(first).replace("NONCE", nonce);
    if exchange.last(&SECRET, first.as_bytes()).is_ok() {
        assert!(first.starts_with(&format!("r={nonce}")), "only its own login goes on");
    }
    assert!(!exchange.is_proven(last), "nobody guesses a proof");
});
