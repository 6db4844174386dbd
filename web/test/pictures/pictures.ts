// Takes pictures of the run, session and node page, light and dark, with real runs on a real server.
import { mkdirSync, statSync } from "node:fs";
import { Until } from "../browser/owner.ts";
import { visit } from "../browser/world.ts";

const folder = "../docs/images";
const most = 120_000; // maximum size of a picture in bytes

// A plot with the standard library alone, which every Python has.
const plot = `import math, struct, zlib

W, H = 640, 320
pixels = bytearray(b"\\xff" * (W * H * 3))

def dot(x, y, rgb):
    if 0 <= x < W and 0 <= y < H:
        pixels[(y * W + x) * 3:(y * W + x) * 3 + 3] = bytes(rgb)

for x in range(0, W, 64):
    for y in range(H):
        dot(x, y, (230, 235, 235))
for y in range(0, H, 64):
    for x in range(W):
        dot(x, y, (230, 235, 235))

for color, phase in (((10, 107, 102), 0.0), ((168, 32, 29), 1.2), ((122, 81, 0), 2.4)):
    last = None
    for x in range(W):
        t = x / W * 4 * math.pi
        y = int(H / 2 - math.sin(t + phase) * math.exp(-t / 9) * H * 0.42)
        for between in range(min(last or y, y), max(last or y, y) + 1):
            for thick in range(3):
                dot(x, between + thick, color)
        last = y

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

rows = b"".join(b"\\0" + pixels[y * W * 3:(y + 1) * W * 3] for y in range(H))
with open("plot.png", "wb") as f:
    f.write(b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", struct.pack(">2I5B", W, H, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))
with open("amplitude.csv", "w") as f:
    f.write("t,amplitude\\n" + "".join(f"{t},{math.exp(-t / 9):.4f}\\n" for t in range(13)))

for step in range(1, 13):
    print(f"step {step:2}/12  amplitude \\x1b[36m{math.exp(-step / 9):.4f}\\x1b[0m")
print("\\x1b[32mplot.png written\\x1b[0m")
`;

const files: Record<string, string> = {
  "README.md": "# Waves\n\nDamped waves, drawn by the standard library alone.\n",
  "waves.py": plot,
  "data/samples.csv": "t,amplitude\n0,1.0000\n1,0.8948\n2,0.8007\n",
  "tests/test_waves.py": "import waves\n",
};

const owner = new Until();
const v = await visit(owner, { user: "ada" });
mkdirSync(folder, { recursive: true });
// Draws the terminal with DOM elements, so that the script can read when the program has ended.
await v.context.addInitScript(() => {
  const context = HTMLCanvasElement.prototype.getContext as (this: HTMLCanvasElement, kind: string, ...rest: unknown[]) => unknown;
  HTMLCanvasElement.prototype.getContext = function (this: HTMLCanvasElement, kind: string, ...rest: unknown[]) {
    return kind.startsWith("webgl") ? null : context.call(this, kind, ...rest);
  } as typeof HTMLCanvasElement.prototype.getContext;
});

/** shoot takes the pictures of the current page. */
async function shoot(name: string): Promise<void> {
  for (const theme of ["light", "dark"] as const) {
    await v.page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
    await v.page.waitForLoadState("networkidle");
    await v.page.mouse.move(0, 799);
    const path = `${folder}/${name}-${theme}.png`;
    await v.page.screenshot({ path, animations: "disabled" });
    const { size } = statSync(path);
    console.log(`${path.slice(3)}: ${Math.round(size / 1000)} kB`);
    if (size > most) throw new Error(`${path} has more than ${most} bytes`);
  }
}

const run = await v.api.run({ language: "python", code: plot, capture_patterns: ["*.png", "*.csv"], labels: { figure: "waves" } });
if (run.phase !== "completed") throw new Error(run.stderr || run.message);
await v.open(`sandbox/runs/${run.id}`);
await v.page.getByText("plot.png written").waitFor();
await v.page.locator("aside img").first().waitFor();
await shoot("web-run");

const session = await v.api.sessions.open({ base_image: "host", scope: { namespace: "agent", id: "waves", key: "main" }, workspace_exec: true });
for (const [path, text] of Object.entries(files)) await session.files.write(path, text);
await session.run({ command: ["python3", "waves.py"] });
await v.open(`sandbox/sessions/${session.id}?file=waves.py`);
await v.page.locator(".cm-content").waitFor();
await v.page.getByRole("button", { name: "Open a terminal" }).click();
const screen = v.page.locator(".xterm-rows");
await screen.getByText("$").first().waitFor();
await v.page.locator(".xterm-screen").click();
await v.page.keyboard.type("python3 waves.py | tail -n 3\n");
await screen.getByText("written").first().waitFor();
await shoot("web-session");

await v.open("sandbox/node");
await v.page.getByRole("article").first().waitFor();
await shoot("web-node");
await session.destroy();
await owner.end();
