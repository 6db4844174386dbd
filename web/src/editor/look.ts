// The appearance of code, in the colours of theme.css.
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import type { Extension } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const box = EditorView.theme({
  "&": { height: "100%", color: "var(--ink)", backgroundColor: "var(--surface)", fontSize: "var(--small)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6" },
  ".cm-content": { caretColor: "var(--accent)", padding: "var(--s2) 0" },
  ".cm-line": { padding: "0 var(--s3)" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--muted)", border: "none" },
  ".cm-lineNumbers .cm-gutterElement": { padding: "0 var(--s2) 0 var(--s3)", minWidth: "3em" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--sunken) 60%, transparent)" },
  ".cm-activeLineGutter": { backgroundColor: "var(--sunken)", color: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--accent)", borderLeftWidth: "2px" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground, .cm-content ::selection": {
    backgroundColor: "color-mix(in srgb, var(--accent) 22%, transparent)",
  },
  ".cm-marked": { backgroundColor: "var(--warn-soft)", boxShadow: "inset 3px 0 var(--warn)" },
  ".cm-searchMatch, .cm-selectionMatch": { backgroundColor: "var(--warn-soft)", outline: "1px solid var(--warn)" },
  ".cm-searchMatch-selected": { backgroundColor: "var(--accent-soft)", outline: "2px solid var(--accent)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--accent-soft)", outline: "1px solid var(--accent)" },
  "&.cm-focused .cm-nonmatchingBracket": { backgroundColor: "var(--bad-soft)" },
  ".cm-specialChar": { color: "var(--bad)" },
  ".cm-panels": { backgroundColor: "var(--sunken)", color: "var(--ink)" },
  ".cm-panels-top": { borderBottom: "1px solid var(--line)" },
  ".cm-panel.cm-search": { padding: "var(--s2) var(--s6) var(--s2) var(--s3)", fontFamily: "var(--sans)" },
  ".cm-panel.cm-search label": { fontSize: "var(--small)", fontWeight: "400" },
  ".cm-textfield": { backgroundColor: "var(--surface)", border: "1px solid var(--line-strong)", borderRadius: "6px", fontSize: "var(--small)" },
  ".cm-button": {
    backgroundImage: "none", backgroundColor: "var(--surface)", border: "1px solid var(--line-strong)", borderRadius: "6px",
    fontSize: "var(--small)", minHeight: "0", padding: "2px 8px",
  },
  ".cm-panel.cm-search [name=close]": { minHeight: "28px", padding: "0 var(--s2)", border: "none", fontSize: "var(--large)", color: "inherit" },
  ".cm-tooltip": { backgroundColor: "var(--surface)", border: "1px solid var(--line)" },
});

const words = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.operatorKeyword, tags.controlKeyword, tags.definitionKeyword], color: "var(--accent)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp, tags.character, tags.inserted], color: "var(--good)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom, tags.unit, tags.escape], color: "var(--warn)" },
  { tag: [tags.comment, tags.meta, tags.processingInstruction], color: "var(--muted)", fontStyle: "italic" },
  { tag: [tags.function(tags.definition(tags.variableName)), tags.definition(tags.className), tags.heading], fontWeight: "650" },
  { tag: [tags.typeName, tags.className, tags.tagName, tags.namespace], color: "var(--accent)" },
  { tag: [tags.invalid, tags.deleted], color: "var(--bad)" },
  { tag: [tags.link, tags.url], textDecoration: "underline" },
  { tag: tags.emphasis, fontStyle: "italic" },
  { tag: tags.strong, fontWeight: "700" },
]);

/** nonce returns the nonce that lets the editor's styles pass the page's Content-Security-Policy. */
export const nonce = (): string => document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? "";

/** look returns the editor's appearance, in light and dark. */
export function look(): Extension {
  return [EditorView.cspNonce.of(nonce()), box, syntaxHighlighting(words)];
}
