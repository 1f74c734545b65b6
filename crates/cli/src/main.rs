//! The `duramen` command: one noun a file, and each of them only asks the daemon, the lab or the servers' crate.
//!
//! Exit status: 0 done, 1 failed, 2 bad usage, 3 invalid measurement.

#[cfg(unix)]
mod agent;
mod attachment;
mod branch;
#[cfg(feature = "engines")]
mod change;
mod cluster;
#[cfg(feature = "engines")]
mod config;
#[cfg(feature = "engines")]
mod console;
mod context;
#[cfg(feature = "engines")]
mod demo;
#[cfg(feature = "engines")]
mod doctor;
mod failure;
#[cfg(feature = "engines")]
mod functions;
#[cfg(feature = "engines")]
mod home;
mod json_flag;
#[cfg(feature = "engines")]
mod lab;
#[cfg(unix)]
mod log;
mod login;
mod manual;
mod mcp;
#[cfg(feature = "engines")]
mod metrics;
mod moment;
mod node;
mod openapi;
mod output;
#[cfg(feature = "engines")]
mod pack;
mod parse;
#[cfg(feature = "engines")]
mod probe;
mod progress;
#[cfg(feature = "engines")]
mod purge;
mod query;
#[cfg(feature = "engines")]
mod serve;
mod source;
mod status;
#[cfg(feature = "engines")]
mod store;
mod token;
#[cfg(feature = "engines")]
mod traces;
#[cfg(feature = "engines")]
mod trial;
#[cfg(feature = "engines")]
mod volumes;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
#[cfg(feature = "engines")]
use config::Settings;
use context::Context;
use failure::Failure;
use std::{path::PathBuf, process::ExitCode};

/// Requests are many small allocations that one thread makes and another frees, which the C library's allocator
/// is slow at.
#[cfg(feature = "engines")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Databases you can branch, trust and measure.
#[derive(Debug, Parser)]
#[command(name = "duramen", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Cli {
    /// The home directory [default: DURAMEN_HOME, else the user's data folder]
    #[arg(long, global = true, value_name = "DIR")]
    home: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[cfg(feature = "engines")]
const EXAMPLES: &str = "\
Examples:
  duramen doctor                          what is there, what is missing, what fixes it
  duramen demo                            see all of it work on real data
  duramen serve                           run the daemon that owns sources, pool and branches
  duramen source add app --url URL        import a running server
  duramen branch create try --source app  an isolated, writable copy of it

Exit status: 0 done, 1 failed, 2 bad usage, 3 invalid measurement";

#[cfg(not(feature = "engines"))]
const EXAMPLES: &str = "\
Examples:
  duramen login https://db.example:6433   a daemon on another machine; asks for a token
  duramen branch create try --source app  an isolated, writable copy of its data
  psql \"$(duramen branch url try)\"

This is the client alone. Exit status: 0 done, 1 failed, 2 bad usage";

#[derive(Debug, Subcommand)]
enum Command {
    #[cfg(feature = "engines")]
    /// Show what was found, what is missing, and how to fix it
    #[command(after_help = doctor::EXAMPLES)]
    Doctor,
    #[cfg(feature = "engines")]
    /// Run the daemon in the foreground
    #[command(after_help = serve::SERVE_EXAMPLES)]
    Serve(serve::Serve),
    #[cfg(feature = "engines")]
    /// Stop the daemon; leased branches come back with the next one
    #[command(after_help = serve::STOP_EXAMPLES)]
    Stop,
    /// Show the daemon's pools, leases and volumes
    #[command(after_help = status::EXAMPLES)]
    Status,
    #[cfg(feature = "engines")]
    /// Remove all sources and branches of the home, and stop their servers
    #[command(after_help = purge::EXAMPLES)]
    Purge(purge::Purge),
    /// Import databases and look after them
    #[command(subcommand, after_help = source::EXAMPLES)]
    Source(source::Source),
    /// Lease isolated, writable copies of a source
    #[command(subcommand, after_help = branch::EXAMPLES)]
    Branch(branch::Branch),
    #[cfg(feature = "engines")]
    /// Run a command in a branch, and keep what it changed as a change set
    #[command(after_help = trial::EXAMPLES)]
    Try(trial::Try),
    #[cfg(feature = "engines")]
    /// Carry what a branch changed to another database: as a file, applied once
    #[command(subcommand, after_help = change::EXAMPLES)]
    Change(change::Change),
    /// Let others in: tokens for PostgreSQL and HTTP clients on any machine
    #[command(subcommand, after_help = token::EXAMPLES)]
    Token(token::TokenCommand),
    /// Look after the nodes of a fleet: daemons on several machines that act as one
    #[command(subcommand, after_help = node::EXAMPLES)]
    Node(node::Node),
    /// Operate several machines: how a fleet and the shards of durable functions are, and a backup of what they agree on
    #[command(subcommand, after_help = cluster::EXAMPLES)]
    Cluster(cluster::ClusterCommand),
    /// Have the console show functions, stores, packs and measurements, too
    #[command(subcommand, after_help = attachment::EXAMPLES)]
    Attachment(attachment::AttachmentCommand),
    #[cfg(feature = "engines")]
    /// Open the browser console, signed in
    #[command(after_help = console::EXAMPLES)]
    Console(console::Console),
    /// Work with a daemon elsewhere, as the holder of a token
    #[command(after_help = login::LOGIN_EXAMPLES)]
    Login(login::Options),
    /// Forget the daemon elsewhere, and its token
    #[command(after_help = login::LOGOUT_EXAMPLES)]
    Logout,
    #[cfg(unix)]
    /// Run commands that each have a branch of their own
    #[command(subcommand, after_help = agent::EXAMPLES)]
    Agent(agent::Agent),
    /// Serve an agent: branches as tools of the Model Context Protocol, on the standard streams
    #[command(after_help = mcp::EXAMPLES)]
    Mcp(mcp::Mcp),
    #[cfg(feature = "engines")]
    /// Keep data in an embedded store with branches; no daemon is needed
    #[command(after_help = store::EXAMPLES)]
    Store(store::Store),
    #[cfg(feature = "engines")]
    /// Carry branches and access graphs in verified files; no daemon is needed
    #[command(subcommand, after_help = pack::EXAMPLES)]
    Pack(pack::Pack),
    #[cfg(feature = "engines")]
    /// Run durable functions in a PostgreSQL; no daemon is needed
    #[command(name = "fn", after_help = functions::EXAMPLES)]
    Functions(functions::Functions),
    #[cfg(feature = "engines")]
    /// Measure, with evidence
    #[command(subcommand, after_help = lab::EXAMPLES)]
    Lab(lab::Lab),
    #[cfg(feature = "engines")]
    /// Show and measure all five parts on real data, and clean up
    #[command(after_help = demo::EXAMPLES)]
    Demo(demo::Demo),
    #[cfg(feature = "engines")]
    /// Let the next daemon of a systemd unit start where branches go on without the last one
    #[command(hide = true)]
    MakeWay(serve::MakeWay),
    #[cfg(feature = "engines")]
    /// Show and check what a daemon serves with
    #[command(subcommand, after_help = config::EXAMPLES)]
    Config(config::Config),
    /// Print the daemon's HTTP interface as OpenAPI 3.1
    #[command(after_help = openapi::EXAMPLES)]
    Openapi,
    /// Write man pages and completions
    #[command(after_help = manual::EXAMPLES, hide = true)]
    Manual(manual::Manual),
}

