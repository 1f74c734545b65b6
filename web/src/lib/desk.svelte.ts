/** What somebody wrote and ran in each branch, for as long as the page is open. It is kept nowhere else. */

import type { StatementReply } from "../api/types";

export interface Ran {
  sql: string;
  at: string;
  /** Milliseconds, with the way to the daemon and back. */
  took: number;
  /** What came of it: the command, or the error. */
  says: string;
  well: boolean;
}

class Desk {
  text = "";
  ran = $state.raw<Ran[]>([]);
  results = $state.raw<StatementReply[]>([]);

  note(ran: Ran): void {
    this.ran = [ran, ...this.ran].slice(0, 100);
  }
}

const desks = new Map<string, Desk>();

/** That of a branch, by its id. */
export function desk(id: string): Desk {
  let found = desks.get(id);
  if (found === undefined) desks.set(id, (found = new Desk()));
  return found;
}
