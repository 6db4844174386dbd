// JSON with its original numbers: JavaScript would write 12345678901234567890 and 1.0 differently.

type Reviver = (key: string, value: unknown, context?: { source?: string }) => unknown;
const { rawJSON, isRawJSON } = JSON as typeof JSON & { rawJSON?: (text: string) => unknown; isRawJSON?: (value: unknown) => boolean };

/** parse parses JSON; undefined if this browser cannot keep the original form. */
export function parse(text: string): unknown {
  const asWritten: Reviver = (_, value, context) => (typeof value === "number" && context?.source !== undefined && context.source !== String(value) ? rawJSON!(context.source) : value);
  if (rawJSON) return JSON.parse(text, asWritten);
  return /\d{16}/.test(text) ? undefined : JSON.parse(text);
}

/** isNumber reports whether a value is a number in either form. */
export const isNumber = (value: unknown): boolean => typeof value === "number" || (isRawJSON?.(value) ?? false);
