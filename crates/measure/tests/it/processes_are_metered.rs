//! CPU time, memory and descendants of processes.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use duramen_base::clock;
use duramen_measure::process;

/// A process that is ended however the test ends.
struct Running(Child);

impl Running {
    fn shell(script: &str) -> Self {
        let child = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn();
        Self(child.expect("a shell starts"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn burn(time: Duration) {
    let begin = process::self_cpu_time();
    let mut x = 1_u64;
    while process::self_cpu_time() - begin < time {
        for i in 0..10_000 {
            x = std::hint::black_box(x.wrapping_mul(i | 1));
        }
    }
}

#[test]
fn work_costs_cpu_time() {
    let before = process::cpu_time(std::process::id()).unwrap();
    burn(Duration::from_millis(60));
    let used = process::cpu_time(std::process::id()).unwrap() - before;
    assert!(used >= Duration::from_millis(30), "{used:?}");
}

#[test]
fn sleep_costs_no_cpu_time() {
    let sleeper = Running::shell("read line");
    // The shell needs a while to begin, and more on a busy machine; then it waits for its input and costs nothing.
    let idle = (0..100).any(|_| {
        let before = process::cpu_time(sleeper.0.id()).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        process::cpu_time(sleeper.0.id()).unwrap() == before
    });
    assert!(idle);
}

#[test]
fn the_time_of_ended_threads_is_not_lost() {
    let before = process::cpu_time(std::process::id()).unwrap();
    std::thread::spawn(|| burn(Duration::from_millis(200))).join().unwrap();
    let used = process::cpu_time(std::process::id()).unwrap().saturating_sub(before);
    assert!(used >= Duration::from_millis(100), "{used:?}");
}

#[test]
fn memory_is_counted() {
    let before = process::pss_bytes(std::process::id()).unwrap();
    let block = std::hint::black_box(vec![1_u8; 64 << 20]);
    let after = process::pss_bytes(std::process::id()).unwrap();
    assert!(after > before + (48 << 20), "{before} {after}");
    drop(block);
}

#[test]
fn a_missing_process_is_an_error() {
    // Beyond the greatest id that the kernel gives.
    let nobody = 1 << 30;
    assert!(process::cpu_time(nobody).is_err());
    assert!(process::pss_bytes(nobody).is_err());
    assert!(process::children(nobody).is_empty());
    assert!(process::tree(nobody).is_empty());
}

#[test]
fn descendants_are_found() {
    // The outer shell waits for an inner one, which waits for its input to end; both end with it.
    let outer = Running::shell("sh -c 'read line; :' ; :");
    let begin = clock::now();
    let inner = loop {
        match process::children(outer.0.id()).as_slice() {
            [inner] => break *inner,
            _ => assert!(begin.elapsed() < Duration::from_secs(20), "no inner shell began"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(process::children(std::process::id()).contains(&outer.0.id()));
    let tree = process::tree(std::process::id());
    let place = |pid: u32| tree.iter().position(|found| *found == pid);
    assert!(place(outer.0.id()).unwrap() < place(inner).unwrap());
    assert!(!tree.contains(&std::process::id()));
}
