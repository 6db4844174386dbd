package workspace

// APIVersion is the version of the workspace API, which servers and workspace services compare before they depend on each other. While
// the first number is 0, a change of the second one breaks it.
const APIVersion = "0.1.0"
