//! Cookies, and who sent a request that has one (W2, W3).

use super::*;

fn browser(tls: bool) -> Browser {
    Browser { peer: IpAddr::from([127, 0, 0, 1]), tls, port: 6433 }
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

#[test]
fn a_cookie_is_for_this_host_and_no_script() {
    let text = |header: &HeaderValue| header.to_str().unwrap().to_owned();
    let plain = text(&browser(false).given("abc"));
    assert_eq!(plain, "duramen-6433=abc; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict");
    let given = browser(true).given("abc");
    let tls = "__Host-duramen-6433=abc; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict; Secure";
    assert_eq!(text(&given), tls);
    assert!(!format!("{given:?}").contains("abc"), "no log has it");
    let taken = text(&browser(true).taken());
    assert_eq!(taken, "__Host-duramen-6433=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict; Secure");
}

#[test]
fn only_the_cookie_of_this_door_and_of_this_way_is_looked_at() {
    let of = |tls: bool, cookies: &[&str]| {
        let pairs: Vec<_> = cookies.iter().map(|cookie| ("cookie", *cookie)).collect();
        match browser(tls).shown(&headers(&pairs)) {
            Shown::Nothing => None,
            Shown::Secret(secret) => Some(secret.to_owned()),
        }
    };
    let s = Some("s".to_owned());
    assert_eq!(of(false, &["duramen-6433=s"]), s);
    assert_eq!(of(false, &["a=b; duramen-6433=s;c=d", "e=f"]), s);
    assert_eq!(of(true, &["__Host-duramen-6433=s; duramen-6433=t"]), s);
    for (tls, cookies) in [
        (false, vec![]),
        (false, vec!["duramen-6434=s"]),
        (false, vec!["__Host-duramen-6433=s"]),
        (true, vec!["duramen-6433=s"]),
        (true, vec!["__host-duramen-6433=s"]),
        (false, vec!["duramen-6433"]),
        // Somebody else's was set beside it: which of them?
        (false, vec!["duramen-6433=s; duramen-6433=t"]),
        (false, vec!["duramen-6433=s", "duramen-6433=s"]),
    ] {
        assert_eq!(of(tls, &cookies), None, "{cookies:?}");
    }
    assert_eq!(of(false, &[&format!("duramen-6433={}", "s".repeat(SECRET_MAX + 1))]), None);
}

#[test]
fn what_a_page_of_another_site_can_send_is_refused() {
    let of = |tls: bool, method: &Method, pairs: &[(&'static str, &str)]| {
        browser(tls).is_own(method, &headers(pairs)).map_err(|refusal| refusal.body.code)
    };
    let mark = ("x-duramen-console", "1");
    let site = |site: &'static str| ("sec-fetch-site", site);
    for method in [Method::POST, Method::DELETE, Method::PATCH, Method::PUT, Method::OPTIONS] {
        assert_eq!(of(false, &method, &[mark]), Ok(()), "a browser of before: {method}");
        assert_eq!(of(false, &method, &[mark, site("same-origin")]), Ok(()));
        for wrong in ["same-site", "cross-site", "none", "", "SAME-ORIGIN", "x"] {
            assert_eq!(of(false, &method, &[mark, site(wrong)]).unwrap_err(), "cross_origin", "{wrong}");
        }
        for wrong in [vec![], vec![("x-duramen-console", "0")], vec![("x-duramen-console", "")]] {
            assert_eq!(of(false, &method, &wrong).unwrap_err(), "no_console_header");
        }
    }
    assert_eq!(of(false, &Method::GET, &[]), Ok(()));
    assert_eq!(of(false, &Method::GET, &[site("none")]), Ok(()), "typed");
    for wrong in ["same-site", "cross-site"] {
        assert_eq!(of(false, &Method::GET, &[site(wrong)]).unwrap_err(), "cross_origin");
        assert_eq!(of(false, &Method::GET, &[site("same-origin"), site(wrong)]).unwrap_err(), "cross_origin");
    }
    // Whoever is between could make a page of the same name without TLS.
    let origin = |origin: &'static str| ("origin", origin);
    assert_eq!(of(true, &Method::POST, &[mark, origin("https://localhost:6433")]), Ok(()));
    assert_eq!(
        of(true, &Method::POST, &[mark, origin("http://localhost:6433")]).unwrap_err(),
        "cross_origin"
    );
    assert_eq!(of(false, &Method::POST, &[mark, origin("https://db.example")]), Ok(()), "a proxy ends TLS");
}
