//! The public items of the crate, held by the listing in `public-api.txt`: whoever changes what others build on sees it
//! in a diff.
//!
//! The sources are read, not compiled: `pub mod` and `pub use` are followed from `lib.rs`, and `impl` blocks are looked
//! for in every file. What a macro of this crate writes is not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::spanned::Spanned;
use syn::{Fields, ImplItem, Item, TraitItem, UseTree, Visibility};

/// Set it to write the listing anew.
const UPDATE: &str = "DURAMEN_UPDATE_PUBLIC_API";

/// The place of a module or item: names from the root of the crate.
type Place = Vec<String>;

/// All modules of the crate, with their items.
#[derive(Default)]
struct Modules(BTreeMap<Place, Vec<Item>>);

/// What a name means.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Meaning {
    Module(Place),
    Item(Place),
}

/// A name that a `use` brings in.
struct Import {
    path: Vec<String>,
    name: String,
}

fn child(place: &[String], name: &str) -> Place {
    place.iter().cloned().chain([name.to_owned()]).collect()
}

fn is_public(vis: &Visibility) -> bool {
    matches!(vis, Visibility::Public(_))
}

fn is_for_tests(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|attr| attr.path().is_ident("cfg") && text(attr).contains("test"))
}

/// The source of a piece of syntax, on one line.
fn text(piece: &impl Spanned) -> String {
    let source = piece.span().source_text().unwrap_or_default();
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let words: Vec<&str> = code.flat_map(str::split_whitespace).collect();
    words
        .join(" ")
        .replace("( ", "(")
        .replace(", )", ")")
        .replace(" )", ")")
        .replace(" .", ".")
        .trim_end_matches(',')
        .to_owned()
}

fn imports(tree: &UseTree, before: &[String], out: &mut Vec<Import>) {
    match tree {
        UseTree::Path(path) => imports(&path.tree, &child(before, &path.ident.to_string()), out),
        UseTree::Group(group) => group.items.iter().for_each(|tree| imports(tree, before, out)),
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            out.push(Import { path: child(before, &name), name });
        }
        UseTree::Rename(rename) => {
            let path = child(before, &rename.ident.to_string());
            out.push(Import { path, name: rename.rename.to_string() });
        }
        UseTree::Glob(_) => {
            panic!("public_api does not follow `use {}::*`: name the items", before.join("::"))
        }
    }
}

/// The name of an item that has one, and who sees it.
fn named(item: &Item) -> Option<(String, &Visibility)> {
    Some(match item {
        Item::Const(item) => (item.ident.to_string(), &item.vis),
        Item::Enum(item) => (item.ident.to_string(), &item.vis),
        Item::Fn(item) => (item.sig.ident.to_string(), &item.vis),
        Item::Static(item) => (item.ident.to_string(), &item.vis),
        Item::Struct(item) => (item.ident.to_string(), &item.vis),
        Item::Trait(item) => (item.ident.to_string(), &item.vis),
        Item::Type(item) => (item.ident.to_string(), &item.vis),
        _ => return None,
    })
}

impl Modules {
    /// Reads a file, and those of the modules in it, which lie in `folder`.
    fn load(&mut self, file: &Path, folder: &Path, place: &[String]) {
        let source = std::fs::read_to_string(file).unwrap();
        let parsed = syn::parse_file(&source).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.add(parsed.items, folder, place);
    }

    fn add(&mut self, mut items: Vec<Item>, folder: &Path, place: &[String]) {
        for item in &mut items {
            let Item::Mod(module) = item else { continue };
            if is_for_tests(&module.attrs) {
                continue;
            }
            let name = module.ident.to_string();
            let (below, place) = (folder.join(&name), child(place, &name));
            match module.content.take() {
                Some((_, items)) => self.add(items, &below, &place),
                None => self.load(&folder.join(format!("{name}.rs")), &below, &place),
            }
        }
        self.0.insert(place.to_vec(), items);
    }

    fn items(&self, module: &[String]) -> &[Item] {
        self.0.get(module).map_or(&[], Vec::as_slice)
    }

    fn item(&self, place: &[String]) -> Option<&Item> {
        let (name, module) = place.split_last()?;
        self.items(module).iter().find(|item| named(item).is_some_and(|(found, _)| found == *name))
    }

