//! Bytes go through whole, in order, and in bounded buffers.

use super::*;
use tokio::io::{duplex, AsyncReadExt, AsyncWriteExt};

fn bytes(count: usize, seed: u64) -> Vec<u8> {
    let mut random = duramen_base::entropy::rng(seed);
    (0..count).map(|_| random.u8(..)).collect()
}

#[tokio::test]
async fn what_one_says_the_other_hears_at_any_size_of_the_pipes() {
    for pipe in [1, 7, 4096, 1 << 20] {
        let (mut client, mut inner) = duplex(pipe);
        let (mut server, mut outer) = duplex(pipe);
        let (up, down) = (bytes(100_000, 1), bytes(100_000, 2));
        let run = tokio::spawn(async move {
            let counters = Counters::default();
            let end = splice(&mut inner, &mut outer, None, &counters).await;
            (end.unwrap(), counters.sent.into_inner(), counters.received.into_inner())
        });
        let talk = async |side: &mut tokio::io::DuplexStream, say: &[u8], hear: &[u8]| {
            let (mut read, mut write) = tokio::io::split(side);
            let mut heard = vec![0; hear.len()];
            let (said, listened) = tokio::join!(write.write_all(say), read.read_exact(&mut heard));
            said.unwrap();
            listened.unwrap();
            assert!(heard == hear);
        };
        tokio::join!(talk(&mut client, &up, &down), talk(&mut server, &down, &up));
        drop(client);
        assert_eq!(run.await.unwrap(), (End::Client, 100_000, 100_000));
    }
}

/// R11.
#[tokio::test]
async fn a_slow_reader_holds_the_other_side_back() {
    let (_client, mut inner) = duplex(1);
    let (mut server, mut outer) = duplex(1);
    tokio::spawn(async move { splice(&mut inner, &mut outer, None, &Counters::default()).await });
    let flood = vec![0; 10 << 20];
    let pushed = tokio::time::timeout(Duration::from_millis(300), server.write_all(&flood)).await;
    pushed.expect_err("the client reads nothing, so the server cannot send it all");
    // What went in: the two pipes, and no more than the buffer.
    let mut count = 0;
    while tokio::time::timeout(Duration::from_millis(50), server.write(&[0])).await.is_ok() {
        count += 1;
        assert!(count <= BUFFER, "no more than one buffer is taken from a fast writer");
    }
}

#[tokio::test]
async fn the_last_words_of_a_server_reach_the_client() {
    let (mut client, mut inner) = duplex(16);
    let (mut server, mut outer) = duplex(1 << 20);
    server.write_all(&bytes(50_000, 3)).await.unwrap();
    drop(server);
    let run = tokio::spawn(async move {
        let end = splice(&mut inner, &mut outer, None, &Counters::default()).await;
        drop(inner);
        end
    });
    let mut heard = Vec::new();
    client.read_to_end(&mut heard).await.unwrap();
    assert!(heard == bytes(50_000, 3));
    assert_eq!(run.await.unwrap().unwrap(), End::Server);
}

#[tokio::test]
async fn silence_ends_a_session_and_words_prolong_it() {
    let (mut client, mut inner) = duplex(16);
    let (_server, mut outer) = duplex(1 << 10);
    let begin = clock::now();
    let run = tokio::spawn(async move {
        splice(&mut inner, &mut outer, Some(Duration::from_millis(400)), &Counters::default()).await
    });
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        client.write_all(b"x").await.unwrap();
    }
    assert_eq!(run.await.unwrap().unwrap(), End::Idle);
    assert!(begin.elapsed() >= Duration::from_millis(1200), "{:?}", begin.elapsed());
}
