"""What a call costs over Rust: the same gets, one by one and many at once. Prints; decides nothing."""

import time

from duramen_native import Store

GETS = 200_000


def main() -> None:
    kv = Store().branch().kv
    kv.put_many((f"{number:016}", "x" * 100) for number in range(1000))
    keys = [f"{number % 1000:016}" for number in range(GETS)]

    def each(step: object) -> float:
        best = min(timed(step) for _ in range(3))
        return best / GETS * 1e6

    def timed(step: object) -> float:
        begin = time.perf_counter()
        step()  # type: ignore[operator]
        return time.perf_counter() - begin

    one = each(lambda: [kv.get(key) for key in keys])
    many = each(lambda: kv.get_many(keys))
    print(f"get: {one:.2f} us; of many at once {many:.2f} us each; a call costs {one - many:.2f} us more")


if __name__ == "__main__":
    main()
