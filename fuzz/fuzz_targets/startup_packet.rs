//! First packets of PostgreSQL clients, as the router reads them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(passed) = duramen_server::router::passed_on(bytes) else { return };
    for (name, value) in passed {
        let lower = name.to_ascii_lowercase();
        assert!(!["user", "database", "replication"].contains(&name.as_str()));
        assert!(!lower.starts_with("duramen.") && !name.starts_with("_pq_."));
        assert!(!name.is_empty() && !name.contains('\0') && !value.contains('\0'));
    }
});
