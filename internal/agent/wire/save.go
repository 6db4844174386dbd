package wire

import "time"

// OpSave and OpLoad copy the whole workspace, including links, times and extended attributes.
//
// The reply to OpSave is Data frames of a tar stream, an EOF frame, and Reply{Done, Frozen, Bytes}: Frozen means that no program
// could change a file while they were read. Programs are frozen for at most [MaxFreeze]. OpLoad unpacks such a stream into an empty
// workspace. Neither includes the workspace's folder for temporary files, sockets, FIFOs and devices.
const (
	OpSave Op = "save"
	OpLoad Op = "load"
)

// MaxFreeze limits how long programs are frozen for an [OpSave]. A copy that takes longer continues while they run.
const MaxFreeze = 5 * time.Second
