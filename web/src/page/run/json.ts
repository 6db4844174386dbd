// JSON as it is written: 12345678901234567890 and 1.0 are numbers that JavaScript would write otherwise.

type Reviver = (key: string, value: unknown, context?: { source?: string }) => unknown;
const { rawJSON, isRawJSON } = JSON as typeof JSON & { rawJSON?: (text: string) => unknown; isRawJSON?: (value: unknown) => boolean };

/** parse reads JSON; undefined is what this browser could not show as it is written. */
export function parse(text: string): unknown {
  const asWritten: Reviver = (_, value, context) => (typeof value === "number" && context?.source !== undefined && context.source !== String(value) ? rawJSON!(context.source) : value);
  if (rawJSON) return JSON.parse(text, asWritten);
  return /\d{16}/.test(text) ? undefined : JSON.parse(text);
}

/** isNumber tells whether a value is one, in whatever form. */
export const isNumber = (value: unknown): boolean => typeof value === "number" || (isRawJSON?.(value) ?? false);
