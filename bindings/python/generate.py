"""Writes src/duramen/models.py out of the OpenAPI document on the standard input, and src/duramen/aio.py out of client.py:
duramen openapi | python3 generate.py. With --check it only says whether they are so already."""

from __future__ import annotations

import json
import keyword
import re
import sys
from pathlib import Path
from typing import Any

#: What the client returns; with what that is made of, these are the types that are written.
RETURNED = ["BranchEvidence", "BranchView", "SourceView"]
PACKAGE = Path(__file__).parent / "src/duramen"
#: What makes the client that waits one that does not.
WAITS = [
    (r"^\"\"\"A daemon and its branches, for programs that wait for each answer.\"\"\"$",
     '"""A daemon and its branches, for asyncio. Written by generate.py out of client.py: do not edit."""'),
    (r"httpx\.(Client|HTTPTransport)", r"httpx.Async\1"),
    (r"(?<![.\w])(Client|Branch)(?=[\"(:,\]')])", r"Async\1"),
    (r"__(enter|exit)__", r"__a\1__"),
    (r"^( +)def (?!__init__|__repr__|name|url|_of)", r"\1async def "),
    (r"self\.transaction\((.*)\)\[0\]", r"(await self.transaction(\1))[0]"),
    (r"self\._http\.close\(", "self._http.aclose("),
    (r"(?<!await )(self\._(?:http\.(?:aclose|request|get)|ask|pages|client\._ask)\()", r"await \1"),
    (r"^( +)self\.(close|destroy)\(", r"\1await self.\2("),
    (r">>> with AsyncClient\(\)\.create\((.*)\) as", r">>> async with await AsyncClient().create(\1) as"),
    (r">>> with ", ">>> async with "),
    (r"\[source\[\"name\"\] for source in client", r'[source["name"] for source in await client'),
    (r"^( +\.\.\. +)(branch\.query\(.*\))\.scalar", r"\1(await \2).scalar"),
]
HEAD = '''"""What the daemon sends and takes. Written by generate.py out of the OpenAPI document: do not edit."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Optional, TypedDict, Union

__all__ = [
{names}
]
'''
SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def type_of(schema: dict[str, Any]) -> str:
    """The annotation for a schema."""
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[1]
    for key in ("oneOf", "anyOf"):
        if key in schema:
            return union([type_of(each) for each in schema[key]])
    if "allOf" in schema and len(schema["allOf"]) == 1:
        return type_of(schema["allOf"][0])
    if "enum" in schema:
        return "Literal[" + ", ".join(json.dumps(each) for each in schema["enum"]) + "]"
    kind = schema.get("type")
    if isinstance(kind, list):
        return union([type_of({**schema, "type": each}) for each in kind])
    if kind == "array":
        return f"List[{type_of(schema.get('items', {}))}]"
    if kind == "object":
        if schema.get("properties"):
            return "Dict[str, Any]"
        more = schema.get("additionalProperties")
        return f"Dict[str, {type_of(more)}]" if isinstance(more, dict) else "Dict[str, Any]"
    return SIMPLE.get(str(kind), "Any")


def union(types: list[str]) -> str:
    """One of several, each named once."""
    types = list(dict.fromkeys(types))
    if "Any" in types:
        return "Any"
    if "None" in types and len(types) == 2:
        return f"Optional[{next(each for each in types if each != 'None')}]"
    return types[0] if len(types) == 1 else "Union[" + ", ".join(types) + "]"


def text(schema: dict[str, Any], indent: str) -> list[str]:
    """A description as a docstring."""
    said = str(schema.get("description", "")).replace("\\", "\\\\").replace('"', "'").strip()
    return [f'{indent}"""{said}"""'] if said else []


def order(schemas: dict[str, Any]) -> list[str]:
    """Names of types that stand for others come after those: an alias is evaluated where it stands."""
    objects = [name for name, schema in schemas.items() if schema.get("properties")]
    return objects + [name for name in schemas if name not in objects]


def reached(schemas: dict[str, Any]) -> dict[str, Any]:
    """Those that are returned, and those that they refer to."""
    found: dict[str, Any] = {}
    wanted = list(RETURNED)
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = schemas[name]
            wanted += re.findall(r'"#/components/schemas/(\w+)"', json.dumps(schemas[name]))
    return {name: found[name] for name in sorted(found)}


def module(document: dict[str, Any]) -> str:
    """The whole module."""
    schemas = reached(document["components"]["schemas"])
    names = sorted(schemas)
    lines = [HEAD.format(names="\n".join(f'    "{name}",' for name in names))]
    for name in order(schemas):
        schema = schemas[name]
        lines.append("")
        if not schema.get("properties"):
            lines.append(f"{name} = {type_of(schema)}")
            lines += text(schema, "")
            continue
        required = set(schema.get("required", []))
        fields = schema["properties"]
        # TypedDict marks single fields from 3.11 on only.
        parts = [(f"_{name}", "TypedDict", "", [f for f in fields if f in required])] if required else []
        bases = [f"_{name}"] if required else []
        # A word of the language can name a field only in this form.
        words = [f for f in fields if keyword.iskeyword(f)]
        for field in words:
            bases.append(f"_{name}_{field}")
            total = "" if field in required else ", total=False"
            lines.append(f'{bases[-1]} = TypedDict("{bases[-1]}", {{"{field}": {type_of(fields[field])}}}{total})')
            lines += text(fields[field], "")
        base = ", ".join(bases) or "TypedDict"
        parts.append((name, base, ", total=False", [f for f in fields if f not in required]))
        parts = [(part, below, total, [f for f in own if f not in words]) for part, below, total, own in parts]
        for part, below, total, own in parts:
            lines.append(f"\nclass {part}({below}{total}):")
            lines += text(schema, "    ") if part == name else []
            for field in own:
                lines.append(f"    {field}: {type_of(fields[field])}")
                lines += text(fields[field], "    ")
            if not own and not (part == name and text(schema, "")):
                lines.append("    pass")
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def unwaiting(source: str) -> str:
    """The client for asyncio."""
    for pattern, replacement in WAITS:
        source = re.sub(pattern, replacement, source, flags=re.MULTILINE)
    return source


if __name__ == "__main__":
    written = {
        PACKAGE / "models.py": module(json.load(sys.stdin)),
        PACKAGE / "aio.py": unwaiting((PACKAGE / "client.py").read_text()),
    }
    for path, source in written.items():
        compile(source, path.name, "exec")
        if "--check" not in sys.argv:
            path.write_text(source)
        elif path.read_text() != source:
            sys.exit(f"{path.name} is out of date: duramen openapi | python3 generate.py")
