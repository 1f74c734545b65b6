//! How the record of a conflict lies in the tree.
//!
//! ```text
//! 65 row      format u8 (1), when i64, version u64, source length u8, source, base, ours, theirs
//! ```
//!
//! `row` is the key of the row in the tree. A side is its length u32 and its bytes, as they lay in the row; the length FFFFFFFF
//! without bytes says that there was no row. Numbers have the least significant byte first. The source is empty where the
//! changes were not those of a branch.

use crate::error::StoreError;
use crate::names::BRANCH_NAME_BYTES_MAX;

const FORMAT: u8 = 1;

/// The length of a side that has nothing.
const NOTHING: u32 = u32::MAX;

/// What a merge kept of a row that both sides had changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept<'b> {
    /// When, in milliseconds since 1970 (UTC).
    pub(crate) merged_ms: i64,
    /// The version of the store as of which the source was merged.
    pub(crate) version: u64,
    /// The branch that was merged; empty for a change that was picked.
    pub(crate) source: &'b str,
    /// What the sides had, as it lay in the row.
    pub(crate) base: Option<&'b [u8]>,
    pub(crate) ours: Option<&'b [u8]>,
    pub(crate) theirs: Option<&'b [u8]>,
}

impl<'b> Kept<'b> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        debug_assert!(self.source.len() <= BRANCH_NAME_BYTES_MAX);
        let sides = [self.base, self.ours, self.theirs];
        let values: usize = sides.iter().map(|side| 4 + side.map_or(0, <[u8]>::len)).sum();
        let mut out = Vec::with_capacity(18 + self.source.len() + values);
        out.push(FORMAT);
        out.extend_from_slice(&self.merged_ms.to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        out.push(self.source.len() as u8);
        out.extend_from_slice(self.source.as_bytes());
        for side in sides {
            // No row has as much as 4 GiB.
            let len = side.map_or(NOTHING, |side| side.len() as u32);
            out.extend_from_slice(&len.to_le_bytes());
            out.extend_from_slice(side.unwrap_or_default());
        }
        out
    }

    /// Reads a record, or says what is wrong with it.
    pub(crate) fn decode(bytes: &'b [u8]) -> Result<Self, StoreError> {
        let damaged = || StoreError::Damaged("it is cut off".into());
        let (format, rest) = bytes.split_first().ok_or_else(damaged)?;
        if *format != FORMAT {
            let (found, known) = (u64::from(*format), u64::from(FORMAT));
            return Err(StoreError::FromTheFuture { what: "the record of a conflict", found, known });
        }
        let (merged_ms, rest) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
        let (version, rest) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
        let (len, rest) = rest.split_first().ok_or_else(damaged)?;
        let (source, mut rest) = rest.split_at_checked(usize::from(*len)).ok_or_else(damaged)?;
        let source = std::str::from_utf8(source).map_err(|_| damaged())?;
        let mut side = || -> Result<Option<&'b [u8]>, StoreError> {
            let (len, behind) = rest.split_first_chunk::<4>().ok_or_else(damaged)?;
            let len = u32::from_le_bytes(*len);
            if len == NOTHING {
                rest = behind;
                return Ok(None);
            }
            let (side, behind) = behind.split_at_checked(len as usize).ok_or_else(damaged)?;
            rest = behind;
            Ok(Some(side))
        };
        let (base, ours, theirs) = (side()?, side()?, side()?);
        if !rest.is_empty() {
            return Err(damaged());
        }
        let (merged_ms, version) = (i64::from_le_bytes(*merged_ms), u64::from_le_bytes(*version));
        Ok(Self { merged_ms, version, source, base, ours, theirs })
    }
}

#[cfg(test)]
mod tests {
    use super::Kept;

    /// K8: whatever bytes come, they are read as what they say, or refused.
    #[test]
    fn records_are_read_as_they_were_written_and_nothing_else_is() {
        let long = vec![7; 300];
        for (base, ours, theirs) in [
            (None, None, None),
            (Some(&b""[..]), None, Some(&b"x"[..])),
            (Some(&long[..]), Some(&b"o"[..]), Some(&long[..])),
        ] {
            let kept = Kept { merged_ms: -5, version: u64::MAX, source: "try/1", base, ours, theirs };
            let bytes = kept.encode();
            assert_eq!(Kept::decode(&bytes).unwrap(), kept);
            for cut in 0..bytes.len() {
                assert!(Kept::decode(&bytes[..cut]).is_err(), "{cut}");
            }
            assert!(Kept::decode(&[&bytes[..], b"."].concat()).is_err());
        }
        let mut rng = fastrand::Rng::with_seed(65);
        for _ in 0..100_000 {
            let mut bytes: Vec<u8> = (0..rng.usize(0..60)).map(|_| rng.u8(..)).collect();
            if let Some(first) = bytes.first_mut() {
                *first = rng.u8(0..3);
            }
            if let Ok(kept) = Kept::decode(&bytes) {
                assert_eq!(kept.encode(), bytes);
            }
        }
    }
}
