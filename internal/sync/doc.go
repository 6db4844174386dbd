// Package sync keeps the workspace of a session like a folder of an editor. It decides which files of the folder belong into
// the sandbox, finds what has changed since the last time, and packs it.
//
// The folder may belong to a hostile repository. Nothing outside of it is read: links that lead out are not followed, and no file
// of the repository can make the repository's version control data or binaries part of an upload. The rules of ignore files are
// those of Git.
package sync
