package mcp

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"math"
	"path"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
	"github.com/belljar/belljar/internal/char"
)

// The inputs and outputs of docs/compatibility.md#tools, with additions.
type (
	writeInput struct {
		inSandbox
		Path        string  `json:"path" about:"The file, relative to /workspace"`
		Contents    *string `json:"contents,omitempty" about:"The file as text"`
		ContentsB64 *string `json:"contents_b64,omitempty" about:"The file as base64, instead of contents"`
		Mode        string  `json:"mode,omitempty" about:"Permission bits in octal; default: those of the file that is replaced, or 0644"`
		Overwrite   bool    `json:"overwrite,omitempty" about:"Replace an existing file"`
	}
	writeOutput struct {
		OK   bool   `json:"ok" about:"true"`
		Path string `json:"path" about:"Absolute path in the sandbox"`
	}
	fileInput struct {
		inSandbox
		Path     string `json:"path" about:"The file, relative to /workspace"`
		MaxBytes uint64 `json:"max_bytes,omitempty" about:"Most bytes to read; default 262144, at most 8388608"`
		Offset   uint64 `json:"offset,omitempty" about:"Bytes to skip; next_offset of the previous answer"`
	}
	fileOutput struct {
		Contents    *string `json:"contents,omitempty" about:"The content, if it is text"`
		ContentsB64 []byte  `json:"contents_b64,omitempty" about:"The content as base64, if it is not text"`
		Truncated   bool    `json:"truncated" about:"Whether the file has more bytes"`
		SizeBytes   int64   `json:"size_bytes" about:"Size of the whole file"`
		NextOffset  int64   `json:"next_offset,omitempty" about:"Offset of the next read, if the file has more bytes"`
	}
	listInput struct {
		inSandbox
		Path      string `json:"path,omitempty" about:"The folder, relative to /workspace; default /workspace"`
		Recursive bool   `json:"recursive,omitempty" about:"List its subfolders, too"`
	}
	listOutput struct {
		Entries   []entry `json:"entries"`
		Truncated bool    `json:"truncated,omitempty" about:"Whether there are more entries"`
	}
	// entry is a [belljar.FileEntry].
	entry struct {
		Path      string `json:"path" about:"Relative to /workspace"`
		Type      string `json:"type" about:"file, dir, symlink or other"`
		Size      int64  `json:"size" about:"Bytes"`
		Mode      string `json:"mode" about:"Permission bits in octal"`
		MtimeUnix int64  `json:"mtime_unix" about:"Time of the last change"`
		Target    string `json:"target,omitempty" about:"Of a symlink"`
	}
	deleteInput struct {
		inSandbox
		Path      string `json:"path" about:"The file or folder, relative to /workspace"`
		Recursive bool   `json:"recursive,omitempty" about:"Delete a folder with its contents"`
	}
	deleteOutput struct {
		OK      bool   `json:"ok" about:"true"`
		Deleted string `json:"deleted" about:"Absolute path of the deleted file or folder"`
	}
)

func fileTools() []*tool {
	return []*tool{
		newTool[writeInput, writeOutput]("sandbox_fs_write", "Write a file", destroys(), writeFile,
			"Writes a file into the sandbox, whole or not at all. Folders above it are made. A file that is there is replaced only if overwrite is set."),
		newTool[fileInput, fileOutput]("sandbox_fs_read", "Read a file", reads(), readFile,
			"Reads a file of the sandbox as text, or as base64 if it is binary. A picture (png, jpeg, gif) comes back as a picture, too."),
		newTool[listInput, listOutput]("sandbox_fs_list", "List files", reads(), listFiles,
			"Lists a folder of the sandbox, or all that is below it."),
		newTool[deleteInput, deleteOutput]("sandbox_fs_delete", "Delete a file", destroys(), deleteFile,
			"Deletes a file of the sandbox, or a folder with all that is in it if recursive is set."),
	}
}

func writeFile(c *call, in writeInput) (*reply, error) {
	mode, err := api.ParseMode(in.Mode)
	if err != nil {
		return nil, err
	}
	var data []byte
	switch {
	case in.Contents != nil && in.ContentsB64 != nil && *in.Contents != "" && *in.ContentsB64 != "":
		return nil, api.Refuse("contents", "contents and contents_b64 are both given")
	case in.Contents == nil && in.ContentsB64 == nil: // a model may mean a change of the mode alone
		return nil, api.NoContents("")
	case in.Contents != nil && *in.Contents != "":
		data = []byte(*in.Contents)
	case in.ContentsB64 != nil:
		if data, err = base64.StdEncoding.DecodeString(strings.TrimSpace(*in.ContentsB64)); err != nil {
			return nil, api.Refuse("contents_b64", "contents_b64 is not base64")
		}
	}
	entry, err := c.service.Files().Write(c, in.SandboxID, belljar.FileWrite{
		Path: in.Path, Content: bytes.NewReader(data), Size: int64(len(data)), Mode: mode, Overwrite: in.Overwrite,
	})
	if err != nil {
		return nil, sandboxError(err)
	}
	at := api.InWorkspace(entry.Path)
	return &reply{fmt.Sprintf("wrote %d bytes to %s", len(data), char.Quoted(at)), nil, writeOutput{true, at}}, nil
}

