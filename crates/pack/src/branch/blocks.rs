//! Nodes in blocks: many small ones together, or a piece of a large one.

use std::ops::Range;

use crate::container::bytes::{put_varint, Reader, Wrong};
use crate::container::PackWriter;
use crate::error::PackError;

/// The section of the nodes.
pub(crate) const NODES: &str = "nodes";

/// Bytes of nodes in a block, about.
const BLOCK_BYTES: usize = 64 << 10;

/// A node with more bytes than this is written in pieces, each a block of its own.
const PIECE_BYTES: usize = 1 << 20;

/// What a node can have at most: the longest value of a tree, and something around it.
const NODE_BYTES_MAX: u64 = (1 << 30) + (1 << 20);

const MANY: u8 = 0;
const PIECE: u8 = 1;

/// The key of the block that begins with a node.
pub(crate) fn key(node: u64) -> [u8; 8] {
    node.to_be_bytes()
}

/// Writes nodes under successive numbers.
pub(crate) struct NodeBlocks {
    first: u64,
    lengths: Vec<usize>,
    bytes: Vec<u8>,
    block: Vec<u8>,
}

impl NodeBlocks {
    /// For nodes from the number `first` on.
    pub(crate) fn new(first: u64) -> Self {
        Self { first, lengths: Vec::new(), bytes: Vec::new(), block: Vec::new() }
    }

    /// The number of the next node.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.lengths.len() as u64
    }

    pub(crate) fn push(&mut self, writer: &mut PackWriter, node: &[u8]) -> Result<u64, PackError> {
        if self.bytes.len() + node.len() > BLOCK_BYTES && !self.lengths.is_empty() {
            self.flush(writer)?;
        }
        let number = self.next();
        if node.len() > PIECE_BYTES {
            self.push_pieces(writer, number, node)?;
            self.first = number + 1;
        } else {
            self.lengths.push(node.len());
            self.bytes.extend_from_slice(node);
        }
        Ok(number)
    }

    fn push_pieces(&mut self, writer: &mut PackWriter, number: u64, node: &[u8]) -> Result<(), PackError> {
        let mut at = 0;
        for (piece, bytes) in node.chunks(PIECE_BYTES).enumerate() {
            self.block.clear();
            self.block.push(PIECE);
            for field in [number, node.len() as u64, at] {
                put_varint(&mut self.block, field);
            }
            self.block.extend_from_slice(bytes);
            // The pieces after the first lie between this node and the next.
            let mut key = key(number).to_vec();
            if piece > 0 {
                key.extend_from_slice(&(piece as u32).to_be_bytes());
            }
            writer.block(&key, u32::from(piece == 0), &self.block)?;
            at += bytes.len() as u64;
        }
        Ok(())
    }

    pub(crate) fn flush(&mut self, writer: &mut PackWriter) -> Result<(), PackError> {
        if self.lengths.is_empty() {
            return Ok(());
        }
        self.block.clear();
        self.block.push(MANY);
        put_varint(&mut self.block, self.first);
        put_varint(&mut self.block, self.lengths.len() as u64);
        for len in &self.lengths {
            put_varint(&mut self.block, *len as u64);
        }
        self.block.extend_from_slice(&self.bytes);
        writer.block(&key(self.first), self.lengths.len() as u32, &self.block)?;
        self.first += self.lengths.len() as u64;
        self.lengths.clear();
        self.bytes.clear();
        Ok(())
    }
}

/// What a block holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Nodes from the first number on, each with its range in the block.
    Many { first: u64, ranges: Vec<Range<usize>> },
    /// A piece of a node.
    Piece { node: u64, len: u64, at: u64, range: Range<usize> },
}

/// Takes a block apart.
pub(crate) fn decode(block: &[u8]) -> Result<Content, Wrong> {
    let mut reader = Reader::new(block);
    match reader.byte()? {
        MANY => {
            let first = reader.varint()?;
            let count = reader.bounded(block.len() as u64, "holds too many nodes")?;
            let mut lengths = Vec::with_capacity(count as usize);
            for _ in 0..count {
                lengths.push(reader.bounded(block.len() as u64, "holds a node beyond its end")? as usize);
            }
            first.checked_add(count).ok_or("holds a node with too large a number")?;
            let mut ranges = Vec::with_capacity(lengths.len());
            for len in lengths {
                let at = reader.at();
                reader.take(len)?;
                ranges.push(at..at + len);
            }
            if !reader.is_empty() {
                return Err("is followed by something else");
            }
            Ok(Content::Many { first, ranges })
        }
        PIECE => {
            let node = reader.varint()?;
            let len = reader.bounded(NODE_BYTES_MAX, "holds a piece of a node that is too long")?;
            let at = reader.varint()?;
            let range = reader.at()..block.len();
            let end = at.checked_add(range.len() as u64).filter(|end| *end <= len);
            end.ok_or("holds a piece beyond the end of its node")?;
            Ok(Content::Piece { node, len, at, range })
        }
        _ => Err("is of an unknown form"),
    }
}
