// Measures the page in Chromium against bin/belljar, and prints each figure with its budget: `npm run bench`. `npm run bench -- hops` shows
// where the time goes between a run that is submitted and its first line.
import { built, compile, node, stage } from "./stage.js";

compile();
process.exitCode = await stage(() => node(`${built}/bench/${process.argv[2] ?? "page"}.js`));
