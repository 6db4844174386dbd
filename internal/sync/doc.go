// Package sync synchronizes the workspace of a session with a folder of an editor. It selects the files of the folder for the
// sandbox, finds those that changed since the last time, and packs them.
//
// The folder may belong to a hostile repository. The package reads nothing outside of it: it does not follow links that lead out,
// and no file of the repository can add version control data or binaries to an upload. Ignore files have Git's rules.
package sync
