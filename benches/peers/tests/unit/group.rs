use super::{root, Version};

const ONE: &str = "\
30 20 0:26 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
31 20 0:27 / /sys/fs/cgroup/memory rw,relatime shared:1 - cgroup cgroup rw,memory
32 20 0:28 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

#[test]
fn the_tree_of_memory_is_found_among_the_others() {
    let (version, dir) = root(ONE).unwrap();
    assert_eq!((version, dir.to_str().unwrap()), (Version::One, "/sys/fs/cgroup/memory"));
}

#[test]
fn a_machine_without_a_limit_of_memory_is_told_so() {
    let bare = ONE.lines().next().unwrap();
    assert!(root(bare).unwrap_err().contains("no control groups"), "{bare}");
    let empty = "32 20 0:28 / /nowhere rw,relatime - cgroup2 cgroup2 rw\n";
    assert!(root(empty).unwrap_err().contains("no controller of memory"));
}
