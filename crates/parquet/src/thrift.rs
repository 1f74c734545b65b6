//! As much of Thrift's compact protocol as it takes to look at lengths and counts before anybody believes them.

/// What came instead of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The bytes end before it does.
    Short,
    /// It is none.
    Malformed,
}

/// How deep values lie in each other at most.
const DEPTH_MAX: u8 = 16;

/// A value of the protocol.
const TRUE: u8 = 1;
pub(crate) const FALSE: u8 = 2;
const BYTE: u8 = 3;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

/// Bytes, and how far they were read.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: u8,
}

/// What takes the fields of a struct: whether it read the value of the field with this number and kind.
type Take<'t, 'a> = &'t mut dyn FnMut(&mut Reader<'a>, i64, u8) -> Result<bool, Broken>;

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0, depth: 0 }
    }

    /// How many bytes were read.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Reads a struct. The fields that `take` does not read are passed over.
    pub(crate) fn fields(&mut self, take: Take<'_, 'a>) -> Result<(), Broken> {
        self.deeper(|reader| {
            let mut number = 0_i64;
            loop {
                let head = reader.byte()?;
                if head == 0 {
                    return Ok(());
                }
                number = match head >> 4 {
                    0 => reader.integer()?,
                    step => number + i64::from(step),
                };
                let kind = head & 15;
                if !take(reader, number, kind)? {
                    reader.skip(kind)?;
                }
            }
        })
    }

    /// Reads a list of structs, and calls `each` at each of them.
    pub(crate) fn structs(
        &mut self,
        each: &mut dyn FnMut(&mut Reader<'a>) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        let (count, kind) = self.list()?;
        if kind != STRUCT {
            return Err(Broken::Malformed);
        }
        (0..count).try_for_each(|_| each(self))
    }

    /// Reads a whole number of any width.
    pub(crate) fn integer(&mut self) -> Result<i64, Broken> {
        let raw = self.varint()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    fn byte(&mut self) -> Result<u8, Broken> {
        let byte = *self.bytes.get(self.at).ok_or(Broken::Short)?;
        self.at += 1;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64, Broken> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(value);
            }
        }
        Err(Broken::Malformed)
    }

    fn pass(&mut self, count: u64) -> Result<(), Broken> {
        if count > (self.bytes.len() - self.at) as u64 {
            return Err(Broken::Short);
        }
        self.at += count as usize;
        Ok(())
    }

    /// How many values a list has, and what they are.
    fn list(&mut self) -> Result<(u64, u8), Broken> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            count => u64::from(count),
        };
        Ok((count, head & 15))
    }

    fn deeper(&mut self, read: impl FnOnce(&mut Self) -> Result<(), Broken>) -> Result<(), Broken> {
        if self.depth == DEPTH_MAX {
            return Err(Broken::Malformed);
        }
        self.depth += 1;
        read(self)?;
        self.depth -= 1;
        Ok(())
    }

    /// Passes over the value of a field.
    fn skip(&mut self, kind: u8) -> Result<(), Broken> {
        match kind {
            // The field's head says which.
            TRUE | FALSE => Ok(()),
            _ => self.skip_value(kind),
        }
    }

    fn skip_value(&mut self, kind: u8) -> Result<(), Broken> {
        match kind {
            TRUE | FALSE | BYTE => self.pass(1),
            4..=6 => self.varint().map(drop),
            DOUBLE => self.pass(8),
            BINARY => {
                let length = self.varint()?;
                self.pass(length)
            }
            LIST | SET => self.deeper(|reader| {
                let (count, kind) = reader.list()?;
                (0..count).try_for_each(|_| reader.skip_value(kind))
            }),
            MAP => self.deeper(|reader| {
                let count = reader.varint()?;
                let kinds = if count == 0 { 0 } else { reader.byte()? };
                (0..count).try_for_each(|_| {
                    reader.skip_value(kinds >> 4)?;
                    reader.skip_value(kinds & 15)
                })
            }),
            STRUCT => self.fields(&mut |_, _, _| Ok(false)),
            _ => Err(Broken::Malformed),
        }
    }
}
