const dep = require("dep");
dep(() => dep.missing.x);
