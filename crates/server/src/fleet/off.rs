//! Fleets where they were not built in: there is never one.

use super::Way;
use crate::{
    api::Call,
    caller::Caller,
    daemon::{ServeError, ServeOptions},
    doors::Doors,
    order::Order,
    reply::Refusal,
    tokens::Tokens,
};
use axum::body::Body;
use duramen_api::{
    cluster::NodeReport,
    fleet::FleetView,
    token::{CreateToken, NewToken, Token},
};
use duramen_branches::{Engine, EngineError};
use prometheus_client::registry::Registry;
use std::{convert::Infallible, sync::Arc};

#[derive(Debug)]
pub(crate) struct Peers(Infallible);

impl Peers {
    pub(crate) fn join(_: &ServeOptions) -> Joining {
        Joining
    }

    pub(crate) async fn serve(self: Arc<Peers>, _: axum::Router, _: impl Future<Output = ()>) {
        match self.0 {}
    }

    pub(crate) async fn close(&self, _: Order) {
        match self.0 {}
    }

    pub(crate) async fn way(&self, _: &Call<'_>, _: &Caller, _: Body) -> Way {
        match self.0 {}
    }

    pub(crate) async fn settled(&self, _: &str) {
        match self.0 {}
    }

    pub(crate) fn view(&self) -> FleetView {
        match self.0 {}
    }

    pub(crate) fn report(&self) -> NodeReport {
        match self.0 {}
    }

    pub(crate) fn register_metrics(self: &Arc<Peers>, _: &mut Registry) {
        match self.0 {}
    }

    pub(crate) async fn drain(&self, _: &str, _: bool) -> Result<(), Refusal> {
        match self.0 {}
    }

    pub(crate) async fn forget(&self, _: &str) -> Result<(), Refusal> {
        match self.0 {}
    }

    pub(crate) async fn create_token(&self, _: &Tokens, _: CreateToken) -> Result<NewToken, EngineError> {
        match self.0 {}
    }

    pub(crate) async fn rotate_token(&self, _: &Tokens, _: &str) -> Result<NewToken, EngineError> {
        match self.0 {}
    }

    pub(crate) async fn restore_token(&self, _: &Tokens, _: &str) -> Result<Token, EngineError> {
        match self.0 {}
    }

    pub(crate) async fn revoke_token(
        &self,
        _: &Tokens,
        _: &str,
    ) -> Result<(Token, Option<EngineError>), EngineError> {
        match self.0 {}
    }
}

pub(crate) struct Joining;

impl Joining {
    pub(crate) fn open(self, _: &Arc<Engine>, _: &Doors) -> Result<Option<Arc<Peers>>, ServeError> {
        Ok(None)
    }
}
