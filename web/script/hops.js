// Measures the page in Chromium against bin/belljar, and prints each figure with its budget: `npm run bench`.
import { built, compile, node, stage } from "./stage.js";

compile();
process.exitCode = await stage(() => node(`${built}/bench/hops.js`));