    /// What a name means in a module; none for what comes from another crate.
    fn meaning(&self, module: &[String], name: &str) -> Option<Meaning> {
        let place = child(module, name);
        if self.0.contains_key(&place) {
            return Some(Meaning::Module(place));
        }
        if self.item(&place).is_some() {
            return Some(Meaning::Item(place));
        }
        let mut found = Vec::new();
        for item in self.items(module) {
            if let Item::Use(item) = item {
                // `use super::*` is for tests, which are not here.
                imports(&item.tree, &[], &mut found);
            }
        }
        let import = found.into_iter().find(|import| import.name == name && import.path != [name])?;
        self.resolve(module, &import.path)
    }

    /// What a path means in a module.
    fn resolve(&self, module: &[String], path: &[String]) -> Option<Meaning> {
        let mut at = Meaning::Module(module.to_vec());
        for segment in path {
            let Meaning::Module(place) = &at else { return None };
            at = match segment.as_str() {
                "crate" => Meaning::Module(Vec::new()),
                "self" => at,
                "super" => Meaning::Module(place[..place.len() - 1].to_vec()),
                name => self.meaning(place, name)?,
            };
        }
        Some(at)
    }
}

/// The public items, by where they are defined, with the public names of each, the shortest first.
#[derive(Default)]
struct Public {
    names: BTreeMap<Place, BTreeSet<(usize, String)>>,
    /// What is taken from other crates.
    foreign: Vec<String>,
    seen: BTreeSet<(Place, Place)>,
}

impl Public {
    fn add(&mut self, modules: &Modules, meaning: Meaning, name: Place) {
        match meaning {
            Meaning::Module(place) => self.visit(modules, &place, &name),
            Meaning::Item(place) => {
                self.names.entry(place).or_default().insert((name.len(), name.join("::")));
            }
        }
    }

    fn visit(&mut self, modules: &Modules, module: &[String], public: &[String]) {
        if !self.seen.insert((module.to_vec(), public.to_vec())) {
            return;
        }
        for item in modules.items(module) {
            match item {
                Item::Mod(item) if is_public(&item.vis) => {
                    let name = item.ident.to_string();
                    self.add(modules, Meaning::Module(child(module, &name)), child(public, &name));
                }
                Item::Use(item) if is_public(&item.vis) => {
                    let mut found = Vec::new();
                    imports(&item.tree, &[], &mut found);
                    for Import { path, name } in found {
                        match modules.resolve(module, &path) {
                            Some(meaning) => self.add(modules, meaning, child(public, &name)),
                            None => self.foreign.push(format!("pub use {}", path.join("::"))),
                        }
                    }
                }
                item => {
                    if let Some((name, _)) = named(item).filter(|(_, vis)| is_public(vis)) {
                        self.add(modules, Meaning::Item(child(module, &name)), child(public, &name));
                    }
                }
            }
        }
    }

    /// The shortest public name of what a type names in a module.
    fn name_of(&self, modules: &Modules, module: &[String], ty: &syn::Type) -> Option<&str> {
        let syn::Type::Path(ty) = ty else { return None };
        let path: Vec<String> = ty.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        match modules.resolve(module, &path)? {
            Meaning::Item(place) => Some(&self.names.get(&place)?.first()?.1),
            Meaning::Module(_) => None,
        }
    }
}

/// The attributes that are part of what others see.
fn attributes(attrs: &[syn::Attribute]) -> String {
    let is_seen = |attr: &&syn::Attribute| {
        ["derive", "non_exhaustive", "must_use"].iter().any(|name| attr.path().is_ident(name))
            || attr.path().is_ident("doc") && text(*attr).contains("hidden")
    };
    attrs.iter().filter(is_seen).map(|attr| text(attr) + " ").collect()
}

/// A signature with the name of its type before its own.
fn signature(sig: &syn::Signature, owner: &str) -> String {
    let (name, text) = (sig.ident.to_string(), text(sig));
    text.replacen(&format!("fn {name}"), &format!("fn {owner}::{name}"), 1)
}

fn fields(fields: &Fields) -> String {
    let of = |field: &syn::Field| match &field.ident {
        Some(name) => format!("{name}: {}", text(&field.ty)),
        None => text(&field.ty),
    };
    let all: Vec<String> = fields.iter().map(of).collect();
    match fields {
        Fields::Named(_) => format!(" {{ {} }}", all.join(", ")),
        Fields::Unnamed(_) => format!("({})", all.join(", ")),
        Fields::Unit => String::new(),
    }
}

