//! Numbers in groups of seven bits, the lowest first: the one form in which packs, graphs and protobuf messages have them.

/// Why bytes are no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VarintError {
    /// The bytes end within it.
    Short,
    /// It does not fit into 64 bits.
    Large,
}

/// Appends a number.
#[inline]
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The number at a place, which moves behind it; after an error it is where it was.
#[inline]
pub(crate) fn get(bytes: &[u8], at: &mut usize) -> Result<u64, VarintError> {
    // Most numbers have one byte.
    match bytes.get(*at) {
        Some(&byte) if byte < 0x80 => {
            *at += 1;
            Ok(u64::from(byte))
        }
        _ => long(bytes, at),
    }
}

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
    use super::{get, put, VarintError};

    #[test]
    fn what_was_put_is_got() {
        let mut random = duramen_measure::entropy::rng(2);
        let edges = (0..64).flat_map(|bits| [(1_u64 << bits) - 1, 1 << bits]);
        let numbers: Vec<u64> =
            edges.chain((0..1000).map(|_| random.u64(..) >> random.u32(..64))).chain([u64::MAX]).collect();
        let mut bytes = Vec::new();
        numbers.iter().for_each(|number| put(&mut bytes, *number));
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
