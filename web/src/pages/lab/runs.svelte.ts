/** The runs in a directory, asked for until all of its files were read. */

import type { LabRuns } from "../../api/types";
import { follow, type Thing } from "../../lib/live.svelte";
import { labPath } from "./places";

/** Between two requests while there are files that were not read, in milliseconds. */
const ON_MS = 400;

/** The runs, of a suite or of all; run it where a component begins. */
export function runsOf(name: () => string, suite: () => string): Thing<LabRuns> {
  const runs = follow<LabRuns>(() => labPath(name(), "runs", { suite: suite() }));
  $effect(() => {
    if ((runs.value?.unread ?? 0) === 0 || runs.error !== undefined) return undefined;
    const timer = setTimeout(() => runs.again(), ON_MS);
    return () => clearTimeout(timer);
  });
  return runs;
}
