/** The editor for SQL: CodeMirror, in a shadow root, where its style needs no inline style sheet. */

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { PostgreSQL, sql } from "@codemirror/lang-sql";
import { bracketMatching, ensureSyntaxTree, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { setDiagnostics } from "@codemirror/lint";
import { Compartment, EditorState, Prec } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";

/** A statement, and where it begins. */
export interface Statement {
  sql: string;
  from: number;
}

export interface Options {
  parent: HTMLElement;
  text: string;
  changed: (text: string) => void;
  /** Runs what is wanted: the statement at the cursor or what is selected, or all. */
  run: (all: boolean) => void;
}

export interface Editor {
  /** The statements that are meant. */
  statements: (all: boolean) => Statement[];
  /** Shows where something is wrong, until the text changes; nowhere without a place. */
  mark: (from?: number, to?: number, message?: string) => void;
  /** Tables and columns by schema, for completion. */
  complete: (schema: Record<string, Record<string, string[]>>) => void;
  put: (text: string) => void;
  focus: () => void;
  close: () => void;
}

const theme = EditorView.theme({
  "&": { fontSize: "13px", color: "var(--ink)", backgroundColor: "var(--page)", height: "100%" },
  "&.cm-focused": { outline: "2px solid var(--chosen)", outlineOffset: "-1px" },
  ".cm-scroller": { fontFamily: "var(--code)", lineHeight: "1.55" },
  ".cm-content": { caretColor: "var(--ink)", padding: "8px 0" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--band)", color: "var(--quiet)", border: "none", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--band) 70%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--heat3) !important" },
  ".cm-placeholder": { color: "var(--quiet)" },
  ".cm-tooltip": { backgroundColor: "var(--page)", color: "var(--ink)", border: "1px solid var(--line)", borderRadius: "6px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--chosen-band)", color: "var(--ink)" },
  ".cm-diagnostic": { borderLeft: "3px solid var(--bad)", padding: "4px 8px" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)", backgroundColor: "var(--bad-band)" },
  ".cm-matchingBracket": { backgroundColor: "var(--good-band) !important" },
});
const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--link)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--good)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--doubt)" },
  { tag: tags.comment, color: "var(--quiet)", fontStyle: "italic" },
  { tag: tags.typeName, color: "var(--doubt)" },
]);

/** Makes one. */
export function make({ parent, text, changed, run }: Options): Editor {
  const root = parent.shadowRoot ?? parent.attachShadow({ mode: "open" });
  const language = new Compartment();
  const dialect = (schema?: Record<string, Record<string, string[]>>) =>
    sql({ dialect: PostgreSQL, ...(schema && { schema: schema as never, defaultSchema: "public" }) });
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(),
        history(),
        drawSelection(),
        highlightActiveLine(),
        bracketMatching(),
        closeBrackets(),
        autocompletion({ icons: false }),
        language.of(dialect()),
        syntaxHighlighting(colours),
        theme,
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": "SQL", spellcheck: "false" }),
        placeholder("select ...    Ctrl-Enter runs it"),
        Prec.highest(
          keymap.of([
            { key: "Mod-Enter", run: () => (run(false), true) },
            { key: "Mod-Shift-Enter", run: () => (run(true), true) },
          ]),
        ),
        // Tab is left to the browser: it leads out of the editor.
        keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...completionKeymap]),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) changed(update.state.doc.toString());
        }),
      ],
    }),
  });

  function all(from: number, to: number): Statement[] {
    const tree = ensureSyntaxTree(view.state, view.state.doc.length, 2000);
    const found: Statement[] = [];
    for (let node = tree?.topNode.firstChild ?? null; node !== null; node = node.nextSibling) {
      if (node.name !== "Statement" || node.from >= to || node.to <= from) continue;
      const start = Math.max(node.from, from);
      const text = view.state.sliceDoc(start, Math.min(node.to, to)).replace(/;\s*$/, "");
      if (text.trim() !== "") found.push({ sql: text, from: start });
    }
    return found;
  }

  return {
    statements: (everything) => {
      const { from, to, empty } = view.state.selection.main;
      const length = view.state.doc.length;
      if (everything) return all(0, length);
      if (!empty) return all(from, to);
      const some = all(0, length);
      // The one at the cursor, or the last before it.
      return [some.findLast((each) => each.from <= from) ?? some[0]].filter((each) => each !== undefined);
    },
    mark: (from, to, message) => {
      const length = view.state.doc.length;
      const found =
        from === undefined
          ? []
          : [{ from: Math.min(from, length), to: Math.min(Math.max(to ?? from + 1, from + 1), length), severity: "error" as const, message: message ?? "" }];
      view.dispatch(setDiagnostics(view.state, found));
      if (from !== undefined) view.dispatch({ effects: EditorView.scrollIntoView(Math.min(from, length)) });
    },
    complete: (schema) => view.dispatch({ effects: language.reconfigure(dialect(schema)) }),
    put: (text) => {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text }, selection: { anchor: text.length } });
      view.focus();
    },
    focus: () => view.focus(),
    close: () => view.destroy(),
  };
}
