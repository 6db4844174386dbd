// The highlighted line that a link points to.
import { StateEffect, StateField, type EditorState, type Extension } from "@codemirror/state";
import { Decoration, EditorView, type DecorationSet } from "@codemirror/view";

const marking = StateEffect.define<number>();
const band = Decoration.line({ class: "cm-marked" });

const marked = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(set, transaction) {
    set = set.map(transaction.changes);
    for (const effect of transaction.effects) {
      if (effect.is(marking)) set = effect.value < 0 ? Decoration.none : Decoration.set([band.range(effect.value)]);
    }
    return set;
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** marks is the extension that highlights a line. */
export const marks: Extension = marked;

/** show highlights a line, from 1, puts the cursor there and scrolls to it. A line behind the end becomes the last one; undefined highlights none. */
export function show(view: EditorView, line: number | undefined): void {
  const from = line === undefined ? -1 : lineStart(view.state, line);
  const { doc } = view.state;
  view.dispatch(from < 0 ? { effects: marking.of(-1) } : {
    selection: { anchor: Math.min(from, doc.length) },
    effects: [marking.of(from), EditorView.scrollIntoView(from, { y: "center" })],
  });
}

function lineStart({ doc }: EditorState, line: number): number {
  return doc.line(Math.min(Math.max(Math.trunc(line) || 1, 1), doc.lines)).from;
}
