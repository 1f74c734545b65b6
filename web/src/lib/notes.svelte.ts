/** Short notes of what was done, each with a way back where there is one. */

import { told } from "../api/problem";

export interface Note {
  id: number;
  text: string;
  tone: "good" | "bad";
  /** What can be done about it. */
  action?: { label: string; run: () => void } | undefined;
}

class Notes {
  list = $state.raw<Note[]>([]);
  #next = 0;

  #add(note: Omit<Note, "id">, forMs: number): void {
    const id = (this.#next += 1);
    this.list = [...this.list, { ...note, id }].slice(-4);
    setTimeout(() => this.drop(id), forMs);
  }

  /** Something was done. */
  done(text: string, action?: Note["action"]): void {
    this.#add({ text, tone: "good", action }, action === undefined ? 5000 : 30_000);
  }

  /** Something was not. */
  failed(error: unknown): void {
    this.#add({ text: told(error), tone: "bad" }, 15_000);
  }

  drop(id: number): void {
    this.list = this.list.filter((note) => note.id !== id);
  }
}

export const notes = new Notes();

/** Does something, and says so if it fails. */
export async function attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    notes.failed(error);
    return undefined;
  }
}
