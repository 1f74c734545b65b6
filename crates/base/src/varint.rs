//! Numbers in groups of seven bits, the lowest first (LEB128): the form in which stores, packs, access graphs and protobuf
//! messages have them.

/// Why bytes are not a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VarintError {
    /// The bytes end within it.
    Short,
    /// It does not fit into 64 bits.
    Large,
}

/// Appends a number, 1 to 10 bytes.
///
/// # Examples
/// ```
/// use duramen_base::varint::{get, put};
/// let mut bytes = Vec::new();
/// put(&mut bytes, 300);
/// assert_eq!(bytes, [0xac, 0x02]);
/// assert_eq!(get(&bytes, &mut 0), Ok(300));
/// ```
#[inline]
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The number at a place, which moves behind it; after an error it is where it was.
///
/// # Errors
/// [`VarintError`]; a number may have more bytes than it needs, as protobuf allows.
#[inline]
pub fn get(bytes: &[u8], at: &mut usize) -> Result<u64, VarintError> {
    // Most numbers are tags, lengths and counts of one or two bytes.
    match bytes.get(*at..) {
        Some([low @ 0..=0x7f, ..]) => {
            *at += 1;
            Ok(u64::from(*low))
        }
        Some([low, high @ 0..=0x7f, ..]) => {
            *at += 2;
            Ok(u64::from(*low & 0x7f) | u64::from(*high) << 7)
        }
        _ => long(bytes, at),
    }
}

/// How many bytes [`put`] takes for a number.
#[inline]
pub fn len(value: u64) -> usize {
    // Seven bits a byte, at least one byte.
    (70 - (value | 1).leading_zeros() as usize) / 7
}

#[cold]
fn long(bytes: &[u8], at: &mut usize) -> Result<u64, VarintError> {
    let mut value = 0_u64;
    for (place, shift) in (*at..).zip((0..64).step_by(7)) {
        let byte = *bytes.get(place).ok_or(VarintError::Short)?;
        if shift == 63 && byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            *at = place + 1;
            return Ok(value);
        }
    }
    Err(VarintError::Large)
}

#[cfg(test)]
mod tests {
    use super::{get, len, put, VarintError};

    #[test]
    fn what_was_put_is_got() {
        let mut random = crate::entropy::rng(2);
        let edges = (0..64).flat_map(|bits| [(1_u64 << bits) - 1, 1 << bits]);
        let numbers: Vec<u64> =
            edges.chain((0..1000).map(|_| random.u64(..) >> random.u32(..64))).chain([u64::MAX]).collect();
        let mut bytes = Vec::new();
        for number in &numbers {
            let before = bytes.len();
            put(&mut bytes, *number);
            assert_eq!(bytes.len() - before, len(*number));
        }
        let mut at = 0;
        for number in numbers {
            assert_eq!(get(&bytes, &mut at), Ok(number));
        }
        assert_eq!(at, bytes.len());
    }

    #[test]
    fn what_is_no_number_is_refused_and_leaves_the_place() {
        for (bytes, wrong) in [
            (&[][..], VarintError::Short),
            (&[0x80][..], VarintError::Short),
            (&[0xff; 9][..], VarintError::Short),
            (&[0xff; 10][..], VarintError::Large),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2][..], VarintError::Large),
            (&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x81, 0][..], VarintError::Large),
        ] {
            let mut at = 0;
            assert_eq!((get(bytes, &mut at), at), (Err(wrong), 0), "{bytes:x?}");
        }
        let mut at = 0;
        assert_eq!(get(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], &mut at), Ok(u64::MAX));
    }
}