fn main() -> ExitCode {
    let matches = json_flag::add(Cli::command()).get_matches();
    let json = json_flag::given(&matches);
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match run(cli, json, &matches) {
        Ok(code) => code,
        Err(failure) => {
            if json {
                output::json_error(failure.code(), &failure);
            } else {
                output::error(&failure);
            }
            failure.exit_code()
        }
    }
}

#[cfg_attr(
    not(feature = "engines"),
    expect(unused_variables, reason = "only the daemon asks from where an option is")
)]
fn run(cli: Cli, json: bool, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let context = Context::new(cli.home, json)?;
    match cli.command {
        #[cfg(feature = "engines")]
        Command::Doctor => context.wait(doctor::run(&context)),
        #[cfg(feature = "engines")]
        Command::Serve(serve) => {
            let matches = matches.subcommand_matches("serve").expect("the command that was read");
            let settings = Settings::read(&context.home, serve.config())?.with_options(matches);
            let serve = settings.checked()?.started_as(&serve);
            context.wait_on_all_cores(serve::serve(&context, serve))
        }
        #[cfg(feature = "engines")]
        Command::Stop => context.wait(serve::stop(&context)),
        Command::Status => context.wait(status::run(&context)),
        #[cfg(feature = "engines")]
        Command::Purge(purge) => context.wait(purge::run(&context, purge)),
        Command::Source(source) => context.wait(source::run(&context, source)),
        Command::Branch(branch) => context.wait(branch::run(&context, branch)),
        #[cfg(feature = "engines")]
        Command::Try(options) => context.wait(trial::run(&context, options)),
        #[cfg(feature = "engines")]
        Command::Change(change) => context.wait(change::run(&context, change)),
        Command::Token(command) => context.wait(token::run(&context, command)),
        Command::Node(command) => context.wait(node::run(&context, command)),
        Command::Cluster(command) => context.wait(cluster::run(&context, command)),
        Command::Attachment(command) => context.wait(attachment::run(&context, command)),
        #[cfg(feature = "engines")]
        Command::Console(options) => context.wait(console::run(&context, options)),
        Command::Login(options) => context.wait(login::login(&context, options)),
        Command::Logout => login::logout(&context),
        #[cfg(unix)]
        Command::Agent(agent) => context.wait(agent::run(&context, agent)),
        Command::Mcp(options) => context.wait(mcp::run(&context, options)),
        #[cfg(feature = "engines")]
        Command::Store(store) => store::run(&context, store),
        #[cfg(feature = "engines")]
        Command::Pack(pack) => pack::run(&context, pack),
        #[cfg(feature = "engines")]
        Command::Functions(functions) => functions::run(&context, functions),
        #[cfg(feature = "engines")]
        Command::Lab(lab) => context.wait_on_all_cores(lab::run(&context, lab)),
        #[cfg(feature = "engines")]
        Command::Demo(demo) => context.wait_on_all_cores(demo::run(&context, demo)),
        #[cfg(feature = "engines")]
        Command::MakeWay(make_way) => serve::make_way(&make_way),
        #[cfg(feature = "engines")]
        Command::Config(config) => config::run(&context, config),
        Command::Openapi => openapi::run(),
        Command::Manual(manual) => manual::run(&context, &manual, json_flag::add(Cli::command())),
    }
}
