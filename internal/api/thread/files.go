package thread

import (
	"cmp"
	"io"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// download responds with a file's bytes.
func (c *call) download() {
	var in struct {
		SessionID string `json:"session_id,omitempty"`
		Filename  string `json:"filename,omitempty"`
	}
	if !c.decode(&in) {
		return
	}
	if in.SessionID == "" || in.Filename == "" {
		api.WriteJSON(c.w, http.StatusBadRequest, fault{"error": "session_id and filename required"})
		return
	}
	clean, ok := cleanName(in.Filename)
	if !ok {
		api.WriteJSON(c.w, http.StatusBadRequest, fault{"error": "Invalid filename"})
		return
	}
	begun := c.door.opts.Now()
	entry, content, err := c.service.Files().Read(c.r.Context(), in.SessionID, clean, 0, 0)
	if err != nil {
		c.downloadFailed(in.SessionID, in.Filename, err)
		return
	}
	defer content.Close()
	h := c.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", attachment(path.Base(clean)))
	h.Set("Content-Length", strconv.FormatInt(entry.Size, 10))
	c.w.WriteHeader(http.StatusOK)
	// The file may change while it is sent. A longer file is cut off, and after a shorter one the connection is closed.
	n, err := io.Copy(c.w, io.LimitReader(content, entry.Size))
	if err != nil || n < entry.Size {
		panic(http.ErrAbortHandler)
	}
	c.log("file_downloaded", line{session: in.SessionID, bytes: n, took: c.door.opts.Now().Sub(begun)})
}

// attachment returns the Content-Disposition of a file. The API quotes the name; mime omits the quotes around a simple name.
func attachment(name string) string {
	value := mime.FormatMediaType("attachment", map[string]string{"filename": name})
	if before, simple := strings.CutSuffix(value, "="+name); simple {
		return before + `="` + name + `"`
	}
	return value
}

func (c *call) downloadFailed(session, name string, err error) {
	switch {
	case c.gone(err, session):
	case suspicious(name) && belljar.CodeOf(err) == belljar.CodeNotFound, belljar.CodeOf(err) == belljar.CodePathEscapes:
		api.WriteJSON(c.w, http.StatusBadRequest, fault{"error": "Invalid filename"})
	case aboutFile(err) && (belljar.CodeOf(err) == belljar.CodeNotFound || belljar.CodeOf(err) == belljar.CodeConflict):
		api.WriteJSON(c.w, http.StatusNotFound, fault{
			"error": "File not found in workspace", "filename": name, "workspace_dir": belljar.WorkspaceDir,
		})
	default:
		c.fail(err)
	}
}

// list responds with the entries of the workspace's top folder, the newest first.
func (c *call) list() {
	session, ok := c.query("session_id")
	if !ok {
		return
	}
	release, err := c.reserve(session, maxListed*api.EntryBytes)
	if err != nil {
		if !c.gone(err, session) {
			c.fail(err)
		}
		return
	}
	defer release()
	found, err := c.service.Files().List(c.r.Context(), session, belljar.FileQuery{Limit: maxListed})
	if err != nil {
		if !c.gone(err, session) {
			c.fail(err)
		}
		return
	}
	slices.SortStableFunc(found.Entries, func(a, b belljar.FileEntry) int {
		return cmp.Or(cmp.Compare(b.MtimeNs, a.MtimeNs), cmp.Compare(b.MtimeUnix, a.MtimeUnix), strings.Compare(a.Path, b.Path))
	})
	total, files := int64(0), []map[string]any{}
	for _, e := range found.Entries {
		total += e.Size
		files = append(files, map[string]any{
			"name": e.Path, "size_bytes": e.Size, "modified": stamp(time.Unix(e.MtimeUnix, 0)), "permissions": permissions(e),
		})
	}
	answer := map[string]any{
		"session_id": session, "workspace_dir": belljar.WorkspaceDir, "files": files, "total_files": len(files), "total_size_bytes": total,
	}
	if found.Truncated {
		answer["truncated"] = true
	}
	api.WriteJSON(c.w, http.StatusOK, answer)
}

// permissions returns a mode in the format of ls.
func permissions(e belljar.FileEntry) string {
	kind := cmp.Or(map[string]byte{"file": '-', "dir": 'd', "symlink": 'l'}[e.Type], '?')
	mode, _ := strconv.ParseUint(e.Mode, 8, 32) // 0 if it is invalid
	out := []byte{kind}
	for i := 8; i >= 0; i-- {
		bit := byte('-')
		if mode&(1<<i) != 0 {
			bit = "rwxrwxrwx"[8-i]
		}
		if i%3 == 0 && mode&(1<<(9+i/3)) != 0 { // the sticky bit, setgid, setuid
			bit = map[byte]string{'x': "tss", '-': "TSS"}[bit][i/3]
		}
		out = append(out, bit)
	}
	return string(out)
}
