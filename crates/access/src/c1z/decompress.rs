//! Gets what one zstd frame holds out of a file: the frame begins at a known place, and nothing follows it.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use zstd::stream::raw::{Decoder, InBuffer, Operation as _, OutBuffer};
use zstd::zstd_safe::DParameter;

use crate::c1z::error::{C1zError, DECODED_ADVICE};
use crate::c1z::limits::WINDOW_LOG_MAX;
use crate::c1z::ReadOptions;

/// How much is read and written at a time, in bytes.
const CHUNK: usize = 256 << 10;

/// Writes `what`, which the frame holds that begins at `start` in the file `path`, into `into`. Gives its length in bytes.
pub(crate) fn frame(
    path: &Path,
    start: u64,
    what: &str,
    into: &mut File,
    options: &ReadOptions,
) -> Result<u64, C1zError> {
    let mut file = File::open(path).map_err(C1zError::io("opening", path))?;
    let len = file.metadata().map_err(C1zError::io("asking for the length of", path))?.len();
    let limit = options.decompressed_limit(len);
    let truncated = |reason: String| C1zError::Truncated { file: path.to_owned(), at: len, reason };
    let too_large = |value: u64| C1zError::TooLarge {
        file: path.to_owned(),
        what: what.to_owned(),
        value,
        limit,
        advice: DECODED_ADVICE,
    };
    let damaged = |at: u64, reason: String| C1zError::Damaged {
        file: path.to_owned(),
        part: "the file".to_owned(),
        at,
        reason,
    };
    if len == start {
        return Err(truncated(format!("it ends where {what} has to begin")));
    }
    file.seek(SeekFrom::Start(start)).map_err(C1zError::io("reading", path))?;

    let mut decoder = Decoder::new().map_err(C1zError::io("decompressing", path))?;
    decoder
        .set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))
        .map_err(C1zError::io("decompressing", path))?;
    let (mut input, mut output) = (vec![0; CHUNK], vec![0; CHUNK]);
    let (mut at, mut total) = (start, 0u64);
    loop {
        let read = file.read(&mut input).map_err(C1zError::io("reading", path))?;
        let bytes = &input[..read];
        if at == start {
            check_head(bytes).map_err(|reason| damaged(start, reason.to_owned()))?;
            if let Ok(Some(size)) = zstd::zstd_safe::get_frame_content_size(bytes) {
                if size > limit {
                    return Err(too_large(size));
                }
            }
        }
        if read == 0 {
            return Err(truncated(format!("the frame of {what} has no end")));
        }
        let mut source = InBuffer::around(bytes);
        loop {
            let mut sink = OutBuffer::around(output.as_mut_slice());
            let before = source.pos();
            let left = decoder.run(&mut source, &mut sink);
            let left =
                left.map_err(|e| damaged(at + before as u64, format!("the frame does not decompress: {e}")))?;
            let written = sink.as_slice().len();
            total += written as u64;
            if total > limit {
                return Err(too_large(total));
            }
            into.write_all(sink.as_slice()).map_err(C1zError::io("unpacking", path))?;
            if left == 0 {
                let end = at + source.pos() as u64;
                if end < len {
                    return Err(C1zError::TrailingBytes { file: path.to_owned(), at: end });
                }
                if total == 0 {
                    return Err(truncated(format!("the frame of {what} is empty")));
                }
                return Ok(total);
            }
            if source.pos() == read && written < CHUNK {
                break;
            }
        }
        at += read as u64;
    }
}

/// The frame is one of data, and says nothing that is not known.
fn check_head(bytes: &[u8]) -> Result<(), &'static str> {
    match bytes {
        [0x28, 0xb5, 0x2f, 0xfd, descriptor, ..] if descriptor & 0x10 == 0 => Ok(()),
        [0x28, 0xb5, 0x2f, 0xfd, _, ..] => Err("the zstd frame is of a later form"),
        // Whether it is the beginning of one, the decoder says.
        bytes if bytes.len() < 5 => Ok(()),
        _ => Err("no zstd frame is where it has to be"),
    }
}
