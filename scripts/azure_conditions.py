"""Makes a container in Azurite, and refuses it if its conditional puts are not what the store needs: a put on the condition that there is
none (If-None-Match: *), and one on the condition that it is the one that was read (If-Match). Of many at once, one succeeds."""

import base64
import hashlib
import hmac
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from typing import Dict, Tuple
from urllib.parse import parse_qsl, urlsplit

# Those that Azurite documents, the same everywhere.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
AT_ONCE = 16


def send(method: str, url: str, headers: Dict[str, str], body: bytes) -> Tuple[int, Dict[str, str]]:
    request = urllib.request.Request(url, data=body, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()
            return answer.status, {key.lower(): value for key, value in answer.headers.items()}
    except urllib.error.HTTPError as error:
        error.read()
        return error.code, {}


def signed(method: str, url: str, headers: Dict[str, str], body: bytes) -> Tuple[int, Dict[str, str]]:
    """With the signature of a shared key."""
    parts = urlsplit(url)
    headers = {**headers, "x-ms-date": formatdate(usegmt=True), "x-ms-version": "2023-11-03"}
    headers["Content-Type"] = "application/octet-stream"
    own = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers) if name.startswith("x-ms-"))
    asked = "".join(f"\n{name}:{value}" for name, value in sorted(parse_qsl(parts.query)))
    length = str(len(body)) if body else ""
    conditions = [headers.get("If-Match", ""), headers.get("If-None-Match", "")]
    lines = [method, "", "", length, "", headers.get("Content-Type", ""), "", "", *conditions, "", ""]
    text = "\n".join(lines) + "\n" + own + f"/{ACCOUNT}{parts.path}" + asked
    signature = base64.b64encode(hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()).decode()
    return send(method, url, {**headers, "Authorization": f"SharedKey {ACCOUNT}:{signature}"}, body)


def main() -> None:
    base, container = sys.argv[1:]
    status, _ = signed("PUT", f"{base}/{ACCOUNT}/{container}?restype=container", {}, b"")
    assert status == 201, f"the container was not made: {status}"

    def put(body: bytes, condition: Dict[str, str]) -> Tuple[int, str]:
        headers = {"x-ms-blob-type": "BlockBlob", **condition}
        status, said = signed("PUT", f"{base}/{ACCOUNT}/{container}/conditions", headers, body)
        return status, said.get("etag", "")

    def at_once(condition: Dict[str, str]) -> str:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(lambda number: put(b"%d" % number, condition), range(AT_ONCE)))
        made = [version for status, version in answers if status == 201]
        refused = [status for status, _ in answers if status in (409, 412)]
        assert (len(made), len(refused)) == (1, AT_ONCE - 1) and made[0], f"{condition}: {answers}"
        return made[0]

    first = at_once({"If-None-Match": "*"})
    assert at_once({"If-Match": first}) != first
    status, _ = put(b"late", {"If-Match": first})
    assert status == 412, f"a put on a version that is gone: {status}"
    print(f"of {AT_ONCE} conditional puts at once one succeeds, on each condition")


if __name__ == "__main__":
    main()
