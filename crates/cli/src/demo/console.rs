//! The end of the demo: a branch that differs from its source and what was measured, in the console, for who wants to look around.

use super::{
    branches::{self, BRANCH, DELETION, SOURCE},
    Demo, Story,
};
use crate::{console, failure::Failure, output, progress};
use duramen_api::{
    attachments::{AddAttachment, AttachmentKind},
    model::{CreateBranch, QueryRequest},
};
use duramen_client::Connection;
use std::{
    env,
    ffi::OsStr,
    io::IsTerminal,
    path::{self, Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::{process::Command, sync::oneshot, time::timeout};

/// What is attached as what.
const MEASURED: &str = "measured";
/// Names of browsers that can make a picture of a page without a display.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// How long making the picture may take.
const PICTURE_LIMIT: Duration = Duration::from_secs(60);
/// How long somebody may look around.
const LOOK_LIMIT: Duration = Duration::from_secs(30 * 60);
/// Rows that the branch of the end has otherwise than its source.
const CHANGE: &str = "UPDATE flights SET arr_delay = 0 WHERE carrier = 'HA' AND arr_delay > 60";

/// Serves the demo's home once more, with the console, until who is at the terminal has seen enough. Without a terminal nobody is waited
/// for.
pub(super) async fn show(story: &Story, home: &Path, demo: &Demo) -> Result<(), Failure> {
    story.heading("The console");
    let daemon = branches::start(home, demo, &["--http-listen", "127.0.0.1:0"]).await?;
    let mut connection = daemon.client().connect().await?;
    furnish(&mut connection, &demo.out).await?;
    let picture = demo.out.join("console.png");
    match browser() {
        Some(browser) => {
            let url = console::link(&mut connection, None).await?.url;
            match progress::during("making a picture of it", photograph(&browser, home, &url, &picture)).await
            {
                Ok(()) => story.say(&format!("a picture of it: {}", picture.display())),
                Err(why) => story.say(&format!("There is no picture of it: {why}.")),
            }
        }
        None => story.say("There is no Chromium here that could make a picture of it."),
    }
    if story.narrate && std::io::stdin().is_terminal() {
        let url = console::link(&mut connection, None).await?.url;
        story.say(&format!(
            "It is at {url}\nwhich signs a browser in, once, within a minute. `{BRANCH}` is a branch that differs from its source, and `{MEASURED}` \
             what was measured.\nPress Enter when you have seen enough."
        ));
        let _ = timeout(LOOK_LIMIT, enter()).await;
    } else {
        story.say("Yours: `duramen serve --http-listen 127.0.0.1:6433`, and then `duramen console`.");
    }
    drop(connection);
    progress::during("stopping the daemon", daemon.stop()).await?;
    Ok(())
}

/// Waits for a line of the standard input, or its end. It is read by a thread of its own, which the end of the program does not wait for.
async fn enter() {
    let (read, was_read) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        let _ = read.send(());
    });
    let _ = was_read.await;
}

/// Makes something to look at.
async fn furnish(connection: &mut Connection, out: &Path) -> Result<(), Failure> {
    let wanted = CreateBranch {
        name: Some(BRANCH.to_owned()),
        source: Some(SOURCE.to_owned()),
        ..CreateBranch::default()
    };
    progress::during("waiting for a branch", connection.create_branch(&wanted)).await?;
    for sql in [DELETION, CHANGE] {
        let request = QueryRequest { sql: Some(sql.to_owned()), ..QueryRequest::default() };
        connection.query(BRANCH, &request).await?;
    }
    let at = path::absolute(out).map_err(Failure::io("find", out))?;
    if let Ok(at) = at.into_os_string().into_string() {
        let wanted = AddAttachment { name: MEASURED.to_owned(), kind: AttachmentKind::Lab, at };
        connection.add_attachment(&wanted).await?;
    }
    Ok(())
}

fn browser() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let found = env::split_paths(&path).flat_map(|dir| BROWSERS.map(|name| dir.join(name)));
    found.into_iter().find(|file| file.is_file())
}

/// Makes a picture of the page that a link leads to; or says why there is none.
async fn photograph(browser: &Path, home: &Path, url: &str, picture: &Path) -> Result<(), String> {
    let leads = console::leading_to(home, url).map_err(|error| error.to_string())?;
    let profile = home.join("browser");
    let option = |name: &str, value: &Path| {
        let mut option = OsStr::new(name).to_owned();
        option.push(value);
        option
    };
    let picture = path::absolute(picture).map_err(|error| error.to_string())?;
    let mut command = Command::new(browser);
    command.args(["--headless", "--disable-gpu", "--hide-scrollbars", "--window-size=1280,800"]);
    // It is for the demo's own page alone.
    command.args(["--no-sandbox", "--virtual-time-budget=10000"]);
    command.arg(option("--user-data-dir=", &profile)).arg(option("--screenshot=", &picture)).arg(&leads);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let run = timeout(PICTURE_LIMIT, command.status()).await;
    let _ = std::fs::remove_file(&leads);
    let _ = std::fs::remove_dir_all(&profile);
    let name = output::printable(&browser.display().to_string());
    match run {
        Err(_) => Err(format!("{name} took longer than {} s", PICTURE_LIMIT.as_secs())),
        Ok(Err(error)) => Err(format!("{name} does not run: {error}")),
        Ok(Ok(status)) if !status.success() => Err(format!("{name} ended with {status}")),
        Ok(Ok(_)) => Ok(()),
    }
}
