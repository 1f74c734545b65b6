//! No value leaves the place where it was put.
//!
//! Statements are put together at random, results too. A second, plainer reader of SQL, written only for this test,
//! takes a statement apart into code and quoted parts. Whatever the values are, the code around them must be the same.

use duramen_base::entropy;

use super::*;

/// What a statement is made of. `V` stands for a place with a value.
const PIECES: [&str; 38] = [
    "SELECT ",
    " ",
    "\n",
    ",",
    "(",
    ")",
    "+",
    "-",
    "||",
    "x",
    "E",
    "U&",
    "n",
    "_",
    "1",
    "$v",
    "$w",
    "$v?",
    "$w.c",
    "'lit $v'",
    "'$w'",
    "E'a\\'$v'",
    "e'$w\\\\'",
    "U&'$v'",
    "\"$w\"",
    "U&\"$v\"",
    "'it''s $v'",
    "$$ $v $$",
    "$t$ '$w' $t$",
    "$t$ \"$v\" $$ $w $$ $t$",
    "-- $v\n",
    "/* $w */",
    "'x'",
    "'y\\'",
    "\n'z'",
    "\n  -- c\n'\\'",
    "$1",
    "::text",
];

/// What hostile values are made of.
const HOSTILE: [&str; 22] = [
    "'", "''", "\\", "\\'", "\"", "$$", "$t$", "$", "--", "/*", "*/", "\n", ";", " ", "E'", "U&'", "$v",
    "{x}", "DROP", "\u{e9}", "\0x", "\\\\",
];

/// The code of a statement: every quoted part is one mark, comments are gone. `None` when a quoted part never ends.
/// A literal is a mark of its own kind, and so is what joins two of them: a value must not even do that.
fn skeleton(sql: &str) -> Option<String> {
    let chars: Vec<char> = sql.chars().collect();
    let starts = |at: usize, what: &str| what.chars().enumerate().all(|(i, c)| chars.get(at + i) == Some(&c));
    let word = |c: char| c.is_alphanumeric() || c == '_' || c == '$' || !c.is_ascii();
    let mut out = String::new();
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        if starts(at, "--") {
            out.push(' ');
            while at < chars.len() && chars[at] != '\n' && chars[at] != '\r' {
                at += 1;
            }
        } else if starts(at, "/*") {
            out.push(' ');
            let mut depth = 0;
            loop {
                if at >= chars.len() {
                    return None;
                } else if starts(at, "/*") {
                    (depth, at) = (depth + 1, at + 2);
                } else if starts(at, "*/") {
                    (depth, at) = (depth - 1, at + 2);
                    if depth == 0 {
                        break;
                    }
                } else {
                    at += 1;
                }
            }
        } else if c == '\'' || c == '"' {
            let mut before = out.chars().rev();
            let escapes = c == '\'' && {
                let prefix = before.next().filter(|p| p.eq_ignore_ascii_case(&'e'));
                prefix.is_some() && !before.next().is_some_and(word)
            };
            at += 1;
            loop {
                if at >= chars.len() {
                    return None;
                } else if (escapes && chars[at] == '\\') || (chars[at] == c && chars.get(at + 1) == Some(&c))
                {
                    at += 2;
                } else if chars[at] == c {
                    at += 1;
                    // Does the literal go on after a line break?
                    let (mut ahead, mut line) = (at, false);
                    while ahead < chars.len() && c == '\'' {
                        if chars[ahead].is_ascii_whitespace() {
                            line |= chars[ahead] == '\n' || chars[ahead] == '\r';
                            ahead += 1;
                        } else if starts(ahead, "--") {
                            while ahead < chars.len() && chars[ahead] != '\n' && chars[ahead] != '\r' {
                                ahead += 1;
                            }
                        } else {
                            break;
                        }
                    }
                    if line && chars.get(ahead) == Some(&'\'') && c == '\'' {
                        at = ahead + 1;
                        continue;
                    }
                    break;
                } else {
                    at += 1;
                }
            }
            // An `E` that only a value needed is not a difference.
            if escapes {
                out.pop();
            }
            out.push_str("<Q>");
        } else if c == '$' && !out.chars().next_back().is_some_and(word) {
            let mut end = at + 1;
            while end < chars.len() && (chars[end].is_alphanumeric() || chars[end] == '_') {
                end += 1;
            }
            let tag: String = chars[at..chars.len().min(end + 1)].iter().collect();
            if !tag.ends_with('$') || tag.len() < 2 || chars[at + 1].is_ascii_digit() {
                out.push(c);
                at += 1;
                continue;
            }
            let body = end + 1;
            let mut close = body;
            while close < chars.len() && !starts(close, &tag) {
                close += 1;
            }
            if close >= chars.len() {
                return None;
            }
            let inner: String = chars[body..close].iter().collect();
            out.push_str(&format!("<{tag}|{}>", skeleton(&inner)?));
            at = close + tag.chars().count();
        } else {
            out.push(c);
            at += 1;
        }
    }
    Some(out)
}

