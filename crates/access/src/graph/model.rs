//! The rows of an access graph, as owned values.
//!
//! They are what callers see at the edges: one row in, one row out. The bulk path takes [`GrantRef`], which borrows.
//! Identifiers are opaque strings of 1 to 1024 bytes; equal means equal byte by byte. Whatever a source knows of a row
//! that has no field here stands in [`Extra`], as the protobuf fields lay there, so that a round trip loses nothing.

mod transfer;

pub use self::transfer::{GraphSink, GraphSource, Loss, Visit};

/// Which resource: its type and its name within the type.
///
/// ```
/// use duramen_access::graph::ResourceId;
/// let repository = ResourceId::new("repository", "duramen");
/// assert!(repository < ResourceId::new("user", "ada"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId {
    /// The id of the resource type, such as `user`.
    pub resource_type: String,
    /// The id of the resource within its type.
    pub resource: String,
}

impl ResourceId {
    /// A resource id of its two parts.
    pub fn new(resource_type: impl Into<String>, resource: impl Into<String>) -> Self {
        ResourceId { resource_type: resource_type.into(), resource: resource.into() }
    }
}

/// A time as the wire has it: seconds since 1970-01-01T00:00:00Z, and nanoseconds on top.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Whole seconds since 1970-01-01T00:00:00Z; negative before it.
    pub seconds: i64,
    /// Nanoseconds after the second, 0 to 999,999,999 in a well-formed time. Others are kept as they are.
    pub nanos: i32,
}

/// A message with the name of its type: how annotations travel.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Any {
    /// What the bytes are, such as `type.googleapis.com/c1.connector.v2.GrantExpandable`.
    pub type_url: String,
    /// The encoded message.
    pub value: Vec<u8>,
}

/// Protobuf fields of a row that the model does not know, byte by byte as they lay in their message.
///
/// Field numbers mean different things in the two families of messages, hence two of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extra {
    /// Fields of the row's message as connectors send it (`c1.connector.v2`; files of version 1 hold it).
    pub connector: Vec<u8>,
    /// Fields of the row's stored record (`c1.storage.v3`; files of version 3 hold it).
    pub storage: Vec<u8>,
}

impl Extra {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.connector.is_empty() && self.storage.is_empty()
    }
}

/// What resources of a type are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Trait {
    /// 0: not said.
    Unspecified,
    /// 1: an account of a person or a machine.
    User,
    /// 2: a set of principals.
    Group,
    /// 3: a set of permissions.
    Role,
    /// 4: an application.
    App,
    /// 5: a secret.
    Secret,
    /// 6: a finding about security.
    SecurityInsight,
    /// 7: a role bound to a scope.
    ScopeBinding,
    /// 8: a vendor.
    Vendor,
    /// 9: an agreement with a vendor.
    VendorAgreement,
    /// 10: a profile of licences.
    LicenseProfile,
    /// 11: an agent.
    Agent,
    /// 12: a managed device.
    ManagedDevice,
    /// A number that has no name here; it is kept.
    Unknown(i32),
}

/// Names of [`Trait`] in the order of their numbers.
const TRAITS: [(Trait, &str); 13] = [
    (Trait::Unspecified, "UNSPECIFIED"),
    (Trait::User, "USER"),
    (Trait::Group, "GROUP"),
    (Trait::Role, "ROLE"),
    (Trait::App, "APP"),
    (Trait::Secret, "SECRET"),
    (Trait::SecurityInsight, "SECURITY_INSIGHT"),
    (Trait::ScopeBinding, "SCOPE_BINDING"),
    (Trait::Vendor, "VENDOR"),
    (Trait::VendorAgreement, "VENDOR_AGREEMENT"),
    (Trait::LicenseProfile, "LICENSE_PROFILE"),
    (Trait::Agent, "AGENT"),
    (Trait::ManagedDevice, "MANAGED_DEVICE"),
];

impl Trait {
    /// The number on the wire.
    ///
    /// ```
    /// use duramen_access::graph::Trait;
    /// assert_eq!(Trait::Group.number(), 2);
    /// assert_eq!(Trait::from_number(99).number(), 99);
    /// ```
    pub fn number(self) -> i32 {
        match self {
            Trait::Unknown(number) => number,
            known => (0..).zip(TRAITS).find(|(_, (each, _))| *each == known).map_or(0, |(number, _)| number),
        }
    }

