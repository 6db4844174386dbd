// Notebooks as files: nbformat 4.5, which Jupyter reads, and their display. All of it may come from a hostile program.
import type { Result } from "belljar-sdk";
import { widest } from "../../run/csv.ts";
import { parse as asWritten } from "../../run/json.ts";

/** An output of a cell in the file's format. */
export type Output = Record<string, unknown> & { output_type: string };

/** A cell in the file's format. Fields unknown to this page stay unchanged. */
export interface SavedCell {
  id: string;
  type: "code" | "markdown" | "raw";
  source: string;
  outputs: Output[];
  count: number | null;
  /** Other fields, unchanged. */
  rest: Record<string, unknown>;
}

export interface SavedBook {
  cells: SavedCell[];
  language: Language;
  rest: Record<string, unknown>;
}

export type Language = "python" | "javascript" | "bash";

/** The languages of contexts, with Jupyter's names of their kernels. */
export const languages: { name: Language; label: string; kernel: string }[] = [
  { name: "python", label: "Python", kernel: "python3" },
  { name: "javascript", label: "JavaScript", kernel: "javascript" },
  { name: "bash", label: "Bash", kernel: "bash" },
];

type Json = Record<string, unknown>;
const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value);

/** textOf returns a text of the format: one string, or a list of them. */
export function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  return Array.isArray(value) ? value.filter((part) => typeof part === "string").join("") : "";
}

/** newId returns an id that no other cell has. */
export const newId = (): string => Array.from(crypto.getRandomValues(new Uint8Array(6)), (byte) => byte.toString(16).padStart(2, "0")).join("");

export const emptyCell = (type: SavedCell["type"] = "code", source = ""): SavedCell => ({ id: newId(), type, source, outputs: [], count: null, rest: {} });

/** parse parses a notebook. An empty file is a new one. */
export function parse(text: string): SavedBook {
  if (text.trim() === "") return { cells: [emptyCell()], language: "python", rest: {} };
  let file: unknown;
  try {
    file = asWritten(text) ?? JSON.parse(text);
  } catch (error) {
    throw new Error(`This is not a notebook: ${(error as Error).message}.`);
  }
  if (!isObject(file) || file["nbformat"] !== 4 || !Array.isArray(file["cells"])) throw new Error("This is not a notebook of the format 4.");
  const ids = new Set<string>();
  const cells = file["cells"].map((cell: unknown): SavedCell => {
    if (!isObject(cell)) throw new Error("This notebook has a cell that is not an object.");
    const { cell_type, id, source, outputs, execution_count, ...rest } = cell;
    const type = cell_type === "markdown" || cell_type === "raw" ? cell_type : "code";
    const good = typeof id === "string" && /^[A-Za-z0-9_-]{1,64}$/.test(id) && !ids.has(id) ? id : newId();
    ids.add(good);
    return {
      id: good, type, source: textOf(source), rest, count: typeof execution_count === "number" ? execution_count : null,
      outputs: Array.isArray(outputs) ? outputs.filter((one): one is Output => isObject(one) && typeof one["output_type"] === "string") : [],
    };
  });
  if (cells.length === 0) cells.push(emptyCell()); // the page adds cells after others
  return { cells, language: languageOf(file["metadata"]), rest: file };
}

function languageOf(metadata: unknown): Language {
  const of = (value: unknown): string => (isObject(metadata) && isObject(metadata[value as string]) ? String((metadata[value as string] as Json)[value === "kernelspec" ? "language" : "name"] ?? "") : "");
  const name = (of("kernelspec") || of("language_info")).toLowerCase();
  return /^(javascript|typescript|node)/.test(name) ? "javascript" : /^(bash|sh|shell)$/.test(name) ? "bash" : "python";
}

// The format stores texts as lists of lines, to make them comparable.
const linesOf = (text: string): string[] => text.match(/[^\n]*\n|[^\n]+$/g) ?? [];

/** serialize writes a notebook in Jupyter's format. */
export function serialize({ cells, language, rest }: SavedBook): string {
  const { kernel, label } = languages.find((one) => one.name === language)!;
  const metadata = isObject(rest["metadata"]) ? rest["metadata"] : {};
  const same = languageOf(metadata) === language && (isObject(metadata["kernelspec"]) || isObject(metadata["language_info"]));
  return `${JSON.stringify({
    ...rest,
    cells: cells.map((cell) => ({
      cell_type: cell.type, id: cell.id, metadata: {}, ...cell.rest,
      ...(cell.type === "code" ? { execution_count: cell.count, outputs: cell.outputs } : {}), source: linesOf(cell.source),
    })),
    metadata: same ? metadata : { ...metadata, kernelspec: { display_name: label, language, name: kernel }, language_info: { name: language } },
    nbformat: 4,
    nbformat_minor: Math.max(5, Number(rest["nbformat_minor"]) || 5),
  }, undefined, 1)}\n`;
}

/** resultIn parses a line as a result; undefined if the program sent something else. */
function resultIn(line: string): Result | undefined {
  try {
    const result: unknown = asWritten(line) ?? JSON.parse(line);
    return isObject(result) ? (result as unknown as Result) : undefined;
  } catch {
    return undefined;
  }
}

/** outputIn returns the output in a line of results; undefined if it has none. */
export function outputIn(line: string): Output | undefined {
  const result = resultIn(line);
  return result && outputOf(result);
}

/** askedIn returns the request for input in a line of results. */
export function askedIn(line: string): { prompt: string; password: boolean } | undefined {
  const result = resultIn(line);
  return result?.type === "input" ? { prompt: String(result.prompt ?? ""), password: result.password === true } : undefined;
}

/** outputOf converts a result of code to a notebook's output; undefined if there is no such output. */
export function outputOf(result: Result): Output | undefined {
  const data = result.data ?? {};
  switch (result.type) {
    case "value":
      return { output_type: "execute_result", execution_count: result.count ?? null, data, metadata: {} };
    case "display":
      return { output_type: "display_data", data, metadata: {} };
    case "error":
      return { output_type: "error", ename: result.name ?? "", evalue: result.value ?? "", traceback: textOf(result.traceback).split("\n") };
    case "cut":
      return { output_type: "stream", name: "stderr", text: `${result.text ?? "Further results were dropped."}\n` };
  }
  return undefined;
}

/** A table of data, with the part to show. */
export interface Table {
  columns: string[];
  rows: string[][];
  total: number;
  totalColumns: number;
}

const mostRows = 1000;

/** tableOf parses application/vnd.dataresource+json; undefined if it is invalid. */
export function tableOf(value: unknown): Table | undefined {
  const fields = isObject(value) && isObject(value["schema"]) ? value["schema"]["fields"] : undefined;
  if (!isObject(value) || !Array.isArray(fields) || !Array.isArray(value["data"])) return undefined;
  const names = fields.slice(0, widest).map((field) => (isObject(field) ? String(field["name"]) : ""));
  const cell = (one: unknown): string => (one === null || one === undefined ? "" : typeof one === "string" ? one : JSON.stringify(one) ?? "");
  const rows = value["data"].slice(0, mostRows).map((row: unknown) => names.map((name) => (isObject(row) && Object.hasOwn(row, name) ? cell(row[name]) : "")));
  return { columns: names, rows, total: Math.max(Number(value["total_rows"]) || 0, value["data"].length), totalColumns: fields.length };
}
