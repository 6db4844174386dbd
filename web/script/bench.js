// Measures the page in Chromium against bin/belljar, and prints each figure with its budget: `npm run bench`. `npm run bench -- hops`
// measures each step between the submission of a run and its first line.
import { built, compile, node, stage } from "./stage.js";

compile();
process.exitCode = await stage(() => node(`${built}/bench/${process.argv[2] ?? "page"}.js`));
