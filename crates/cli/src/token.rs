//! Tokens, for those who are not root of this machine: `duramen token ...`.

use crate::{
    context::{Context, Outcome},
    output, parse,
};
use clap::{Args, Subcommand, ValueEnum};
use duramen_api::doors::DoorsView;
use duramen_api::model::Policy;
use duramen_api::token::{CreateToken, NewToken, Role, Token};
use duramen_base::clock;
use jiff::{SignedDuration, Timestamp};
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen token create ci --source app --policy read-write --max-branches 20
  psql 'postgresql://ci:SECRET@localhost:6432/app@try'      creates the branch try, and enters it
  psql 'postgresql://ci:SECRET@localhost:6432/@app'         a branch for this connection alone
  duramen token revoke ci";
const CREATE_EXAMPLES: &str = "\
Examples:
  duramen token create ci --source app                  branches of app, those that it creates
  duramen token create agent --policy read-only --max-ttl 30m --expires 7d
  duramen token create ops --role admin                 every branch";
const LIST_EXAMPLES: &str = "\
Examples:
  duramen token list
  duramen token list --json | jq -r '.[].name'";
const ROTATE_EXAMPLES: &str = "\
Examples:
  duramen token rotate ci         a new secret; sessions with the old one end";
const RESTORE_EXAMPLES: &str = "\
Examples:
  duramen token restore ci        etcd lost its data, and the tokens of the fleet with it";
const REVOKE_EXAMPLES: &str = "\
Examples:
  duramen token revoke ci         its sessions end; its branches stay until their leases end";

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token; its secret is shown once
    #[command(after_help = CREATE_EXAMPLES)]
    Create(Create),
    /// List all tokens
    #[command(after_help = LIST_EXAMPLES)]
    List,
    /// Give a token another secret, and end its sessions
    #[command(after_help = ROTATE_EXAMPLES)]
    Rotate(Name),
    /// Bring back a token that its fleet has lost, with the secret that it had
    #[command(after_help = RESTORE_EXAMPLES)]
    Restore(Name),
    /// End a token, and its sessions
    #[command(after_help = REVOKE_EXAMPLES)]
    Revoke(Name),
}

