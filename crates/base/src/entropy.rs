//! The one place where random numbers come from.
//!
//! Names and secrets come from the kernel ([`random_bytes`], [`token`]). Everything that shuffles, samples or
//! generates data takes a seed ([`seed`]) and a generator made from it ([`rng`]), so that a run can be replayed by
//! setting `DURAMEN_SEED` to the seed that it printed.
#![allow(
    clippy::disallowed_methods,
    reason = "this module is the one that may ask the kernel for random bytes"
)]

/// The environment variable that fixes [`seed`].
pub const SEED_VARIABLE: &str = "DURAMEN_SEED";

/// Lower-case letters and digits without `l` and `o`, which are taken for `1` and `0`. The 24 letters come first.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
const LETTERS: usize = 24;

/// `N` random bytes from the kernel, fit for secrets.
///
/// # Panics
/// When the kernel has no random source at all, which no supported system lacks.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the kernel's random source answers on every supported system");
    bytes
}

/// A random name of `len` characters, with 5 bits of chance in each but the first.
///
/// It consists of lower-case letters and digits and begins with a letter, so that it can stand unquoted as a file
/// name, a PostgreSQL role, database or schema, and a DNS label.
///
/// ```
/// let name = duramen_base::entropy::token(12);
/// assert_eq!(name.len(), 12);
/// assert!(name.starts_with(|c: char| c.is_ascii_lowercase()));
/// ```
pub fn token(len: usize) -> String {
    let mut text = String::with_capacity(len);
    while text.len() < len {
        for byte in random_bytes::<32>() {
            let index = usize::from(byte & 31);
            // Throwing a digit away, rather than mapping it to a letter, leaves every first letter equally likely.
            if text.is_empty() && index >= LETTERS {
                continue;
            }
            if text.len() == len {
                break;
            }
            text.push(char::from(ALPHABET[index]));
        }
    }
    text
}

/// The seed of this run: that of the variable `DURAMEN_SEED` if it is set, else a random one.
///
/// A decimal number or a hexadecimal one after `0x` is taken as it is; any other text is hashed, so that a word
/// works as a seed too and no mistyped seed turns silently into a random one.
pub fn seed() -> u64 {
    match std::env::var_os(SEED_VARIABLE) {
        Some(text) if !text.is_empty() => seed_from_text(&text.to_string_lossy()),
        _ => u64::from_le_bytes(random_bytes()),
    }
}

/// What [`seed`] makes of the text of `DURAMEN_SEED`.
///
/// ```
/// use duramen_base::entropy::seed_from_text;
/// assert_eq!(seed_from_text("42"), 42);
/// assert_eq!(seed_from_text("0x2a"), 42);
/// assert_eq!(seed_from_text("heartwood"), seed_from_text("heartwood"));
/// ```
pub fn seed_from_text(text: &str) -> u64 {
    let text = text.trim();
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    number.unwrap_or_else(|| fnv1a(text.as_bytes()))
}

/// The deterministic generator of a seed. Not for secrets.
///
/// ```
/// let (mut a, mut b) = (duramen_base::entropy::rng(7), duramen_base::entropy::rng(7));
/// assert_eq!(a.u64(..), b.u64(..));
/// ```
pub fn rng(seed: u64) -> fastrand::Rng {
    fastrand::Rng::with_seed(seed)
}

/// FNV-1a with 64 bits (RFC 9923), for its constancy over versions and machines.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
