package rest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// writeFile is sandbox_fs_write.
type writeFile struct {
	Path        string  `json:"path" minLength:"1" doc:"Path of the file: x, ./x and /workspace/x are the same. Parent folders are created"`
	Contents    *string `json:"contents,omitempty" doc:"The file as text"`
	ContentsB64 *[]byte `json:"contents_b64,omitempty" doc:"The file as base64, instead of contents"`
	Mode        string  `json:"mode,omitempty" doc:"Permission bits in octal; default: those of the file that is replaced, or 0644" example:"0755"`
	Overwrite   bool    `json:"overwrite,omitempty" doc:"Whether to replace an existing file, which is a conflict otherwise"`
}

// batchFile is one file of sandbox_fs_write_batch.
type batchFile struct {
	Path        string  `json:"path" minLength:"1" doc:"Path of the file"`
	Contents    *string `json:"contents,omitempty" doc:"The file as text"`
	ContentsB64 *[]byte `json:"contents_b64,omitempty" doc:"The file as base64, instead of contents"`
	Mode        string  `json:"mode,omitempty" doc:"Permission bits in octal; default: those of the file that is replaced, or 0644"`
}

type writeFiles struct {
	Files     []batchFile `json:"files" doc:"At most 1000 files, of 2 MiB in total"`
	Overwrite bool        `json:"overwrite,omitempty" doc:"Whether to replace existing files; otherwise one is a conflict, and nothing is written"`
}

// fileDone confirms an operation on a path.
type fileDone struct {
	OK   bool   `json:"ok" doc:"true"`
	Path string `json:"path" doc:"Absolute path in the sandbox"`
}

// fileWritten confirms a write.
type fileWritten struct {
	OK   bool   `json:"ok" doc:"true"`
	Path string `json:"path" doc:"Absolute path in the sandbox"`
	ETag string `json:"etag" doc:"The ETag of the file: the SHA-256 of its content in hexadecimal, in quotes. The header ETag has it, too"`
}

// writePath names a session and the file to replace.
type writePath struct {
	ID      string `path:"session_id" doc:"The session's id"`
	IfMatch string `header:"If-Match" doc:"ETags in quotes, separated by commas, or *: the file is replaced only if it has one of them, or with * if it exists; else 412 precondition_failed. overwrite is then not needed"`
}

type fileStored struct {
	OK    bool              `json:"ok" doc:"true"`
	Path  string            `json:"path" doc:"Absolute path in the sandbox"`
	Entry belljar.FileEntry `json:"entry" doc:"The file as it is now"`
}

type filesStored struct {
	OK      bool                `json:"ok" doc:"true"`
	Entries []belljar.FileEntry `json:"entries" doc:"The files as they are now"`
}

// readFile is sandbox_fs_read.
type readFile struct {
	Path     string `json:"path" minLength:"1" doc:"The file"`
	MaxBytes int64  `json:"max_bytes,omitempty" doc:"Most bytes to read; default 262144, at most 8388608"`
	Offset   int64  `json:"offset,omitempty" doc:"Bytes to skip"`
}

type fileText struct {
	Contents    *string `json:"contents,omitempty" doc:"The content, if it is valid UTF-8. A character that max_bytes would cut is left for the next read"`
	ContentsB64 []byte  `json:"contents_b64,omitempty" doc:"The content as base64, if it is not valid UTF-8"`
	Truncated   bool    `json:"truncated" doc:"Whether the file has more bytes"`
	SizeBytes   int64   `json:"size_bytes" doc:"Size of the whole file"`
	NextOffset  int64   `json:"next_offset,omitempty" doc:"Offset of the next read, if the file has more bytes"`
	ETag        string  `json:"etag,omitempty" doc:"The ETag of the file, if this is the whole: the SHA-256 of its content in hexadecimal, in quotes. The header ETag has it, too"`
}

type listFiles struct {
	Path      string `json:"path,omitempty" doc:"The folder; default: the workspace"`
	Recursive bool   `json:"recursive,omitempty" doc:"Whether to list its subfolders, too"`
	Limit     int    `json:"limit,omitempty" doc:"Most entries; default 1000, at most 10000"`
}

func (*listFiles) spare() {}

