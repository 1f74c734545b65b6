use super::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_keys_of_a_grant_are_those_of_the_format() {
    let edge = Edge {
        resource_type: "app",
        resource: "github",
        entitlement: "app:github:e1",
        principal_type: "user",
        principal: "u1",
    };
    let key = |family: &[u8], entitlement_first: bool, edge: Edge<'_>| {
        let mut out = family.to_vec();
        if entitlement_first {
            edge.push_entitlement(&mut out);
        }
        edge.push_principal(&mut out);
        if !entitlement_first {
            edge.push_entitlement(&mut out);
        }
        out
    };
    assert_eq!(key(&GRANTS, true, edge), b"\x03\x04\0app\0github\x001\0e1\0user\0u1");
    assert_eq!(key(&BY_PRINCIPAL, false, edge), b"\x03\x07\x04\0user\0u1\0app\0github\x001\0e1");
    assert_eq!(key(&NEEDS_EXPANSION, true, edge), b"\x03\x07\x05\0app\0github\x001\0e1\0user\0u1");
    let other = Edge { entitlement: "other", ..edge };
    assert_eq!(key(&GRANTS, true, other), b"\x03\x04\0app\0github\x000\0other\0user\0u1");
}

#[test]
fn components_with_zeros_and_ones_in_them_are_escaped_and_keep_their_order() {
    let mut out = Vec::new();
    resource_type(&mut out, "a\0b\x01c");
    assert_eq!(hex(&out), "03010061010162010263");
    let mut texts = vec!["", "\0", "\0\0", "\0a", "\x01", "\x01\x02", "a", "a\0", "a\0b", "a\x01", "ab"];
    texts.sort_unstable();
    let keys: Vec<Vec<u8>> = texts
        .iter()
        .map(|text| {
            let mut key = Vec::new();
            resource(&mut key, text, "x");
            key
        })
        .collect();
    assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{keys:?}");
}
