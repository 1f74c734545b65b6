//! A daemon elsewhere: `duramen login` and `duramen logout`.

use crate::{
    context::{Context, Outcome},
    failure::Failure,
    output,
};
use duramen_client::Login;
use serde_json::json;
use std::{
    env,
    io::{self, BufRead, IsTerminal},
    path::PathBuf,
    process::ExitCode,
};

pub(crate) const LOGIN_EXAMPLES: &str = "\
Examples:
  duramen login https://db.example:6433 --ca certificate.pem      asks for the token, NAME:SECRET, and does not show it
  duramen login https://db.example:6433 < token                   reads it from a file
  psql \"$(duramen branch url \"$(duramen branch create --json | jq -r .name)\")\"
From then on `duramen branch`, `source list`, `agent run` and `mcp` work with that daemon. What is named goes before it: --home,
then DURAMEN_URL (with DURAMEN_TOKEN and DURAMEN_CA), then DURAMEN_HOME. HOME/doors/certificate.pem is the daemon's own
certificate, if it was not given another one.";
pub(crate) const LOGOUT_EXAMPLES: &str = "\
Examples:
  duramen logout                  the secret is removed from this machine; `duramen token revoke` ends the token itself";

/// The longest line that can be a token.
const LINE_MAX: u64 = 1024;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The HTTP door of a daemon (duramen serve --http-listen)
    #[arg(value_name = "URL")]
    url: String,
    /// Certificates (PEM) that are believed [default: the system's]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

pub(crate) async fn login(context: &Context, options: Options) -> Outcome {
    let file = Login::file(|name| env::var(name).ok())?;
    let ca = options.ca.map(|ca| std::path::absolute(&ca).map_err(Failure::io("find", &ca))).transpose()?;
    let login = Login { url: options.url, token: token()?, ca };
    login.keep(&file).await?;
    let name = login.token.split(':').next().unwrap_or_default();
    match context.json {
        true => output::json(&json!({ "url": login.url, "token": name, "file": file }))?,
        false => output::line(format_args!("{} is entered as {name}; kept in {}", login.url, file.display())),
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn logout(context: &Context) -> Outcome {
    let file = Login::file(|name| env::var(name).ok())?;
    let forgotten = Login::forget(&file)?;
    match (context.json, forgotten) {
        (true, _) => output::json(&json!({ "forgotten": forgotten }))?,
        (false, true) => output::line(format_args!("{} is removed", file.display())),
        (false, false) => output::line("there is no login"),
    }
    Ok(ExitCode::SUCCESS)
}

/// The token, from the standard input: arguments are seen by every user of the machine, and what is echoed by whoever looks.
fn token() -> Result<String, Failure> {
    let unread = |error| Failure::Other(format!("cannot read the token from the standard input: {error}"));
    let input = io::stdin().lock();
    let line = if input.is_terminal() {
        rpassword::prompt_password("token (NAME:SECRET, not shown): ").map_err(unread)?
    } else {
        let mut line = String::new();
        io::Read::take(input, LINE_MAX).read_line(&mut line).map_err(unread)?;
        line
    };
    match line.trim() {
        "" => Err(Failure::Usage(
            "the token, NAME:SECRET, is read from the standard input, and there was none; `duramen token create` on the daemon's \
             machine prints one"
                .to_owned(),
        )),
        token => Ok(token.to_owned()),
    }
}