    /// The trait with a number on the wire.
    pub fn from_number(number: i32) -> Trait {
        usize::try_from(number)
            .ok()
            .and_then(|at| TRAITS.get(at))
            .map_or(Trait::Unknown(number), |(it, _)| *it)
    }

    /// The name, such as `USER`; a number without a name has none.
    pub fn name(self) -> Option<&'static str> {
        TRAITS.iter().find(|(each, _)| *each == self).map(|(_, name)| *name)
    }

    /// The trait with a name such as `USER`.
    pub fn from_name(name: &str) -> Option<Trait> {
        TRAITS.iter().find(|(_, each)| *each == name).map(|(it, _)| *it)
    }
}

/// A kind of resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceType {
    /// Its id.
    pub id: String,
    /// Its name for people.
    pub display_name: String,
    /// What it is.
    pub description: String,
    /// What its resources are.
    pub traits: Vec<Trait>,
    /// Annotations in their order.
    pub annotations: Vec<Any>,
    /// Whether its resources come from another source.
    pub sourced_externally: bool,
    /// When it was seen.
    pub discovered_at: Option<Timestamp>,
    /// Fields without a place here.
    pub extra: Extra,
}

/// Something that is accessed, or somebody who accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// Its id.
    pub id: ResourceId,
    /// What it lies in.
    pub parent: Option<ResourceId>,
    /// Its name for people.
    pub display_name: String,
    /// What it is.
    pub description: String,
    /// Annotations in their order; traits with their data are among them.
    pub annotations: Vec<Any>,
    /// Its profile, an encoded `google.protobuf.Struct`.
    pub profile: Option<Vec<u8>>,
    /// Its status, an encoded message.
    pub status: Option<Vec<u8>>,
    /// When it was made.
    pub created_at: Option<Timestamp>,
    /// The id of the asset that is its icon.
    pub icon: Option<String>,
    /// Whether it was made by the syncing tool itself.
    pub baton_resource: bool,
    /// When it was seen.
    pub discovered_at: Option<Timestamp>,
    /// Fields without a place here.
    pub extra: Extra,
}

/// What holding an entitlement means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Purpose {
    /// 0: not said.
    #[default]
    Unspecified,
    /// 1: membership.
    Assignment,
    /// 2: a permission.
    Permission,
    /// 3: ownership.
    Ownership,
    /// A number that has no name here; it is kept.
    Unknown(i32),
}

impl Purpose {
    /// The number on the wire.
    pub fn number(self) -> i32 {
        match self {
            Purpose::Unspecified => 0,
            Purpose::Assignment => 1,
            Purpose::Permission => 2,
            Purpose::Ownership => 3,
            Purpose::Unknown(number) => number,
        }
    }

    /// The purpose with a number on the wire.
    ///
    /// ```
    /// use duramen_access::graph::Purpose;
    /// assert_eq!(Purpose::from_number(3), Purpose::Ownership);
    /// assert_eq!(Purpose::from_number(17).number(), 17);
    /// ```
    pub fn from_number(number: i32) -> Purpose {
        match number {
            0 => Purpose::Unspecified,
            1 => Purpose::Assignment,
            2 => Purpose::Permission,
            3 => Purpose::Ownership,
            other => Purpose::Unknown(other),
        }
    }

    /// The name, such as `ASSIGNMENT`; a number without a name has none.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Purpose::Unspecified => Some("UNSPECIFIED"),
            Purpose::Assignment => Some("ASSIGNMENT"),
            Purpose::Permission => Some("PERMISSION"),
            Purpose::Ownership => Some("OWNERSHIP"),
            Purpose::Unknown(_) => None,
        }
    }

    /// The purpose with a name such as `ASSIGNMENT`.
    pub fn from_name(name: &str) -> Option<Purpose> {
        (0..4).map(Purpose::from_number).find(|purpose| purpose.name() == Some(name))
    }
}

/// Something about a resource that principals can be granted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entitlement {
    /// Its id, unique in its sync.
    pub id: String,
    /// The resource it is about.
    pub resource: ResourceId,
    /// Its name for people.
    pub display_name: String,
    /// What it is.
    pub description: String,
    /// Its short name.
    pub slug: String,
    /// What holding it means.
    pub purpose: Purpose,
    /// Annotations in their order.
    pub annotations: Vec<Any>,
    /// The ids of the resource types that it can be granted to.
    pub grantable_to: Vec<String>,
    /// Encoded connector messages of the resource types it can be granted to, where they say more than ids.
    pub embedded_grantable_to: Vec<Vec<u8>>,
    /// The encoded connector message of its resource, where that says more than the id.
    pub embedded_resource: Option<Vec<u8>>,
    /// When it was seen.
    pub discovered_at: Option<Timestamp>,
    /// Fields without a place here.
    pub extra: Extra,
}

