/** The number of rule changes in a session here: views of the rules reload after each. */
export const network = $state({ changes: 0 });
