"use strict";
Object.defineProperty(exports, "__esModule", { value: true });
exports.load = load;
function load(item) {
    return item.name;
}
load(null);
//# sourceMappingURL=beside.js.map