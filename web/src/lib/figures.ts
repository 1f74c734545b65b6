/** The daemon's figures: text of OpenMetrics, of which the console reads values without time and exemplar. */

const LINE = /^([a-z_]+)(?:\{([^}]*)\})? ([-+0-9.eE]+)/;

/** Values by name and labels, as they are written: `duramen_volumes_bytes{kind="free"}`. */
export function figures(text: string): Map<string, number> {
  const found = new Map<string, number>();
  for (const line of text.split("\n")) {
    const [, name, labels, value] = LINE.exec(line) ?? [];
    if (name !== undefined) found.set(labels === undefined ? name : `${name}{${labels}}`, Number(value));
  }
  return found;
}