/// The lines of an item under its public name.
fn lines(item: &Item, name: &str) -> Vec<String> {
    match item {
        Item::Const(item) => {
            vec![format!("pub const {name}: {} = {}", text(&item.ty), text(&item.expr))]
        }
        Item::Static(item) => vec![format!("pub static {name}: {}", text(&item.ty))],
        Item::Type(item) => {
            vec![format!("pub type {name}{} = {}", text(&item.generics), text(&item.ty))]
        }
        Item::Fn(item) => {
            let own = item.sig.ident.to_string();
            let sig = text(&item.sig).replacen(&format!("fn {own}"), &format!("fn {name}"), 1);
            vec![format!("{}pub {sig}", attributes(&item.attrs))]
        }
        Item::Struct(item) => {
            let head = format!("{}pub struct {name}{}", attributes(&item.attrs), text(&item.generics));
            let public = item.fields.iter().enumerate().filter(|(_, field)| is_public(&field.vis));
            let public = public.map(|(index, field)| {
                let field_name = field.ident.as_ref().map_or(index.to_string(), ToString::to_string);
                format!("pub {name}::{field_name}: {}", text(&field.ty))
            });
            std::iter::once(head).chain(public).collect()
        }
        Item::Enum(item) => {
            let head = format!("{}pub enum {name}{}", attributes(&item.attrs), text(&item.generics));
            let variants = item.variants.iter().map(|variant| {
                let value = variant.discriminant.as_ref().map(|(_, value)| format!(" = {}", text(value)));
                format!("{name}::{}{}{}", variant.ident, fields(&variant.fields), value.unwrap_or_default())
            });
            std::iter::once(head).chain(variants).collect()
        }
        Item::Trait(item) => {
            let above = if item.supertraits.is_empty() {
                String::new()
            } else {
                format!(": {}", text(&item.supertraits))
            };
            let head = format!("{}pub trait {name}{}{above}", attributes(&item.attrs), text(&item.generics));
            let items = item.items.iter().filter_map(|item| match item {
                TraitItem::Fn(item) => Some(attributes(&item.attrs) + &signature(&item.sig, name)),
                TraitItem::Type(item) => Some(format!("type {name}::{}", item.ident)),
                TraitItem::Const(item) => Some(format!("const {name}::{}: {}", item.ident, text(&item.ty))),
                _ => None,
            });
            std::iter::once(head).chain(items).collect()
        }
        _ => Vec::new(),
    }
}

/// The lines of an `impl` block of a type with a public name.
fn impl_lines(item: &syn::ItemImpl, name: &str) -> Vec<String> {
    if let Some((_, of, _)) = &item.trait_ {
        return vec![format!("impl {} for {}", text(of), text(&*item.self_ty))];
    }
    let line = |item: &ImplItem| match item {
        ImplItem::Fn(item) if is_public(&item.vis) => {
            Some(format!("{}pub {}", attributes(&item.attrs), signature(&item.sig, name)))
        }
        ImplItem::Const(item) if is_public(&item.vis) => {
            Some(format!("pub const {name}::{}: {}", item.ident, text(&item.ty)))
        }
        _ => None,
    };
    item.items.iter().filter_map(line).collect()
}

fn listing() -> String {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut modules = Modules::default();
    modules.load(&src.join("lib.rs"), &src, &[]);
    let mut public = Public::default();
    public.visit(&modules, &[], &[]);

    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (place, names) in &public.names {
        let mut names = names.iter().map(|(_, name)| name);
        let (Some(item), Some(first)) = (modules.item(place), names.next()) else { continue };
        groups.entry(first.clone()).or_default().extend(lines(item, first));
        for alias in names {
            groups.entry(alias.clone()).or_default().push(format!("pub use {first} as {alias}"));
        }
    }
    for (module, items) in &modules.0 {
        for item in items {
            let Item::Impl(item) = item else { continue };
            if let Some(name) = public.name_of(&modules, module, &item.self_ty) {
                groups.entry(name.to_owned()).or_default().extend(impl_lines(item, name));
            }
        }
    }
    let mut out: Vec<String> = public.foreign;
    out.extend(groups.into_values().flatten());
    out.join("\n") + "\n"
}

#[test]
fn the_public_items_are_those_of_the_listing() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("public-api.txt");
    let now = listing();
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &now).unwrap();
        return;
    }
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    let (old, new): (BTreeSet<&str>, BTreeSet<&str>) = (before.lines().collect(), now.lines().collect());
    let gone = before.lines().filter(|line| !new.contains(line)).map(|line| format!("- {line}\n"));
    let come = now.lines().filter(|line| !old.contains(line)).map(|line| format!("+ {line}\n"));
    let diff: String = gone.chain(come).collect();
    assert!(
        before == now,
        "the public items differ from public-api.txt:\n{diff}\nIf that is meant: {UPDATE}=1 cargo test -p \
         duramen-store --test it -- public_api"
    );
}
