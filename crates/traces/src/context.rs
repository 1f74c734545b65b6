//! Which trace something belongs to, as it is handed from one service to the next.

/// The length of a `traceparent` of version 00.
const LENGTH: usize = 55;

/// The id of a trace.
pub type TraceId = [u8; 16];
/// The id of a span.
pub type SpanId = [u8; 8];

/// A `traceparent` of W3C Trace Context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traceparent {
    /// The trace.
    pub trace: TraceId,
    /// The span whose children belong to it.
    pub span: SpanId,
    /// Whether the trace is sent.
    pub sampled: bool,
}

impl Traceparent {
    /// Reads version 00. Anybody can write what this comes from: whatever has another form is none (T-5).
    ///
    /// # Examples
    /// ```
    /// use duramen_traces::Traceparent;
    ///
    /// let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// assert_eq!(Traceparent::parse(given).unwrap().to_string(), given);
    /// assert_eq!(Traceparent::parse("00-zz"), None);
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // Lengths of untrusted text are looked at before anything else is.
        let bytes = text.as_bytes();
        if bytes.len() != LENGTH || !bytes.starts_with(b"00-") || bytes[35] != b'-' || bytes[52] != b'-' {
            return None;
        }
        let trace: TraceId = hex(&bytes[3..35])?;
        let span: SpanId = hex(&bytes[36..52])?;
        let [flags] = hex(&bytes[53..])?;
        (trace != [0; 16] && span != [0; 8]).then_some(Self { trace, span, sampled: flags & 1 == 1 })
    }
}

impl std::fmt::Display for Traceparent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (trace, span) = (u128::from_be_bytes(self.trace), u64::from_be_bytes(self.span));
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", u8::from(self.sampled))
    }
}

/// So many bytes from lower-case hexadecimal digits.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