/// Which entitlement a grant is of.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntitlementRef {
    /// The resource that the entitlement is about.
    pub resource: ResourceId,
    /// The entitlement's id.
    pub id: String,
}

/// Who holds a grant.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrincipalRef {
    /// The resource that holds.
    pub id: ResourceId,
    /// What that resource lies in, if the grant says so.
    pub parent: Option<ResourceId>,
}

/// Which grants follow from a grant: whoever holds one of the entitlements on the principal's resource also holds this.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expansion {
    /// The ids of the entitlements whose holders are meant.
    pub entitlement_ids: Vec<String>,
    /// Whether only direct holders are meant.
    pub shallow: bool,
    /// The resource types of the principals that are meant; none means all.
    pub resource_type_ids: Vec<String>,
}

/// One edge of the graph: a principal holds an entitlement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// Its id, unique in its sync.
    pub id: String,
    /// What is held.
    pub entitlement: EntitlementRef,
    /// Who holds it.
    pub principal: PrincipalRef,
    /// Annotations in their order, without the expansion.
    pub annotations: Vec<Any>,
    /// The entitlements it follows from, sorted by id, and whether the grant is direct there.
    pub sources: Vec<(String, bool)>,
    /// Which grants follow from it.
    pub expansion: Option<Expansion>,
    /// Whether those grants have yet to be made.
    pub needs_expansion: bool,
    /// When it was seen.
    pub discovered_at: Option<Timestamp>,
    /// The encoded connector message of its entitlement, where that says more than the ids.
    pub embedded_entitlement: Option<Vec<u8>>,
    /// The encoded connector message of its principal, where that says more than the ids.
    pub embedded_principal: Option<Vec<u8>>,
    /// Fields without a place here.
    pub extra: Extra,
}

/// A grant that borrows what every grant has: what the bulk path takes, so that no row is an allocation.
#[derive(Clone, Copy, Debug)]
pub struct GrantRef<'a> {
    /// Its id, unique in its sync.
    pub id: &'a str,
    /// The id of the entitlement.
    pub entitlement: &'a str,
    /// The resource type of the entitlement's resource.
    pub resource_type: &'a str,
    /// The resource of the entitlement.
    pub resource: &'a str,
    /// The resource type of the principal.
    pub principal_type: &'a str,
    /// The principal.
    pub principal: &'a str,
    /// When it was seen.
    pub discovered_at: Option<Timestamp>,
    /// A grant that all other fields are taken from: parent, annotations, sources, expansion and so on.
    pub rest: Option<&'a Grant>,
}

impl<'a> From<&'a Grant> for GrantRef<'a> {
    fn from(grant: &'a Grant) -> Self {
        let plain = grant.principal.parent.is_none()
            && grant.annotations.is_empty()
            && grant.sources.is_empty()
            && grant.expansion.is_none()
            && !grant.needs_expansion
            && grant.embedded_entitlement.is_none()
            && grant.embedded_principal.is_none()
            && grant.extra.is_empty();
        GrantRef {
            id: &grant.id,
            entitlement: &grant.entitlement.id,
            resource_type: &grant.entitlement.resource.resource_type,
            resource: &grant.entitlement.resource.resource,
            principal_type: &grant.principal.id.resource_type,
            principal: &grant.principal.id.resource,
            discovered_at: grant.discovered_at,
            rest: (!plain).then_some(grant),
        }
    }
}

impl GrantRef<'_> {
    /// The grant as an owned value.
    pub fn to_grant(&self) -> Grant {
        Grant {
            id: self.id.to_owned(),
            entitlement: EntitlementRef {
                resource: ResourceId::new(self.resource_type, self.resource),
                id: self.entitlement.to_owned(),
            },
            principal: PrincipalRef {
                id: ResourceId::new(self.principal_type, self.principal),
                parent: self.rest.and_then(|rest| rest.principal.parent.clone()),
            },
            discovered_at: self.discovered_at,
            ..self.rest.cloned().unwrap_or_default()
        }
    }
}