type statFile struct {
	Path string `json:"path" minLength:"1" doc:"The file or folder"`
}

type makeFolder struct {
	Path string `json:"path" minLength:"1" doc:"The folder. Parent folders are created; an existing folder is not an error"`
	Mode string `json:"mode,omitempty" doc:"Permission bits in octal; default 0755"`
}

type renameFile struct {
	From      string `json:"from" minLength:"1" doc:"The file or folder"`
	To        string `json:"to" minLength:"1" doc:"Its new path, not the folder to move it into. Parent folders are created"`
	Overwrite bool   `json:"overwrite,omitempty" doc:"Whether to replace an existing file"`
}

// deleteFile is sandbox_fs_delete.
type deleteFile struct {
	Path      string `json:"path" minLength:"1" doc:"The file or folder"`
	Recursive bool   `json:"recursive,omitempty" doc:"Whether to delete a folder with its contents"`
}

type fileDeleted struct {
	OK      bool   `json:"ok" doc:"true"`
	Deleted string `json:"deleted" doc:"Absolute path of the deleted file or folder"`
}

// files declares the file tools of docs/compatibility.md#tools, and further file operations.
func (d *Door) files() {
	op := func(id, method, name, summary, about string) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: method, Path: api.Prefix + "/sessions/{session_id}/fs/" + name, Tags: []string{"files"},
			Summary: summary, Description: about,
		}
	}
	handle(d, op("write-file", "POST", "write", "Write a file",
		"Writes the whole file or, after an error, nothing. With If-Match, the server compares the file and replaces it in one step, so that no other write is lost. "+
			"For large files use PUT fs/raw."),
		func(c *call, p *writePath, body *writeFile) (fileWritten, error) {
			w, err := body.write()
			if err != nil {
				return fileWritten{}, err
			}
			w.IfMatch = p.IfMatch
			entry, err := c.Files().Write(c, p.ID, w)
			if err == nil {
				c.SetHeader("ETag", entry.ETag)
			}
			return fileWritten{true, api.InWorkspace(entry.Path), entry.ETag}, err
		})
	handle(d, op("write-files", "POST", "batch", "Write many small files",
		"Writes all files or, after an error, none."),
		func(c *call, p *sessionPath, body *writeFiles) (filesStored, error) {
			list, err := body.list()
			if err != nil {
				return filesStored{}, err
			}
			entries, err := c.Files().WriteAll(c, p.ID, list)
			return filesStored{true, filled(entries)}, err
		})
	handle(d, op("read-file", "POST", "read", "Read a file, or a part of it",
		"Returns text if the content is UTF-8. For the raw bytes use GET fs/raw."),
		func(c *call, p *sessionPath, body *readFile) (fileText, error) {
			if err := c.reserve(d.opts.Bodies, api.Escaped*max(body.MaxBytes, 256<<10)); err != nil { // it waits for a session as long as that takes
				return fileText{}, err
			}
			return readText(c, p.ID, *body)
		})
	handle(d, op("list-files", "POST", "list", "List files",
		"Sorted by path, which is relative to the workspace. Links are listed and not followed. For a file the list is the file itself."),
		func(c *call, p *sessionPath, body *listFiles) (belljar.FileList, error) {
			ready := c.reserves(d.opts.Bodies, int64(max(body.Limit, 1000))*api.EntryBytes)
			list, err := c.Files().List(c, p.ID, belljar.FileQuery{Path: body.Path, Recursive: body.Recursive, Limit: body.Limit, Ready: ready})
			list.Entries = filled(list.Entries)
			return list, err
		})
	handle(d, op("stat-file", "POST", "stat", "Describe a file, folder or link", "Links are not followed."),
		func(c *call, p *sessionPath, body *statFile) (belljar.FileEntry, error) {
			return c.Files().Stat(c, p.ID, body.Path)
		})
	handle(d, op("make-folder", "POST", "mkdir", "Make a folder", ""),
		func(c *call, p *sessionPath, body *makeFolder) (fileDone, error) {
			mode, bad := api.ParseMode(body.Mode)
			if bad != nil {
				return fileDone{}, bad
			}
			err := c.Files().Mkdir(c, p.ID, body.Path, mode)
			return fileDone{true, api.InWorkspace(body.Path)}, err
		})
	handle(d, op("rename-file", "POST", "rename", "Move a file or folder", ""),
		func(c *call, p *sessionPath, body *renameFile) (fileDone, error) {
			err := c.Files().Rename(c, p.ID, body.From, body.To, body.Overwrite)
			return fileDone{true, api.InWorkspace(body.To)}, err
		})
	handle(d, op("delete-file", "POST", "delete", "Delete a file or folder",
		"Links are deleted, not followed. The workspace itself is refused."),
		func(c *call, p *sessionPath, body *deleteFile) (fileDeleted, error) {
			err := c.Files().Delete(c, p.ID, body.Path, body.Recursive)
			return fileDeleted{true, api.InWorkspace(body.Path)}, err
		})
	handle(d, op("search-files", "POST", "search", "Find files by name, by content, or both",
		"Searches for at most 5 seconds. A name without a slash matches at any depth; content is text or an RE2 expression, "+
			"and matches once per line. Binary files and links are skipped."),
		func(c *call, p *sessionPath, body *belljar.FileSearch) (belljar.FileMatches, error) {
			body.Ready = c.reserves(d.opts.Bodies, int64(max(body.MaxResults, 100))*api.MatchBytes)
			found, err := c.Files().Search(c, p.ID, *body)
			found.Matches = filled(found.Matches)
			return found, err
		})
	handle(d, op("get-space", "GET", "space", "Report the space used in the workspace", ""),
		func(c *call, p *sessionPath, _ *none) (belljar.Space, error) { return c.Files().Space(c, p.ID) })
	addDownload(d, "GET "+api.Prefix+"/sessions/{session_id}/fs/raw", d.getFile)
	d.guarded("PUT "+api.Prefix+"/sessions/{session_id}/fs/raw", d.putFile)
	addDownload(d, "GET "+api.Prefix+"/sessions/{session_id}/fs/archive", d.getArchive)
}

