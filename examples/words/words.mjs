// Counts the words of the text on standard input and shows the most common ones as bars.

const counts = new Map();
let total = 0;

process.stdin.setEncoding("utf8");
let text = "";
for await (const chunk of process.stdin) text += chunk;

for (const word of text.toLowerCase().match(/\p{L}+/gu) ?? []) {
  counts.set(word, (counts.get(word) ?? 0) + 1);
  total++;
}

const top = [...counts].sort(([a, m], [b, n]) => n - m || a.localeCompare(b)).slice(0, 5);
for (const [word, n] of top) console.log(word.padEnd(8), "█".repeat(n), n);
console.log(`${total} words, ${counts.size} different ones`);
