//! Sorting integers by their bits, stably, in time that grows with their count alone.

const DIGIT_BITS: u32 = 11;
const BUCKETS: usize = 1 << DIGIT_BITS;

/// A key with what it belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keyed {
    pub(crate) key: u64,
    pub(crate) item: u32,
}

/// Sorts by the lowest `bits` bits of the keys; equal ones keep their order. `spare` is room to work in.
pub(crate) fn sort(items: &mut Vec<Keyed>, spare: &mut Vec<Keyed>, bits: u32) {
    if items.len() < 256 {
        let mask = 1_u64.checked_shl(bits).map_or(u64::MAX, |above| above - 1);
        items.sort_by_key(|each| each.key & mask);
        return;
    }
    spare.clear();
    spare.resize(items.len(), Keyed::default());
    let mut shift = 0;
    while shift < bits {
        // Above the bits that were asked for there may be others.
        let mask = (1_usize << (bits - shift).min(DIGIT_BITS)) - 1;
        let mut counts = [0_u32; BUCKETS];
        for each in items.iter() {
            counts[digit(each.key, shift, mask)] += 1;
        }
        // A digit that all keys share moves nothing.
        if counts.iter().all(|count| *count as usize != items.len()) {
            let mut begin = 0;
            for count in &mut counts {
                begin += std::mem::replace(count, begin);
            }
            for each in items.iter() {
                let place = &mut counts[digit(each.key, shift, mask)];
                spare[*place as usize] = *each;
                *place += 1;
            }
            std::mem::swap(items, spare);
        }
        shift += DIGIT_BITS;
    }
}

fn digit(key: u64, shift: u32, mask: usize) -> usize {
    (key >> shift) as usize & mask
}

/// How many bits the numbers below `count` have.
pub(crate) fn bits_below(count: usize) -> u32 {
    usize::BITS - count.saturating_sub(1).leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::{bits_below, sort, Keyed};

    #[test]
    fn few_and_many_are_sorted_alike_by_the_lowest_bits_and_stably() {
        let mut random = duramen_base::entropy::rng(1);
        for count in [0, 1, 2, 255, 256, 5000] {
            for bits in [0, 1, 11, 13, 33, 64] {
                let mut items: Vec<Keyed> =
                    (0..count).map(|item| Keyed { key: random.u64(..) >> random.u32(..64), item }).collect();
                let mut expected = items.clone();
                expected.sort_by_key(|each| if bits == 64 { each.key } else { each.key & ((1 << bits) - 1) });
                sort(&mut items, &mut Vec::new(), bits);
                assert_eq!(items, expected, "{count} items by {bits} bits");
            }
        }
    }

    #[test]
    fn as_many_bits_as_the_greatest_number_has() {
        assert_eq!([0, 1, 2, 3, 4, 5, 1024, 1025].map(bits_below), [0, 0, 1, 2, 2, 3, 10, 11]);
    }
}
