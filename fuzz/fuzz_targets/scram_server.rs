//! Both messages of a client's proof, as the server's half reads them: what stands before the first zero byte, and what after it.
#![no_main]

use duramen_postgres::{
    scram::{Binding, Mechanism, ServerExchange, Verifier},
    Secret,
};
use libfuzzer_sys::fuzz_target;
use std::{num::NonZeroU32, sync::LazyLock};

static VERIFIER: LazyLock<Verifier> = LazyLock::new(|| {
    let text = Secret::random().verifier(NonZeroU32::new(64).expect("not zero"));
    text.parse().expect("a verifier of our own")
});

fuzz_target!(|bytes: &[u8]| {
    let zero = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (first, last) = (&bytes[..zero], bytes.get(zero + 1..).unwrap_or_default());
    for (mechanism, binding) in [
        (Mechanism::Plain, Binding::None),
        (Mechanism::Plain, Binding::EndPoint(b"hash")),
        (Mechanism::Plus, Binding::EndPoint(b"hash")),
    ] {
        if let Ok((exchange, _)) = ServerExchange::begin(VERIFIER.clone(), mechanism, first, binding) {
            assert!(exchange.finish(last).is_err(), "nobody guesses a proof");
        }
    }
});
