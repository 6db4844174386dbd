import { invalid } from "./error.js";

const encoder = new TextEncoder();

/**
 * utf8 returns a text as UTF-8.
 * @internal
 */
export function utf8(text: string): Uint8Array {
  return encoder.encode(text);
}

/**
 * textOf decodes UTF-8. It keeps a leading U+FEFF, so that writing the text back changes nothing.
 * @internal
 */
export function textOf(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
}

/**
 * wellFormed returns a text that can be sent. An encoder would silently send U+FFFD for half a surrogate pair.
 * @internal
 */
export function wellFormed(field: string, text: string): string {
  const { isWellFormed } = text as { isWellFormed?: () => boolean }; // since node 20
  if (isWellFormed ? !isWellFormed.call(text) : /\p{Surrogate}/u.test(text)) throw invalid(field, `${field} has half a surrogate pair in it`);
  return text;
}

/**
 * bytesOf returns content as bytes.
 * @internal
 */
export function bytesOf(content: string | Uint8Array): Uint8Array {
  return typeof content === "string" ? utf8(wellFormed("content", content)) : content;
}

/**
 * unbase64 decodes base64.
 * @internal
 */
export function unbase64(text: string): Uint8Array {
  if (typeof Buffer !== "undefined") return new Uint8Array(Buffer.from(text, "base64")); // a copy: small buffers share their memory
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

/**
 * base64 encodes bytes for JSON.
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
 * newKey returns an unused Idempotency-Key. Pages without TLS have no randomUUID, and node 18 has no crypto at all. A key must be unique
 * but need not be secret, so Math.random is good enough there.
 * @internal
 */
export function newKey(): string {
  const source = globalThis.crypto as Crypto | undefined;
  if (typeof source?.randomUUID === "function") return source.randomUUID();
  const bytes = source ? source.getRandomValues(new Uint8Array(16)) : Uint8Array.from({ length: 16 }, () => Math.random() * 256);
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

/**
 * keyOf returns a valid Idempotency-Key: the given one, or a new one.
 * @internal
 */
export function keyOf(given: string | undefined): string {
  if (!given) return newKey();
  if (given.length > 128 || !/^[\x20-\x7e]*$/.test(given)) {
    throw invalid("Idempotency-Key", "an Idempotency-Key is at most 128 printable characters of ASCII");
  }
  return given;
}
