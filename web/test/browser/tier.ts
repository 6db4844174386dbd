// How much the tests of the page do: make test tries each view and door, make soak, which sets BELLJAR_TEST_SOAK, all.

/** Whether make soak runs the tests. */
export const soaking = process.env["BELLJAR_TEST_SOAK"] === "1";

/** soak, as the options of a test, skips one that make soak alone runs. */
export const soak = { skip: soaking ? false : "make soak runs this; so does BELLJAR_TEST_SOAK=1 npm test" };
