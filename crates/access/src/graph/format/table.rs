//! The kinds of rows that are records, and the sections that hold them.

/// The kinds of rows that are records. The numbers are part of the format of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Table {
    ResourceTypes = 0,
    Resources = 1,
    Entitlements = 2,
    Assets = 3,
}

impl Table {
    pub(crate) const ALL: [Table; 4] =
        [Table::ResourceTypes, Table::Resources, Table::Entitlements, Table::Assets];

    pub(crate) fn section(self) -> &'static str {
        match self {
            Table::ResourceTypes => "resource-types",
            Table::Resources => "resources",
            Table::Entitlements => "entitlements",
            Table::Assets => "assets",
        }
    }

    pub(crate) fn from_number(number: u8) -> Option<Table> {
        Table::ALL.into_iter().find(|table| *table as u8 == number)
    }
}
