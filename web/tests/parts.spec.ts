/** What needs no browser. */

import { expect, test } from "@playwright/test";
import { parse } from "../src/api/client";
import type { BranchView, DataDiff } from "../src/api/types";
import { quoted } from "../src/lib/catalogue";
import { csv } from "../src/lib/csv";
import { figures } from "../src/lib/figures";
import { bytes, seconds, span, spoken } from "../src/lib/format";
import { placeOf } from "../src/lib/place";
import { cells, how, nothing, soFar, take } from "../src/lib/rows";
import { lineage, matching } from "../src/lib/tree";

const branch = (name: string, parent?: string, source = "app") =>
  ({ id: `b-${name}`, name, source, policy: "read-write", state: "ready", parent: parent === undefined ? null : { id: `b-${parent}`, name: parent } }) as BranchView;

test("branches stand below what they were made of, and those whose parent is gone by themselves", () => {
  const all = [branch("z"), branch("b10", "z"), branch("b9", "z"), branch("deep", "b9"), branch("a", "gone"), branch("m", undefined, "zoo")];
  const order = lineage(all, []).map(({ branch: { name }, depth }) => `${"-".repeat(depth)}${name}`);
  expect(order).toEqual(["a", "z", "-b9", "--deep", "-b10", "m"]);
  expect(matching(lineage(all, []), "app B9").map((leaf) => leaf.branch.name)).toEqual(["b9", "deep"]);
});

test("a chain of 5,000 branches is put into order", () => {
  const all = Array.from({ length: 5000 }, (_, at) => branch(`n${at}`, at === 0 ? undefined : `n${at - 1}`));
  const found = lineage(all.toReversed(), []);
  expect(found.length).toBe(5000);
  expect(found.at(-1)!.depth).toBe(4999);
});

test("CSV keeps apart what is empty and what is not there, and quotes what must be", () => {
  expect(csv(["a", "b,c"], [[null, ""], ["x\ny", 'say "no"'], [true, { n: 1 }]])).toBe('a,"b,c"\r\n,""\r\n"x\ny","say ""no"""\r\ntrue,"{""n"":1}"\r\n');
});

test("numbers keep their digits", () => {
  expect(parse('{"small": 1, "large": 9223372036854775807, "real": 1e300}')).toEqual({ small: 1, large: process.versions.node < "21" ? 9223372036854775807 : "9223372036854775807", real: 1e300 });
});

test("the place of an error is what its words quote", () => {
  const at = (sql: string, message: string) => {
    const found = placeOf(sql, message);
    return found === undefined ? undefined : sql.slice(found.from, found.to);
  };
  expect(at("select nid, id from t", 'column "id" does not exist')).toBe("id");
  expect(placeOf("select nid, id from t", 'column "id" does not exist')!.from).toBe(12);
  expect(at("selec 1", 'syntax error at or near "selec"')).toBe("selec");
  expect(at("select * from no.such", 'relation "no.such" does not exist')).toBe("no.such");
  expect(at('select "A b"', 'column "A b" does not exist')).toBe('"A b"');
  expect(at("select 1 / 0", "division by zero")).toBeUndefined();
  expect(at("select 1", 'column "(((" does not exist')).toBeUndefined();
});

test("names, sizes and spans are written as people write them", () => {
  expect([quoted("orders"), quoted("Orders"), quoted('a"b')]).toEqual(["orders", '"Orders"', '"a""b"']);
  expect([bytes(0), bytes(1023), bytes(1536), bytes(48817514), bytes(null)]).toEqual(["0 B", "1023 B", "1.50 KiB", "46.6 MiB", ""]);
  expect([seconds("90m"), seconds("2h"), seconds("45"), seconds("soon"), seconds("0"), seconds("-1")]).toEqual([5400, 7200, 45, undefined, undefined, undefined]);
  expect([spoken(5400), spoken(86_400), spoken(45)]).toEqual(["90m", "1d", "45s"]);
  expect([span(1000), span(61_000), span(5_400_000), span(90_000_000)]).toEqual(["1 s", "1 min", "1 h 30 min", "1 d"]);
});

test("lines of a comparison become tables of cells", () => {
  const found = nothing();
  const before = soFar(found);
  const table = { schema: "public", name: "t", columns: [], key: [0], left_out: [], only_in: null, compared: { blocks: { changed: 1, of: 1 } } };
  for (const line of [{ table }, { row: { old: ["1", "a"], new: ["1", null] } }, { row: { old: null, new: ["2", "b"] } }, { ending: { added: 1, removed: 0, changed: 1, listed: 2 } }])
    take(found, line as unknown as DataDiff);
  expect(found.tables[0]!.rows.map(how)).toEqual(["changed", "added"]);
  expect(cells(found.tables[0]!.rows[0]!)).toEqual([{ value: "1", before: undefined }, { value: null, before: "a" }]);
  expect(found.tables[0]!.counts!.added).toBe(1);
  // What is shown while it comes is not what is written to.
  expect(before.tables).toEqual([]);
  const middle = soFar(found);
  take(found, { row: { old: ["3", "c"], new: null } } as unknown as DataDiff);
  expect([middle.tables[0]!.rows.length, soFar(found).tables[0]!.rows.length]).toEqual([2, 3]);
  expect(middle.tables[0]).not.toBe(soFar(found).tables[0]);
});

test("figures are read without what stands behind them", () => {
  const found = figures('# TYPE x gauge\nduramen_volumes_bytes{kind="free"} 12 1700000000\nduramen_leases_held 4\nduramen_q_bucket{le="1"} 2 # {a="b"} 1\n');
  expect([found.get('duramen_volumes_bytes{kind="free"}'), found.get("duramen_leases_held")]).toEqual([12, 4]);
});
