package mcp

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"path"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/belljar/belljar"
)

// Inputs and outputs of docs/compatibility.md#tools, and what else there is to know.
type (
	writeInput struct {
		SandboxID   string  `json:"sandbox_id"`
		Path        string  `json:"path"`
		Contents    *string `json:"contents"`
		ContentsB64 *string `json:"contents_b64"`
		Mode        string  `json:"mode"`
		Overwrite   bool    `json:"overwrite"`
	}
	writeOutput struct {
		OK   bool   `json:"ok"`
		Path string `json:"path"`
	}
	fileInput struct {
		SandboxID string `json:"sandbox_id"`
		Path      string `json:"path"`
		MaxBytes  int64  `json:"max_bytes"`
		Offset    int64  `json:"offset"`
	}
	fileOutput struct {
		Contents    *string `json:"contents,omitempty"`
		ContentsB64 []byte  `json:"contents_b64,omitempty"`
		Truncated   bool    `json:"truncated"`
		SizeBytes   int64   `json:"size_bytes"`
		NextOffset  int64   `json:"next_offset,omitempty"`
	}
	listInput struct {
		SandboxID string `json:"sandbox_id"`
		Path      string `json:"path"`
		Recursive bool   `json:"recursive"`
	}
	listOutput struct {
		Entries   []belljar.FileEntry `json:"entries"`
		Truncated bool                `json:"truncated,omitempty"`
	}
	deleteInput struct {
		SandboxID string `json:"sandbox_id"`
		Path      string `json:"path"`
		Recursive bool   `json:"recursive"`
	}
	deleteOutput struct {
		OK      bool   `json:"ok"`
		Deleted string `json:"deleted"`
	}
)

func fileTools() []*tool {
	place := func(what string) schema { return aText(what + ", relative to /workspace") }
	return []*tool{
		{
			name: "sandbox_fs_write", title: "Write a file",
			about: "Writes a file into the sandbox, whole or not at all. Folders above it are made. A file that is there is replaced only if overwrite is set.",
			hints: destroys(true),
			input: takes(map[string]schema{
				"sandbox_id": sandboxID(), "path": place("The file"), "contents": aText("The file as text"), "contents_b64": aText("The file as base64, in place of contents"),
				"mode": aText("Permission bits in octal; 0644 if it is not given"), "overwrite": aFlag("Replace a file that is there"),
			}, "sandbox_id", "path"),
			output: gives(map[string]schema{"ok": aFlag("true"), "path": aText("Absolute path in the sandbox")}, "ok", "path"),
			do:     decoded(writeFile),
		},
		{
			name: "sandbox_fs_read", title: "Read a file",
			about: "Reads a file of the sandbox as text, or as base64 if it is binary. A picture (png, jpeg, gif, svg) comes back as a picture, too.",
			hints: reads(),
			input: takes(map[string]schema{
				"sandbox_id": sandboxID(), "path": place("The file"),
				"max_bytes": aWhole("How much of it; 262144 if it is not given, at most 8388608").atLeast(0),
				"offset":    aWhole("Bytes of it to skip; the next_offset of the answer before").atLeast(0),
			}, "sandbox_id", "path"),
			output: gives(map[string]schema{
				"contents": aText("What was read, if it is text"), "contents_b64": aText("What was read, if it is not"), "truncated": aFlag("Whether the file goes on"),
				"size_bytes": aWhole("Of the whole file"), "next_offset": aWhole("Where to read on, if it was truncated"),
			}, "truncated", "size_bytes"),
			do: decoded(readFile),
		},
		{
			name: "sandbox_fs_list", title: "List files",
			about: "Lists a folder of the sandbox, or all that is below it.",
			hints: reads(),
			input: takes(map[string]schema{"sandbox_id": sandboxID(), "path": place("The folder; /workspace if it is not given"), "recursive": aFlag("List everything below it")}, "sandbox_id"),
			output: gives(map[string]schema{
				"entries": aList(gives(map[string]schema{
					"path": aText("Relative to /workspace"), "type": aText("file, dir, symlink or other"), "size": aWhole("Bytes"), "mode": aText("Permission bits in octal"),
					"mtime_unix": aWhole("When it was changed"), "target": aText("Of a symlink"),
				}, "path", "type", "size", "mode", "mtime_unix")),
				"truncated": aFlag("Whether there are more"),
			}, "entries"),
			do: decoded(listFiles),
		},
		{
			name: "sandbox_fs_delete", title: "Delete a file",
			about:  "Deletes a file of the sandbox, or a folder with all that is in it if recursive is set.",
			hints:  destroys(true),
			input:  takes(map[string]schema{"sandbox_id": sandboxID(), "path": place("The file or folder"), "recursive": aFlag("Delete a folder with all that is in it")}, "sandbox_id", "path"),
			output: gives(map[string]schema{"ok": aFlag("true"), "deleted": aText("Absolute path of what was deleted")}, "ok", "deleted"),
			do:     decoded(deleteFile),
		},
	}
}

