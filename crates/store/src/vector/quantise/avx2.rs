//! The pass over a block for processors with AVX2: sixteen products in one instruction.
//!
//! Source: Intel Intrinsics Guide, `_mm256_madd_epi16`.
#![allow(
    unsafe_code,
    reason = "vector instructions exist only where the processor was asked; portable code takes 3 times as long"
)]

use std::arch::x86_64::{
    __m128i, __m256i, _mm256_add_epi32, _mm256_cvtepi8_epi16, _mm256_madd_epi16, _mm256_set1_epi32,
    _mm256_setzero_si256, _mm256_storeu_si256, _mm_loadu_si128,
};

use super::{Pass, Products, GROUP, STEP};

/// Whether this processor has what is used here.
pub(super) fn is_there() -> bool {
    std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
}

/// Runs a pass. It ends the program where [`is_there`] says no.
pub(super) fn run(pass: Pass<'_>) -> bool {
    assert!(is_there(), "AVX2 was chosen on a processor that has it");
    // SAFETY: the processor has the instructions, as was just seen.
    unsafe { compiled(pass) }
}

/// The whole pass, compiled for such processors, so that the estimates are computed by their instructions, too.
#[target_feature(enable = "avx2,fma")]
fn compiled(pass: Pass<'_>) -> bool {
    pass.run(Avx2(()))
}

/// Can be made here only, where the processor has been asked.
pub(super) struct Avx2(());

#[cfg(test)]
impl Avx2 {
    pub(super) fn detect() -> Option<Self> {
        is_there().then_some(Self(()))
    }
}

impl Products for Avx2 {
    #[inline(always)]
    fn products<const N: usize>(&self, groups: [&[[i8; STEP]]; N], pairs: &[[i16; 2]]) -> [[i32; GROUP]; N] {
        // SAFETY: a value of this type exists only where the processor has the instructions.
        unsafe { products(groups, pairs) }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn products<const N: usize>(groups: [&[[i8; STEP]]; N], pairs: &[[i16; 2]]) -> [[i32; GROUP]; N] {
    const { assert!(STEP == 32 && GROUP == 16, "two halves of sixteen codes make eight sums each") };
    let mut sums = [[_mm256_setzero_si256(); 2]; N];
    // Bounds are checked here, once.
    let groups = groups.map(|group| &group[..pairs.len()]);
    for (step, [first, second]) in pairs.iter().enumerate() {
        let pair = i32::from(first.cast_unsigned()) | i32::from(*second) << 16;
        let pair = _mm256_set1_epi32(pair);
        for (sums, group) in sums.iter_mut().zip(groups) {
            let halves = group[step].as_chunks::<{ STEP / 2 }>().0;
            for (sum, codes) in sums.iter_mut().zip(halves) {
                // SAFETY: sixteen bytes are there to be read, and the instruction asks for no alignment.
                let codes = unsafe { _mm_loadu_si128(codes.as_ptr().cast::<__m128i>()) };
                let codes = _mm256_cvtepi8_epi16(codes);
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(codes, pair));
            }
        }
    }
    sums.map(|halves| {
        let mut all = [0; GROUP];
        for (half, sum) in all.as_chunks_mut::<{ GROUP / 2 }>().0.iter_mut().zip(halves) {
            // SAFETY: eight numbers of four bytes have room for 32 bytes, and no alignment is asked for.
            unsafe { _mm256_storeu_si256(half.as_mut_ptr().cast::<__m256i>(), sum) };
        }
        all
    })
}
