module.exports = (f) => f();
