// The extent of the page's tests: make test tries each view and door; make soak, which sets BELLJAR_TEST_SOAK, runs
// all.

/** Whether make soak runs the tests. */
export const soaking = process.env["BELLJAR_TEST_SOAK"] === "1";

/** soak is a test option that skips a test outside make soak. */
export const soak = { skip: soaking ? false : "make soak runs this; so does BELLJAR_TEST_SOAK=1 npm test" };
