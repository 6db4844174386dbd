// Draws media/icon.png, the jar of media/jar.svg on a dark square with rounded corners: node
// script/icon.js
const { crc32, deflateSync } = require("node:zlib");
const { writeFileSync } = require("node:fs");
const { join } = require("node:path");

const size = 128, fine = 4; // samples per pixel in each direction

/** Distance from a point to the line from a to b. */
const line = (x, y, ax, ay, bx, by) => {
  const dx = bx - ax, dy = by - ay, t = Math.max(0, Math.min(1, ((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy)));
  return Math.hypot(x - ax - t * dx, y - ay - t * dy);
};

/** The colour of a point, in units of a square of 24; undefined for none. */
const colour = (x, y) => {
  const cornerX = Math.max(5 - x, x - 19, 0), cornerY = Math.max(5 - y, y - 19, 0);
  if (Math.hypot(cornerX, cornerY) > 5) return undefined;
  const dome = y < 11 ? Math.abs(Math.hypot(x - 12, y - 11) - 5.5) : Math.min(line(x, y, 6.5, 11, 6.5, 19), line(x, y, 17.5, 11, 17.5, 19));
  if (Math.min(dome, line(x, y, 4.5, 19, 19.5, 19), line(x, y, 12, 5, 12, 3.4)) < 0.7) return [232, 240, 254];
  if (x > 10.4 && Math.abs(y - 13) < ((15 - x) / 4.6) * 2.8) return [94, 234, 164]; // the program in the jar
  return [23, 37, 66];
};

const rows = Buffer.alloc(size * (1 + size * 4)); // each row begins with filter 0
for (let py = 0; py < size; py++) {
  for (let px = 0; px < size; px++) {
    const sum = [0, 0, 0, 0];
    for (let i = 0; i < fine * fine; i++) {
      const c = colour(((px + ((i % fine) + 0.5) / fine) * 24) / size, ((py + (Math.floor(i / fine) + 0.5) / fine) * 24) / size);
      if (c) [...c, 1].forEach((value, n) => (sum[n] += value));
    }
    const at = py * (1 + size * 4) + 1 + px * 4;
    for (let n = 0; n < 3; n++) rows[at + n] = sum[3] && Math.round(sum[n] / sum[3]);
    rows[at + 3] = Math.round((sum[3] * 255) / (fine * fine));
  }
}

const chunk = (name, data) => {
  const body = Buffer.concat([Buffer.from(name), data]), out = Buffer.alloc(body.length + 8);
  out.writeUInt32BE(data.length, 0);
  body.copy(out, 4);
  out.writeUInt32BE(crc32(body), body.length + 4);
  return out;
};
const head = Buffer.alloc(13);
head.writeUInt32BE(size, 0);
head.writeUInt32BE(size, 4);
head.set([8, 6], 8); // 8 bits per channel, RGBA
writeFileSync(join(__dirname, "../media/icon.png"), Buffer.concat([
  Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), chunk("IHDR", head), chunk("IDAT", deflateSync(rows, { level: 9 })), chunk("IEND", Buffer.alloc(0)),
]));
