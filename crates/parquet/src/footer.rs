//! The footer of a file: what it has, and where.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use crate::thrift::{Broken, Reader};

/// The longest footer, in bytes. It grows with the row groups and columns.
pub const FOOTER_BYTES_MAX: u64 = 16 << 20;
/// How deep columns lie in each other at most: a list of texts takes three.
pub const SCHEMA_DEPTH_MAX: usize = 16;

/// The footer of a file of `length` bytes, or what is wrong with it.
///
/// # Errors
/// When the file cannot be read.
pub fn footer(file: &File, length: u64) -> io::Result<Result<ParquetMetaData, String>> {
    let footer = match read(file, length)? {
        Ok(footer) => footer,
        Err(what) => return Ok(Err(what)),
    };
    let metadata = ParquetMetaDataReader::decode_metadata(&footer);
    Ok(metadata.map_err(|error| format!("its footer is malformed: {error}")))
}

fn read(file: &File, length: u64) -> io::Result<Result<Vec<u8>, String>> {
    const TAIL: u64 = 8;
    if length < 3 * TAIL / 2 {
        return Ok(Err(format!("it has {length} bytes")));
    }
    let mut tail = [0; TAIL as usize];
    file.read_exact_at(&mut tail, length - TAIL)?;
    let [a, b, c, d, magic @ ..] = tail;
    match &magic {
        b"PAR1" => {}
        b"PARE" => return Ok(Err("it is encrypted".to_owned())),
        _ => return Ok(Err("it does not end as a Parquet file ends".to_owned())),
    }
    let bytes = u64::from(u32::from_le_bytes([a, b, c, d]));
    if bytes > FOOTER_BYTES_MAX.min(length - TAIL) {
        return Ok(Err(format!(
            "its footer says that it has {bytes} bytes, and {FOOTER_BYTES_MAX} are allowed, or what the file has"
        )));
    }
    let mut footer = vec![0; bytes as usize];
    file.read_exact_at(&mut footer, length - TAIL - bytes)?;
    Ok(match check_schema(&footer) {
        Ok(()) => Ok(footer),
        Err(_) => {
            Err(format!("its schema is malformed, or deeper than {SCHEMA_DEPTH_MAX} columns in each other"))
        }
    })
}

/// Whether the schema is as deep as one that the format's reader can walk, which goes down by calling itself.
fn check_schema(footer: &[u8]) -> Result<(), Broken> {
    let mut open: Vec<i64> = Vec::new();
    Reader::new(footer).fields(&mut |reader, field, _| {
        if field != 2 {
            return Ok(false);
        }
        reader.structs(&mut |reader| {
            let mut children = 0;
            reader.fields(&mut |reader, field, _| {
                if field == 5 {
                    children = reader.integer()?;
                }
                Ok(field == 5)
            })?;
            if let Some(left) = open.last_mut() {
                *left -= 1;
            }
            if children > 0 {
                open.push(children);
            }
            while open.last() == Some(&0) {
                open.pop();
            }
            if open.len() > SCHEMA_DEPTH_MAX {
                return Err(Broken::Malformed);
            }
            Ok(())
        })?;
        Ok(true)
    })
}
