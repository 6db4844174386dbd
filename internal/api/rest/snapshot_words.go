package rest

// snapshotWords are the descriptions of the properties of snapshots, as [words].
func snapshotWords() map[string]string {
	return map[string]string{
		"snapshot_id": "The snapshot's id", "Snapshot.name": "Its name, for people", "SnapshotRequest.name": "Its name, for people; at most 128 bytes",
		"digest": "SHA-256 of its tar archive: the same for the same files, names, modes and times", "Snapshot.bytes": "Bytes of its files", "Snapshot.files": "Its files and symbolic links",
		"archive_bytes": "Size of its tar archive", "stored_bytes": "What it holds on the server, which counts to its owner's artifact_mb once for each digest",
		"Snapshot.kind": "workspace: files; live: memory, files and processes; hibernated: the files of the hibernated session of the same id, which goes with it; hibernated_live: its memory, files and processes; template: files of the template of its name, which go with it", "Snapshot.session_id": "The session that it was made of", "Snapshot.scope_key": "The scope of that session",
		"Snapshot.created_at": "When it was made", "Snapshot.expires_at": "When it is removed; absent for never",
		"Snapshot.consistent": "Whether no program could change a file while the files were read", "Fork.consistent": "Whether no program could change a file while the files were read",
		"snapshot_digest": "Digest of the files that its workspace began with, or of the snapshot at /snapshot",
		"Fork.sessions":   "The copies", "Fork.shell": "Whether they have the directory, variables and functions of the session's shell",
		"Fork.omitted": "Variables and functions of the shell that have the value of a secret, and were left out", "ForkRequest.count": "How many copies, 1 to 32; 1 by default",
		"SnapshotRequest.live": "Also memory and processes; only on a runtime that can save those, and without secrets in the session", "ForkRequest.live": "Copies with memory and processes, too; as in create-snapshot",
		"HibernateRequest.force": "Whether to end what runs in the session; else it is refused while something does",
		"Session.hibernated":     "What it comes back with from hibernation, or came back with last; absent for one that has never hibernated, or has ended", "OpenedSession.hibernated": "What it comes back with from hibernation, or came back with last; absent for one that has never hibernated, or has ended",
		"Hibernation.live": "Whether that is its memory, processes and all files, with the variables of its contexts; else it is the files of its workspace and the state of its shell", "Hibernation.reason": "Why it is not live",
		"SessionSpec.snapshot": "Id of the snapshot that its workspace begins with", "SessionOpening.snapshot": "Id of the snapshot that its workspace begins with",
		"RunSpec.snapshot": "Id of the snapshot that the run reads at /snapshot; not in a session",
	}
}
