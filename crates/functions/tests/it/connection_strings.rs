//! What is shown of connection strings.

use duramen_postgres::connection::{without_password, Target};

#[test]
fn passwords_are_not_shown() {
    for (text, shown) in [
        ("postgres://me:secret@db/shop", "postgres://me@db/shop"),
        ("--primary=postgres://me:se@cret@db/shop", "--primary=postgres://me@db/shop"),
        (
            "postgres://me@db/shop?password=secret&sslmode=require",
            "postgres://me@db/shop?password=***&sslmode=require",
        ),
        ("postgres:///shop?host=db&password=secret", "postgres:///shop?host=db&password=***"),
        ("host=db password=secret user=me", "host=db password=*** user=me"),
        ("host=db password = 'a secret' user=me", "host=db password =*** user=me"),
        ("password='it\\'s a secret' host=db", "password=*** host=db"),
        ("password=a\\ secret host=db", "password=*** host=db"),
        ("password=sec&ret host=db", "password=*** host=db"),
        ("password='no end of it", "password=***"),
        ("password=one password=two", "password=*** password=***"),
        ("sslpassword=secret host=db", "sslpassword=*** host=db"),
        ("S2", "S2"),
        ("a password is asked for", "a password is asked for"),
    ] {
        assert_eq!(without_password(text), shown, "{text}");
        assert!(!without_password(text).contains("cret"), "{text}");
    }
}

#[test]
fn a_string_that_cannot_be_read_is_told_without_its_password() {
    for text in
        ["postgres://me:herring@db:port/shop", "host=db port=none password='red herring'", "password=herring"]
    {
        let error = Target::parse(text).expect_err(text).to_string();
        assert!(!error.contains("herring"), "{error}");
    }
}
