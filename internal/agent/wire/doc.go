// Package wire is the protocol between a host and the agent inside a sandbox: its messages, its frames and its
// multiplexer. This comment is the specification.
//
// # Streams
//
// The host dials, the agent accepts. Every request has a stream of its own, so that nothing waits in line behind anything
// else; a stream ends when either side closes it. A stream is a connection (a Unix socket, vsock) or, where a runtime
// has one byte stream only, a stream of the multiplexer. The agent serves both with the same code.
//
// # Frames
//
// A frame is 1 byte [Kind], 4 bytes length of the payload (big endian), payload. Hello, Request, Control and Reply are
// JSON of at most [MaxJSON] bytes; unknown JSON fields are ignored, which is how messages grow. Data and Output carry
// raw bytes, at most [MaxData] of them. An EOF frame is empty. A longer frame, an unknown kind or a frame where it
// does not belong is a protocol error: the receiver answers [CodeProtocol] if it still can and closes the stream. Other
// streams are not affected.
//
// # Opening
//
// The host writes [Hello] and [Request] in one go, without waiting. The agent reads both and then writes its own Hello,
// followed by the answer: a request costs one round trip. The agent refuses a version that it does not speak with
// [CodeVersion]; the host accepts [Version] and Version-1. [Hello.BootID] changes when an agent has been restarted: all
// it knew of execs is then gone.
//
// A failure is one Reply with Error, at any point where the agent may write; the agent closes the stream after it. A
// host that finds it can no longer write therefore reads on for the reason.
//
// # Execs
//
// OpExec starts a command under an id that the host chose; the same id again starts nothing and attaches instead, so
// a host that lost the stream before the answer asks again. OpAttach joins a known exec at position From. Both continue
// alike:
//
//	agent  Reply{Started}, then Output frames, mixed with Reply{StdinLimit}, at last Reply{Exit}
//	host   Data, EOF (stdin) and Control frames, at any time after its Request
//
// Positions. Kept output, stdout and stderr together in the order in which the agent read them, is numbered by bytes
// from 0. An Output frame carries the position of its first byte; frames follow each other without a gap, beginning at
// [Started.From]. That is the position asked for, or a later one if the bytes before it are gone. Dropped output (over
// [Exec.OutputLimit]) has no position.
//
// Acks. The agent keeps output in a spool until a Control with Ack says that every byte before a position is safe with
// the host, and no longer than the spool's bound of [SpoolSize] per exec allows: when it is full the agent stops
// reading and the program blocks on its pipe. Of a terminal that a host is attached to the bound is [TerminalSpool].
// Nothing is lost by a disconnect: the host attaches again from where it
// stopped. An ack beyond what was sent is a protocol error; one that goes back is ignored. At most one host is attached
// to an exec: a newer one replaces the older, whose stream is closed.
//
// Stdin. Data on the stream is stdin, EOF (or a Control with CloseStdin) its end. Its bytes are numbered too: the host
// may send those before a limit, which begins at [Started.StdinLimit] and rises with each Reply{StdinLimit} as the
// program takes them; at most [StdinWindow] bytes wait in the agent, which can thus always read on for the Control
// frames after them. Data beyond the limit is a protocol error. A host that attaches continues at [Started.Stdin].
// When the program has closed its stdin the agent takes and drops what comes, and the limit rises as before. A
// disconnect does not end stdin. Of a terminal EOF means its end-of-file character.
//
// Control frames also resize a terminal, send signals or end the exec, as OpSignal does from a stream of its own, and
// forget it, as OpForget does, which ends the stream; for agents with "forget" among their [Hello.Features].
//
// Exit. An exec is over when its first process has been reaped. Its pipes are drained for at most 100 ms more, since a
// child may hold them open; then Reply{Exit} follows, after all output. The agent then reads on until the host closes
// the stream, for its last ack. The outcome and the unacknowledged output stay until OpForget, also for later
// attaches.
//
// Shells. An exec with [Exec.Shell] is a command for a shell (bash, or sh where there is none) that keeps its directory,
// variables, functions and background jobs. It has an id, a spool, stdin, a timeout and an outcome like any other exec, and
// is over when the shell has come back to take the next command. The commands of one shell run one after the other, in the
// order of their requests; [Exec.TimeoutMS] counts from a command's own beginning. The shell distinguishes a status
// from all output, over a socket that only its own messages count on; [Exit.Cwd] is read from /proc. Without
// [ShellRun.Separate] stdout and stderr are a terminal that is the command's alone, and all output is Stdout; what it
// writes to /dev/tty, the shell's own terminal, is Stdout as well. Reading /dev/tty finds end of file. Timeout and Kill
// with End interrupt the foreground job and send TERM after half the grace and KILL after the rest to what the
// command has started; jobs of earlier commands live on. A shell that does not come back then is killed, and the
// next command finds a new one in the same directory. The output of jobs that outlive their command is
// dropped. An agent without [FeatureShell] among its [Hello.Features] answers [CodeInvalid].
//
// # Other operations
//
//	ping      Reply{Info}
//	signal    ID, Kill                 Reply{Done}; not_found if it has ended or was never known
//	list                               Reply{Execs, More}, the last without More
//	forget    ID                       Reply{Done}, also for an unknown id; invalid while it runs
//	lease     Lease (0 = for ever)     Reply{Done}
//	stat      File                     Reply{File}, of a symbolic link itself
//	read      File (Offset, Limit)     Reply{File}, Data…, EOF
//	write     File, then Data…, EOF    Reply{File}
//	readdir   File (Limit)             Reply{Files, More}…, the last without More, with Cut if it stopped at a bound
//	walk      File (Limit)             as readdir, the whole tree below, parents first, without the path itself
//	mkdir     File (Mode, Parents)     Reply{Done}
//	rename    File (Path, To)          Reply{Done}
//	delete    File (Recursive)         Reply{Done}
//	tar_in    File, then Data…, EOF    Reply{Done, Bytes}: bytes of file contents unpacked below Path
//	tar_out   File (Path, Paths)       Data…, EOF
//	merge     File, then Data…, EOF    Reply{Done, Bytes}, as tar_in, but all or nothing
//	merge_new File, then Data…, EOF    as merge, but what is there is not replaced
//	scan      File (Path, Paths,       Data…, EOF: a tar of the text files among Paths
//	          Limit)
//	space     File                     Reply{Space}
//	relay, connect                     reserved: unsupported
//
// A stream of Data that ends without its EOF frame is incomplete. The agent then drops what it has of a write; the host
// reports the failure. Paths in answers are relative to the workspace, with "." for itself.
//
// Merge. The agent unpacks into a folder of its own, which no listing shows, and then moves what is in it to its place:
// what is new, and files over files. A file where a folder is, or the reverse, is [CodeExists], a symbolic link
// [CodeInvalid]. A merge that fails, at whatever point, or whose stream ends without its EOF frame leaves the workspace as
// it was. An agent that lists no "merge" among its [Hello.Features] answers [CodeProtocol].
//
// # Lease
//
// An agent with a lease ends itself, and with it the sandbox, when no frame has come from a host for that long. A host
// that wants the sandbox alive lets no lease pass without a request or frame.
//
// # Multiplexer
//
// It runs where the byte stream may be left by one host and taken up by the next, with bytes of the old one still on
// the way in either direction, cut anywhere (an attached container's stdio, a serial line). Hence:
//
// Frames. A mux frame is 1 byte type, 4 bytes stream id, body (at most [MaxMuxBody]), 4 bytes CRC32C; all of it
// COBS-encoded, so that it holds no 0x00, and ended by a 0x00. A receiver finds the next frame after the next 0x00
// whatever came before; empty frames are ignored.
//
//	1 reset   host   16 bytes nonce, 4 bytes grant. Begins an epoch. CRC over the frame alone
//	2 ready   agent  16 bytes nonce. The first frame of the epoch from the agent
//	3 grant   host   4 bytes: so many more bytes may the agent write
//	4 open    host   stream id: 1, 2, 3 … in each epoch
//	5 data    both   bytes of a stream
//	6 window  both   4 bytes: so many more bytes of the stream may the receiver send
//	7 close   both   nothing more of the stream comes from the sender, and it takes nothing more
//	8 broken  agent  the agent could not go on with the epoch
//
// Epochs. A new host writes a 0x00, which ends whatever its predecessor left unfinished, and reset with a random nonce;
// it then drops everything until it reads ready with its nonce. An agent that reads reset closes every stream of the
// epoch before (its requests see a disconnect, its execs live on), writes a 0x00 and ready. The CRC of all other frames
// also covers, before the frame, the epoch's nonce and the frame's number in its direction (8 bytes, from 0): a frame
// of another epoch, a lost and a doubled one do not pass. A frame that does not pass, or breaks a rule, ends the epoch:
// the agent closes the streams, writes broken and drops everything until the next reset; the host closes the byte
// stream and says so to everyone.
//
// Credit. Of each stream at most [MuxWindow] bytes are unread at its receiver; a window frame follows the reading. The
// agent, moreover, writes no byte at all that was not granted (a 0x00 and ready excepted, once for each reset): frames count
// with their encoding and delimiter, and the host grants credit again for what it has read. A host that went away therefore leaves at most [MuxGrant] bytes on the way, less
// than a pipe holds, and nothing in the agent waits for it. A host needs no such credit, since the agent always reads.
//
// Closing. A stream is closed when both have sent close; each answers the other's. Bytes before a close are delivered
// first. At most [MaxMuxStreams] streams are open at once; open beyond that ends the epoch, so the host waits.
package wire
