//! Fleets where they were not built in: there is never one.

use super::Way;
use crate::{
    api::Call,
    caller::Caller,
    daemon::{ServeError, ServeOptions},
    doors::Doors,
    import::Reporter,
    order::Order,
    reply::Refusal,
    tokens::Tokens,
};
use axum::body::Body;
use duramen_api::{
    cluster::NodeReport,
    fleet::{FleetSource, FleetView},
    model::{AddSource, ChangeSettings, SourceView},
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

    pub(crate) fn fleet_source(&self, _: &str) -> Option<FleetSource> {
        match self.0 {}
    }

    pub(crate) async fn add_source(
        self: Arc<Self>,
        _: AddSource,
        _: Reporter,
    ) -> Result<SourceView, EngineError> {
        match self.0 {}
    }

    pub(crate) async fn remove_source(self: &Arc<Self>, _: &str) -> Result<(), EngineError> {
        match self.0 {}
    }

    pub(crate) async fn change_settings(
        &self,
        _: &str,
        _: ChangeSettings,
    ) -> Result<SourceView, EngineError> {
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
