//! The environment in which PostgreSQL clients find a branch, and nothing else.

use duramen_api::segment;

/// What would lead a client of libpq elsewhere, whatever `PGHOST` says, or what is another server's.
pub const ELSEWHERE: [&str; 7] = [
    "PGHOSTADDR",
    "PGSERVICE",
    "PGSERVICEFILE",
    "PGPASSFILE",
    "PGOPTIONS",
    "PGTARGETSESSIONATTRS",
    "PGREQUIREAUTH",
];

/// The variables for a branch's URL. As the daemon gives it to who is on its machine, the parts of it are parameters; as it gives it
/// to others, it names the router. `None`: it is of another form.
#[must_use]
pub fn of(url: &str) -> Option<Vec<(&'static str, String)>> {
    through_the_router(url).or_else(|| here(url))
}

fn through_the_router(url: &str) -> Option<Vec<(&'static str, String)>> {
    let (user, rest) = url.strip_prefix("postgresql://")?.split_once('@')?;
    let (name, secret) = user.split_once(':')?;
    let (place, branch) = rest.split_once('/')?;
    let (host, port) = place.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Some(vec![
        ("DATABASE_URL", url.to_owned()),
        ("PGHOST", host.to_owned()),
        ("PGPORT", port.to_owned()),
        ("PGUSER", segment::decode(name)?.into_owned()),
        ("PGPASSWORD", segment::decode(secret)?.into_owned()),
        ("PGDATABASE", segment::decode(branch)?.into_owned()),
    ])
}

fn here(url: &str) -> Option<Vec<(&'static str, String)>> {
    let (database, parameters) = url.strip_prefix("postgresql:///")?.split_once('?')?;
    let parameter = |name: &str| {
        let mut pairs = parameters.split('&').filter_map(|pair| pair.split_once('='));
        let (_, value) = pairs.find(|(key, _)| *key == name)?;
        segment::decode(value).map(String::from)
    };
    Some(vec![
        ("DATABASE_URL", url.to_owned()),
        ("PGHOST", parameter("host")?),
        ("PGPORT", parameter("port")?),
        ("PGUSER", parameter("user")?),
        ("PGPASSWORD", parameter("password")?),
        ("PGDATABASE", segment::decode(database)?.into_owned()),
    ])
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn a_url_becomes_variables() {
        let url =
            "postgresql:///my%20app?host=/run/d%C3%BCramen/s1&port=5432&user=duramen_write&password=abc";
        let expected = vec![
            ("DATABASE_URL", url),
            ("PGHOST", "/run/d\u{fc}ramen/s1"),
            ("PGPORT", "5432"),
            ("PGUSER", "duramen_write"),
            ("PGPASSWORD", "abc"),
            ("PGDATABASE", "my app"),
        ];
        let found = of(url).unwrap();
        assert_eq!(found.iter().map(|(name, value)| (*name, value.as_str())).collect::<Vec<_>>(), expected);
        let url = "postgresql://ci:a%3Ab@[::1]:6432/my%20branch";
        let expected = vec![
            ("DATABASE_URL", url),
            ("PGHOST", "::1"),
            ("PGPORT", "6432"),
            ("PGUSER", "ci"),
            ("PGPASSWORD", "a:b"),
            ("PGDATABASE", "my branch"),
        ];
        let found = of(url).unwrap();
        assert_eq!(found.iter().map(|(name, value)| (*name, value.as_str())).collect::<Vec<_>>(), expected);
        for other in ["", "postgresql://ci@db.example:6432/b", "postgresql:///app?host=/run&port=1&user=x"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