func (f *writeFile) write() (belljar.FileWrite, error) {
	return oneFile("", f.Path, f.Contents, f.ContentsB64, f.Mode, f.Overwrite)
}

func (b *writeFiles) list() ([]belljar.FileWrite, error) {
	list := make([]belljar.FileWrite, 0, len(b.Files))
	for i, f := range b.Files {
		w, err := oneFile(fmt.Sprintf("files[%d].", i), f.Path, f.Contents, f.ContentsB64, f.Mode, b.Overwrite)
		if err != nil {
			return nil, err
		}
		list = append(list, w)
	}
	return list, nil
}

// oneFile returns a file of a request. in is a prefix for field names in errors.
func oneFile(in, name string, text *string, raw *[]byte, mode string, overwrite bool) (belljar.FileWrite, error) {
	w := belljar.FileWrite{Path: name, Overwrite: overwrite}
	bits, err := api.ParseMode(mode)
	switch {
	case err != nil:
		var e *belljar.Error
		if errors.As(err, &e) {
			e.Details["field"] = in + "mode"
		}
		return w, err
	case text != nil && raw != nil:
		return w, api.Refuse(in+"contents", "%scontents and %scontents_b64 are both given", in, in)
	case text != nil:
		w.Content, w.Size = bytes.NewReader([]byte(*text)), int64(len(*text))
	case raw != nil:
		w.Content, w.Size = bytes.NewReader(*raw), int64(len(*raw))
	default:
		return w, api.NoContents(in)
	}
	w.Mode = bits
	return w, nil
}

// readText reads a file for a JSON response.
func readText(c *call, id string, q readFile) (fileText, error) {
	part, err := api.ReadPart(c, c.Files(), id, q.Path, q.Offset, q.MaxBytes)
	var e *belljar.Error
	if errors.As(err, &e) && e.Details["field"] == "max_bytes" {
		e.Hint = "read large files with GET fs/raw"
	}
	if err != nil {
		return fileText{}, err
	}
	if part.ETag != "" {
		c.SetHeader("ETag", part.ETag)
	}
	return fileText{Contents: part.Text, ContentsB64: part.Raw, Truncated: part.Truncated(), SizeBytes: part.Size, NextOffset: part.Next, ETag: part.ETag}, nil
}
