// Package wire is the protocol between a host and the agent inside a sandbox: its messages, its frames and its multiplexer. This comment is the
// specification.
//
// # Streams
//
// The host dials, the agent accepts. Every request has its own stream, so that requests do not block each other. A stream ends when either side
// closes it. A stream is a connection (a Unix socket, vsock) or, if a runtime has only one byte stream, a stream of the multiplexer. The agent
// serves both with the same code.
//
// # Frames
//
// A frame is 1 byte [Kind], 4 bytes length of the payload (big endian), payload. Hello, Request, Control and Reply are JSON of at most [MaxJSON]
// bytes; unknown JSON fields are ignored, which is how messages grow. Data and Output carry raw bytes, at most [MaxData] of them. An EOF frame is
// empty. A Hello or a Reply has at most [MaxValues] values. A longer frame, an unknown kind or a misplaced frame is a protocol error: the
// receiver replies [CodeProtocol] if it still can, and closes the stream. Other streams are not affected.
//
// # Opening
//
// The host writes [Hello] and [Request] in one write, without waiting. The agent reads both and then writes its own Hello, followed by the reply:
// a request costs one round trip. The agent refuses an unknown version with [CodeVersion]; the host accepts [Version] and Version-1.
// [Hello.BootID] changes when an agent restarts, which loses all its execs.
//
// A failure is one Reply with Error, at any point where the agent may write; the agent closes the stream after it. A host whose write fails
// therefore keeps reading, to get the reason.
//
// # Execs
//
// OpExec starts a command under an id that the host chooses. The same id again starts nothing and attaches instead, so a host that lost the
// stream before the reply repeats the request. OpAttach attaches to a known exec at position From. Both continue in the same way:
//
//	agent  Reply{Started}, then Output frames, mixed with Reply{StdinLimit}, at last Reply{Exit}
//	host   Data, EOF (stdin) and Control frames, at any time after its Request
//
// Positions. Kept output, stdout and stderr together in the order in which the agent read them, is numbered by bytes from 0. An Output frame
// carries the position of its first byte; frames follow each other without a gap, beginning at [Started.From]. It is the requested position, or a
// later one if the bytes before it are gone. Dropped output (over [Exec.OutputLimit]) has no position.
//
// Acks. The agent keeps output in a spool until a Control with Ack reports that the host has stored every byte before a position. The spool holds
// at most [SpoolSize] per exec: when it is full, the agent stops reading and the program blocks on its pipe. For a terminal with an attached
// host, the limit is [TerminalSpool]. A disconnect loses nothing: the host attaches again where it stopped. An ack beyond the sent output is a
// protocol error; an older ack is ignored. At most one host is attached to an exec: a newer one replaces the older, whose stream is closed.
//
// Stdin. Data on the stream is stdin, EOF (or a Control with CloseStdin) its end. Its bytes are numbered too: the host may send bytes before a
// limit, which starts at [Started.StdinLimit] and rises with each Reply{StdinLimit} as the program reads. At most [StdinWindow] bytes wait in the
// agent, so it can always read the Control frames after them. Data beyond the limit is a protocol error. A host that attaches continues at
// [Started.Stdin]. After the program has closed its stdin, the agent drops further bytes, and the limit rises as before. A disconnect does not
// end stdin. For a terminal, EOF is its end-of-file character.
//
// Control frames also resize a terminal, send signals, end the exec as OpSignal does, and forget it as OpForget does. Forget ends the stream;
// only agents with "forget" among their [Hello.Features] support it.
//
// Exit. An exec is over when its first process has been reaped. The agent drains its pipes for at most 100 ms more, since a child may hold them
// open, and sends Reply{Exit} after all output. It then reads until the host closes the stream, for the last ack. The outcome and the
// unacknowledged output stay until OpForget, also for later attaches.
//
// Shells. An exec with [Exec.Shell] is a command for a persistent shell (bash, or else sh), which keeps its directory, variables, functions and
// background jobs. It has an id, a spool, stdin, a timeout and an outcome like any other exec, and is over when the shell is ready for the next
// command. The commands of one shell run one at a time, in the order of their requests; [Exec.TimeoutMS] counts from a command's own start. The
// shell reports the status over a socket, apart from all output, and the agent accepts only the shell's own messages there. [Exit.Cwd] is read
// from /proc. Without [ShellRun.Separate], stdout and stderr are a terminal of the command's own, and all output is Stdout; output to /dev/tty,
// the shell's own terminal, is Stdout as well. Reading /dev/tty returns end of file. A timeout and a Kill with End interrupt the foreground job,
// send TERM to the command's processes after half the grace, and KILL after the rest; jobs of earlier commands continue. A shell that is not
// ready after that is killed, and the next command gets a new one in the same directory. Output of jobs that outlive their command is dropped. An
// agent without [FeatureShell] among its [Hello.Features] replies [CodeInvalid].
//
// Kernels. With [ShellRun.Kernel] the shell is an interpreter of a language, whose variables stay from one command to the next. Requests and
// reports are lines on a socket that its children do not have; reports of other processes are ignored. Its results are lines of JSON on the
// stream [Result], in order with its earlier output: at most [MaxResult] bytes a line and [MaxResults] a command. A kernel that closes its socket
// is killed. A timeout and a Kill with End interrupt it like a shell.
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
//	replace   as write, with IfMatch   Reply{File}
//	readdir   File (Limit)             Reply{Files, More}…, the last without More, with Cut if it stopped at a bound
//	walk      File (Limit)             as readdir, the whole tree below, parents first, without the path itself
//	mkdir     File (Mode, Parents)     Reply{Done}
//	rename    File (Path, To)          Reply{Done}
//	delete    File (Recursive)         Reply{Done}
//	tar_in    File, then Data…, EOF    Reply{Done, Bytes}: bytes of file contents unpacked below Path
//	tar_out   File (Path, Paths)       Data…, EOF
//	merge     File, then Data…, EOF    Reply{Done, Bytes}, as tar_in, but all or nothing
//	merge_new File, then Data…, EOF    as merge, but existing files are not replaced
//	scan      File (Path, Paths,       Data…, EOF: a tar of the text files among Paths
//	          Limit)
//	space     File                     Reply{Space}
//	secret    File, then Data…, EOF    Reply{Done}: Path is the name of a new file in the folder of secrets
//	trust     File, then Data…, EOF    Reply{Done}: the data is the certificate of an authority, as PEM
//	relay     Relay                    Reply{Done}, then Reply{Ask}…, until either side closes
//	accept    Conn                     Reply{Done}, then Data…, EOF in both directions; not_found if it does not wait
//	connect   Port                     the same; not_found if no program listens there
//	shells                             Reply{Done, Shells}, without the shell of no name
//	end_shell ID                       Reply{Done}, when its processes are gone; also for an unknown name
//	programs                           Reply{Done, Programs}: how many processes there are, without the idle shell of no name
//	ports                              Reply{Done, Listeners, Cut}: the ports that connect reaches
//
// A stream of Data that ends without its EOF frame is incomplete. The agent then discards an incomplete write; the host reports the failure.
// Paths in replies are relative to the workspace, with "." for itself.
//
// Merge. The agent unpacks into its own hidden folder, and then moves the contents into place: new files, and files that replace files. A file in
// place of a folder, or the reverse, is [CodeExists], a symbolic link [CodeInvalid]. A merge that fails at any point, or whose stream ends
// without its EOF frame, leaves the workspace unchanged. An agent without "merge" among its [Hello.Features] replies [CodeProtocol].
//
// Replace. The agent compares the file with IfMatch, and replaces it, in one step: no other write or replace comes between the two. A file that
// differs, or is missing, is [CodeChanged]. An agent without "replace" among its [Hello.Features] replies [CodeProtocol].
//
// Secrets. The file is in the folder of secrets, /run/secrets, whose files only the user of the request can read. No other request reaches that
// folder. An agent without "secret" among its [Hello.Features] replies [CodeProtocol].
//
// Trust. The agent writes the authorities that the image trusts, and that one, to [TrustBundle] and [TrustStore] in [TrustDir], next to the
// folder of secrets. It does so once. An agent without "trust" among its [Hello.Features] replies [CodeProtocol].
//
// Save and load. See [OpSave]. An agent without "save" among its [Hello.Features] replies [CodeProtocol]. An agent without "programs" replies the
// same to OpPrograms.
//
// # Relay
//
// Out. A sandbox has only a loopback. While a host has a relay open, the agent answers DNS on 127.0.0.53:53, listens at an address of
// 127.64.0.0/10 for each name that the host has allowed (on the ports of [Relay]), and serves HTTP CONNECT and SOCKS5 on 127.0.0.53:1080. The
// agent has no rules. It sends an [Ask] for each name, and again when the last answer is 5 seconds old, and for each connection. The host replies
// with Control{Answer}, in any order. The host trusts nothing in an Ask.
//
// A name that is not allowed does not exist for programs. An allowed one gets the next address and keeps it until the agent ends. AAAA queries
// for it have an empty reply, and so have queries for other records, which are not sent to the host.
//
// A connection waits until the host accepts it: the host makes its own connection first, and then opens a stream with OpAccept and the Ask's ID.
// Otherwise it answers: without OK the connection is not allowed, with OK it could not be made. The agent resets the program's connection; the
// front sends the reason.
//
// At most one relay is open. A newer one replaces the older, whose stream is closed. When a relay ends, so do its waiting and carried
// connections, and names fail temporarily. The agent listens from its first relay on, so that before it programs can use all ports. If a program
// has taken one of its addresses on 127.0.0.53, the reply to OpRelay is [CodeExists].
//
// In. OpConnect connects to a program that listens on 127.0.0.1, or else on ::1. The agent itself listens on neither.
//
// On a stream of accept and connect, EOF ends one direction, as FIN does. A stream that ends without an EOF from a side is a reset by that side.
// The agent holds at most one frame in each direction, and reads no more until it has passed that on.
//
// An agent without [FeatureRelay] among its [Hello.Features] replies [CodeUnsupported] or, to accept, [CodeProtocol].
//
// # Warm
//
// OpPark starts the interpreter of an Exec, which then waits for a command: the reply is Done when it waits. A later exec with [Exec.Warm] gets
// it if the settings that an interpreter cannot change after its start are equal: argv, env, cwd, user, modules, and for Node the rlimits.
// [Started.Warm] reports that. Without KillAll, the end of such an exec starts the next interpreter. An agent holds at most two. An exec whose
// interpreter does not answer starts cold.
//
// # Lease
//
// An agent with a lease ends itself, and with it the sandbox, when no host has sent a frame for that long. A host that needs the sandbox sends a
// request or a frame within every lease.
//
// # Multiplexer
//
// The multiplexer is for a byte stream that one host may leave and another take over, with bytes of the old host still in transit in both
// directions, cut anywhere (an attached container's stdio, a serial line). Hence:
//
// Frames. A mux frame is 1 byte type, 4 bytes stream id, body (at most [MaxMuxBody]), 4 bytes CRC32C; all of it COBS-encoded, so that it holds no
// 0x00, and ended by a 0x00. A receiver finds the next frame after the next 0x00 whatever came before; empty frames are ignored.
//
//	1 reset   host   16 bytes nonce, 4 bytes grant. Begins an epoch. CRC over the frame alone
//	2 ready   agent  16 bytes nonce. The first frame of the epoch from the agent
//	3 grant   host   4 bytes: how many more bytes the agent may write
//	4 open    host   stream id: 1, 2, 3 … in each epoch
//	5 data    both   bytes of a stream
//	6 window  both   4 bytes: how many more bytes of the stream the receiver may send
//	7 close   both   the sender writes no more bytes of the stream, and reads no more
//	8 broken  agent  the agent could not continue with the epoch
//
// Epochs. A new host writes a 0x00, which ends an unfinished frame of its predecessor, and reset with a random nonce. It then discards everything
// until it reads ready with its nonce. An agent that reads reset closes every stream of the previous epoch (its requests see a disconnect, its
// execs continue), and writes a 0x00 and ready. The CRC of all other frames also covers, before the frame, the epoch's nonce and the frame's
// number in its direction (8 bytes, from 0), so a frame of another epoch, a lost one and a duplicate are invalid. An invalid frame, or one that
// violates a rule, ends the epoch: the agent closes the streams, writes broken and discards everything until the next reset; the host closes the
// byte stream, and every connection fails.
//
// Credit. At most [MuxWindow] bytes of each stream are unread at its receiver; a window frame follows the reading. Moreover, the agent writes
// only bytes that the host has granted (except a 0x00 and ready, once for each reset): frames count with their encoding and delimiter, and the
// host renews the credit for what it has read. A host that has gone therefore leaves at most [MuxGrant] bytes in transit, less than a pipe holds,
// and nothing in the agent blocks on it. A host needs no such credit, since the agent always reads.
//
// Closing. A stream is closed when both have sent close; each answers the other's. Bytes before a close are delivered first. At most
// [MaxMuxStreams] streams are open at once; open beyond that ends the epoch, so the host waits. It keeps the last [MuxReserved] for its own
// short requests ([Urgent]): connections of a sandbox must not make its agent look dead.
package wire
