//! What bodies look like: the schemas of the types that the daemon reads and writes.

use std::{collections::BTreeMap, marker::PhantomData};
use utoipa::{
    openapi::{schema::empty, Array, ArrayBuilder, Content, Ref, RefOr, Schema},
    PartialSchema, ToSchema,
};

/// JSON.
pub(crate) const JSON: &str = "application/json";
/// One JSON value a line.
pub(crate) const LINES: &str = "application/x-ndjson";
/// Text for people.
pub(crate) const TEXT: &str = "text/plain";
/// Bytes.
pub(crate) const BYTES: &str = "application/octet-stream";
/// Server-sent events.
pub const EVENTS: &str = "text/event-stream";
/// Figures for Prometheus.
pub(crate) const FIGURES: &str = "application/openmetrics-text";

/// The schemas by name that bodies refer to.
#[derive(Default)]
pub(crate) struct Shapes(pub(crate) BTreeMap<String, RefOr<Schema>>);

impl Shapes {
    /// A reference to the schema of a type, which is kept with those that it refers to.
    pub(crate) fn refer<T: ToSchema>(&mut self) -> Ref {
        let name = T::name().into_owned();
        let mut below = Vec::new();
        T::schemas(&mut below);
        self.0.extend(below);
        self.0.insert(name.clone(), T::schema());
        Ref::from_schema_name(name)
    }
}

/// A body: what it is, and what it looks like.
pub(crate) struct Shape {
    pub(crate) kind: &'static str,
    /// Whether it has to be there: something in it has no default.
    pub(crate) required: bool,
    pub(crate) content: Content,
}

impl Shape {
    fn of(kind: &'static str, content: Content) -> Shape {
        Shape { kind, required: false, content }
    }
}

/// No body.
pub(crate) struct Nothing;
/// A value in JSON.
pub(crate) struct One<T>(PhantomData<T>);
/// An array of values in JSON.
pub(crate) struct List<T>(PhantomData<T>);
/// A value in JSON a line.
pub(crate) struct Lines<T>(PhantomData<T>);
/// An array of numbers in JSON.
pub(crate) struct Numbers;
/// Figures for Prometheus.
pub(crate) struct Figures;
/// Server-sent events.
pub(crate) struct Stream;
/// Bytes as they are.
pub(crate) struct Octets;
/// Text.
pub(crate) struct Plain;
/// A document in JSON whose form is described elsewhere.
pub(crate) struct Document;

impl Nothing {
    pub(crate) fn shape(_: &mut Shapes) -> Option<Shape> {
        None
    }
}

impl<T: ToSchema> One<T> {
    pub(crate) fn shape(shapes: &mut Shapes) -> Option<Shape> {
        let required = match T::schema() {
            RefOr::T(Schema::Object(object)) => !object.required.is_empty(),
            _ => false,
        };
        Some(Shape { required, ..Shape::of(JSON, Content::new(Some(shapes.refer::<T>()))) })
    }
}

impl<T: ToSchema> List<T> {
    pub(crate) fn shape(shapes: &mut Shapes) -> Option<Shape> {
        let array: Array = ArrayBuilder::new().items(shapes.refer::<T>()).build();
        Some(Shape::of(JSON, Content::new(Some(Schema::Array(array)))))
    }
}

impl<T: ToSchema> Lines<T> {
    pub(crate) fn shape(shapes: &mut Shapes) -> Option<Shape> {
        Some(Shape::of(LINES, Content::new(Some(shapes.refer::<T>()))))
    }
}

impl Numbers {
    pub(crate) fn shape(_: &mut Shapes) -> Option<Shape> {
        let array: Array = ArrayBuilder::new().items(<u64 as PartialSchema>::schema()).build();
        Some(Shape::of(JSON, Content::new(Some(Schema::Array(array)))))
    }
}

impl Plain {
    pub(crate) fn shape(_: &mut Shapes) -> Option<Shape> {
        Some(Shape::of(TEXT, Content::new(Some(<String as PartialSchema>::schema()))))
    }
}

impl Figures {
    pub(crate) fn shape(_: &mut Shapes) -> Option<Shape> {
        Some(Shape::of(FIGURES, Content::new(Some(<String as PartialSchema>::schema()))))
    }
}

impl Stream {
    pub(crate) fn shape(_: &mut Shapes) -> Option<Shape> {
        Some(Shape::of(EVENTS, Content::new(Some(<String as PartialSchema>::schema()))))
    }
}

impl Octets {
    pub(crate) fn shape(_: &mut Shapes) -> Option<Shape> {
        Some(Shape::of(BYTES, Content::new(Some(empty()))))
    }
}

impl Document {
    pub(crate) fn shape(_: &mut Shapes) -> Option<Shape> {
        Some(Shape::of(JSON, Content::new(Some(empty()))))
    }
}
