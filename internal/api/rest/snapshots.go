package rest

import (
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

type snapshotPath struct {
	ID string `path:"snapshot_id" doc:"The snapshot's id"`
}

type snapshotQuery struct{ Page }

// SnapshotRequest is a SnapshotSpec that may be absent.
type SnapshotRequest struct{ belljar.SnapshotSpec }

func (SnapshotRequest) spare() {}

// ForkRequest is a ForkSpec that may be absent.
type ForkRequest struct{ belljar.ForkSpec }

func (ForkRequest) spare() {}

const snapshotsPath = api.Prefix + "/snapshots"

// addSnapshots adds the operations about snapshots.
func addSnapshots(d *Door) {
	handle(d, huma.Operation{
		OperationID: "create-snapshot", Method: http.MethodPost, Path: api.Prefix + "/sessions/{session_id}/snapshots", Tags: []string{"snapshots"},
		Summary: "Save the files of a session's workspace",
		Description: "Links, times and user attributes included; without /workspace/.tmp, sockets, FIFOs, devices, processes and secret files. Programs stand still " +
			"meanwhile, for 5 seconds at most, where the runtime can do that; consistent in the answer reports whether none could change a file. With live, memory and " +
			"processes are saved, too.",
	}, func(c *call, p *sessionPath, body *SnapshotRequest) (belljar.Snapshot, error) {
		return c.Snapshots().Make(c, p.ID, body.SnapshotSpec)
	})
	handle(d, huma.Operation{
		OperationID: "fork-session", Method: http.MethodPost, Path: api.Prefix + "/sessions/{session_id}/fork", Tags: []string{"snapshots"},
		Summary: "Make copies of a session",
		Description: "Sessions with the files of this one, its limits and network, and the directory, variables and functions of its shell: all of them or none. They have no " +
			"secrets, terminals or scope and, unless they are live, no processes.",
	}, func(c *call, p *sessionPath, body *ForkRequest) (belljar.Fork, error) {
		return c.Snapshots().Fork(c, p.ID, body.ForkSpec)
	})
	handle(d, huma.Operation{
		OperationID: "list-snapshots", Method: http.MethodGet, Path: snapshotsPath, Tags: []string{"snapshots"},
		Summary: "List snapshots", Description: "The caller's own, newest first.",
	}, func(c *call, p *snapshotQuery, _ *none) (belljar.SnapshotPage, error) {
		page, err := c.Snapshots().List(c, belljar.SnapshotQuery{Limit: p.Limit, Offset: p.Offset})
		page.Items = filled(page.Items)
		return page, err
	})
	handle(d, huma.Operation{
		OperationID: "get-snapshot", Method: http.MethodGet, Path: snapshotsPath + "/{snapshot_id}", Tags: []string{"snapshots"}, Summary: "Get a snapshot",
	}, func(c *call, p *snapshotPath, _ *none) (belljar.Snapshot, error) {
		return c.Snapshots().Get(c, p.ID)
	})
	command(d, huma.Operation{
		OperationID: "remove-snapshot", Method: http.MethodDelete, Path: snapshotsPath + "/{snapshot_id}", Tags: []string{"snapshots"},
		Summary: "Remove a snapshot", Description: "Sessions and runs that were made of it keep their files.",
	}, func(c *call, p *snapshotPath) error {
		return c.Snapshots().Remove(c, p.ID)
	})
	addDownload(d, "GET "+snapshotsPath+"/{snapshot_id}/archive", exportSnapshot(d))
	d.guarded("POST "+snapshotsPath+"/import", importSnapshot(d))
}

// exportSnapshot sends a snapshot as a tar archive.
func exportSnapshot(d *Door) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := api.Query(r, "token"); err != nil {
			api.Fail(w, r, err)
			return
		}
		all, id := d.as(r.Context()).Snapshots(), r.PathValue("snapshot_id")
		out := &lazyWriter{w: w, begin: func() { setDownloadHeaders(w.Header(), "application/x-tar", "snapshot-"+id+".tar") }}
		out.head = r.Method == http.MethodHead
		err := all.Export(r.Context(), id, out)
		switch {
		case out.head && out.begun:
		case err != nil && out.begun:
			api.Abort(r.Context(), err)
		case err != nil:
			api.Fail(w, r, err)
		}
	}
}

// importSnapshot makes a snapshot of the body.
func importSnapshot(d *Door) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := checkImport(r); err != nil {
			api.Fail(w, r, err)
			return
		}
		api.LimitBody(w, r, d.opts.MaxImage)
		body := &source{in: r.Body, limit: d.opts.MaxImage}
		defer body.close()
		made, err := d.as(r.Context()).Snapshots().Import(r.Context(), belljar.SnapshotSpec{Name: r.URL.Query().Get("name")}, body)
		if err != nil {
			api.Fail(w, r, body.cause(err))
			return
		}
		api.WriteJSON(w, http.StatusOK, made)
	}
}

// declareSnapshots adds the operations with binary bodies to the document.
func declareSnapshots(doc *huma.OpenAPI) {
	schemas := doc.Components.Schemas
	snapshot := schemas.Schema(reflect.TypeFor[belljar.Snapshot](), true, "Snapshot")
	raw := &huma.Schema{Type: "string", Format: "binary"}
	archives := map[string]*huma.MediaType{}
	for _, media := range archiveTypes() {
		archives[media] = &huma.MediaType{Schema: raw}
	}
	doc.AddOperation(&huma.Operation{
		OperationID: "export-snapshot", Method: http.MethodGet, Path: snapshotsPath + "/{snapshot_id}/archive", Tags: []string{"snapshots"}, Security: byTicket(),
		Summary:     "Download a snapshot",
		Description: "A tar archive, whose SHA-256 is the snapshot's digest. HEAD works, too.",
		Parameters:  []*huma.Param{inPath("snapshot_id", "The snapshot's id"), downloadToken()},
		Responses:   map[string]*huma.Response{"200": response("The archive", "application/x-tar", raw)},
	})
	doc.AddOperation(&huma.Operation{
		OperationID: "import-snapshot", Method: http.MethodPost, Path: snapshotsPath + "/import", Tags: []string{"snapshots"},
		Summary: "Make a snapshot of an archive",
		Description: "The body is a tar archive, optionally compressed with gzip or zstd. Files, folders, symbolic links and further names of files before them are taken; " +
			"absolute names, `..`, names that come twice, devices, FIFOs and what exceeds the server's limits are refused.",
		Parameters:  []*huma.Param{inQuery("name", "Its name", &huma.Schema{Type: "string"})},
		RequestBody: &huma.RequestBody{Required: true, Content: archives},
		Responses:   map[string]*huma.Response{"200": response("The snapshot", "application/json", snapshot)},
	})
}
