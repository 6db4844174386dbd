const encoder = new TextEncoder();

/** utf8Bytes returns the bytes of a frame's data: text, or base64. */
export function utf8Bytes(data: string, encoding: string | undefined): Uint8Array {
  if (encoding !== "base64") return encoder.encode(data);
  const text = atob(data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}