/// A file that belongs to the graph, such as an icon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asset {
    /// Its id.
    pub id: String,
    /// What kind of file it is, such as `image/png`.
    pub content_type: String,
    /// The file.
    pub data: Vec<u8>,
    /// When it was seen.
    pub discovered_at: Option<Timestamp>,
}

/// What a sync covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SyncKind {
    /// Everything.
    #[default]
    Full,
    /// A part.
    Partial,
    /// Resource types and resources only.
    ResourcesOnly,
    /// What came or changed since the parent sync.
    PartialUpserts,
    /// What went since the parent sync.
    PartialDeletions,
    /// A kind that has no name here: [`Sync::unknown_kind`] says which. Nothing is assumed about it.
    Unknown,
}

impl SyncKind {
    /// All kinds that are known.
    pub const ALL: [SyncKind; 5] = [
        SyncKind::Full,
        SyncKind::Partial,
        SyncKind::ResourcesOnly,
        SyncKind::PartialUpserts,
        SyncKind::PartialDeletions,
    ];

    /// The name, such as `partial_upserts`.
    ///
    /// ```
    /// use duramen_access::graph::SyncKind;
    /// assert_eq!(SyncKind::ResourcesOnly.name(), "resources_only");
    /// assert_eq!(SyncKind::from_name("full"), Some(SyncKind::Full));
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            SyncKind::Full => "full",
            SyncKind::Partial => "partial",
            SyncKind::ResourcesOnly => "resources_only",
            SyncKind::PartialUpserts => "partial_upserts",
            SyncKind::PartialDeletions => "partial_deletions",
            SyncKind::Unknown => "unknown",
        }
    }

    /// The kind with a name such as `partial_upserts`.
    pub fn from_name(name: &str) -> Option<SyncKind> {
        SyncKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// One pass over a source: all rows of a graph belong to one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sync {
    /// Its id, a KSUID of 27 characters.
    pub id: String,
    /// What it covers.
    pub kind: SyncKind,
    /// What its file calls its kind, if [`kind`](Self::kind) is [`SyncKind::Unknown`]: a name, or a number in digits.
    pub unknown_kind: String,
    /// The sync that it follows, for partial ones.
    pub parent: Option<String>,
    /// The sync that it is compared with: the upserts and deletions of one diff name each other.
    pub linked: Option<String>,
    /// When it was begun.
    pub started_at: Timestamp,
    /// When it was ended; none as long as it goes on.
    pub ended_at: Option<Timestamp>,
    /// Where the syncing tool stands, in its own words.
    pub token: String,
    /// Whether a diff against it can be made.
    pub supports_diff: bool,
    /// Whether it was made of several by compaction.
    pub compacted: bool,
    /// Fields without a place here.
    pub extra: Extra,
}

impl Sync {
    /// Of several syncs the one that is read when none is named: the latest finished full one, else the latest unfinished
    /// one, else the latest finished one of another kind. Of several that ended at once, that with the greater id.
    pub fn to_read<'a>(syncs: impl IntoIterator<Item = &'a Sync> + Clone) -> Option<&'a Sync> {
        let latest = |wanted: &dyn Fn(&Sync) -> bool| {
            let found = syncs.clone().into_iter().filter(|sync| wanted(sync));
            found.max_by_key(|sync| (sync.ended_at, sync.started_at, &sync.id))
        };
        latest(&|sync| sync.ended_at.is_some() && sync.kind == SyncKind::Full)
            .or_else(|| latest(&|sync| sync.ended_at.is_none()))
            .or_else(|| latest(&|_| true))
    }

    /// What files call the kind of this sync.
    pub fn kind_name(&self) -> &str {
        match self.kind {
            SyncKind::Unknown => &self.unknown_kind,
            known => known.name(),
        }
    }

    /// Sets the kind that files call by a name, also one that is not known here.
    ///
    /// ```
    /// use duramen_access::graph::{Sync, SyncKind};
    /// let mut sync = Sync::default();
    /// sync.set_kind("partial");
    /// assert_eq!(sync.kind, SyncKind::Partial);
    /// sync.set_kind("quarterly");
    /// assert_eq!((sync.kind, sync.kind_name()), (SyncKind::Unknown, "quarterly"));
    /// ```
    pub fn set_kind(&mut self, name: &str) {
        let known = SyncKind::from_name(name);
        self.kind = known.unwrap_or(SyncKind::Unknown);
        self.unknown_kind = if known.is_none() { name.to_owned() } else { String::new() };
    }
}