func writeFile(c *call, in writeInput) (*reply, error) {
	if err := c.mayUse(in.SandboxID, false); err != nil {
		return nil, err
	}
	mode, err := belljar.ParseMode(in.Mode)
	if err != nil {
		return nil, err
	}
	var data []byte
	switch {
	case in.Contents != nil && in.ContentsB64 != nil && *in.Contents != "" && *in.ContentsB64 != "":
		return nil, refuse("contents", "contents and contents_b64 are both given")
	case in.Contents != nil && *in.Contents != "":
		data = []byte(*in.Contents)
	case in.ContentsB64 != nil:
		if data, err = base64.StdEncoding.DecodeString(strings.TrimSpace(*in.ContentsB64)); err != nil {
			return nil, refuse("contents_b64", "contents_b64 is not base64")
		}
	}
	entry, err := c.Files().Write(c, in.SandboxID, belljar.FileWrite{
		Path: in.Path, Content: bytes.NewReader(data), Size: int64(len(data)), Mode: mode, Overwrite: in.Overwrite,
	})
	if err != nil {
		return nil, c.ended(err)
	}
	at := belljar.InWorkspace(entry.Path)
	return &reply{fmt.Sprintf("wrote %d bytes to %s", len(data), at), nil, writeOutput{true, at}}, nil
}

func readFile(c *call, in fileInput) (*reply, error) {
	if err := c.mayUse(in.SandboxID, false); err != nil {
		return nil, err
	}
	part, err := belljar.ReadPart(c, c.Files(), in.SandboxID, in.Path, in.Offset, in.MaxBytes)
	if err != nil {
		return nil, c.ended(err)
	}
	o := fileOutput{Contents: part.Text, ContentsB64: part.Raw, Truncated: part.Truncated(), SizeBytes: part.Size, NextOffset: part.Next}
	var text string
	switch {
	case part.Text != nil:
		text = *part.Text
	default:
		text = fmt.Sprintf("%d bytes that are not text; contents_b64 has them as base64", len(part.Raw))
	}
	var more []sdk.Content
	if in.Offset == 0 && pictureType(in.Path) != "" {
		picture, about := c.picture(in.SandboxID, in.Path, part)
		if about != "" {
			text = about
		}
		if picture != nil {
			more = append(more, picture)
		}
	}
	if o.Truncated {
		text += fmt.Sprintf("\nnote: the file is truncated here: it has %d bytes; read on with offset %d", part.Size, part.Next)
	}
	return &reply{text, more, o}, nil
}

// picture is a file of a sandbox as a picture, with what is said of it; nil if it is none that can be shown.
func (c *call) picture(sandbox, name string, part belljar.FilePart) (sdk.Content, string) {
	if part.Size > maxPicture {
		return nil, fmt.Sprintf("%s has %d bytes, too many to be shown as a picture (at most %d)", path.Base(name), part.Size, maxPicture)
	}
	var data []byte
	switch {
	case part.Truncated():
		whole, err := belljar.ReadPart(c, c.Files(), sandbox, name, 0, maxPicture)
		if err != nil {
			return nil, ""
		}
		part = whole
		fallthrough
	default:
		data = part.Raw
		if part.Text != nil {
			data = []byte(*part.Text)
		}
	}
	return c.show(name, data)
}

func listFiles(c *call, in listInput) (*reply, error) {
	if err := c.mayUse(in.SandboxID, false); err != nil {
		return nil, err
	}
	list, err := c.Files().List(c, in.SandboxID, belljar.FileQuery{Path: in.Path, Recursive: in.Recursive})
	if err != nil {
		return nil, c.ended(err)
	}
	o := listOutput{Entries: list.Entries, Truncated: list.Truncated}
	if o.Entries == nil {
		o.Entries = []belljar.FileEntry{}
	}
	var b strings.Builder
	for _, e := range o.Entries {
		name := e.Path
		if e.Type == "dir" {
			name += "/"
		}
		if e.Target != "" {
			name += " -> " + e.Target
		}
		fmt.Fprintf(&b, "%s %10d %s\n", e.Mode, e.Size, name)
	}
	if len(o.Entries) == 0 {
		fmt.Fprintf(&b, "%s is empty\n", belljar.InWorkspace(cmp.Or(in.Path, ".")))
	}
	if o.Truncated {
		fmt.Fprintf(&b, "note: there are more than these %d; list a folder of it, or look with find in sandbox_exec\n", len(o.Entries))
	}
	return &reply{b.String(), nil, o}, nil
}

func deleteFile(c *call, in deleteInput) (*reply, error) {
	if err := c.mayUse(in.SandboxID, false); err != nil {
		return nil, err
	}
	if err := c.Files().Delete(c, in.SandboxID, in.Path, in.Recursive); err != nil {
		return nil, c.ended(err)
	}
	at := belljar.InWorkspace(in.Path)
	return &reply{"deleted " + at, nil, deleteOutput{true, at}}, nil
}
