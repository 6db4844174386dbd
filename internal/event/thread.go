package event

// Thread is one of the nine events of the thread API, for the metrics only. Kind is its name there, Took its duration and
// Count the bytes transferred.
const Thread = "thread"

// ThreadWorkspace is a further Kind: the size of a workspace after an upload.
const ThreadWorkspace = "workspace"