#[derive(Debug, Args)]
pub(crate) struct Name {
    /// The token's name
    name: String,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum RoleName {
    /// Everything with every branch of its sources
    Admin,
    /// Create branches, enter those that it created, and end them
    User,
    /// See what there is, and enter nothing
    Viewer,
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// The token's name, which clients give as the user
    name: String,
    /// What its holder may do
    #[arg(long, value_enum, default_value = "user")]
    role: RoleName,
    /// A source whose branches it may have; several if repeated [default: all]
    #[arg(long = "source", value_name = "NAME")]
    sources: Vec<String>,
    /// A policy that its branches may have; several if repeated [default: read-only, read-write, ddl]
    #[arg(long = "policy", value_name = "POLICY")]
    policies: Vec<Policy>,
    /// How many branches it may hold at a time [default: 20]
    #[arg(long, value_name = "N")]
    max_branches: Option<u32>,
    /// How many connections it may have at a time [default: 100]
    #[arg(long, value_name = "N")]
    max_connections: Option<u32>,
    /// The longest lease that it may ask for [default: 90d]
    #[arg(long, value_name = "SPAN", value_parser = parse::ttl)]
    max_ttl: Option<i64>,
    /// When it ends: a span from now, or a time (RFC 3339) [default: when it is revoked]
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    expires: Option<Timestamp>,
}

fn moment(text: &str) -> Result<Timestamp, String> {
    if let Ok(moment) = text.parse() {
        return Ok(moment);
    }
    let span = parse::ttl(text)?;
    clock::utc_now().checked_add(SignedDuration::from_secs(span)).map_err(|error| error.to_string())
}

pub(crate) async fn run(context: &Context, command: TokenCommand) -> Outcome {
    let mut connection = context.connect().await?;
    match command {
        TokenCommand::Create(create) => {
            let request = CreateToken {
                name: create.name,
                role: match create.role {
                    RoleName::Admin => Role::Admin,
                    RoleName::User => Role::User,
                    RoleName::Viewer => Role::Viewer,
                },
                sources: create.sources,
                policies: create.policies,
                max_branches: create.max_branches,
                max_connections: create.max_connections,
                max_ttl_s: create.max_ttl,
                expires_at: create.expires,
            };
            let made = connection.create_token(&request).await?;
            show_new(context, &made, &connection.doors().await?)
        }
        TokenCommand::List => list(context, &connection.tokens().await?),
        TokenCommand::Rotate(Name { name }) => {
            let made = connection.rotate_token(&name).await?;
            show_new(context, &made, &connection.doors().await?)
        }
        TokenCommand::Restore(Name { name }) => {
            let token = connection.restore_token(&name).await?;
            match context.json {
                true => output::json(&token)?,
                false => output::line(format_args!("restored {name}: it lets its holder in again")),
            }
            Ok(ExitCode::SUCCESS)
        }
        TokenCommand::Revoke(Name { name }) => {
            let token = connection.revoke_token(&name).await?;
            match context.json {
                true => output::json(&token)?,
                false => output::line(format_args!("revoked {name}: its sessions have ended")),
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn show_new(context: &Context, made: &NewToken, doors: &DoorsView) -> Outcome {
    if context.json {
        output::json(made)?;
        return Ok(ExitCode::SUCCESS);
    }
    let NewToken { token, secret } = made;
    let mut facts = facts(token);
    facts.push(("secret", format!("{secret}  (shown once; keep it)")));
    match &doors.postgres {
        Some(router) => {
            let source = token.sources.first().map_or("SOURCE", String::as_str);
            // Wherever it listens, whoever reads this is on its machine.
            let host = if router.address.ip().is_unspecified() {
                "localhost".to_owned()
            } else {
                router.address.ip().to_string()
            };
            let host = if host.contains(':') { format!("[{host}]") } else { host };
            let port = router.address.port();
            facts
                .push(("url", format!("postgresql://{}:{secret}@{host}:{port}/{source}@BRANCH", token.name)));
        }
        None => {
            facts.push(("url", "nobody listens for PostgreSQL clients: duramen serve --pg-listen".to_owned()))
        }
    }
    output::print(output::pairs(facts));
    Ok(ExitCode::SUCCESS)
}

fn facts(token: &Token) -> Vec<(&'static str, String)> {
    vec![
        ("token", token.name.clone()),
        ("role", role(token.role).to_owned()),
        ("sources", sources(token)),
        ("policies", policies(token)),
        ("branches", format!("{} at most", token.max_branches)),
        ("connections", format!("{} at most", token.max_connections)),
        ("ends", ends(token)),
    ]
}

fn list(context: &Context, tokens: &[Token]) -> Outcome {
    if context.json {
        output::json(tokens)?;
        return Ok(ExitCode::SUCCESS);
    }
    if tokens.is_empty() {
        output::line("there are no tokens; make one with `duramen token create NAME`");
        return Ok(ExitCode::SUCCESS);
    }
    let rows = tokens.iter().map(|token| {
        [
            token.name.clone(),
            role(token.role).to_owned(),
            sources(token),
            policies(token),
            token.max_branches.to_string(),
            token.max_connections.to_string(),
            ends(token),
        ]
    });
    output::print(output::table(
        ["NAME", "ROLE", "SOURCES", "POLICIES", "BRANCHES", "CONNECTIONS", "ENDS"],
        rows,
    ));
    Ok(ExitCode::SUCCESS)
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Admin => "admin",
        Role::User => "user",
        Role::Viewer => "viewer",
    }
}

fn sources(token: &Token) -> String {
    if token.sources.is_empty() {
        "all".to_owned()
    } else {
        token.sources.join(", ")
    }
}

fn policies(token: &Token) -> String {
    token.policies.iter().map(Policy::to_string).collect::<Vec<_>>().join(", ")
}

fn ends(token: &Token) -> String {
    token.expires_at.map_or_else(|| "when revoked".to_owned(), output::until)
}
