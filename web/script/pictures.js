// Makes the pictures of docs/images from bin/belljar with real runs: `npm run pictures`.
import { built, compile, node, stage } from "./stage.js";

compile();
process.exitCode = await stage(() => node(`${built}/pictures/pictures.js`));