/// Without what may differ between two values in one place: white space and the brackets that keep literals apart.
fn essence(skeleton: &str) -> String {
    skeleton.replace("(<Q>)", "<Q>").replace([' ', '\n'], "")
}

fn with(value: &str, other: &str) -> Environment {
    let mut env = Environment::default();
    env.results.insert("v".into(), Json::string(value));
    let row = format!(r#"{{"rows":[{{"c":{0}}}],"row_count":1}}"#, Json::string(other));
    env.results.insert("w".into(), Json::parse(&row).unwrap());
    env
}

#[test]
fn a_value_never_leaves_its_quotes() {
    let seed = entropy::seed();
    let mut rng = entropy::rng(seed);
    let mut pick = |from: &[&str], most: usize| -> String {
        (0..rng.usize(1..=most)).map(|_| from[rng.usize(..from.len())]).collect()
    };
    let (mut compared, mut refused) = (0, 0);
    for round in 0..10_000 {
        let statement = pick(&PIECES, 12);
        let (value, other) = (pick(&HOSTILE, 6), pick(&HOSTILE, 6));
        let run = |env: &Environment| {
            // A literal that begins with a dollar sign is written with one more.
            let literal = env.results["v"].text().replacen("\"$", "\"$$", 1);
            sql(&statement, Some(&Json::parse(&format!("[{literal}]")).unwrap()), env)
        };
        // Statements that are broken whatever the value is prove nothing.
        let harmless = run(&with("a", "b"));
        let Some(expected) = harmless.ok().and_then(|text| skeleton(&text)) else { continue };
        match run(&with(&value, &other)) {
            Ok(text) => {
                let found = skeleton(&text).map(|found| essence(&found));
                assert_eq!(
                    found.as_deref(),
                    Some(essence(&expected).as_str()),
                    "round {round} of seed {seed}: {statement:?} with {value:?} and {other:?} became {text:?}"
                );
                compared += 1;
            }
            Err(SubstituteError::Character { .. } | SubstituteError::Delimiter { .. }) => refused += 1,
            Err(other) => panic!("round {round} of seed {seed}: {statement:?}: {other}"),
        }
    }
    assert!(compared > 2_000 && refused > 200, "{compared} compared, {refused} refused");
}

#[test]
fn the_reader_of_this_test_sees_a_value_that_escapes() {
    let naive = |value: &str| format!("SELECT 'x{value}', E'{value}'");
    assert_ne!(skeleton(&naive("a")), skeleton(&naive("' || y || '")));
    assert_ne!(skeleton(&naive("a")), skeleton(&naive("\\")));
    assert_ne!(skeleton("$$ a $$ b"), skeleton("$$ a$$ $$ b"));
    assert_ne!(skeleton("-- a\nb"), skeleton("-- a\nc\nb"));
    assert_eq!(skeleton("a 'x''y' \"b\"\"\" /* ' */ E'\\'' \n 'z'"), Some("a <Q> <Q>   <Q>".into()));
}

#[test]
fn no_text_makes_it_fail_other_than_by_an_error() {
    let seed = entropy::seed();
    let mut rng = entropy::rng(seed);
    let env = with("a'\\b", "c");
    let params = Json::parse(r#"[1, "$v", "$w.c?"]"#).unwrap();
    let pieces: Vec<&str> = PIECES.iter().chain(&HOSTILE).copied().collect();
    for _ in 0..10_000 {
        let text: String = (0..rng.usize(1..10)).map(|_| pieces[rng.usize(..pieces.len())]).collect();
        let cut = (0..text.len())
            .filter(|at| text.is_char_boundary(*at))
            .nth(rng.usize(..text.chars().count()))
            .unwrap();
        for text in [&text[cut..], &text[..cut]] {
            let _ = sql(text, Some(&params), &env);
            let _ = plain(text, &env);
            if let Ok(value) = value(text, &env) {
                Json::parse(value.text()).unwrap();
            }
            let _ = crate::nontransactional::refuses_transactions(text);
        }
    }
}
