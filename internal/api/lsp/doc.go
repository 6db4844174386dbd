// Package lsp is the door for editors: it speaks the Language Server Protocol 3.18 on a pair of streams.
//
// An editor runs a file, or a test, of a folder in a sandbox: through a code lens, or through a command.
//
//	tldw.sandbox.run             runs a file, a test or a command; its answer has the run's id
//	tldw.sandbox.configure       reads and sets the settings of a folder's runs: image, runtime, time limit …
//	tldw.sandbox.openArtifacts   lists the artifacts of a run
//	belljar.sandbox.cancel       ends a run
//	belljar.sandbox.openRun      shows a run's page in the browser
//	belljar.sandbox.fetchArtifact  stores an artifact of a run on this machine
//	belljar.sandbox.input        types into an interactive run
//
// Each folder has a session, whose workspace is kept like the folder. The server follows runs itself: it forwards their output, and
// shows places of failures as diagnostics.
//
// The folder may be a hostile repository. Nothing in it chooses the server, the image, the command or their settings: these come from
// the editor's user alone, and are stored outside of the folder. See docs/ide.md.
package lsp
