/** Where in the console one is: what stands after `#` in the address. */

/** A place, taken apart: `#/branches/NAME/sql?x=1`. */
export interface Place {
  /** Its parts, not escaped. */
  parts: string[];
  query: URLSearchParams;
}

function read(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const parts = path.split("/").filter((part) => part !== "");
  return { parts: parts.map(unescape), query: new URLSearchParams(query) };
}

function unescape(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const LINK = /^#link=(.+)$/;

class Route {
  #place = $state.raw<Place>(read(location.hash));
  /** Called with the secret of a link that was entered while the page is open. */
  onLink: (secret: string) => void = () => undefined;

  constructor() {
    addEventListener("hashchange", () => {
      const link = this.takeLink();
      if (link === undefined) this.#place = read(location.hash);
      else this.onLink(link);
    });
  }

  get place(): Place {
    return this.#place;
  }

  /** The secret of a link, which is then no longer in the address, nor in the history. */
  takeLink(): string | undefined {
    const found = LINK.exec(location.hash);
    if (found === null) return undefined;
    history.replaceState(null, "", "#/");
    this.#place = read("#/");
    return found[1];
  }

  /** Goes there. */
  to(href: string): void {
    location.hash = href;
  }
}

export const route = new Route();

/** The address of a branch's page, or of one of its parts. */
export const toBranch = (name: string, part = ""): string =>
  `#/branches/${encodeURIComponent(name)}${part === "" ? "" : `/${part}`}`;

/** The address of the page of something attached, or of one of its parts. */
export const toAttached = (name: string, part = ""): string =>
  `#/attached/${encodeURIComponent(name)}${part === "" ? "" : `/${part}`}`;
