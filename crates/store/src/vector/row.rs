//! How a vector and its metadata lie in a leaf.
//!
//! `dimension (u16 LE) | dimension x f32 LE | metadata`, where metadata is compact JSON text up to the end of the row
//! and no bytes at all when there is none. A row is read in place, without copying.

use serde_json::Value;

use crate::filter::Filter;

/// The most dimensions that a vector may have.
pub const MAX_DIMENSION: usize = 8192;

/// Why a vector, a row or a search was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum VectorError {
    /// A number is NaN or infinite.
    #[error(
        "the vector's element {index} is not finite: replace NaN and infinity before storing or searching"
    )]
    NotFinite {
        /// Where it is, from 0.
        index: usize,
    },
    /// The vector does not fit the collection.
    #[error("the vector has {actual} dimensions but the collection has {expected}")]
    DimensionMismatch {
        /// What the collection holds.
        expected: usize,
        /// What was given.
        actual: usize,
    },
    /// The number of dimensions is out of range.
    #[error("{dimension} dimensions are out of range: use 1 to {MAX_DIMENSION}")]
    DimensionOutOfRange {
        /// What was given.
        dimension: usize,
    },
    /// A search for no results.
    #[error("a search must ask for at least one result: k is 0")]
    ZeroResults,
    /// No such metric.
    #[error("there is no metric {name:?}: use cosine, dot or euclidean")]
    UnknownMetric {
        /// What was asked for.
        name: String,
    },
    /// The bytes of a stored row are not a row.
    #[error("a stored vector row is damaged: {what}")]
    Damaged {
        /// What is wrong with it.
        what: &'static str,
    },
}

/// Refuses what cannot be stored in a collection of `dimension`.
///
/// # Errors
/// [`VectorError::DimensionOutOfRange`], [`VectorError::DimensionMismatch`], [`VectorError::NotFinite`].
///
/// ```
/// use duramen_store::vector::{check_vector, VectorError};
/// assert!(check_vector(2, &[0.5, 1.0]).is_ok());
/// assert_eq!(check_vector(2, &[0.5, f32::NAN]), Err(VectorError::NotFinite { index: 1 }));
/// ```
pub fn check_vector(dimension: usize, vector: &[f32]) -> Result<(), VectorError> {
    check_dimension(dimension)?;
    if vector.len() != dimension {
        return Err(VectorError::DimensionMismatch { expected: dimension, actual: vector.len() });
    }
    match vector.iter().position(|x| !x.is_finite()) {
        Some(index) => Err(VectorError::NotFinite { index }),
        None => Ok(()),
    }
}

pub(super) fn check_dimension(dimension: usize) -> Result<(), VectorError> {
    if (1..=MAX_DIMENSION).contains(&dimension) {
        Ok(())
    } else {
        Err(VectorError::DimensionOutOfRange { dimension })
    }
}

/// The bytes of a row. The vector is checked first, against the collection's `dimension`.
///
/// # Errors
/// Those of [`check_vector`].
///
/// ```
/// use duramen_store::vector::{decode_row, encode_row};
/// let bytes = encode_row(2, &[0.5, 1.0], Some(&serde_json::json!({"lang": "en"}))).unwrap();
/// let row = decode_row(&bytes).unwrap();
/// assert_eq!(row.to_vec(), [0.5, 1.0]);
/// assert_eq!(row.metadata().unwrap().unwrap()["lang"], "en");
/// ```
pub fn encode_row(
    dimension: usize,
    vector: &[f32],
    metadata: Option<&Value>,
) -> Result<Vec<u8>, VectorError> {
    check_vector(dimension, vector)?;
    let mut bytes = Vec::with_capacity(2 + vector.len() * 4 + if metadata.is_some() { 64 } else { 0 });
    let dimension = u16::try_from(vector.len()).expect("the dimension was checked to be at most 8192");
    bytes.extend_from_slice(&dimension.to_le_bytes());
    for x in vector {
        bytes.extend_from_slice(&x.to_le_bytes());
    }
    if let Some(metadata) = metadata {
        serde_json::to_writer(&mut bytes, metadata)
            .expect("a JSON value always has a text and memory takes it");
    }
    Ok(bytes)
}

/// A row, borrowed from the bytes that hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row<'a> {
    vector: &'a [u8],
    metadata: &'a [u8],
}

/// Finds the parts of a row. The numbers and the metadata are not looked at, so this takes a few nanoseconds.
///
/// # Errors
/// [`VectorError::Damaged`] when the bytes are too few or the dimension is out of range.
pub fn decode_row(bytes: &[u8]) -> Result<Row<'_>, VectorError> {
    let Some((head, rest)) = bytes.split_first_chunk::<2>() else {
        return Err(VectorError::Damaged { what: "it is shorter than its head" });
    };
    let dimension = usize::from(u16::from_le_bytes(*head));
    if check_dimension(dimension).is_err() {
        return Err(VectorError::Damaged { what: "its dimension is out of range" });
    }
    match rest.split_at_checked(dimension * 4) {
        Some((vector, metadata)) => Ok(Row { vector, metadata }),
        None => Err(VectorError::Damaged { what: "it is shorter than its dimension says" }),
    }
}

impl<'a> Row<'a> {
    /// The number of dimensions.
    pub fn dimension(&self) -> usize {
        self.vector.len() / 4
    }

    /// The vector as it lies in the row: `f32`, little-endian, at any alignment.
    pub fn vector_bytes(&self) -> &'a [u8] {
        self.vector
    }

    /// The vector's elements.
    pub fn elements(&self) -> impl ExactSizeIterator<Item = f32> + Clone + use<'a> {
        elements(self.vector)
    }

    /// A copy of the vector.
    pub fn to_vec(&self) -> Vec<f32> {
        self.elements().collect()
    }

    /// The metadata's JSON text, as stored.
    pub fn metadata_bytes(&self) -> Option<&'a [u8]> {
        (!self.metadata.is_empty()).then_some(self.metadata)
    }

    /// The metadata, parsed.
    ///
    /// # Errors
    /// [`VectorError::Damaged`] when it is not JSON.
    pub fn metadata(&self) -> Result<Option<Value>, VectorError> {
        self.metadata_bytes().map(parse_metadata).transpose()
    }

    /// Whether its metadata fulfils a filter; a row without any has no fields.
    pub(super) fn fulfils(&self, filter: &Filter) -> Result<bool, VectorError> {
        if filter.is_empty() {
            return Ok(true);
        }
        Ok(filter.matches(&self.metadata()?.unwrap_or_default()))
    }
}

pub(super) fn parse_metadata(bytes: &[u8]) -> Result<Value, VectorError> {
    serde_json::from_slice(bytes).map_err(|_| VectorError::Damaged { what: "its metadata is not JSON" })
}

/// The elements of a vector in little-endian bytes; bytes beyond the last whole element are left out.
pub(super) fn elements(bytes: &[u8]) -> impl ExactSizeIterator<Item = f32> + Clone + use<'_> {
    bytes.as_chunks::<4>().0.iter().map(|x| f32::from_le_bytes(*x))
}

#[cfg(test)]
#[path = "../../tests/unit/vector_row.rs"]
mod tests;
