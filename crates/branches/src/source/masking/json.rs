//! Values within JSON are replaced where they stand; everything else of the text stays as it is written, numbers of any length
//! and keys that occur twice included.

/// How deep values may lie. A text that goes deeper does not fit.
const DEEPEST: usize = 500;

/// Where values lie in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
    /// Every member or element.
    Each,
}

impl Path {
    /// Reads `$.key."odd key"[0][*].*`. `None` if it is not a valid path.
    pub(super) fn parse(written: &str) -> Option<Path> {
        let mut rest = written.trim().strip_prefix('$')?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix("[*]").or_else(|| rest.strip_prefix(".*")) {
                steps.push(Step::Each);
                rest = after;
            } else if let Some(after) = rest.strip_prefix('[') {
                let (number, after) = after.split_once(']')?;
                steps.push(Step::Index(number.parse().ok()?));
                rest = after;
            } else if rest.starts_with(".\"") {
                let mut texts = serde_json::Deserializer::from_str(&rest[1..]).into_iter::<String>();
                steps.push(Step::Key(texts.next()?.ok()?));
                rest = &rest[1 + texts.byte_offset()..];
            } else {
                let after = rest.strip_prefix('.')?;
                let end = after.find(['.', '[']).unwrap_or(after.len());
                if end == 0 {
                    return None;
                }
                steps.push(Step::Key(after[..end].to_owned()));
                rest = &after[end..];
            }
        }
        Some(Path(steps))
    }
}

/// Replaces every value at one of the paths, and all that lie below: `replace` is told which path it is, and the value as a
/// text; it returns the new text, or `None` in it for null. Keys stay.
///
/// `None` if the text is not valid JSON, is nested too deeply, or contains a value that cannot be replaced.
pub(super) fn replace(
    text: &[u8],
    paths: &[&Path],
    replace: &mut dyn FnMut(usize, &str) -> Option<Option<String>>,
) -> Option<Vec<u8>> {
    let mut editor = Editor { text, at: 0, out: Vec::with_capacity(text.len()), paths, replace };
    let open: Vec<(usize, usize)> = (0..paths.len()).map(|path| (path, 0)).collect();
    editor.value(&open, None, 0)?;
    editor.blanks();
    (editor.at == text.len()).then_some(editor.out)
}

struct Editor<'a> {
    text: &'a [u8],
    /// Up to where the text has been read and written.
    at: usize,
    out: Vec<u8>,
    paths: &'a [&'a Path],
    replace: &'a mut dyn FnMut(usize, &str) -> Option<Option<String>>,
}

