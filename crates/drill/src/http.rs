//! Small questions over HTTP, to servers that were started here or that a user named: one connection each, within a time, and
//! answers of a bounded size.

use std::time::Duration;

use base64::{prelude::BASE64_STANDARD, Engine};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The longest answer.
const MOST: u64 = 1 << 20;

/// Where to ask, and as whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// `HOST:PORT`.
    pub address: String,
    /// Name and password, where it asks for some.
    pub credentials: Option<(String, String)>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: String,
}

impl Endpoint {
    /// Asks, and hears the whole answer.
    ///
    /// # Errors
    /// In words: that nobody answered in time, or what the network said.
    pub async fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&serde_json::Value>,
        limit: Duration,
    ) -> Result<Answer, String> {
        let asking = async {
            let mut stream = TcpStream::connect(&self.address).await?;
            let body = body.map(ToString::to_string).unwrap_or_default();
            // With 1.0 no server sends chunks, and each closes the connection at the end.
            let mut head = format!(
                "{method} {path} HTTP/1.0\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
                self.address,
                body.len()
            );
            // Whoever only asks needs none.
            if let Some((name, password)) = self.credentials.as_ref().filter(|_| method != "GET") {
                let word = BASE64_STANDARD.encode(format!("{name}:{password}"));
                head.push_str(&format!("Authorization: Basic {word}\r\n"));
            }
            stream.write_all(format!("{head}\r\n{body}").as_bytes()).await?;
            let mut bytes = Vec::new();
            stream.take(MOST).read_to_end(&mut bytes).await?;
            Ok::<_, std::io::Error>(String::from_utf8_lossy(&bytes).into_owned())
        };
        let text = tokio::time::timeout(limit, asking)
            .await
            .map_err(|_| format!("{} did not answer within {limit:?}", self.address))?
            .map_err(|error| format!("{}: {error}", self.address))?;
        let (head, body) = text.split_once("\r\n\r\n").ok_or("it did not speak HTTP")?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or("it did not speak HTTP")?;
        Ok(Answer { status, body: body.to_owned() })
    }
}
