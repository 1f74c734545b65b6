//! The interface as OpenAPI 3.1, made from the list of requests and the types that they carry.

use crate::{
    access::OpenTo,
    problem::{Problem, PROBLEM},
    route::{Endpoint, ParameterKind, ENDPOINTS, KEY_MAX},
    shape::{Shape, Shapes, EVENTS, LINES},
};
use hyper::Method;
use utoipa::{
    openapi::{
        path::{OperationBuilder, ParameterBuilder, ParameterIn},
        request_body::RequestBodyBuilder,
        security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
        ComponentsBuilder, Content, HttpMethod, InfoBuilder, ObjectBuilder, OpenApi, OpenApiBuilder,
        PathItem, PathsBuilder, Ref, RefOr, Required, ResponseBuilder, Schema, Type,
    },
    PartialSchema,
};

const BEARER: &str = "bearer";
const BASIC: &str = "basic";

/// The document that `GET /openapi.json` replies with.
///
/// # Examples
/// ```
/// let document = duramen_api::openapi::document();
/// assert!(document.paths.paths.contains_key("/v1/branches/{name}/query"));
/// ```
#[must_use]
pub fn document() -> OpenApi {
    let mut shapes = Shapes::default();
    let problem = shapes.refer::<Problem>();
    let paths = ENDPOINTS.iter().fold(PathsBuilder::new(), |paths, endpoint| {
        let operation = operation(endpoint, &mut shapes, &problem);
        paths.path(endpoint.path, PathItem::new(method(&endpoint.method), operation))
    });
    let scheme = |scheme, what: &str| {
        SecurityScheme::Http(HttpBuilder::new().scheme(scheme).description(Some(what)).build())
    };
    let components = shapes
        .0
        .into_iter()
        .fold(ComponentsBuilder::new(), |components, (name, schema)| components.schema(name, schema));
    let components = components
        .security_scheme(
            BEARER,
            scheme(HttpAuthScheme::Bearer, "The name of a token, a colon, and its secret."),
        )
        .security_scheme(
            BASIC,
            scheme(HttpAuthScheme::Basic, "The name of a token as the user, and its secret."),
        );
    let info = InfoBuilder::new()
        .title("Duramen")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Branches of PostgreSQL. Over the daemon's unix socket no token is needed; what is for `machine` is answered there alone.",
        ))
        .build();
    OpenApiBuilder::new().info(info).paths(paths.build()).components(Some(components.build())).build()
}

fn method(method: &Method) -> HttpMethod {
    match *method {
        Method::POST => HttpMethod::Post,
        Method::DELETE => HttpMethod::Delete,
        Method::PATCH => HttpMethod::Patch,
        _ => HttpMethod::Get,
    }
}

fn operation(endpoint: &Endpoint, shapes: &mut Shapes, problem: &Ref) -> OperationBuilder {
    let open_to = endpoint.op.open_to();
    let mut operation = OperationBuilder::new()
        .operation_id(Some(endpoint.op.name()))
        .summary(Some(endpoint.summary))
        .description(Some(format!("For: {open_to}.")));
    if endpoint.path.contains("{name}") {
        let name = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).build();
        operation = operation.parameter(
            ParameterBuilder::new()
                .name("name")
                .parameter_in(ParameterIn::Path)
                .required(Required::True)
                .schema(Some(Schema::Object(name))),
        );
    }
    for parameter in endpoint.parameters {
        let schema = match parameter.kind {
            ParameterKind::Text => ObjectBuilder::new().schema_type(Type::String),
            ParameterKind::Number(least, most) => {
                ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(least)).maximum(Some(most))
            }
        };
        operation = operation.parameter(
            ParameterBuilder::new()
                .name(parameter.name)
                .parameter_in(ParameterIn::Query)
                .description(Some(parameter.meaning))
                .schema(Some(Schema::Object(schema.build()))),
        );
    }
    if endpoint.takes_key() {
        let key = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^[!-~]+$"))
            .min_length(Some(1))
            .max_length(Some(KEY_MAX));
        operation = operation.parameter(
            ParameterBuilder::new()
                .name("Idempotency-Key")
                .parameter_in(ParameterIn::Header)
                .description(Some(
                    "A new word for each request, a UUID for one. Sent again with the same key within an hour, to the same daemon, a request that was done is answered as the first time, and not done again.",
                ))
                .schema(Some(Schema::Object(key.build()))),
        );
    }
    if let Some(Shape { kind, required, content }) = (endpoint.body)(shapes) {
        let required = if required { Required::True } else { Required::False };
        let body = RequestBodyBuilder::new().content(kind, content).required(Some(required));
        operation = operation.request_body(Some(body.build()));
    }
    let mut done = ResponseBuilder::new().description("It is done.");
    let mut status = "204";
    if let Some(Shape { kind, content, .. }) = (endpoint.reply)(shapes) {
        status = "200";
        done = done.content(kind, content);
        if kind == LINES {
            done = done.content(EVENTS, Content::new(Some(<String as PartialSchema>::schema())));
        }
    }
    let refused = Content::new(Some(RefOr::<Schema>::Ref(problem.clone())));
    operation = operation.response(status, done.build()).response(
        "default",
        ResponseBuilder::new()
            .description("It is not done, and this is why.")
            .content(PROBLEM, refused)
            .build(),
    );
    match open_to {
        OpenTo::Anybody => operation,
        OpenTo::Tokens(_) | OpenTo::AllSources(_) | OpenTo::Machine => {
            let none: [&str; 0] = [];
            operation
                .security(SecurityRequirement::new(BEARER, none))
                .security(SecurityRequirement::new(BASIC, none))
        }
    }
}
