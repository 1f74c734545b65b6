//! Rows at random, with everything in them that a format may trip over.

use duramen_access::graph::*;
use duramen_base::entropy;

use super::Row;

pub(crate) struct Random {
    random: fastrand::Rng,
    types: Vec<String>,
    resources: Vec<ResourceId>,
}

/// A field of a protobuf message, as long as its content is short of 16 KiB and its number of 2048.
fn field(number: u16, content: &[u8]) -> Vec<u8> {
    let varint = |number: usize| match number {
        0..0x80 => vec![number as u8],
        _ => vec![number as u8 | 0x80, (number >> 7) as u8],
    };
    [varint(usize::from(number) << 3 | 2), varint(content.len()), content.to_vec()].concat()
}

fn message_of(id: &ResourceId) -> Vec<u8> {
    [field(1, id.resource_type.as_bytes()), field(2, id.resource.as_bytes())].concat()
}

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        let mut random = Random { random: entropy::rng(seed), types: Vec::new(), resources: Vec::new() };
        random.types =
            ["a", "a:b", "\u{0}", "\u{1}\u{0}\u{1}", "\u{fc}\u{1f600}"].map(str::to_owned).to_vec();
        random.types.push("t".repeat(1024));
        for kind in random.types.clone() {
            let names = ["c", "b:c", "\u{1}", "\u{0}\u{2}", "%_'\"", "\u{e4}\u{0}\u{1}"];
            random.resources.extend(names.map(|name| ResourceId::new(kind.clone(), name)));
        }
        random.resources.push(ResourceId::new("a", "\u{e9}".repeat(512)));
        random
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.random.u32(..count) == 0
    }

    /// Something now and then.
    fn some<T>(&mut self, make: impl FnOnce(&mut Random) -> T) -> Option<T> {
        self.random.bool().then(|| make(self))
    }

    fn text(&mut self) -> String {
        let texts = ["", "x", " ", "\u{0}", "\u{1}\u{2}", "\u{65e5}\u{672c}", "a\nb\r\t", "\u{feff}"];
        let text = texts[self.random.usize(..texts.len())];
        if self.one_in(20) {
            text.repeat(3000)
        } else {
            text.to_owned()
        }
    }

    fn bytes(&mut self, max: usize) -> Vec<u8> {
        (0..self.random.usize(..max)).map(|_| self.random.u8(..)).collect()
    }

    /// Any time, of which version 1 may write no text.
    fn time(&mut self) -> Timestamp {
        let calendar = self.random.i64(-62_167_219_200..253_402_207_201);
        match self.random.u8(..12) {
            0 => Timestamp { seconds: self.random.i64(..), nanos: self.random.i32(..) },
            1 => Timestamp { seconds: calendar, nanos: -1 },
            2 => Timestamp { seconds: calendar, nanos: 1_000_000_000 },
            3 => Timestamp { seconds: self.random.i64(-377_705_000_000..-62_167_219_200), nanos: 7 },
            4 => Timestamp::default(),
            _ => Timestamp { seconds: calendar, nanos: self.random.i32(0..1_000_000_000) },
        }
    }

    fn discovered(&mut self) -> Option<Timestamp> {
        (!self.one_in(5)).then(|| self.time())
    }

    fn annotations(&mut self) -> Vec<Any> {
        (0..self.random.usize(..3)).map(|_| Any { type_url: self.text(), value: self.bytes(40) }).collect()
    }

    /// Fields with numbers that no message has.
    fn unknown(&mut self) -> Vec<u8> {
        match self.random.u8(..8) {
            0 => field(1999, &self.bytes(300)),
            // A number, a number of eight bytes and one of four.
            1 => vec![0xa0, 0x06, 0xff, 0x01, 0xa9, 0x06, 1, 2, 3, 4, 5, 6, 7, 8, 0xb5, 0x06, 1, 2, 3, 4],
            _ => Vec::new(),
        }
    }

    fn extra(&mut self) -> Extra {
        Extra { connector: self.unknown(), storage: self.unknown() }
    }

    pub(crate) fn sync(&mut self) -> Sync {
        let id = |last: char| format!("2aGyRWGmu5kZmV8UYWUZ9ISXyh{last}");
        let start = Timestamp { seconds: 1_700_000_000, nanos: self.random.i32(0..1_000_000_000) };
        Sync {
            id: id('A'),
            unknown_kind: String::new(),
            kind: SyncKind::ALL[self.random.usize(..5)],
            parent: self.some(|_| id('B')),
            linked: self.some(|_| id('C')),
            started_at: start,
            ended_at: Some(Timestamp {
                seconds: start.seconds + 60,
                nanos: self.random.i32(0..1_000_000_000),
            }),
            token: self.text(),
            supports_diff: self.random.bool(),
            compacted: self.random.bool(),
            extra: Extra { connector: Vec::new(), storage: self.unknown() },
        }
    }

    /// Rows of all kinds, shuffled, many of them several times with another content.
    pub(crate) fn rows(&mut self) -> Vec<Row> {
        let count = self.random.usize(1..300);
        let mut rows = Vec::new();
        for _ in 0..count {
            rows.push(match self.random.u8(..10) {
                0 => Row::Type(self.resource_type()),
                1 | 2 => Row::Resource(self.resource()),
                3 => Row::Entitlement(self.entitlement()),
                4 => Row::Asset(self.asset()),
                _ => Row::Grant(self.grant()),
            });
        }
        // One of a kind that is always asked for, and rows that come again as they were.
        rows.push(Row::Grant(self.grant()));
        for _ in 0..count / 10 {
            let repeated = rows[self.random.usize(..rows.len())].clone();
            rows.push(repeated);
        }
        self.random.shuffle(&mut rows);
        rows
    }

    fn resource_id(&mut self) -> ResourceId {
        self.resources[self.random.usize(..self.resources.len())].clone()
    }

    fn type_id(&mut self) -> String {
        self.types[self.random.usize(..self.types.len())].clone()
    }

    fn resource_type(&mut self) -> ResourceType {
        ResourceType {
            id: self.type_id(),
            display_name: self.text(),
            description: self.text(),
            traits: (0..self.random.usize(..4)).map(|_| Trait::from_number(self.random.i32(0..14))).collect(),
            annotations: self.annotations(),
            sourced_externally: self.random.bool(),
            discovered_at: self.discovered(),
            extra: self.extra(),
        }
    }

    fn resource(&mut self) -> Resource {
        Resource {
            id: self.resource_id(),
            parent: self.some(Random::resource_id),
            display_name: self.text(),
            description: self.text(),
            annotations: self.annotations(),
            profile: self.some(|random| random.bytes(60)),
            status: self.some(|random| random.bytes(9)),
            created_at: self.some(Random::time),
            icon: self.some(Random::text),
            baton_resource: self.one_in(4),
            discovered_at: self.discovered(),
            extra: self.extra(),
        }
    }

    /// The id of an entitlement of a resource: of its own in the sync, with and without the resource in front.
    fn entitlement_ref(&mut self) -> EntitlementRef {
        let at = self.random.usize(..self.resources.len());
        let resource = self.resources[at].clone();
        let number = self.random.u8(..3);
        let ResourceId { resource_type: kind, resource: name } = &resource;
        let id = match self.random.u8(..4) {
            0 => format!("opaque {at} {number}"),
            1 => format!("{kind}:{name}x:{at} {number}"),
            2 => format!("\u{0}\u{1}{at}{}", "e".repeat(1000)),
            _ => format!("{kind}:{name}:{at} {number}"),
        };
        let id = if id.len() > 1024 { format!("long {at} {number}") } else { id };
        EntitlementRef { resource, id }
    }

    fn entitlement(&mut self) -> Entitlement {
        let EntitlementRef { resource, id } = self.entitlement_ref();
        let embedded_resource = self.some(|_| [field(1, &message_of(&resource)), field(3, b"name")].concat());
        let grantable_to: Vec<String> = (0..self.random.usize(..3)).map(|_| self.type_id()).collect();
        let embedded = !grantable_to.is_empty() && self.one_in(3);
        let message = |id: &String| [field(1, id.as_bytes()), field(2, b"name")].concat();
        Entitlement {
            id,
            resource,
            display_name: self.text(),
            description: self.text(),
            slug: self.text(),
            purpose: Purpose::from_number(self.random.i32(0..6)),
            annotations: self.annotations(),
            embedded_grantable_to: if embedded { grantable_to.iter().map(message).collect() } else { vec![] },
            grantable_to,
            embedded_resource,
            discovered_at: self.discovered(),
            extra: self.extra(),
        }
    }

    fn grant(&mut self) -> Grant {
        let entitlement = self.entitlement_ref();
        let principal = PrincipalRef {
            id: self.resource_id(),
            parent: if self.one_in(4) { Some(self.resource_id()) } else { None },
        };
        // Two ids for each edge, none of which ever moves to another.
        let id = format!(
            "{:016x} of {}",
            edge(&entitlement, &principal),
            ["one", "the other \u{0}\u{1}\u{fc}"][self.random.usize(..2)]
        );
        let embedded_entitlement = self.one_in(8).then(|| {
            let resource = field(1, &field(1, &message_of(&entitlement.resource)));
            [resource, field(2, entitlement.id.as_bytes()), field(4, b"what it is")].concat()
        });
        let embedded_principal = self.one_in(8).then(|| {
            let parent = principal.parent.as_ref().map(|parent| field(2, &message_of(parent)));
            [field(1, &message_of(&principal.id)), parent.unwrap_or_default(), field(3, b"name")].concat()
        });
        let expansion = self.one_in(5).then(|| Expansion {
            entitlement_ids: vec![self.entitlement_ref().id, self.text()],
            shallow: self.random.bool(),
            resource_type_ids: (0..self.random.usize(..3)).map(|_| self.text()).collect(),
        });
        let mut sources: Vec<(String, bool)> = Vec::new();
        if self.one_in(4) {
            sources = (0..3).map(|_| (self.entitlement_ref().id, self.random.bool())).collect();
            sources.sort();
            sources.dedup_by(|one, other| one.0 == other.0);
        }
        Grant {
            id,
            entitlement,
            principal,
            annotations: if self.one_in(4) { self.annotations() } else { Vec::new() },
            sources,
            needs_expansion: self.one_in(4),
            expansion,
            discovered_at: self.discovered(),
            embedded_entitlement,
            embedded_principal,
            extra: if self.one_in(4) { self.extra() } else { Extra::default() },
        }
    }

    fn asset(&mut self) -> Asset {
        let ids = ["icon", "\u{0}", "\u{1}\u{2}", "\u{fc}"];
        Asset {
            id: ids[self.random.usize(..ids.len())].to_owned(),
            content_type: self.text(),
            data: self.bytes(5000),
            discovered_at: self.discovered(),
        }
    }
}

/// A number of an edge.
fn edge(entitlement: &EntitlementRef, principal: &PrincipalRef) -> u64 {
    let parts = [
        &entitlement.resource.resource_type,
        &entitlement.resource.resource,
        &entitlement.id,
        &principal.id.resource_type,
        &principal.id.resource,
    ];
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in part.bytes().map(u64::from).chain([256]) {
            hash = (hash ^ byte).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}
