/** Where what the lab measured is: in the daemon, and in the console. */

import { asking, segment } from "../../api/client";
import { toAttached } from "../../lib/route.svelte";

/** The path of something of an attached directory of measurements. */
export const labPath = (name: string, below: string, values: Record<string, string | undefined> = {}): string =>
  asking(`/v1/attachments/${segment(name)}/${below}`, values);

/** The place in the console of a part of it. */
export const toLab = (name: string, part: string, values: Record<string, string | undefined> = {}): string => asking(toAttached(name, part), values);