impl Editor<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Copies what is next.
    fn take(&mut self, expected: u8) -> Option<()> {
        (self.peek()? == expected).then(|| {
            self.out.push(expected);
            self.at += 1;
        })
    }

    fn blanks(&mut self) {
        while let Some(blank @ (b' ' | b'\t' | b'\n' | b'\r')) = self.peek() {
            self.out.push(blank);
            self.at += 1;
        }
    }

    /// Where the text in quotes that begins here ends.
    fn quoted(&self) -> Option<usize> {
        let mut at = self.at + 1;
        loop {
            match self.text.get(at)? {
                b'"' => return Some(at + 1),
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
    }

    /// Reads a value. `open` are the paths that lead here or further, and how many of their steps lie behind; `chosen` the
    /// path that ended above.
    fn value(&mut self, open: &[(usize, usize)], chosen: Option<usize>, depth: usize) -> Option<()> {
        if depth > DEEPEST {
            return None;
        }
        let ended = open.iter().find(|(path, steps)| self.paths[*path].0.len() == *steps);
        // The one that leads furthest.
        let chosen = ended.map(|(path, _)| *path).or(chosen);
        self.blanks();
        match self.peek()? {
            b'{' => self.members(open, chosen, depth, b'{', b'}'),
            b'[' => self.members(open, chosen, depth, b'[', b']'),
            b'"' => {
                let end = self.quoted()?;
                let raw = self.text.get(self.at..end)?;
                self.at = end;
                match chosen {
                    None => self.out.extend_from_slice(raw),
                    Some(path) => {
                        let text: String = serde_json::from_slice(raw).ok()?;
                        self.replaced(path, &text)?;
                    }
                }
                Some(())
            }
            _ => {
                let rest = self.text.get(self.at..)?;
                let end = rest.iter().position(|it| b",]} \t\r\n".contains(it)).unwrap_or(rest.len());
                let raw = rest.get(..end).filter(|raw| !raw.is_empty())?;
                self.at += end;
                match chosen {
                    Some(path) if raw != b"null" => {
                        let text = std::str::from_utf8(raw).ok()?;
                        self.replaced(path, text)?;
                    }
                    _ => self.out.extend_from_slice(raw),
                }
                Some(())
            }
        }
    }

    /// An object's members, or an array's elements.
    fn members(
        &mut self,
        open: &[(usize, usize)],
        chosen: Option<usize>,
        depth: usize,
        begin: u8,
        end: u8,
    ) -> Option<()> {
        self.take(begin)?;
        self.blanks();
        if self.take(end).is_some() {
            return Some(());
        }
        for index in 0.. {
            let mut key = None;
            if begin == b'{' {
                self.blanks();
                if self.peek()? != b'"' {
                    return None;
                }
                let close = self.quoted()?;
                let raw = self.text.get(self.at..close)?;
                self.out.extend_from_slice(raw);
                self.at = close;
                if !open.is_empty() {
                    key = Some(serde_json::from_slice::<String>(raw).ok()?);
                }
                self.blanks();
                self.take(b':')?;
            }
            let paths = self.paths;
            let further = open.iter().filter(|(path, steps)| match (paths[*path].0.get(*steps), &key) {
                (Some(Step::Each), _) => true,
                (Some(Step::Key(wanted)), Some(key)) => wanted == key,
                (Some(Step::Index(wanted)), None) => *wanted == index,
                _ => false,
            });
            let further: Vec<(usize, usize)> = further.map(|(path, steps)| (*path, steps + 1)).collect();
            self.value(&further, chosen, depth + 1)?;
            self.blanks();
            if self.take(end).is_some() {
                return Some(());
            }
            self.take(b',')?;
        }
        None
    }

    fn replaced(&mut self, path: usize, text: &str) -> Option<()> {
        match (self.replace)(path, text)? {
            None => self.out.extend_from_slice(b"null"),
            Some(text) => quote(&text, &mut self.out),
        }
        Some(())
    }
}

/// Writes a text in quotes, with the escapes that a server uses.
fn quote(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            0x08 => out.extend(b"\\b"),
            0x0c => out.extend(b"\\f"),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            0..0x20 => out.extend(format!("\\u{byte:04x}").bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(text: &str, paths: &[&str]) -> Option<String> {
        let paths: Vec<Path> = paths.iter().map(|path| Path::parse(path).expect("a path")).collect();
        let paths: Vec<&Path> = paths.iter().collect();
        let done = replace(text.as_bytes(), &paths, &mut |path, text| match text {
            "nothing" => Some(None),
            "no" => None,
            _ => Some(Some(format!("<{path}:{text}>"))),
        });
        done.map(|bytes| String::from_utf8(bytes).expect("UTF-8"))
    }

    #[test]
    fn only_what_a_path_leads_to_is_replaced() {
        for (text, paths, expected) in [
            (r#"{"a": 1, "b":"x"}"#, &["$.b"][..], r#"{"a": 1, "b":"<0:x>"}"#),
            (
                r#"{"a": 123456789012345678901234567890.10}"#,
                &["$.b"],
                r#"{"a": 123456789012345678901234567890.10}"#,
            ),
            (r#"{"b":"x","b":"y"}"#, &["$.b"], r#"{"b":"<0:x>","b":"<0:y>"}"#),
            (
                r#"{"p":[{"n":1},{"n":true},{"n":null}]}"#,
                &["$.p[*].n"],
                r#"{"p":[{"n":"<0:1>"},{"n":"<0:true>"},{"n":null}]}"#,
            ),
            (r#"{"p":[1,2]}"#, &["$.p[1]"], r#"{"p":[1,"<0:2>"]}"#),
            (r#"{"p":{"q":[1,{"r":"s"}]}}"#, &["$.p"], r#"{"p":{"q":["<0:1>",{"r":"<0:s>"}]}}"#),
            (r#"{"odd.key":"x"}"#, &["$.\"odd.key\""], r#"{"odd.key":"<0:x>"}"#),
            (r#"{"\u0062":"x"}"#, &["$.b"], r#"{"\u0062":"<0:x>"}"#),
            (r#""x""#, &["$"], r#""<0:x>""#),
            (r#"{"a":"q\"\\\u00e9\n"}"#, &["$.a"], "{\"a\":\"<0:q\\\"\\\\\u{e9}\\n>\"}"),
            (r#"{"a":"nothing","b":"y"}"#, &["$.b", "$.a"], r#"{"a":null,"b":"<0:y>"}"#),
            (r#"{"a":"x","b":{"c":"y"}}"#, &["$", "$.b.c"], r#"{"a":"<0:x>","b":{"c":"<1:y>"}}"#),
            (r#" [ ] "#, &["$[*]"], r#" [ ] "#),
        ] {
            assert_eq!(edited(text, paths).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_json_does_not_fit() {
        let deep = "[".repeat(600) + &"]".repeat(600);
        for text in ["", "{", "[1,", "{\"a\"}", "{\"a\":}", "[1] 2", "\"x", &deep, r#"{"a":"no"}"#] {
            assert_eq!(edited(text, &["$.a"]), None, "{text}");
        }
        for path in ["", "a", "$a", "$.", "$[x]", "$[1", "$.\"a"] {
            assert_eq!(Path::parse(path), None, "{path}");
        }
    }
}
