/** How often the rules of a session were changed here: what shows them asks again. */
export const network = $state({ changes: 0 });
