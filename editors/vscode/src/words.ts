/** Parses a command as a JSON array, or as the words of a shell line, without expansion. */
export function words(text: string): string[] {
  text = text.trim();
  if (text.startsWith("[")) {
    const list: unknown = JSON.parse(text);
    if (!Array.isArray(list) || list.length === 0 || !list.every((word) => typeof word === "string")) throw new Error("a command is a list of texts");
    return list as string[];
  }
  const out: string[] = [];
  let word = "", any = false, quote = "";
  for (let i = 0; i < text.length; i++) {
    const c = text[i]!;
    if (quote === "'") {
      if (c === "'") quote = "";
      else word += c;
    } else if (c === "\\") {
      i++;
      if (i === text.length) throw new Error("the line ends with a backslash");
      const next = text[i]!;
      word += quote && !'"\\$`'.includes(next) ? c + next : next;
      any = true;
    } else if (quote) {
      if (c === quote) quote = "";
      else word += c;
    } else if (c === "'" || c === '"') {
      quote = c;
      any = true;
    } else if (/\s/.test(c)) {
      if (any) out.push(word);
      word = "";
      any = false;
    } else {
      word += c;
      any = true;
    }
  }
  if (quote) throw new Error(`a ${quote} is not closed`);
  if (any) out.push(word);
  if (out.length === 0) throw new Error("no command is given");
  return out;
}
