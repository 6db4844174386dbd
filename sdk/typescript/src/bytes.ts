import { invalid } from "./error.js";

const encoder = new TextEncoder();

/**
 * utf8 is a text's bytes.
 * @internal
 */
export function utf8(text: string): Uint8Array {
  return encoder.encode(text);
}

/**
 * textOf is the text that bytes are as UTF-8. What begins with U+FEFF keeps it: who writes it back changes nothing.
 * @internal
 */
export function textOf(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
}

/**
 * wellFormed is a text that is to be sent. An encoder would send U+FFFD in place of half a surrogate pair, without a word.
 * @internal
 */
export function wellFormed(field: string, text: string): string {
  const { isWellFormed } = text as { isWellFormed?: () => boolean }; // from node 20 on
  if (isWellFormed ? !isWellFormed.call(text) : /\p{Surrogate}/u.test(text)) throw invalid(field, `${field} has half a surrogate pair in it`);
  return text;
}

/**
 * bytesOf is content that is to be sent, as bytes.
 * @internal
 */
export function bytesOf(content: string | Uint8Array): Uint8Array {
  return typeof content === "string" ? utf8(wellFormed("content", content)) : content;
}

/**
 * unbase64 is the bytes that base64 stands for.
 * @internal
 */
export function unbase64(text: string): Uint8Array {
  if (typeof Buffer !== "undefined") {
    const bytes = Buffer.from(text, "base64");
    return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

/**
 * base64 is how bytes travel in JSON.
 * @internal
 */
export function base64(bytes: Uint8Array): string {
  if (typeof Buffer !== "undefined") {
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
  }
  let raw = "";
  for (let i = 0; i < bytes.length; i += 0x8000) raw += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(raw);
}

/**
 * newKey is an unused Idempotency-Key. Pages without TLS have no randomUUID, and node 18 has no crypto at all; a
 * key must be unlike others and need not be a secret, so that Math.random will do there.
 * @internal
 */
export function newKey(): string {
  const source = globalThis.crypto as Crypto | undefined;
  if (typeof source?.randomUUID === "function") return source.randomUUID();
  const bytes = source ? source.getRandomValues(new Uint8Array(16)) : Uint8Array.from({ length: 16 }, () => Math.random() * 256);
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

/**
 * keyOf is an Idempotency-Key that can be sent: the given one, or a new one.
 * @internal
 */
export function keyOf(given: string | undefined): string {
  if (!given) return newKey();
  if (given.length > 128 || !/^[\x20-\x7e]*$/.test(given)) {
    throw invalid("Idempotency-Key", "an Idempotency-Key is at most 128 printable characters of ASCII");
  }
  return given;
}
