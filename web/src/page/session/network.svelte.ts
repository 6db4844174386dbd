/** Counts the changes of a session's rules on this page. Components that show the rules then reload them. */
export const network = $state({ changes: 0 });
