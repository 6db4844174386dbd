package event

// Thread is one of the nine events of the thread API, for the metrics only: Kind is its name there, Took and Count what it
// took and how many bytes it moved.
const Thread = "thread"

// ThreadWorkspace is one Kind more: how large a workspace is, after an upload.
const ThreadWorkspace = "workspace"