func readFile(c *call, in fileInput) (*reply, error) {
	most := min(max(in.MaxBytes, 256<<10), maxResource)
	if in.Offset == 0 && isPicture(in.Path) {
		most += maxPicture
	}
	if _, err := c.reserve(int64(most)); err != nil {
		return nil, err
	}
	part, err := api.ReadPart(c, c.service.Files(), in.SandboxID, in.Path, int64(min(in.Offset, math.MaxInt64)), int64(min(in.MaxBytes, math.MaxInt64)))
	if err != nil {
		return nil, sandboxError(err)
	}
	o := fileOutput{Contents: part.Text, ContentsB64: part.Raw, Truncated: part.Truncated(), SizeBytes: part.Size, NextOffset: part.Next}
	text := fmt.Sprintf("%d bytes that are not text; contents_b64 has them as base64", len(part.Raw))
	if part.Text != nil {
		text = *part.Text
	}
	var more []sdk.Content
	if in.Offset == 0 && isPicture(in.Path) {
		picture, about := c.pictureOf(in.SandboxID, in.Path, part)
		if about != "" {
			text = about
		}
		if picture != nil {
			more = append(more, picture)
		}
	}
	switch {
	case o.Truncated:
		text += fmt.Sprintf("\nnote: the file is truncated here: it has %d bytes; read on with offset %d", part.Size, part.Next)
	case in.Offset >= uint64(part.Size): // models' hosts refuse a text that is empty
		text = fmt.Sprintf("note: nothing is there: the file has %d bytes", part.Size)
	}
	return &reply{text, more, o}, nil
}

// pictureOf returns a file of a sandbox as [call.picture] does. part is the beginning of the file.
func (c *call) pictureOf(sandbox, name string, part api.FilePart) (sdk.Content, string) {
	if part.Size > maxPicture {
		return nil, fmt.Sprintf("%s has %d bytes, too many to be shown as a picture (at most %d)", char.Quoted(path.Base(name)), part.Size, maxPicture)
	}
	if part.Truncated() {
		var err error
		if part, err = api.ReadPart(c, c.service.Files(), sandbox, name, 0, maxPicture); err != nil {
			return nil, ""
		}
	}
	data := part.Raw
	if part.Text != nil {
		data = []byte(*part.Text)
	}
	return c.picture(name, data)
}

func listFiles(c *call, in listInput) (*reply, error) {
	list, err := c.service.Files().List(c, in.SandboxID, belljar.FileQuery{Path: in.Path, Recursive: in.Recursive})
	if err != nil {
		return nil, sandboxError(err)
	}
	o := listOutput{Entries: []entry{}, Truncated: list.Truncated}
	var b strings.Builder
	for _, e := range list.Entries {
		name := char.Quoted(e.Path)
		if e.Type == "dir" {
			name += "/"
		}
		if e.Target != "" {
			name += " -> " + char.Quoted(e.Target)
		}
		line := fmt.Sprintf("%s %10d %s\n", e.Mode, e.Size, name)
		if b.Len()+len(line) > c.session.terms.MaxOutput {
			o.Truncated = true
			break
		}
		b.WriteString(line)
		o.Entries = append(o.Entries, entry{e.Path, e.Type, e.Size, e.Mode, e.MtimeUnix, e.Target})
	}
	if len(list.Entries) == 0 {
		fmt.Fprintf(&b, "%s is empty\n", char.Quoted(api.InWorkspace(cmp.Or(in.Path, "."))))
	}
	if o.Truncated {
		more := ""
		if list.Truncated {
			more = "more than "
		}
		fmt.Fprintf(&b, "note: there are %s%d, and %d are shown; list a folder of it, or look with find in sandbox_exec\n", more, len(list.Entries), len(o.Entries))
	}
	return &reply{b.String(), nil, o}, nil
}

func deleteFile(c *call, in deleteInput) (*reply, error) {
	if !in.Recursive { // a folder needs it, even one that is empty: the service would remove that
		at, err := c.service.Files().Stat(c, in.SandboxID, in.Path)
		if err == nil && at.Type == "dir" && at.Path != "." {
			return nil, &belljar.Error{
				Code: belljar.CodeConflict, Message: fmt.Sprintf("%.200q is a folder", in.Path), Details: map[string]any{"field": "recursive"},
				Hint: "set recursive to delete a folder with all that is in it",
			}
		}
	}
	if err := c.service.Files().Delete(c, in.SandboxID, in.Path, in.Recursive); err != nil {
		return nil, sandboxError(err)
	}
	at := api.InWorkspace(in.Path)
	return &reply{"deleted " + char.Quoted(at), nil, deleteOutput{true, at}}, nil
}
